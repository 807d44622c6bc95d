"""The eight tools, over the Sandbox protocol.

A result's first line is ours (``ok``, ``exit 1``, ``timeout 30s``, ``error CODE: ...``); what a command printed starts
on the second. Results hold no clock and no address of this run, so the same calls give the same results.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import posixpath
import re
from collections.abc import Sequence
from typing import Any

from ...errors import ToolError
from ...models import ToolMessage
from ..messages import unknown_tool
from ..sandbox import WORKSPACE, ExecResult
from ..snapshots.test_run.test_runner import run_tests
from ..tool_protocol import OUTPUT, Context, Tool, capped, message, validate
from ..turn_parsing import Call

COMMAND_BYTES = 100 * 1024
ENTRIES = 500
READ_LIMIT = 4 << 20
_COMPARED = 200


async def run_call(call: Call, context: Context, names: Sequence[str]) -> ToolMessage:
    """Run one call. Raises SandboxError; whatever the call does wrong is its result."""
    try:
        if call.problem:
            code, _, text = call.problem.partition(": ")
            raise ToolError(code, text)
        if call.name not in names:
            raise ToolError("tool_not_found", unknown_tool(call.name, names))
        tool = TOOLS[call.name]
        status, body = await tool.run(context, validate(tool, call.arguments))
    except ToolError as error:
        status, body = f"error {error.code}: {' '.join(str(error).split())[:600]}", ""
    return message(call, status, body)


def _status(result: ExecResult, timeout_s: float) -> str:
    if result.timed_out:
        return f"timeout {timeout_s:g}s"
    return "ok" if result.exit_code == 0 else f"exit {result.exit_code}"


def _path(path: str) -> str:
    """Relative paths start at the workspace. Raises ToolError for a path that no system call would take."""
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
    try:
        await context.sandbox.write(_path(path), data)
    except (OSError, ValueError) as error:
        raise ToolError("io_error", f"cannot write {path}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


# --- The tools ----------------------------------------------------------------------------------------------


async def _bash(context: Context, args: dict[str, Any]) -> tuple[str, str]:
    command, timeout = args["command"], args.get("timeout_s", context.limits.timeout_s)
    if len(command.encode()) > COMMAND_BYTES:
        raise ToolError("invalid_args", f"bash: command is longer than {COMMAND_BYTES} bytes; use write_file first")
    if timeout > context.limits.timeout_s:
        raise ToolError("invalid_args", f"bash: timeout_s must be at most {context.limits.timeout_s:g}")
    result = await context.sandbox.exec(command, timeout_s=float(timeout), output_limit=2 * OUTPUT)
    note = "\n[killed: out of memory]" if result.oom_killed else ""
    return _status(result, timeout), capped(result.output, result.dropped) + note


async def _read_file(context: Context, args: dict[str, Any]) -> tuple[str, str]:
    data = await _read(context, args["path"])
    # In a thread, as is all that looks at a whole file: the other sessions wait for this event loop.
    return await asyncio.to_thread(_numbered, data, args)


def _numbered(data: bytes, args: dict[str, Any]) -> tuple[str, str]:
    """The lines asked for, with their numbers."""
    if b"\0" in data[:8192]:
        raise ToolError("io_error", f"{args['path']} is a binary file of {len(data)} bytes")
    lines = data.decode("utf-8", "replace").splitlines()
    start, end = args.get("start_line", 1), min(args.get("end_line", len(lines)), len(lines))
    if start > max(len(lines), 1) or (end < start and lines):
        raise ToolError("invalid_args", f"read_file: {args['path']} has {len(lines)} lines; asked for {start}-{end}")
    shown: list[str] = []
    size = 0
    for number in range(start, end + 1):
        line = f"{number}\t{lines[number - 1]}"
        size += len(line) + 1
        if shown and size > OUTPUT:
            rest = f"[... lines {number}-{end} of {len(lines)} not shown; ask with start_line={number} ...]"
            return "ok", "\n".join([*shown, rest])
        shown.append(capped(line.encode()))
    return "ok", "\n".join(shown) if lines else "(empty file)"


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
    edited, line = await asyncio.to_thread(_replaced, path, data, old, new)
    await _write(context, path, edited)
    return "ok", f"edited {path} at line {line}"


def _replaced(path: str, data: bytes, old: bytes, new: bytes) -> tuple[bytes, int]:
    """The edited file and the line of the edit. Raises ToolError unless ``old`` occurs once."""
    count = data.count(old)
    if count != 1:
        raise ToolError("edit_failed", _no_single_match(path, data, old, count))
    return data.replace(old, new), data[: data.index(old)].count(b"\n") + 1


def _no_single_match(path: str, data: bytes, old: bytes, count: int) -> str:
    """Why an edit found no place, or several, and what would help."""
    if count:
        places: list[str] = []
        at = data.find(old)
        while at >= 0 and len(places) < 10:
            places.append(str(data[:at].count(b"\n") + 1))
            at = data.find(old, at + 1)
        return f"old occurs {count} times in {path} (lines {', '.join(places)}); add lines around it to make it unique"
    if b"\r\n" in data and old.replace(b"\n", b"\r\n") in data:
        return f"old is not in {path}: its lines end in CR LF"
    first = next((line.strip() for line in old.decode("utf-8", "replace").splitlines() if line.strip()), "")
    lines = data.decode("utf-8", "replace").splitlines()
    # Comparing takes time with the square of the length, so only the beginnings of lines are.
    stripped = [line.strip()[:_COMPARED] for line in lines[:5000]]
    near = difflib.get_close_matches(first[:_COMPARED], stripped, n=1, cutoff=0.6) if first else []
    if near:
        number = stripped.index(near[0]) + 1
        return f"old is not in {path}; the nearest line is {number}: {lines[number - 1][:200]!r}"
    return f"old is not in {path}; read_file shows the exact text"


# Runs in the sandbox, where the agent's links lead nowhere else; isolated, so nothing there shadows a module.
_WALK = r"""
import json, os, re, sys
job = json.load(sys.stdin)
root, base = os.getcwd(), job["path"]
start = os.path.normpath(os.path.join(root, base))
if not os.path.lexists(start):
    print("no such file or folder: " + base); sys.exit(3)
SKIP = {".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
def files():
    if not os.path.isdir(start):
        yield start
        return
    for folder, names, entries in os.walk(start):
        names[:] = sorted(name for name in names if name not in SKIP)
        for name in sorted(entries):
            yield os.path.join(folder, name)
def shown(path):
    return os.path.relpath(path, root) if path.startswith(root + os.sep) else path
pattern = None
if job["pattern"] is not None:
    try:
        pattern = re.compile(job["pattern"])
    except (re.error, OverflowError, RecursionError) as error:
        print(error); sys.exit(4)
count, limit = 0, job["limit"]
for path in files():
    if pattern is None:
        count += 1
        if count <= limit: print(shown(path))
        continue
    if not os.path.isfile(path) or os.path.getsize(path) > 4 << 20: continue
    try:
        with open(path, "rb") as file: data = file.read()
    except OSError:
        continue
    if b"\0" in data[:8192]: continue
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if pattern.search(line):
            count += 1
            if count <= limit: print("%s:%d:%s" % (shown(path), number, line[:300]))
if count > limit: print("[... %d more not shown ...]" % (count - limit))
if not count: print("no matches" if pattern else "no files")
"""


async def _walk(context: Context, tool: str, path: str, pattern: str | None) -> tuple[str, str]:
    timeout = min(30.0, context.limits.timeout_s)
    job = {"path": path, "pattern": pattern, "limit": ENTRIES}
    result = await context.sandbox.exec(
        ["python", "-I", "-S", "-X", "utf8", "-c", _WALK],
        stdin=json.dumps(job).encode(),
        timeout_s=timeout,
        output_limit=2 * OUTPUT,
    )
    text = capped(result.output, result.dropped)
    if result.exit_code == 3:
        raise ToolError("file_not_found", text)
    if result.exit_code == 4:
        raise ToolError("invalid_args", f"{tool}: pattern is no regular expression: {text}")
    return _status(result, timeout), text.rstrip("\n")


async def _search(context: Context, args: dict[str, Any]) -> tuple[str, str]:
    return await _walk(context, "search", args.get("path", "."), args["pattern"])


async def _list_files(context: Context, args: dict[str, Any]) -> tuple[str, str]:
    return await _walk(context, "list_files", args.get("path", "."), None)


_SECONDS = re.compile(r"(?<=\S) in \d+\.\d+s(?: \(\d+:\d\d:\d\d\))?")
_WARNINGS = re.compile(r"(?ms)^=+ warnings summary.*?^-- Docs:[^\n]*\n?")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}\b")


async def _run_tests(context: Context, args: dict[str, Any]) -> tuple[str, str]:
    verifier, selector = context.task.pytest, args.get("selector", "")
    if selector.startswith("-"):
        raise ToolError("invalid_args", "run_tests: selector is a path or a test id, not an option")
    if selector:
        verifier = verifier.model_copy(update={"args": [selector]})
    timeout = min(verifier.timeout_s, context.limits.timeout_s)
    run = await run_tests(context.sandbox, verifier, timeout_s=timeout)
    lines = run.output.decode("utf-8", "replace").rstrip().split("\n")
    lines[-1] = _SECONDS.sub("", lines[-1])
    body = _WARNINGS.sub("", _ADDRESS.sub("0x...", "\n".join(lines)))
    if run.cause:
        body += f"\n[{run.cause.partition(': ')[0] if run.forged else run.cause}]"
    status = f"timeout {timeout:g}s" if run.timed_out else f"exit {1 if run.status is None else run.status}"
    return "ok" if run.status == 0 and run.complete else status, capped(body.encode())


async def _submit(context: Context, args: dict[str, Any]) -> tuple[str, str]:
    return "ok", "submitted"


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
            {"pattern": _string("the regular expression"), "path": _string("a file or folder; default: all")},
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
            "submit",
            "End the episode: the workspace as it is now gets graded. Nothing can be done afterwards.",
            {"answer": _string("unused here"), "summary": _string("what was done, in a sentence")},
            (),
            _submit,
            writes=False,
        ),
    )
}


def schemas(names: Sequence[str]) -> list[dict[str, Any]]:
    """JSON schemas of the named tools."""
    return [TOOLS[name].schema() for name in names]


SCHEMAS: list[dict[str, Any]] = schemas(list(TOOLS))
