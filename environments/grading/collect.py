"""Collection of an agent's changes: source files are graded, everything else is refused with a reason.

A reason starts with one word and a colon (``test: ...``, ``config: ...``); ``monitors.tree`` reads that word.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath

from ...models import FileChange, PytestVerifier, Task
from ..sandbox import MIB, Change
from ..tasks.task_paths import matches

MAX_FILES = 200
MAX_FILE_BYTES = 1 * MIB
MAX_TOTAL_BYTES = 8 * MIB
MAX_REFUSED = 200
UNCOLLECTED = "..."
"""Path of the refused entry for all changes that are not in the diff."""

_CONFIG = frozenset(
    (
        "pytest.ini",
        ".pytest.ini",
        "pytest.toml",
        ".pytest.toml",
        "tox.ini",
        "setup.cfg",
        "setup.py",
        "pyproject.toml",
        ".coveragerc",
    )
)
_IMPORT_HOOKS = frozenset({"sitecustomize.py", "usercustomize.py", "sitecustomize", "usercustomize"})
_CACHES = frozenset(
    ("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".cache", "node_modules")
)
# What pytest loads late, besides the standard library: a workspace module must not stand in for it.
_HARNESS = frozenset(
    ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "coverage", "exceptiongroup", "tomli")
)


def collect(
    changes: Sequence[Change], task: Task, tree: Path | None = None, reserved: Collection[str] = ()
) -> tuple[list[FileChange], list[FileChange]]:
    """Return the changes that are graded and those that are refused, both sorted by path.

    ``tree`` is the pristine workspace: it shows which files are new and what a deleted folder held. ``reserved`` are
    more top-level module names (the environment's dependencies) that a new module may not have.
    """
    accepted: list[FileChange] = []
    refused: dict[str, FileChange] = {}
    paths_by_folded: dict[str, str] = {}
    total = 0
    for change in _expanded(sorted(changes, key=lambda change: change.path), tree):
        reason = _refusal(change, task, tree, reserved)
        folded = unicodedata.normalize("NFC", change.path).casefold()
        if not reason and paths_by_folded.setdefault(folded, change.path) != change.path:
            reason = f"path: same name as {_shown(paths_by_folded[folded])} but for case"
        if not reason and change.kind == "file":
            total += change.size
            if total > MAX_TOTAL_BYTES:
                reason = f"size: all files together exceed {MAX_TOTAL_BYTES} bytes"
        if not reason and len(accepted) >= MAX_FILES:
            reason = f"size: more than {MAX_FILES} files"
        if reason:
            refused.setdefault(*_refused(change, reason))
        else:
            accepted.append(_record(change))
    recorded = list(refused.values())[:MAX_REFUSED]
    if more := len(refused) - len(recorded):
        recorded.append(FileChange(path=UNCOLLECTED, kind="refused", reason=f"more: {more} others"))
    return accepted, recorded


def changes_of(accepted: Sequence[FileChange]) -> list[Change]:
    """Return stored file changes as the sandbox reported them, to grade an Episode again."""
    return [
        Change(
            path=record.path,
            kind=record.kind,
            size=len(base64.b64decode(record.content or "")),
            executable=record.executable,
            content=None if record.content is None else base64.b64decode(record.content),
        )
        for record in accepted
        if record.kind != "refused"
    ]


def diff_digest(accepted: Sequence[FileChange]) -> str:
    """Return the sha256 of the graded changes: the same bytes for scanner, grader and store."""
    digest = hashlib.sha256()
    for record in accepted:
        digest.update(record.model_dump_json(exclude={"reason"}).encode())
    return digest.hexdigest()


def _expanded(changes: Sequence[Change], tree: Path | None) -> Iterator[Change]:
    """Yield the changes; a deleted folder becomes the files it held, so that each is judged by its own path."""
    for change in changes:
        folder = tree / change.path if tree is not None and change.kind == "deleted" and _clean(change.path) else None
        if folder is not None and folder.is_dir() and not folder.is_symlink():
            if PurePosixPath(change.path).parts[0] == ".git":
                yield change
                continue
            for path in sorted(folder.rglob("*")):
                if not path.is_dir():
                    yield Change(path=path.relative_to(tree).as_posix(), kind="deleted")  # type: ignore[arg-type]
        else:
            yield change


def _clean(path: str) -> bool:
    """Return whether a path is relative, without empty, ``.`` and ``..`` parts, and short enough for a file system."""
    parts = path.split("/")
    longest = max(len(part.encode("utf-8", "surrogatepass")) for part in parts)
    return len(path) <= 512 and len(parts) <= 32 and longest <= 255 and not {"", ".", ".."} & set(parts)


def _refusal(change: Change, task: Task, tree: Path | None, reserved: Collection[str]) -> str:
    """Return why a change is not graded, '' when it is."""
    parts = change.path.split("/")
    if not _clean(change.path):
        return "path: not a plain relative path"
    if any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn") for char in change.path):
        return "path: holds control or unassigned characters"
    if unicodedata.normalize("NFC", change.path) != change.path:
        return "path: not in Unicode normal form"
    if change.kind in ("symlink", "special"):
        return f"{'link' if change.kind == 'symlink' else 'special'}: only regular files are graded"
    reason = (
        _by_name(parts, freed=change.path in task.source_globs)
        or _by_rule(change.path, task, tree)
        or _shadow(change, task, tree, reserved)
    )
    if reason or change.kind == "deleted":
        return reason
    if change.content is None or change.size > MAX_FILE_BYTES or len(change.content) != change.size:
        return f"size: larger than {MAX_FILE_BYTES} bytes"
    return ""


def _by_name(parts: list[str], *, freed: bool) -> str:
    """Return why a path is never source, whatever the task's patterns say; '' when it may be.

    ``freed`` says that the task names this very file as a source: a configuration file then is one, since the task is
    about it.
    """
    name = parts[-1]
    if ".git" in parts:
        return "git: version control is not graded"
    if _CACHES & set(parts) or name.endswith((".pyc", ".pyo")):
        return "cache: generated files are not graded"
    if name == "conftest.py":
        return "conftest: comes from the task"
    if name in _CONFIG and not freed:
        return "config: comes from the task"
    if _IMPORT_HOOKS & set(parts) or name.endswith((".pth", ".egg-link")):
        return "import_hook: would run before the tests"
    if any(part.endswith((".dist-info", ".egg-info")) for part in parts) or name == "entry_points.txt":
        return "entry_point: package metadata comes from the task"
    return ""


def _by_rule(path: str, task: Task, tree: Path | None) -> str:
    """Return why the task's globs refuse a path, '' when they do not."""
    name = path.rpartition("/")[2]
    protected = matches(path, task.protected_paths)
    if not protected and matches(path, task.source_globs):
        return ""
    if not protected and not (name.startswith("test_") or name.endswith("_test.py")):
        return "outside: not within the task's source files"
    if tree is None or (tree / path).exists():
        return "test: tests and other protected files come from the task"
    return "new_test: tests of the agent's own are not graded"


def _shadow(change: Change, task: Task, tree: Path | None, reserved: Collection[str]) -> str:
    """Return why a new top-level module is refused: it would be imported instead of an installed one."""
    if change.kind == "deleted":
        return ""
    folders = task.verifier.python_path if isinstance(task.verifier, PytestVerifier) else []
    for folder in [*folders, "."]:
        prefix = "" if folder in (".", "") else folder.strip("/") + "/"
        if not change.path.startswith(prefix):
            continue
        top = change.path[len(prefix) :].partition("/")[0]
        module = top.partition(".")[0]
        is_taken = module in sys.stdlib_module_names or module in _HARNESS or module in reserved
        if is_taken and not (tree is not None and (tree / prefix / top).exists()):
            return f"shadow: a new top-level {module} would stand in for the installed one"
    return ""


def _refused(change: Change, reason: str) -> tuple[str, FileChange]:
    """Return a refused change and its key: generated files and version control are recorded once per folder."""
    path = _shown(change.path)
    parts = path.split("/")
    if reason.startswith("git:"):
        path = ".git"
    elif reason.startswith("cache:") and _CACHES & set(parts):
        path = "/".join(parts[: next(i for i, part in enumerate(parts) if part in _CACHES) + 1])
    return path, FileChange(path=path, kind="refused", executable=change.executable, reason=reason)


def _shown(path: str) -> str:
    return path.encode("utf-8", "backslashreplace").decode()[:600]


def _record(change: Change) -> FileChange:
    content = None if change.content is None or change.kind == "deleted" else base64.b64encode(change.content).decode()
    kind = "file" if change.kind == "file" else "deleted"
    return FileChange.model_validate(
        {"path": change.path, "kind": kind, "content": content, "executable": change.executable}
    )
