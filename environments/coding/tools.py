"""The eight tools of the coding environment, over the Sandbox protocol.

The first line of a result is the environment's (``ok``, ``exit 1``, ``timeout 30s``, ``error CODE: ...``); what a
command printed starts on the second. Results hold no clock and no memory address, so that the same calls give the same
results.
"""

from __future__ import annotations

import asyncio
import posixpath
import re
from collections.abc import Sequence
from typing import Any

from ...errors import ToolError
from ...hints.transcript.status_line import OUT_OF_MEMORY
from ...models import PytestVerifier, UnittestVerifier
from ..sandbox import WORKSPACE, ExecResult, Limits
from ..snapshots.test_run.test_runner import TestRun, run_tests
from ..tool_protocol import OUTPUT, SUBMIT, SUBMITTED, Context, Tool, capped, storable_text
from .file_text import numbered, replaced
from .walk import MOST_AROUND, walk

COMMAND_BYTES = 100 * 1024
READ_LIMIT = 4 << 20
_WRITABLE = (f"{WORKSPACE}/", "/tmp/", "/dev/shm/")


async def run_tool(context: Context, name: str, arguments: dict[str, Any]) -> tuple[str, str]:
    """Run a checked call; return the status line and the body. Raises SandboxError, ToolError for a failed call."""
    return await TOOLS[name].run(context, storable_text(name, arguments))


def _status(result: ExecResult, timeout_s: float) -> str:
    """Return the status line of a command."""
    if result.timed_out:
        return f"timeout {timeout_s:g}s"
    return "ok" if result.exit_code == 0 else f"exit {result.exit_code}"


def _path(path: str) -> str:
    """Return an absolute path; relative ones start at the workspace. Raises ToolError for an impossible one."""
    if not path or len(path.encode()) > 4000:
        raise ToolError("invalid_args", "path is empty" if not path else "path is too long")
    return posixpath.normpath(posixpath.join(WORKSPACE, path))


async def _read(context: Context, path: str) -> bytes:
    try:
        return await context.sandbox.read(_path(path), READ_LIMIT)
    except FileNotFoundError:
        raise ToolError("file_not_found", f"no such file: {path}") from None
    except IsADirectoryError:
        raise ToolError("file_not_found", f"{path} is a folder; list_files shows what is in it") from None
    except (OSError, ValueError) as error:
        raise ToolError("io_error", f"cannot read {path}: {_reason(error)}") from None


async def _write(context: Context, path: str, data: bytes) -> None:
    absolute = _path(path)
    try:
        await context.sandbox.write(absolute, data)
    except (OSError, ValueError) as error:
        reason = _reason(error)
        if not f"{absolute}/".startswith(_WRITABLE):
            reason = f"it is outside the workspace; write to a path below {WORKSPACE}, or to a temporary file in /tmp"
        raise ToolError("io_error", f"cannot write {path}: {reason}") from None


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


# --- The tools ----------------------------------------------------------------------------------------------


async def _bash(context: Context, args: dict[str, Any]) -> tuple[str, str]:
    command, timeout = args["command"], args.get("timeout_s", context.limits.timeout_s)
    if len(command.encode()) > COMMAND_BYTES:
        raise ToolError("invalid_args", f"bash: command is longer than {COMMAND_BYTES} bytes; use write_file first")
    if timeout > context.limits.timeout_s:
        raise ToolError("invalid_args", f"bash: timeout_s must be at most {context.limits.timeout_s:g}")
    result = await context.sandbox.exec(
        command, timeout_s=float(timeout), env=context.shell or None, output_limit=2 * OUTPUT
    )
    note = OUT_OF_MEMORY if result.oom_killed else ""
    return _status(result, timeout), capped(result.output, result.dropped) + note


async def _read_file(context: Context, args: dict[str, Any]) -> tuple[str, str]:
    data = await _read(context, args["path"])
    # Whole files are searched in a thread, because other sessions wait for this event loop.
    lines = args.get("start_line", 1), args.get("end_line")
    return "ok", await asyncio.to_thread(numbered, args["path"], data, *lines)


async def _write_file(context: Context, args: dict[str, Any]) -> tuple[str, str]:
    data = args["content"].encode()
    await _write(context, args["path"], data)
    return "ok", f"wrote {len(data)} bytes to {args['path']}"


async def _edit_file(context: Context, args: dict[str, Any]) -> tuple[str, str]:
    path, old, new = args["path"], args["old"].encode(), args["new"].encode()
    if not old:
        raise ToolError("edit_failed", "old is empty; use write_file to make a file")
    if old == new:
        raise ToolError("edit_failed", "old and new are the same")
    data = await _read(context, path)
    edited, line = await asyncio.to_thread(replaced, path, data, old, new)
    await _write(context, path, edited)
    return "ok", f"edited {path} at line {line}"


async def _search(context: Context, args: dict[str, Any]) -> tuple[str, str]:
    return await walk(
        context, "search", args.get("path", "."), args["pattern"], args.get("glob", "**"), args.get("context", 0)
    )


async def _list_files(context: Context, args: dict[str, Any]) -> tuple[str, str]:
    return await walk(context, "list_files", args.get("path", "."))


_SECONDS = re.compile(r"(?<=\S) in \d+\.\d+s(?: \(\d+:\d\d:\d\d\))?")
_WARNINGS = re.compile(r"(?ms)^=+ warnings summary.*?^-- Docs:[^\n]*\n?")
_USAGE_ERROR = 4
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")


async def _run_tests(context: Context, args: dict[str, Any]) -> tuple[str, str]:
    verifier, selector = context.tests or context.task.pytest, args.get("selector", "")
    place = selector.partition("[")[0]
    if any(word.startswith("-") for word in place.split()):
        text = "run_tests: selector is a path or a test id and takes no options; run pytest with options in bash"
        raise ToolError("invalid_args", text)
    if selector and not f"{_path(place.partition('::')[0])}/".startswith(_WRITABLE):
        outside = f"run_tests: {selector} is outside the workspace; give a path below {WORKSPACE}, or no selector"
        raise ToolError("invalid_args", outside)
    if not selector and not verifier.args:
        whole = "run_tests: name a test file, a folder or a test id as selector; the whole suite takes too long here"
        raise ToolError("invalid_args", whole)
    if selector:
        verifier = verifier.model_copy(update={"args": [_target(verifier, selector)]})
    timeout = min(verifier.timeout_s, context.limits.timeout_s)
    run = await run_tests(context.sandbox, verifier, timeout_s=timeout, tracebacks=True)
    status = f"timeout {timeout:g}s" if run.timed_out else f"exit {1 if run.status is None else run.status}"
    return "ok" if run.status == 0 and run.complete else status, capped(_test_report(run).encode())


def _target(verifier: PytestVerifier, selector: str) -> str:
    """Return what the test program is given for a selector: unittest takes dotted names, not paths."""
    if not isinstance(verifier, UnittestVerifier):
        return selector
    folder = verifier.program.rpartition("/")[0]
    path = selector.removeprefix(f"{WORKSPACE}/").removeprefix("./").removeprefix(f"{folder}/").rstrip("/")
    return path.replace(".py::", ".").removesuffix(".py").replace("::", ".").replace("/", ".")


def _test_report(run: TestRun) -> str:
    """Return what pytest printed, without what differs between two runs, and why the run ended early."""
    lines = run.output.decode("utf-8", "replace").rstrip().split("\n")
    errors = [line for line in lines if line.startswith("ERROR: ")]
    if run.status == _USAGE_ERROR and errors:  # pytest and its summary both say what is wrong with the selector
        return (
            "\n".join(dict.fromkeys(errors))
            + "\nlist_files shows the test files; run_tests without a selector runs all"
        )
    lines[-1] = _SECONDS.sub("", lines[-1])
    body = _WARNINGS.sub("", _ADDRESS.sub("0x...", "\n".join(lines)))
    if run.cause:
        body += f"\n[{run.cause.partition(': ')[0] if run.forged else run.cause}]"
    return body


async def _submit(context: Context, args: dict[str, Any]) -> tuple[str, str]:
    return SUBMITTED


def _string(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


_LINE = {"type": "integer", "minimum": 1}
TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            "bash",
            "Run a command in bash, in a fresh shell at the workspace's root. No network; nothing stays running.",
            {
                "command": _string("the command"),
                "timeout_s": {"type": "number", "minimum": 0.1, "description": "seconds it may take"},
            },
            ("command",),
            _bash,
        ),
        Tool(
            "read_file",
            "Show a text file with line numbers.",
            {
                "path": _string("the file, relative to the workspace"),
                "start_line": {**_LINE, "description": "first line, from 1"},
                "end_line": {**_LINE, "description": "last line, included"},
            },
            ("path",),
            _read_file,
            writes=False,
        ),
        Tool(
            "write_file",
            "Write a file, replacing it when it exists; folders are made.",
            {"path": _string("the file, relative to the workspace"), "content": _string("all of its text")},
            ("path", "content"),
            _write_file,
        ),
        Tool(
            "edit_file",
            "Replace a piece of text that occurs exactly once in a file.",
            {
                "path": _string("the file, relative to the workspace"),
                "old": _string("the exact text to replace, without line numbers"),
                "new": _string("the text to put there"),
            },
            ("path", "old", "new"),
            _edit_file,
        ),
        Tool(
            "search",
            "Find lines that match a Python regular expression, as path:line:text.",
            {
                "pattern": _string("the regular expression"),
                "path": _string("a file or folder; default: all"),
                "glob": _string("only files like this, such as *.py or src/**/*.toml; default: all"),
                "context": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": MOST_AROUND,
                    "description": "lines shown before and after each match, as path-line-text; default: 0",
                },
            },
            ("pattern",),
            _search,
            writes=False,
        ),
        Tool(
            "list_files",
            "List files below a folder.",
            {"path": _string("the folder; default: the workspace")},
            (),
            _list_files,
            writes=False,
        ),
        Tool(
            "run_tests",
            "Run the visible tests with pytest.",
            {"selector": _string("a test file, folder or test id; default: all")},
            (),
            _run_tests,
        ),
        Tool(
            SUBMIT,
            "End the episode: the workspace as it is now gets graded. Nothing can be done afterwards.",
            {
                "answer": _string("the answer, where the task asks for one"),
                "summary": _string("what was done, in a sentence"),
            },
            (),
            _submit,
            writes=False,
        ),
    )
}


def schemas(names: Sequence[str], timeout_s: float = Limits().timeout_s) -> list[dict[str, Any]]:
    """Return the JSON schemas of the named tools, for commands that may take ``timeout_s`` seconds."""
    chosen = [TOOLS[name].schema() for name in names]
    most = int(timeout_s) if timeout_s == int(timeout_s) else timeout_s
    for schema in (tool["function"]["parameters"]["properties"] for tool in chosen):
        if "timeout_s" in schema:
            schema["timeout_s"] = {**schema["timeout_s"], "maximum": most, "default": most}
    return chosen
