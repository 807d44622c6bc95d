"""Search and listing of files: a script that runs in the sandbox."""

from __future__ import annotations

import json

from ...errors import ToolError
from ..tasks.task_paths import glob_regex
from ..tool_protocol import OUTPUT, Context, capped

ENTRIES = 500
"""Files or matching lines that are shown at most."""
MOST_AROUND = 20
"""Lines that are shown around a match at most."""

# Runs in the sandbox, where the agent's links lead nowhere else; isolated, so nothing there shadows a module.
_WALK = r"""
import json, os, re, sys
job = json.load(sys.stdin)
root, base = os.getcwd(), job["path"]
start = os.path.normpath(os.path.join(root, base))
if not os.path.lexists(start):
    print("no such file or folder: " + base); sys.exit(3)
SKIP = {".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
def shown(path):
    return os.path.relpath(path, root) if path.startswith(root + os.sep) else path
def files():
    if not os.path.isdir(start):
        if any(re.fullmatch(job["files"], each, re.DOTALL) for each in (shown(start), os.path.basename(start))):
            yield start
        return
    for folder, names, entries in os.walk(start):
        names[:] = sorted(name for name in names if name not in SKIP)
        for name in sorted(entries):
            path = os.path.join(folder, name)
            if any(re.fullmatch(job["files"], each, re.DOTALL) for each in (shown(path), os.path.relpath(path, start))):
                yield path
pattern = None
if job["pattern"] is not None:
    try:
        pattern = re.compile(job["pattern"])
    except (re.error, OverflowError, RecursionError) as error:
        print(error); sys.exit(4)
count, limit, around = 0, job["limit"], job["context"]
matched = False
for path in files():
    matched = True
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
    lines = data.decode("utf-8", "replace").splitlines()
    printed = 0
    for number, line in enumerate(lines, 1):
        if not pattern.search(line): continue
        count += 1
        if count > limit: continue
        first = max(number - around, 1)
        if around and count > 1 and (not printed or first > printed + 1): print("--")
        for near in range(max(first, printed + 1), min(number + around, len(lines)) + 1):
            mark = ":" if near == number or pattern.search(lines[near - 1]) else "-"
            if mark == ":" and near > number: break
            print(shown(path) + mark + str(near) + mark + lines[near - 1][:300])
            printed = near
if count > limit: print("[... %d more not shown ...]" % (count - limit))
if not matched and job["glob"] != "**": print("no file matches the glob %r" % job["glob"])
elif not count: print("no matches" if pattern else "no files")
"""


async def walk(
    context: Context, tool: str, path: str, pattern: str | None = None, glob: str = "**", lines_around: int = 0
) -> tuple[str, str]:
    """Return the status line and the files below ``path``, or with ``pattern`` the lines in them that match.

    ``glob``, relative to the workspace or to ``path``, restricts the files; ``lines_around`` are shown before and after
    each match. Raises ToolError for a path that does not exist and for a pattern that is not a regular expression, and
    SandboxError.
    """
    timeout = min(30.0, context.limits.timeout_s)
    glob = glob.removeprefix("./")
    files = glob_regex(glob if "/" in glob or glob == "**" else f"**/{glob}")
    job = {"path": path, "pattern": pattern, "files": files, "glob": glob, "context": lines_around, "limit": ENTRIES}
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
        raise ToolError("invalid_args", f"{tool}: pattern is not a regular expression: {text}")
    status = "ok" if result.exit_code == 0 else f"exit {result.exit_code}"
    return f"timeout {timeout:g}s" if result.timed_out else status, text.rstrip("\n")
