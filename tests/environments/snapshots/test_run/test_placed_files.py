"""Files are written into a sandbox with one command, whatever their names and contents are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
from helpers.sandboxes import Result, in_sandbox

from etude.environments.sandbox import ExecResult, Sandbox
from etude.environments.snapshots import Snapshot, make_workspace
from etude.environments.snapshots.test_run.placed_files import NotWritten, write_files
from etude.errors import SandboxError

ODD = 'a b/-n/it\'s "new"\n.py'


def inside(snapshot: Snapshot, action: Callable[[Sandbox], Awaitable[Result]]) -> Result:
    return in_sandbox(snapshot.layers(make_workspace(snapshot, git=False).path), action)


class Killed:
    """A sandbox in which every command is killed."""

    def __init__(self, oom_killed: bool) -> None:
        self._result = ExecResult(exit_code=137, output=b"", oom_killed=oom_killed)

    async def exec(self, *_: object, **__: object) -> ExecResult:
        return self._result


@pytest.mark.parametrize(("oom_killed", "error"), [(False, SandboxError), (True, NotWritten)])
def test_a_command_that_is_killed_from_outside_is_a_failure_of_the_sandbox(
    oom_killed: bool, error: type[Exception]
) -> None:
    with pytest.raises(error):
        asyncio.run(write_files(cast(Sandbox, Killed(oom_killed)), {"a.py": b""}))


def test_files_are_written_deleted_and_made_executable(snapshot: Snapshot) -> None:
    async def action(sandbox: Sandbox) -> dict[str, tuple[str, bytes | None, bool]]:
        files = {
            ODD: b"odd",
            "new/deep/er.py": bytes(range(256)) * 3000,
            "pyproject.toml": b"new",
            "tests/test_hidden.py": None,
        }
        await write_files(sandbox, {**files, "missing.py": None, "empty": b""}, {"pyproject.toml"})
        return {change.path: (change.kind, change.content, change.executable) for change in await sandbox.changes()}

    changes = inside(snapshot, action)
    assert changes == {
        ODD: ("file", b"odd", False),
        "new/deep/er.py": ("file", bytes(range(256)) * 3000, False),
        "pyproject.toml": ("file", b"new", True),
        "empty": ("file", b"", False),
        "tests/test_hidden.py": ("deleted", None, False),
    }


def test_a_file_may_become_a_folder(snapshot: Snapshot) -> None:
    async def action(sandbox: Sandbox) -> bytes:
        await write_files(sandbox, {"pyproject.toml/inner.py": b"inner", "pyproject.toml": None})
        return await sandbox.read("pyproject.toml/inner.py")

    assert inside(snapshot, action) == b"inner"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("tests", "cannot write tests: not a regular file"),
        ("pyproject.toml/inner.py", "cannot write pyproject.toml/inner.py: File exists"),
        ("x" * 300, f"cannot write {'x' * 300}: File name too long"),
    ],
)
def test_a_file_that_cannot_be_written_is_named(snapshot: Snapshot, path: str, message: str) -> None:
    async def action(sandbox: Sandbox) -> None:
        await write_files(sandbox, {path: b"text"})

    with pytest.raises(NotWritten) as raised:
        inside(snapshot, action)
    assert (str(raised.value), raised.value.exit_code) == (message, 1)


def test_what_stays_unread_after_a_failure_is_no_other_error(snapshot: Snapshot) -> None:
    async def action(sandbox: Sandbox) -> None:
        await write_files(sandbox, {"tests": b"text", "large": bytes(12 << 20)})

    with pytest.raises(NotWritten, match="cannot write tests: not a regular file"):
        inside(snapshot, action)


def test_a_folder_is_not_deleted(snapshot: Snapshot) -> None:
    async def action(sandbox: Sandbox) -> None:
        await write_files(sandbox, {"tests": None})

    with pytest.raises(NotWritten, match="cannot delete tests: Is a directory"):
        inside(snapshot, action)
