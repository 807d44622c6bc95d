"""pytest plugin that runs inside a sandbox and reports over a private pipe.

``run_tests`` passes this file and three ``plugin_*.py`` files as text, so nothing of them is ever read inside; Python
executes them with one JSON object on stdin. They run on Python 3.8 and later. Only the standard
library and the environment's own site-packages are importable until pytest and its plugins are loaded; the workspace
enters ``sys.path`` after that, so a ``random.py`` or ``pluggy`` in it shadows nothing here.

Each record is one line, ``SEQ MAC JSON``, with MAC = HMAC-SHA256(key, "SEQ JSON"); the last is signed like the others.
Code that runs inside pytest shares this process, so a determined candidate can still forge results (it can find the
pipe and the keyed HMAC by walking frames or memory). The checks below raise the cost and leave evidence; they are not
proof, hence ``assurance: in_process``.
"""

from __future__ import annotations

import os
import signal
import sys
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the texts of those files have defined these names already
    from .plugin_channel import read_job
    from .plugin_imports import enter_workspace, leave_main, load_pytest
    from .plugin_integrity import WATCHED, Guard, Reference, changed, make_guard

    def install_boundary(job: dict[str, Any]) -> Any: ...

    def make_trials(pytest: Any, send: Callable[..., None], job: dict[str, Any], root: str, tools: Any) -> Any: ...


def describe(excinfo: Any, root: str) -> tuple[str, str, str]:
    """Return the exception type, a short message, and the innermost frame in the workspace (``file:line``)."""
    kind = excinfo.type.__name__
    try:
        text = " ".join(str(excinfo.value).split())[:300].encode("utf-8", "backslashreplace").decode()
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
    """Return one outcome for a test from the reports of its phases: the first phase that did not pass decides."""
    by_phase: dict[str, dict[str, Any]] = {}
    for report in reports:
        if by_phase.get(report["when"], {}).get("outcome") != "failed":
            by_phase[report["when"]] = report
    for when in ("setup", "call", "teardown"):
        if when not in by_phase:
            message = f"no {when} was reported"
            return {"outcome": "error", "when": when, "message": message, "exception": "", "where": ""}
        report = by_phase[when]
        if report["outcome"] == "failed":
            return {**report, "outcome": "failed" if when == "call" else "error"}
        if report["outcome"] == "skipped":
            return {**report, "outcome": "xfailed" if report["xfail"] else "skipped"}
        if report["xfail"]:
            return {**report, "outcome": "xpassed"}
    return {**by_phase["call"], "outcome": "passed"}


def make_collector(
    pytest: Any, send: Callable[..., None], job: dict[str, Any], root: str, guard: Guard, enter: Callable[[], None]
) -> tuple[Any, list[str]]:
    """Return the plugin that selects and orders tests, and the ids that it selects.

    State is in closures, not on the object.
    """
    requested = set(job["tests"] or ())
    selected: list[str] = []
    project_plugins: set[str] = set()
    # In pytest's own repository its plugins come from the workspace too.
    pytest_files = (os.path.dirname(str(sys.modules["_pytest"].__file__)) + os.sep, str(pytest.__file__))
    arm, record, _, note, check_code = guard
    early_warning = "issue_config_time_warning"

    class Collector:
        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_load_initial_conftests(self, early_config: Any) -> Any:
            # The plugins named with -p are loaded by now, from trusted folders, and have patched pytest as they do.
            # As a wrapper this comes before pytest resolves warning filters, which can name the workspace's classes.
            arm(early_config.pluginmanager)
            enter()
            vars(early_config).pop(early_warning, None)
            yield

        def pytest_collectstart(self, collector: Any) -> None:
            check_code(collector.nodeid)

        def pytest_plugin_registered(self, plugin: Any, manager: Any) -> None:
            if plugin is manager.get_plugin("pytestconfig"):
                # A warning while plugins load would resolve the filters, which can name the workspace's classes.
                setattr(plugin, early_warning, lambda warning, stacklevel: None)
            source = plugin if isinstance(plugin, types.ModuleType) else sys.modules.get(type(plugin).__module__)
            path = getattr(source, "__file__", None) or ""
            is_conftest = os.path.basename(path) == "conftest.py"
            if is_conftest:  # its plugins are registered after it; they come from the task, as it does
                named = getattr(plugin, "pytest_plugins", ())
                project_plugins.update([named] if isinstance(named, str) else named)
            untrusted = path.startswith(root + os.sep) and not is_conftest and not path.startswith(pytest_files)
            untrusted = untrusted and getattr(plugin, "__name__", "") not in project_plugins
            if untrusted or (isinstance(plugin, types.ModuleType) and not path):
                note([f"pytest's plugins (by {os.path.basename(path)})"], "the run")

        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
            if requested:
                config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in requested])
                items[:] = [item for item in items if item.nodeid in requested]
            if job["order"] == "reversed":
                items.reverse()
            record(config, items)
            if not job.get("tracebacks", True):
                config.option.tbstyle = "line"  # for any other style pytest parses the whole file of each frame
            selected.extend(item.nodeid for item in items)
            send("plan", count=len(items))

        def pytest_collectreport(self, report: Any) -> None:
            if report.failed:
                text = str(getattr(report.longrepr, "longrepr", report.longrepr)).strip()
                send("collect", id=report.nodeid, message=text[-600:])

    return Collector(), selected


def make_reporter(
    pytest: Any, send: Callable[..., None], cpu_limit: float, root: str, guard: Guard, tracer: Any
) -> tuple[Any, list[str]]:
    """Return the plugin that reports tests, which uses up to ``cpu_limit`` seconds for each (0: no limit).

    The second value has the ids of the tests that have run. State is in closures, not on the object.
    """
    reports: list[dict[str, Any]] = []
    finished: list[str] = []
    _, _, check, note, _ = guard
    describe_, reduce_, set_timer, timer = describe, reduce_reports, signal.setitimer, signal.ITIMER_PROF

    class Reporter:
        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_protocol(self, item: Any) -> Any:
            reports.clear()
            send("start", id=item.nodeid)
            if tracer:
                tracer.switch_context(item.nodeid)
            if cpu_limit:
                set_timer(timer, cpu_limit)  # SIGPROF ends the process
            yield
            if cpu_limit:
                set_timer(timer, 0.0)
            if tracer:
                tracer.switch_context("")
            finished.append(item.nodeid)
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
            check(item)
            fields = {"when": call.when, "outcome": outcome, "xfail": hasattr(report, "wasxfail")}
            reports.append({**fields, "message": text, "exception": kind, "where": where})

    return Reporter(), finished


def make_crossing(pytest: Any, send: Callable[..., None], boundary: Any) -> Any:
    """Return the plugin that informs a boundary where tests begin and end, and sends what it wrote down."""

    class Crossing:
        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_runtest_protocol(self, item: Any) -> Any:
            boundary.start(item.nodeid)
            yield
            send("crossing", id=item.nodeid, record=boundary.stop())

    return Crossing()


def arguments(job: dict[str, Any], root: str, send: Callable[..., None]) -> list[str] | None:
    """Return pytest's command line, or None when no requested file exists.

    A missing file is reported and left out, since pytest would refuse to run at all.
    """
    files = list(dict.fromkeys(test.partition("::")[0] for test in job["tests"] or ()))
    missing = [path for path in files if not os.path.exists(os.path.join(root, path))]
    for path in missing:
        send("collect", id=path, message="no such file in the workspace")
    if job["tests"] is None:
        present = [arg for arg in job["args"] if os.path.exists(os.path.join(root, arg.partition("::")[0]))]
        targets = present or job["args"]
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


def report_modules(send: Callable[..., None], names: Iterable[str], root: str) -> None:
    """Report the files of the workspace's top-level modules; relative paths are in the workspace."""
    files = {}
    for name in names:
        path = getattr(sys.modules.get(name), "__file__", None)
        if path:
            path = os.path.abspath(path)
            files[name] = path[len(root) + 1 :] if path.startswith(root + os.sep) else path
    send("modules", files=files)


def report_coverage(send: Callable[..., None], tracer: Any, root: str) -> None:
    """Report the lines that each test ran, by workspace-relative file; import-time lines have the empty id."""
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
    """Run the job that stdin describes, report its results, and leave without Python's own shutdown."""
    job, send = read_job()
    for name in [name for name in os.environ if name.startswith(("PYTEST", "COV_CORE", "COVERAGE"))]:
        del os.environ[name]
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    root = os.getcwd()
    folders = list(dict.fromkeys(os.path.normpath(os.path.join(root, part)) for part in [*job["python_path"], "."]))
    pytest = load_pytest(root, WATCHED, bool(job["coverage"]), folders)
    program = os.path.join(os.path.dirname(sys.executable), "pytest")
    leave_main([program], [sys.executable, program])
    reference: Reference = {}
    tracer = None
    violations: list[str] = []
    leave, flush = os._exit, sys.stdout.flush
    if job["coverage"]:
        sources = [os.path.join(root, part) for part in job["coverage"]]
        tracer = sys.modules["coverage"].Coverage(data_file=None, source=sources, config_file=False, messages=False)
        tracer.start()
    modules: set[str] = set()
    guard = make_guard(reference, violations)
    collector, selected = make_collector(
        pytest, send, job, root, guard, lambda: modules.update(enter_workspace(folders))
    )
    reporter, finished = make_reporter(pytest, send, job.get("test_cpu_s") or 0.0, root, guard, tracer)
    plugins = [collector, reporter]
    if job.get("crossing"):  # the text of boundary.py has defined this name
        plugins.append(make_crossing(pytest, send, install_boundary(job["crossing"])))
    if job.get("trials"):  # the text of trials_plugin.py has defined this name
        plugins = [collector, make_trials(pytest, send, job, root, (describe, reduce_reports))]
    args, status, cause = arguments(job, root, send), 5, ""
    try:
        if args is not None:
            status = int(pytest.main(args, plugins=plugins))
    except BaseException as error:  # noqa: BLE001  SystemExit from a module under collection, for one
        status, cause = 3, f"{type(error).__name__}: {error}"[:300]
    if tracer:
        report_coverage(send, tracer, root)
    report_modules(send, modules, root)
    violations.extend(f"{name} changed" for name in changed(reference) if not violations)
    send("end", status=status, cause=cause, selected=len(selected), ran=len(finished), violations=violations)
    flush()
    leave(status)


if __name__ == "__main__":
    main()
