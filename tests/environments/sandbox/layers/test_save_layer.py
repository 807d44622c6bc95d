"""Saving costs what a turn wrote, follows nothing that the agent arranged, and disturbs nobody."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.sandboxes import in_sandbox

from etude.environments.sandbox import MIB, Layers, Limits, Sandbox, opened_sandbox
from etude.environments.sandbox.conformance.checking import SMALL
from etude.errors import SandboxError

BACKENDS = ["bubblewrap", "process"]
LARGE = Limits(memory=SMALL.memory, disk=128 * MIB, files=60_000, processes=40, timeout_s=60.0)


def using(layers: Layers, backend: str, script: Callable[[Sandbox], Awaitable[Any]], limits: Limits = SMALL) -> Any:
    return in_sandbox(layers, script, limits, backend)


async def done(sandbox: Sandbox, command: str) -> str:
    result = await sandbox.exec(command)
    assert result.exit_code == 0, result
    return result.output.decode()


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_did_not_change_is_not_held_twice(layers: Layers, backend: str) -> None:
    async def script(sandbox: Sandbox) -> list[int]:
        await done(sandbox, "head -c 3000000 /dev/urandom >big; seq 100 | xargs touch")
        sizes = [(await sandbox.save()).size, (await sandbox.save()).size]
        await done(sandbox, "echo x >>big; echo y >new")
        sizes.append((await sandbox.save()).size)
        await sandbox.restore(await sandbox.save())
        sizes.append((await sandbox.save()).size)
        return sizes

    first, same, edited, restored = using(layers, backend, script)
    assert first > 3_000_000 and same == 0
    # The last megabyte of the file, and records.
    assert 0 < edited < 1_100_000 and restored < 100_000


@pytest.mark.parametrize("backend", BACKENDS)
def test_links_out_of_the_sandbox_are_not_followed(layers: Layers, backend: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("host\n")
    tmp_path.chmod(0o755)

    async def script(sandbox: Sandbox) -> str:
        await done(sandbox, f"ln -s {tmp_path} out; ln -s {secret} file; ln -s /proc/self/root root; mkfifo pipe")
        saved = await sandbox.save()
        await done(sandbox, "rm out file root pipe; mkdir out file")
        await sandbox.restore(saved)
        return await done(sandbox, "readlink out file root; stat -c %F pipe")

    seen = using(layers, backend, script)
    assert seen == f"{tmp_path}\n{secret}\n/proc/self/root\nfifo\n"
    assert secret.read_text() == "host\n" and list(tmp_path.iterdir()) == [secret]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_layer_too_deep_or_too_many_is_refused_quickly(layers: Layers, backend: str) -> None:
    async def script(sandbox: Sandbox) -> list[str]:
        refused = []
        empty = await sandbox.save()
        deep = "import os\nfor _ in range(300): os.mkdir('d' * 50); os.chdir('d' * 50)"
        assert (await sandbox.exec(["/usr/bin/python3", "-ISc", deep])).exit_code == 0
        for command in (
            "true",
            "rm -r d*; truncate -s 1T sparse 2>/dev/null; mkdir many; cd many; seq 11000 | xargs touch",
        ):
            await sandbox.exec(command)
            with pytest.raises(ValueError, match="to save") as raised:
                await sandbox.save()
            refused.append(str(raised.value))
        await sandbox.restore(empty)
        assert await sandbox.changes() == []
        return refused

    deep, many = using(layers, backend, script, LARGE)
    assert "deeper than 128" in deep and "more than 10000 paths" in many


def test_others_go_on_while_a_large_layer_is_saved(layers: Layers) -> None:
    async def script(sandbox: Sandbox) -> int:
        await done(sandbox, "mkdir many; cd many; seq 9000 | xargs touch; head -c 50M /dev/zero >zeros")
        async with opened_sandbox(layers, SMALL, "bubblewrap") as other:
            saving = asyncio.ensure_future(sandbox.save())
            commands = 0
            while not saving.done():
                assert (await other.exec(["true"])).exit_code == 0
                commands += 1
            await sandbox.restore(await saving)
            return commands

    assert using(layers, "bubblewrap", script, LARGE) > 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_call_at_a_time(layers: Layers, backend: str) -> None:
    async def script(sandbox: Sandbox) -> None:
        empty = await sandbox.save()
        await done(sandbox, "seq 500 | xargs touch")
        saving = asyncio.ensure_future(sandbox.save())
        await asyncio.sleep(0)
        with pytest.raises(SandboxError, match="busy"):
            await sandbox.exec("true")
        with pytest.raises(SandboxError, match="busy"):
            await sandbox.restore(empty)
        with pytest.raises(SandboxError, match="busy"):
            await sandbox.save()
        await saving

    using(layers, backend, script)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_restore_that_is_cut_off_can_be_made_good(layers: Layers, backend: str) -> None:
    async def script(sandbox: Sandbox) -> None:
        await done(sandbox, "seq 200 | xargs touch; echo x >/tmp/t")
        saved = await sandbox.save()
        for rounds in range(4):
            restoring = asyncio.ensure_future(sandbox.restore(saved))
            for _ in range(rounds + 1):
                await asyncio.sleep(0)
            restoring.cancel()
            with pytest.raises(asyncio.CancelledError):
                await restoring
        await sandbox.restore(saved)
        assert await done(sandbox, "ls | grep -c '^[0-9]'; cat /tmp/t") == "200\nx\n"
        await sandbox.reset()
        assert await sandbox.changes() == []

    using(layers, backend, script)


def test_another_backends_or_trees_layer_is_refused(layers: Layers, tmp_path: Path) -> None:
    async def script(sandbox: Sandbox) -> None:
        saved = await sandbox.save()
        async with opened_sandbox(layers, SMALL, "process") as process:
            with pytest.raises(SandboxError, match="saved by bubblewrap"):
                await process.restore(saved)
        tmp_path.chmod(0o755)
        os.chown(tmp_path, *layers.workspace.stat()[4:6])
        async with opened_sandbox(Layers(tmp_path), SMALL, "bubblewrap") as elsewhere:
            with pytest.raises(SandboxError, match="it fits no other"):
                await elsewhere.restore(saved)

    using(layers, "bubblewrap", script)


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_is_left_open_or_on_disk(layers: Layers, backend: str) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    async def script(sandbox: Sandbox) -> None:
        await done(sandbox, "mkdir d; echo x >d/x; ln d/x d/y; chmod 0 d/x")
        await sandbox.restore(await sandbox.save())
        before = descriptors()
        for _ in range(20):
            await sandbox.restore(await sandbox.save())
        assert descriptors() == before

    using(layers, backend, script)
