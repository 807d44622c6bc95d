"""Integrity of pytest: which of its functions, classes and hooks the code under test has replaced.

``run_tests`` sends this file's text to the sandbox ahead of ``pytest_plugin.py``; it runs on Python 3.8 and later.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # Python 3.8 cannot evaluate it
    Reference = dict[tuple[str, str], tuple[Any, ...]]
    Guard = tuple[Callable[..., None], ...]
WATCHED = (
    "builtins",
    "ast",
    "marshal",
    "importlib._bootstrap_external",
    "unittest.case",
    "pytest",
    "_pytest.runner",
    "_pytest.reports",
    "_pytest.python",
    "_pytest.outcomes",
    "_pytest.python_api",
    "_pytest.approx",
    "_pytest.raises",
    "_pytest.skipping",
    "_pytest.unittest",
    "_pytest.doctest",
    "_pytest.fixtures",
    "_pytest.main",
    "_pytest.nodes",
    "_pytest.assertion.rewrite",
    "_pytest._code.code",
    "pluggy._callers",
    "pluggy._hooks",
    "pluggy._manager",
)
CRITICAL = (
    ("ast", "parse"),
    ("builtins", "compile"),
    ("_pytest.reports", "TestReport.from_item_and_call"),
    ("_pytest.runner", "CallInfo.from_call"),
    ("_pytest.runner", "CallInfo.__init__"),
    ("_pytest.runner", "call_and_report"),
    ("_pytest.runner", "runtestprotocol"),
    ("_pytest.runner", "pytest_runtest_makereport"),
    ("_pytest.runner", "pytest_runtest_call"),
    ("_pytest.python", "Function.runtest"),
    ("_pytest.python", "pytest_pyfunc_call"),
    ("_pytest.unittest", "TestCaseFunction.runtest"),
    ("pluggy._callers", "_multicall"),
    ("_pytest._code.code", "ExceptionInfo.*"),
    ("_pytest.reports", "TestReport.*"),
    ("_pytest.runner", "CallInfo.*"),
    ("_pytest.python", "Function.*"),
    ("unittest.case", "TestCase.*"),
)
# Python, its module copyreg (when an object is copied), and pytest's own module legacypath add these to classes.
LATE = (
    *("__abstractmethods__", "__annotations__", "__annotations_cache__", "__annotate_func__", "__doc__"),
    *("__parameters__", "__slotnames__", "fspath", "startdir", "rootdir", "inifile", "invocation_dir"),
)
# Decides no outcome, and is replaced by forbiddenfruit, which libraries for tests use.
HARMLESS = (("builtins", "dir"),)
# Hooks whose implementations decide an outcome.
DECIDING = (
    "pytest_runtest_protocol",
    "pytest_runtest_setup",
    "pytest_runtest_call",
    "pytest_runtest_teardown",
    "pytest_runtest_makereport",
    "pytest_pyfunc_call",
)


def identity(value: Any) -> tuple[Any, Any, Any]:
    """Return what must not change about a function or a class: the object, its code and its defaults."""
    inner = getattr(value, "__func__", value)
    if isinstance(inner, property):
        inner = inner.fget
    return value, getattr(inner, "__code__", None), getattr(inner, "__defaults__", None)


def fingerprint() -> Reference:
    """Return the identity of each function and class of the watched modules, by module and qualified name."""
    kinds = (types.FunctionType, types.BuiltinFunctionType, type, classmethod, staticmethod, property)
    identities: dict[tuple[str, str], tuple[Any, ...]] = {}
    for module in WATCHED:
        for name, value in list(vars(sys.modules[module]).items()) if module in sys.modules else ():
            if not isinstance(value, kinds) or (module, name) in HARMLESS:
                continue
            identities[module, name] = identity(value)
            if isinstance(value, type) and value.__module__ == module and module != "builtins":
                for attribute, member in list(vars(value).items()):
                    if isinstance(member, kinds):
                        identities[module, f"{name}.{attribute}"] = identity(member)
                owners = [owner for owner in value.__mro__ if owner is not object]
                identities[module, f"{name}.*"] = tuple((owner, frozenset(vars(owner))) for owner in owners)
    return identities


def intruder(owners: tuple[Any, ...]) -> str:
    """Return an attribute that a class or a base of it got and that decides for instances; empty without one.

    A special method does, and so does what hides an attribute of a base or, as a property, one of an instance.
    """
    present = frozenset().union(*(names for _, names in owners))
    for owner, names in owners:
        for name, member in list(vars(owner).items()):
            if name in names or name in LATE:
                continue
            if (name.startswith("__") and name.endswith("__")) or name in present or hasattr(type(member), "__set__"):
                return str(name)
    return ""


def changed(reference: Reference, keys: Iterable[tuple[str, str]] | None = None) -> list[str]:
    """Return the names whose function or class was replaced, removed or got other code since ``reference``."""
    bad: list[str] = []
    for module, name in reference if keys is None else keys:
        expected = reference.get((module, name))
        if name.endswith(".*"):
            added = intruder(expected) if expected is not None else ""
            if added:
                bad.append(f"{module}.{name[:-1]}{added}")
            continue
        value: Any = vars(sys.modules[module]) if module in sys.modules else {}
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else vars(value).get(part)
            if value is None:
                break
        now = identity(value)
        if expected is not None and any(a is not b for a, b in zip(expected, now)):  # noqa: B905
            bad.append(f"{module}.{name}")
    return bad


def deciding_hooks(config: Any) -> dict[str, list[tuple[Any, Any, Any]]]:
    """Return the implementations of the deciding hooks in calling order, each with its function and that one's code."""
    hooks = {}
    for name in DECIDING:
        pairs = [(item, item.function) for item in getattr(config.hook, name).get_hookimpls()]
        hooks[name] = [(*pair, getattr(getattr(pair[1], "__func__", pair[1]), "__code__", None)) for pair in pairs]
    return hooks


def hook_executors(manager: Any) -> list[Any]:
    """Return what runs the hooks of a plugin manager: attributes of this object and of the deciding hooks."""
    inner = getattr(manager, "_inner_hookexec", None)
    of_hooks = [getattr(getattr(manager.hook, name), "_hookexec", None) for name in DECIDING]
    of_manager = [inner, getattr(inner, "__code__", None), vars(manager).get("_hookexec")]
    return [*of_manager, *(getattr(executor, "__func__", executor) for executor in of_hooks)]


def make_guard(reference: Reference, violations: list[str]) -> Guard:
    """Return the functions of the guard: ``arm``, ``record``, ``check``, ``note`` and ``check_code``, in this order.

    State is in closures. ``arm`` fills ``reference`` before code of the workspace runs; ``check_code`` runs
    before a test file is parsed; ``note`` puts the first change, with the test during which it was found, into
    ``violations``.
    """
    critical: list[tuple[str, str]] = []
    codes: dict[Any, tuple[Any, Any]] = {}
    hooks: dict[str, list[tuple[Any, Any, Any]]] = {}
    armed: list[tuple[Any, list[Any]]] = []
    changed_, hooks_, executors_ = changed, deciding_hooks, hook_executors

    def arm(manager: Any) -> None:
        armed.append((manager, executors_(manager)))
        reference.update(fingerprint())
        critical.extend(key for key in CRITICAL if key in reference)

    def record(config: Any, items: list[Any]) -> None:
        note(changed_(reference), "the collection of tests")  # what turns test files into code, above all
        check_executors("the collection of tests")
        for item in items:
            function = getattr(item.__dict__.get("_obj"), "__func__", item.__dict__.get("_obj"))
            codes[item] = function, getattr(function, "__code__", None)
        hooks.update(hooks_(config))

    def note(names: list[str], nodeid: str) -> None:
        violations.extend(f"{name} changed during {nodeid}" for name in names if not violations)

    def check_executors(nodeid: str) -> None:
        for manager, expected in armed:
            if any(one is not two for one, two in zip(expected, executors_(manager))):  # noqa: B905
                note(["what runs pytest's hooks"], nodeid)

    def check(item: Any) -> None:
        note(changed_(reference, critical), item.nodeid)
        check_executors(item.nodeid)
        current = hooks_(item.config)
        pairs = [pair for name, recorded in hooks.items() for pair in zip(recorded, current[name])]  # noqa: B905
        if any(len(hooks[name]) != len(current[name]) for name in hooks) or any(
            one is not two
            for old, new in pairs
            for one, two in zip(old, new)  # noqa: B905
        ):
            note(["who implements pytest's hooks"], item.nodeid)
        function, code = codes.get(item, (None, None))
        if getattr(function, "__code__", None) is not code:
            note(["the test function"], item.nodeid)

    def check_code(nodeid: str) -> None:
        note(changed_(reference, critical), nodeid)

    return arm, record, check, note, check_code
