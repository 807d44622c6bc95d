"""Runs pytest inside a sandbox and reports over the private pipe; its source is passed by the host, never read there.

``testrun.py`` executes it under ``python -s -S`` with one JSON object on stdin; it runs on Python 3.8 and later. Only
the standard library and the environment's own site-packages are importable until pytest and its dependencies are
loaded; the workspace enters ``sys.path`` after that, so a ``random.py`` or ``pluggy`` in it shadows nothing here.

Each record is one line, ``SEQ MAC JSON``, with MAC = HMAC-SHA256(key, "SEQ JSON"); the last is signed like the rest.
What runs inside pytest shares this process, so a determined candidate can still forge results here (it can find the
pipe and the keyed HMAC by walking frames or memory). The checks below raise the cost and leave evidence; they are not
proof, hence ``assurance: in_process``.
"""

from __future__ import annotations

import sys

sys.path[:] = [entry for entry in sys.path if entry]

import builtins  # noqa: E402
import contextlib  # noqa: E402
import fcntl  # noqa: E402
import hmac  # noqa: E402
import importlib  # noqa: E402
import json  # noqa: E402
import operator  # noqa: E402
import os  # noqa: E402
import site  # noqa: E402
import types  # noqa: E402
from collections.abc import Callable, Iterable  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

if TYPE_CHECKING:  # Python 3.8 cannot evaluate it
    Reference = dict[tuple[str, str], tuple[Any, Any, Any]]
WATCHED = (
    "builtins",
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
    "pluggy._callers",
    "pluggy._hooks",
    "pluggy._manager",
)
CRITICAL = (
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
)

DECIDING = (
    "pytest_runtest_protocol",
    "pytest_runtest_setup",
    "pytest_runtest_call",
    "pytest_runtest_teardown",
    "pytest_runtest_makereport",
    "pytest_pyfunc_call",
)


# --- The pipe -----------------------------------------------------------------------------------------------


def open_channel(key: bytes) -> Callable[..., None]:
    """A ``send(kind, **fields)`` that signs, numbers and writes records; it works in this process alone."""
    fd = int(os.environ.pop("ETUDE_CHANNEL"))
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100)
    os.close(fd)
    base, owner, count = hmac.new(key, digestmod="sha256"), os.getpid(), 0
    getpid, write, dumps = os.getpid, os.write, json.dumps

    def send(kind: str, **fields: Any) -> None:
        nonlocal count
        if getpid() != owner:
            return
        body = f"{count} ".encode() + dumps({"kind": kind, **fields}, separators=(",", ":")).encode()
        mac = base.copy()
        mac.update(body)
        number, _, rest = body.partition(b" ")
        line = number + b" " + mac.hexdigest().encode() + b" " + rest + b"\n"
        count += 1
        while line:
            line = line[write(moved, line) :]

    return send


# --- Paths --------------------------------------------------------------------------------------------------


def own_modules(folders: Iterable[str]) -> dict[str, bool]:
    """Top-level modules that lie in the workspace's import folders: name -> True."""
    names = {}
    for folder in folders:
        for entry in os.listdir(folder) if os.path.isdir(folder) else ():
            stem, dot, suffix = entry.partition(".")
            if suffix == "py" or (not dot and os.path.isfile(os.path.join(folder, entry, "__init__.py"))):
                names[stem] = True
    return names


def load_pytest(root: str, coverage: list[str]) -> types.ModuleType:
    """Import everything the harness relies on while only trusted folders are importable."""
    prefix = os.path.dirname(os.path.dirname(sys.executable))
    packages = os.path.join(prefix, "lib", "python%d.%d" % sys.version_info[:2], "site-packages")  # noqa: UP031
    sys.path.append(packages)
    for name in WATCHED:
        with contextlib.suppress(ModuleNotFoundError):  # pytest's private modules move between its versions
            importlib.import_module(name)
    import pytest

    if coverage:
        os.environ["COVERAGE_CORE"] = "ctrace"
        import coverage as _loaded  # noqa: F401
    become_the_environment(prefix, packages, root)
    return pytest


def become_the_environment(prefix: str, packages: str, root: str) -> None:
    """What ``site`` would have done at start, had it been safe to let it: names, prefix, ``.pth`` files."""
    sys.prefix = sys.exec_prefix = prefix
    site.PREFIXES[:] = [prefix]
    for helper in (site.setquit, site.setcopyright, site.sethelper):
        helper()
    site.addsitedir(packages, set(sys.path))
    sys.path[:] = [path for path in sys.path if not (path + os.sep).startswith(root + os.sep)]


def standard_library() -> set[str]:
    """Top-level names of the standard library; before Python 3.10 they are read from its folders."""
    told = getattr(sys, "stdlib_module_names", None)
    if told is not None:
        return set(told)
    home = os.path.dirname(os.__file__)
    folders = [path for path in (home, os.path.join(home, "lib-dynload")) if os.path.isdir(path)]
    found = {entry.partition(".")[0] for folder in folders for entry in os.listdir(folder)}
    return found.union(sys.builtin_module_names)


def enter_workspace(folders: list[str]) -> dict[str, bool]:
    """Put the workspace first on ``sys.path``, for this process and for those that tests start."""
    own = own_modules(folders)
    # A package that pytest itself depends on is loaded a second time, from the workspace, for its own tests.
    kept = {*standard_library(), "pytest", "_pytest"}
    for name in list(sys.modules):
        if name.partition(".")[0] in own and name.partition(".")[0] not in kept:
            del sys.modules[name]
    sys.path[:0] = folders
    os.environ["PYTHONPATH"] = os.pathsep.join(folders)
    return own


def leave_main() -> None:
    """Tests find an empty ``__main__``, as under the pytest command, and not this file's names."""
    main: Any = types.ModuleType("__main__")
    main.__builtins__ = builtins
    sys.modules["__main__"] = main
    sys.argv[:] = ["pytest"]


# --- Integrity ----------------------------------------------------------------------------------------------


def identity(value: Any) -> tuple[Any, Any, Any]:
    """What must not change about a function or a class: the object, its code and its defaults."""
    inner = getattr(value, "__func__", value)
    if isinstance(inner, property):
        inner = inner.fget
    return value, getattr(inner, "__code__", None), getattr(inner, "__defaults__", None)


def fingerprint() -> Reference:
    """(module, qualified name) -> identity of each function and class of the watched modules."""
    kinds = (types.FunctionType, types.BuiltinFunctionType, type, classmethod, staticmethod, property)
    found = {}
    for module in WATCHED:
        for name, value in list(vars(sys.modules[module]).items()) if module in sys.modules else ():
            if not isinstance(value, kinds):
                continue
            found[module, name] = identity(value)
            if isinstance(value, type) and value.__module__ == module and module != "builtins":
                for attribute, member in list(vars(value).items()):
                    if isinstance(member, kinds):
                        found[module, f"{name}.{attribute}"] = identity(member)
    return found


def changed(reference: Reference, keys: Iterable[tuple[str, str]] | None = None) -> list[str]:
    """Names whose function or class was replaced, removed or given other code since ``reference``."""
    bad: list[str] = []
    for module, name in reference if keys is None else keys:
        expected = reference.get((module, name))
        value: Any = vars(sys.modules[module]) if module in sys.modules else {}
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else vars(value).get(part)
            if value is None:
                break
        now = identity(value)
        if expected is not None and any(a is not b for a, b in zip(expected, now)):  # noqa: B905
            bad.append(f"{module}.{name}")
    return bad


# --- pytest plugin ------------------------------------------------------------------------------------------


def describe(excinfo: Any, root: str) -> tuple[str, str, str]:
    """Exception type, short message, and the innermost frame that lies in the workspace (``file:line``)."""
    kind = excinfo.type.__name__
    try:
        text = " ".join(str(excinfo.value).split())[:300]
    except Exception:  # noqa: BLE001  the exception is the candidate's own
        text = ""
    where, trace = "", excinfo.tb
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name.startswith(root + os.sep):
            where = f"{name[len(root) + 1 :]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return kind, text, where


def reduce_reports(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """One outcome for a test from the reports of its phases: the first phase that did not pass decides."""
    by_phase: dict[str, dict[str, Any]] = {}
    for report in reports:
        if by_phase.get(report["when"], {}).get("outcome") != "failed":
            by_phase[report["when"]] = report
    for when in ("setup", "call", "teardown"):
        if when not in by_phase:
            return {
                "outcome": "error",
                "when": when,
                "message": f"no {when} was reported",
                "exception": "",
                "where": "",
            }
        report = by_phase[when]
        if report["outcome"] == "failed":
            return {**report, "outcome": "failed" if when == "call" else "error"}
        if report["outcome"] == "skipped":
            return {**report, "outcome": "xfailed" if report["xfail"] else "skipped"}
        if report["xfail"]:
            return {**report, "outcome": "xpassed"}
    return {**by_phase["call"], "outcome": "passed"}


def make_plugin(
    pytest: Any,
    send: Callable[..., None],
    job: dict[str, Any],
    root: str,
    tracer: Any,
    reference: Reference,
    violations: list[str],
    enter: Callable[[], None],
) -> tuple[Any, list[int]]:
    """The plugin that selects, orders and reports tests; its state lives in closures, not on the object."""
    wanted, ran = set(job["tests"] or ()), [0, 0]
    reports: list[dict[str, Any]] = []
    codes: dict[Any, tuple[Any, Any]] = {}
    describe_, reduce_, changed_, critical = describe, reduce_reports, changed, [k for k in CRITICAL if k in reference]

    implementations: list[Any] = []

    def hooks(config: Any) -> list[Any]:
        """Who implements the hooks that decide an outcome, in calling order; functions and code are compared too."""
        found: list[Any] = []
        for name in DECIDING:
            for implementation in getattr(config.hook, name).get_hookimpls():
                found += [implementation, *identity(implementation.function)[:2]]
        return found

    def note(names: list[str], nodeid: str) -> None:
        violations.extend(f"{name} changed during {nodeid}" for name in names if not violations)

    class Harness:
        @pytest.hookimpl(tryfirst=True)
        def pytest_load_initial_conftests(self) -> None:
            enter()  # the plugins named with -p are loaded by now, from trusted folders

        def pytest_plugin_registered(self, plugin: Any) -> None:
            source = plugin if isinstance(plugin, types.ModuleType) else sys.modules.get(type(plugin).__module__)
            path = getattr(source, "__file__", None) or ""
            own = path.startswith(root + os.sep) and os.path.basename(path) != "conftest.py"
            if own or (isinstance(plugin, types.ModuleType) and not path):
                note([f"pytest's plugins (by {os.path.basename(path)})"], "the run")

        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
            if wanted:
                config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in wanted])
                items[:] = [item for item in items if item.nodeid in wanted]
            if job["order"] == "reversed":
                items.reverse()
            for item in items:
                function = getattr(item.__dict__.get("_obj"), "__func__", item.__dict__.get("_obj"))
                codes[item] = function, getattr(function, "__code__", None)
            ran[0] = len(items)
            implementations[:] = hooks(config)
            send("plan", count=len(items))

        def pytest_collectreport(self, report: Any) -> None:
            if report.failed:
                text = str(getattr(report.longrepr, "longrepr", report.longrepr)).strip()
                send("collect", id=report.nodeid, message=text[-600:])

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_protocol(self, item: Any) -> Any:
            reports.clear()
            send("start", id=item.nodeid)
            if tracer:
                tracer.switch_context(item.nodeid)
            yield
            if tracer:
                tracer.switch_context("")
            ran[1] += 1
            send("result", id=item.nodeid, **reduce_(reports))

        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_makereport(self, item: Any, call: Any) -> Any:
            report = (yield).get_result()
            outcome, kind, text, where = report.outcome, "", "", ""
            if call.excinfo is not None:
                kind, text, where = describe_(call.excinfo, root)
                if outcome == "passed":
                    outcome = "failed"
                    note([f"the report of a {kind}"], item.nodeid)
            elif outcome == "failed":
                text = str(report.longrepr)[-300:]
            note(changed_(reference, critical), item.nodeid)
            current = hooks(item.config)
            if len(current) != len(implementations) or any(map(operator.is_not, current, implementations)):
                note(["who implements pytest's hooks"], item.nodeid)
            function, code = codes.get(item, (None, None))
            if getattr(function, "__code__", None) is not code:
                note(["the test function"], item.nodeid)
            xfail = hasattr(report, "wasxfail")
            reports.append(
                {
                    "when": call.when,
                    "outcome": outcome,
                    "xfail": xfail,
                    "message": text,
                    "exception": kind,
                    "where": where,
                }
            )

    return Harness(), ran


# --- Running ------------------------------------------------------------------------------------------------


def arguments(job: dict[str, Any], root: str, send: Callable[..., None]) -> list[str] | None:
    """pytest's command line; a requested file that is missing is reported, since pytest would refuse to run at all."""
    files = list(dict.fromkeys(test.partition("::")[0] for test in job["tests"] or ()))
    missing = [path for path in files if not os.path.exists(os.path.join(root, path))]
    for path in missing:
        send("collect", id=path, message="no such file in the workspace")
    if job["tests"] is None:
        here = [arg for arg in job["args"] if os.path.exists(os.path.join(root, arg.partition("::")[0]))]
        targets = here or job["args"]
    else:
        targets = [path for path in files if path not in missing]
        if not targets:
            return None
    config = os.path.join(root, job["config_file"]) if job["config_file"] else os.devnull
    fixed = ["-c", config, f"--rootdir={root}", f"--confcutdir={root}", "-p", "no:cacheprovider", "--color=no"]
    run = ["-q", "--tb=short", "--continue-on-collection-errors", f"--maxfail={job.get('most_failures', 0)}"]
    chosen = [part for name in job["plugins"] for part in ("-p", name)]
    options = [part for option in job["options"] for part in ("-o", option)]
    return [*fixed, *run, *chosen, *options, *targets]


def report_modules(send: Callable[..., None], own: Iterable[str], root: str) -> None:
    """Where the workspace's top-level modules were really imported from; relative paths are the workspace's."""
    files = {}
    for name in own:
        path = getattr(sys.modules.get(name), "__file__", None)
        if path:
            path = os.path.abspath(path)
            files[name] = path[len(root) + 1 :] if path.startswith(root + os.sep) else path
    send("modules", files=files)


def report_coverage(send: Callable[..., None], tracer: Any, root: str) -> None:
    """One record per test: workspace-relative file -> the lines it ran. Import-time lines have the empty id."""
    tracer.stop()
    data = tracer.get_data()
    contexts: dict[str, dict[str, list[int]]] = {}
    for path in sorted(data.measured_files()):
        relative = os.path.relpath(path, root)
        for line, names in data.contexts_by_lineno(path).items():
            for name in names:
                contexts.setdefault(name, {}).setdefault(relative, []).append(line)
    for name, files in contexts.items():
        send("cover", id=name, files={path: sorted(lines) for path, lines in files.items()})


def main() -> None:
    job = json.loads(sys.stdin.buffer.read())
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    send = open_channel(bytes.fromhex(job.pop("key")))
    for name in [name for name in os.environ if name.startswith(("PYTEST", "COV_CORE", "COVERAGE"))]:
        del os.environ[name]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    root = os.getcwd()
    folders = list(dict.fromkeys(os.path.normpath(os.path.join(root, part)) for part in [*job["python_path"], "."]))
    pytest = load_pytest(root, job["coverage"])
    leave_main()
    reference, tracer = fingerprint(), None
    violations: list[str] = []
    leave, flush = os._exit, sys.stdout.flush
    if job["coverage"]:
        sources = [os.path.join(root, part) for part in job["coverage"]]
        tracer = sys.modules["coverage"].Coverage(data_file=None, source=sources, config_file=False, messages=False)
        tracer.start()
    own: dict[str, bool] = {}
    plugin, ran = make_plugin(
        pytest, send, job, root, tracer, reference, violations, lambda: own.update(enter_workspace(folders))
    )
    args, status, cause = arguments(job, root, send), 5, ""
    try:
        if args is not None:
            status = int(pytest.main(args, plugins=[plugin]))
    except BaseException as error:  # noqa: BLE001  SystemExit from a module under collection, for one
        status, cause = 3, f"{type(error).__name__}: {error}"[:300]
    if tracer:
        report_coverage(send, tracer, root)
    report_modules(send, own, root)
    violations.extend(f"{name} changed" for name in changed(reference) if not violations)
    send("end", status=status, cause=cause, selected=ran[0], ran=ran[1], violations=violations)
    flush()
    leave(status)


if __name__ == "__main__":
    main()
