"""Checks of a sandbox's life: what ends with a command, what a reset drops, and calls at the wrong time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from ....errors import SandboxError
from ..protocol import Sandbox
from ..registry import open_sandbox
from .checking import PATIENCE_S, SMALL, Opener, output_of, python, raises

# A daemon that ignores SIGTERM and keeps writing.
_HEART = "(setsid sh -c \"trap '' TERM; while :; do date +%N >/workspace/beat; done\" &); until [ -s beat ]; do :; done"


async def _assert_heart_stopped(sandbox: Sandbox) -> None:
    first = await sandbox.read("beat")
    await output_of(sandbox, "sleep 0.2")
    assert await sandbox.read("beat") == first


async def a_daemon_is_dead_when_its_command_returns(sandbox: Sandbox) -> None:
    await output_of(sandbox, _HEART)
    await _assert_heart_stopped(sandbox)


async def a_daemon_is_dead_after_a_timeout(sandbox: Sandbox) -> None:
    result = await sandbox.exec(f"{_HEART}; trap '' TERM; sleep 600 & wait", cpu_s=0.5)
    assert result.timed_out and result.exit_code is None, result
    await _assert_heart_stopped(sandbox)


async def a_background_child_does_not_delay_the_return(sandbox: Sandbox) -> None:
    result = await sandbox.exec("sleep 600 & (setsid sleep 600 &) ; echo hi")
    assert (result.exit_code, result.output) == (0, b"hi\n"), result


async def is_usable_after_a_cancelled_call(sandbox: Sandbox) -> None:
    call = asyncio.ensure_future(sandbox.exec("sleep 600"))
    await asyncio.wait([call], timeout=0.3)
    call.cancel()
    with raises(asyncio.CancelledError):
        await call
    assert await output_of(sandbox, "echo ok") == "ok"


async def keeps_files_from_command_to_command(sandbox: Sandbox, opened: Opener) -> None:
    await output_of(sandbox, "echo 1 >/tmp/t; echo 2 >w; rm kept")
    assert await output_of(sandbox, "cat /tmp/t w; ls kept 2>/dev/null || true") == "1\n2"
    assert (opened.layers.workspace / "kept").read_text() == "kept\n"


async def drops_files_at_a_reset(sandbox: Sandbox) -> None:
    await output_of(sandbox, "echo 1 >/tmp/t; echo 2 >w; rm kept; chmod 700 /tmp")
    await sandbox.reset()
    assert await output_of(sandbox, "ls -A /tmp; cat kept; ls w 2>/dev/null; stat -c %a /tmp") == "kept\n1777"


async def drops_hidden_writes_at_a_reset(sandbox: Sandbox) -> None:
    # Through a memory mapping, through a second name that is gone again, and in place with the old times.
    hide = (
        "import mmap, os\nf = open('plain', 'r+b'); m = mmap.mmap(f.fileno(), 0); m[0]; m[0:1] = b'E'\n"
        "os.link('kept', 'folder/alias'); open('folder/alias', 'w').write('forged'); os.unlink('folder/alias')\n"
        "times = os.stat('flat'); open('flat', 'w').write('F\\n'); os.utime('flat', (times.st_atime, times.st_mtime))\n"
        "try: os.rename('folder', 'spare'); os.rename('rebuilt', 'folder'); os.rename('spare', 'rebuilt')\n"
        "except OSError: pass  # an overlay does not rename the folders of its lower tree"
    )
    listing = "find . -type f | LC_ALL=C sort | xargs tail -n +1"
    before = await output_of(sandbox, listing)
    for _ in range(2):
        assert (await sandbox.exec(python(hide))).exit_code == 0
        await sandbox.reset()
        assert await sandbox.changes() == []
        assert await output_of(sandbox, listing) == before


async def survives_folders_without_permissions(sandbox: Sandbox) -> None:
    await output_of(sandbox, "echo n >folder/new; chmod 0 folder /tmp /workspace")
    assert [change.path for change in await sandbox.changes()] == ["folder/new"]
    saved = await sandbox.save()
    await sandbox.reset()
    assert await output_of(sandbox, "ls folder; touch /tmp/t") == "a\nc"
    await sandbox.restore(saved)
    assert [change.path for change in await sandbox.changes()] == ["folder/new"]
    await sandbox.reset()
    assert await sandbox.changes() == []


async def close_is_idempotent_and_final(opened: Opener) -> None:
    sandbox = await open_sandbox(opened.layers, SMALL, opened.backend)
    await sandbox.close()
    await sandbox.close()
    for call in (sandbox.exec("true"), sandbox.read("kept"), sandbox.reset(), sandbox.changes()):
        with raises(SandboxError, text="closed"):
            await call


async def close_ends_a_running_call(sandbox: Sandbox) -> None:
    call = asyncio.ensure_future(sandbox.exec("sleep 600"))
    await asyncio.wait([call], timeout=0.3)
    await sandbox.close()
    with raises(SandboxError):
        await asyncio.wait_for(call, PATIENCE_S)


async def refuses_a_second_call_at_once(sandbox: Sandbox) -> None:
    first = asyncio.ensure_future(sandbox.exec("sleep 1; echo one"))
    await asyncio.sleep(0)
    with raises(SandboxError, text="busy"):
        await sandbox.exec("echo two")
    assert (await first).output == b"one\n"


async def runs_sandboxes_side_by_side(opened: Opener) -> None:
    async def span(number: int) -> tuple[float, float]:
        """Return when a command began and ended, by its own clock."""
        async with opened() as sandbox:
            await sandbox.write("n", str(number).encode())
            lines = (await output_of(sandbox, "date +%s.%N; sleep 2; cat n; echo; date +%s.%N")).split()
            assert lines[1] == str(number), lines
            return float(lines[0]), float(lines[2])

    spans = sorted(await asyncio.gather(*(span(number) for number in range(12))))
    overlaps = [one for one, other in zip(spans, spans[1:], strict=False) if other[0] < one[1]]
    assert overlaps, "one after the other"


async def reports_a_bind_that_does_not_exist(opened: Opener) -> None:
    layers = replace(opened.layers, binds={"/opt/etude/env": Path("/no/such/folder")}, unmapped={})
    with raises(SandboxError, FileNotFoundError, text="/no/such/folder"):
        await (await open_sandbox(layers, SMALL, opened.backend)).close()
