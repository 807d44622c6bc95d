"""A solution that prints what code can see of the process that runs it, and the runs in which it is asked.

Each run gives two sets of facts: when the module is loaded (``import``) and when its function is called (``call``).
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

import pytest

from etude.environments.coding.session import CodingSession
from etude.environments.sandbox import ExecResult
from etude.environments.sandbox.backends.command_sandbox import CommandSandbox
from etude.environments.tasks.task_set import TaskSet
from etude.models import Task

Facts = dict[str, dict[str, Any]]
"""Facts by moment (``import`` or ``call``) and name."""

PROBE = """
def _facts():
    import base64, gc, json, logging, os, resource, signal, stat, sys, threading, time, warnings, zlib

    def text(path):
        try:
            with open(path, "rb") as file:
                return file.read().decode("utf-8", "replace")
        except OSError as error:
            return type(error).__name__

    def link(path):
        try:
            return os.readlink(path).partition(":")[0]
        except OSError:
            return None

    def folder(path):
        try:
            return sorted(os.listdir(path))
        except OSError as error:
            return type(error).__name__

    def kind(stream):
        kept = {name: getattr(stream, name, None) for name in
                ("name", "mode", "encoding", "errors", "line_buffering", "write_through", "closed")}
        kept = {name: value if isinstance(value, (str, bool, int)) else None for name, value in kept.items()}
        try:
            kept["fileno"] = stream.fileno()
        except Exception as error:
            kept["fileno"] = type(error).__name__
        return {"class": type(stream).__module__ + "." + type(stream).__name__, "tty": stream.isatty(), **kept}

    def where(function):
        return getattr(function, "__module__", None), getattr(function, "__qualname__", type(function).__name__)

    def status(name):
        lines = text("/proc/self/status").splitlines()
        return [line.split()[1:] for line in lines if line.startswith(name)]

    main, frames, frame = sys.modules["__main__"], [], sys._getframe(1)
    while frame is not None:
        frames.append((os.path.basename(frame.f_code.co_filename), frame.f_code.co_name))
        frame = frame.f_back
    mask = os.umask(0)
    os.umask(mask)
    names = {item[7:] for item in dir(resource) if item.startswith("RLIMIT_")}
    open_files = {}
    for number in range(300):
        target = link("/proc/self/fd/%d" % number)
        if target is not None:
            open_files[number] = target
    return {
        "environment": dict(os.environ),
        "first environment": sorted(part for part in text("/proc/self/environ").split(chr(0)) if part),
        "flags": str(sys.flags),
        "options": [list(sys.warnoptions), sorted(sys._xoptions)],
        "hash": hash("etude"),
        "argv": list(sys.argv),
        "original argv": [word[:60] for word in getattr(sys, "orig_argv", [])[:2]],
        "command line": [word[:60] for word in text("/proc/self/cmdline").split(chr(0))],
        "name of the process": text("/proc/self/comm"),
        "parent's command line": [word[:30] for word in text("/proc/%d/cmdline" % os.getppid()).split(chr(0))],
        "own number": os.getpid(),
        "parent's number": os.getppid(),
        "leads its group": os.getpgid(0) == os.getpid(),
        "leads its session": os.getsid(0) == os.getpid(),
        "executable": sys.executable,
        "prefixes": [sys.prefix, sys.exec_prefix, sys.base_prefix],
        "path": list(sys.path),
        "finders": [where(item) for item in sys.meta_path] + [where(item) for item in sys.path_hooks],
        "main module": sorted(set(vars(main)) - {"tally"}),
        "main module's place": [str(getattr(main, item, None))[:60] for item in ("__file__", "__spec__", "__loader__")],
        "modules": sorted({name.partition(".")[0] for name in sys.modules}),
        "built-in names": sorted(dir(__import__("builtins"))),
        "standard input": kind(sys.stdin),
        "standard output": kind(sys.stdout),
        "standard error": kind(sys.stderr),
        "first output": kind(sys.__stdout__),
        "streams": [stat.S_IFMT(os.fstat(number).st_mode) for number in (0, 1, 2)],
        "open files": open_files,
        "folder": os.getcwd(),
        "mask of files": mask,
        "limits": {name: resource.getrlimit(getattr(resource, "RLIMIT_" + name)) for name in sorted(names)},
        "signals": {str(int(n)): str(signal.getsignal(n)) for n in sorted(signal.valid_signals())},
        "signal masks": [status(name) for name in ("SigPnd", "SigBlk", "SigIgn", "SigCgt")],  # SigQ is the whole user's
        "timers": [signal.getitimer(n) != (0.0, 0.0) for n in range(3)],
        "threads": [item.name for item in threading.enumerate()],
        "first thread": threading.current_thread() is threading.main_thread(),
        "stack": frames,
        "settings": [sys.getrecursionlimit(), gc.isenabled(), gc.get_threshold(), sys.getswitchinterval(),
                     sys.gettrace() is None, sys.getprofile() is None, sys.dont_write_bytecode],
        "hooks": [where(sys.excepthook), where(sys.displayhook), where(sys.unraisablehook),
                  where(warnings.showwarning), where(threading.excepthook)],
        "warning filters": [str(item) for item in warnings.filters],
        "logging": [type(logging.lastResort).__name__, [type(item).__name__ for item in logging.root.handlers],
                    logging.root.level],
        "temporary files": folder("/tmp"),
        "shared memory": folder("/dev/shm"),
        "workspace": folder(os.environ.get("ETUDE_WORKSPACE", "/workspace")),
        "tests": folder(os.path.join(os.environ.get("ETUDE_WORKSPACE", "/workspace"), "tests")),
        "user": [os.getuid(), os.getgid(), os.geteuid()],
        "machine": [os.uname().nodename, os.nice(0), sorted(os.sched_getaffinity(0))],
        "time zone": time.tzname,
        "first streams": [sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__],
    }


_AT_IMPORT = _facts()


def total(values):
    import base64, json, zlib
    both = {"import": _AT_IMPORT, "call": _facts()}
    text = "<<" + base64.b64encode(zlib.compress(json.dumps(both).encode())).decode() + ">>"
    print(text, flush=True)
    import os, stat
    for number in range(3, 100):  # pytest keeps the first output there, and the tests of a grade show no other
        try:
            if stat.S_ISFIFO(os.fstat(number).st_mode):
                os.write(number, text.encode())
        except OSError:
            pass
    return 0
"""
"""Text that goes after the imports of ``tally.core``, in place of the deleted function."""
_PRINTED = re.compile(rb"<<([A-Za-z0-9+/=]+)>>")
_NUMBERED = re.compile(r"(?<=etude)-\d+-\d+-\w+|(?<=#)\d+(?= \(deleted)")
"""Numbers of sandboxes and of temporary files; they differ in every run."""
SITUATIONS = ("python -c", "python -m pytest", "run_tests", "tests of the grade", "answers of the grade")
"""The runs that are compared: three of the agent's own, two of the grade."""


_TEST = "import tally\\n\\ndef test_probe():\\n    assert tally.total([1]) == 1\\n"
COMMANDS = {
    "python -c 'import tally; tally.total([1])'": "python -c",
    f"printf '{_TEST}' > tests/test_probe.py; python -m pytest -q tests/test_probe.py": "python -m pytest",
}
"""Commands of the agent, with the names of their runs."""


def facts_of_runs(task: Task, core: str, backend: str, patch: pytest.MonkeyPatch) -> Mapping[str, Facts]:
    """Return the facts of each of the SITUATIONS in an episode whose solution writes ``core`` with the probe."""
    results: list[tuple[str, ExecResult]] = []
    plain_exec = CommandSandbox.exec

    async def noted(self: CommandSandbox, command: Any, **options: Any) -> ExecResult:
        result = await plain_exec(self, command, **options)
        results.append((command if isinstance(command, str) else " ".join(command), result))
        return result

    patch.setattr(CommandSandbox, "exec", noted)
    played = [{"tool": "write_file", "arguments": {"path": "src/tally/core.py", "content": core}}]
    played += [{"tool": "bash", "arguments": {"command": command}} for command in COMMANDS]
    played += [{"tool": "run_tests", "arguments": {"selector": "tests/test_probe.py"}}, {"tool": "submit"}]

    async def play() -> None:
        session = CodingSession(TaskSet([task]), backend=backend)
        try:
            await session.reset()
            for action in played:
                await session.step(action)
        finally:
            await session.close()

    asyncio.run(play())
    found: dict[str, Facts] = {}
    seen: set[bytes] = set()
    for command, result in results:
        answered = _PRINTED.findall(result.channel)
        texts = [text for text in answered or _PRINTED.findall(result.output) if text not in seen]
        seen.update(texts)  # a test that runs on the solution's answers prints them again
        for text in texts[:1]:
            name = COMMANDS.get(command) or ("answers of the grade" if answered else "run_tests")
            name = "tests of the grade" if name == "run_tests" and name in found else name
            data = zlib.decompress(base64.b64decode(text)).decode()
            found.setdefault(name, json.loads(_NUMBERED.sub("", data)))
    return found


def differences(runs: Mapping[str, Facts], one: str, other: str) -> dict[str, list[str]]:
    """Return the names of the facts that differ between two runs, by moment."""
    return {
        moment: sorted(name for name, value in runs[one][moment].items() if value != runs[other][moment][name])
        for moment in ("import", "call")
    }
