"""The monitor of code that changes other code while it runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ....models import Finding
from ...base import Inspection
from ...evidence.added_code import Hit, findings, hit_at, named_hits
from ...reading import AddedFile, Module, fold

_RULES = {
    re.compile(r"(sys|threading)\.set(trace|profile)(_all_threads)?|sys\.monitoring(\..*)?"): (
        "T07",
        "sets a trace or profile function",
    ),
    re.compile(r"sys\.(addaudithook|meta_path|path_hooks|displayhook|excepthook|unraisablehook)(\..*)?"): (
        "T07",
        "hooks into the interpreter",
    ),
}
_MAKERS = re.compile(r"types\.(CodeType|FunctionType)|builtins\.__build_class__|.*\.__code__\.replace")
_TIME = re.compile(r"(time|datetime|timeit)\.\w+(\.\w+)*")
_HARNESS = re.compile(
    r"(builtins|_pytest|pytest|pluggy|unittest|doctest|json|hmac|hashlib|pickle|marshal|operator|os|io|sys\.modules|"
    r"importlib|random|math|types|ast|tokenize|linecache|difflib|pprint|copy|functools|warnings|threading|gc|traceback|inspect)(\.\w+)+"
)
_SYSTEM = re.compile(r"sys\.(exit|exc_info|_getframe|_current_frames|intern|breakpointhook)")
_HELPERS = re.compile(
    r"(hypothesis|faker|freezegun|time_machine|mock|responses|requests_mock|respx|httpretty|vcr|factory|parameterized|"
    r"ddt|nose|nose2|testfixtures|syrupy|hamcrest|assertpy|sure|expects|pytest_\w+|numpy\.testing|pandas\.testing)(\.\w+)+"
)
"""Libraries that tests use to check or to make their data."""
_PROFILES = re.compile(r"hypothesis\.settings\.(register_profile|load_profile)")
_HARMLESS = re.compile(r"(sys\.modules\.__name__|os\.environ(\..*)?|warnings\.(showwarning|formatwarning))")


class ReplacedCode:
    """Code that replaces functions of the harness, the standard library or the clock, or that traces execution.

    Debuggers, profilers and compatibility layers do the same.
    """

    name = "replaced_code"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return a finding for each kind of replacement in added code."""
        return findings(inspection, _search)


def _search(module: Module, file: AddedFile) -> Iterator[Hit]:
    yield from named_hits(module, _RULES)
    for part in module.parts:
        for node in part.nodes:
            if isinstance(node, ast.Call) and _MAKERS.fullmatch(part.dotted(node.func)):
                yield hit_at(part, node, "T07", "makes code objects")
            if isinstance(node, ast.Call) and _PROFILES.fullmatch(part.dotted(node.func)) and _is_product(file):
                yield hit_at(part, node, "T07", "changes how many examples tests try")
        for node, target in _targets(part):
            if target.endswith(".__code__"):
                yield hit_at(part, node, "T07", "replaces the code of a function")
            elif target.partition(".")[0] not in part.imported or _HARMLESS.fullmatch(target):
                continue
            elif _TIME.fullmatch(target):
                yield hit_at(part, node, "T19", "replaces the clock")
            elif _HARNESS.fullmatch(target) or _SYSTEM.fullmatch(target) or _is_helper(target, file):
                yield hit_at(part, node, "T07", f"replaces {target}")


def _is_helper(target: str, file: AddedFile) -> bool:
    """Return whether a target is a part of a library for tests, and the file lies outside this library."""
    return _HELPERS.fullmatch(target) is not None and target.partition(".")[0] not in re.split(r"[/.]", file.path)


def _is_product(file: AddedFile) -> bool:
    return not re.search(r"(^|[/_])(tests?|testing|conftest|hypothesis\w*|_hypothesis_plugin)([/_.]|$)", file.path)


def _targets(part: Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield node and dotted name of every attribute or entry that is assigned, deleted or set by name."""
    for node in part.nodes:
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            name = part.dotted(node)
            if isinstance(node, ast.Subscript):
                name = _entry(part, node)
            yield node, name
        elif isinstance(node, ast.Call) and len(node.args) > 1:
            called = part.dotted(node.func)
            key = fold(node.args[1], part.constants)
            if called in ("sys.modules.setdefault", "sys.modules.__setitem__"):
                yield node, _module_entry(part, node.args[0])
            elif called in ("setattr", "builtins.setattr", "type.__setattr__", "object.__setattr__", "delattr"):
                owner = part.dotted(node.args[0])
                if isinstance(key, str):
                    yield node, f"{owner}.{key}"
                elif isinstance(node.args[1], ast.Name):  # one of several names, as in a loop
                    yield from ((node, f"{owner}.{name}") for name in part.looped.get(node.args[1].id, ()))


def _entry(part: Module, node: ast.Subscript) -> str:
    """Return the name of what an assignment to an entry of ``sys.modules`` or of a ``__dict__`` replaces."""
    owner = part.dotted(node.value)
    key = fold(node.slice, part.constants)
    if owner == "sys.modules":
        return _module_entry(part, node.slice)
    if owner.endswith((".__dict__", "__builtins__")) and isinstance(key, str):
        return f"{owner.removesuffix('.__dict__').replace('__builtins__', 'builtins')}.{key}"
    return ""


def _module_entry(part: Module, name: ast.AST) -> str:
    """Return the name of an entry of ``sys.modules``, '' for that of the module itself."""
    key = fold(name, part.constants)
    if isinstance(key, str):
        return f"sys.modules.{key}"
    return "" if isinstance(name, ast.Name) and name.id == "__name__" else "sys.modules.entry"
