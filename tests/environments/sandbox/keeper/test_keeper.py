"""The keeper's promise: whatever dies, nothing stays behind."""

from __future__ import annotations

import asyncio
import glob
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from helpers.sandboxes import until

from etude.environments.sandbox import Layers, Sandbox, open_sandbox
from etude.environments.sandbox.conformance.checking import SMALL
from etude.environments.sandbox.keeper.client import keeper_pid
from etude.environments.sandbox.kernel.linux import descendants
from etude.environments.sandbox.registry import remove_leftovers
from etude.errors import SandboxError

BACKENDS = ["bubblewrap", "process"]
SERVER = """
import asyncio, pathlib, sys
from etude.environments.sandbox import Layers, open_sandbox
from etude.environments.sandbox.keeper.client import keeper_pid
async def main():
    sandbox = await open_sandbox(Layers(pathlib.Path(sys.argv[1])), backend=sys.argv[2])
    task = asyncio.ensure_future(sandbox.exec("(setsid sleep 3600 &); echo x >/tmp/x; exec 1>&- 2>&-; sleep 3600"))
    await asyncio.wait([task], timeout=0.5)
    print(keeper_pid(sys.argv[2]), flush=True)
    await task
asyncio.run(main())
"""


def cgroups_of(pid: int) -> list[str]:
    # Folders go while they are walked through, which pathlib's glob takes for an error.
    return glob.glob(f"/sys/fs/cgroup/**/etude-{pid}-*", recursive=True)


def folders_of(pid: int) -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"etude-{pid}-*"))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def start_server(layers: Layers, backend: str) -> tuple[subprocess.Popen[str], int, set[int]]:
    """Start a server with a running command; return it, its keeper and all processes below it."""
    command = [sys.executable, "-c", SERVER, str(layers.workspace), backend]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd="/")
    assert server.stdout is not None
    keeper = int(server.stdout.readline())
    below = descendants(server.pid)
    assert keeper in below and len(below) >= 4
    return server, keeper, below


def our_mounts() -> list[str]:
    return [line for line in Path("/proc/self/mounts").read_text().splitlines() if "etude" in line]


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_dead_server_leaves_nothing(layers: Layers, backend: str, end: signal.Signals) -> None:
    mounts = our_mounts()
    server, keeper, below = start_server(layers, backend)
    server.send_signal(end)
    server.wait()
    until(lambda: not any(map(alive, below)))
    until(lambda: not cgroups_of(keeper) and not folders_of(server.pid))
    assert our_mounts() == mounts


async def whose_keeper_was_killed(layers: Layers, backend: str) -> tuple[Sandbox, int]:
    """Kill the keeper while a command runs; return the sandbox, and the pid that the keeper had."""
    sandbox = await open_sandbox(layers, SMALL, backend)
    task = asyncio.ensure_future(sandbox.exec("(setsid sleep 3600 &); sleep 3600"))
    await asyncio.wait([task], timeout=0.3)
    keeper = keeper_pid(backend)
    assert keeper is not None
    below = descendants(keeper)
    os.kill(keeper, signal.SIGKILL)
    with pytest.raises(SandboxError, match="keeper is gone"):
        await task
    until(lambda: not any(map(alive, below)))
    return sandbox, keeper


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_killed_keeper_takes_all_with_it_and_is_replaced(layers: Layers, backend: str) -> None:
    async def play() -> None:
        sandbox, keeper = await whose_keeper_was_killed(layers, backend)
        with pytest.raises(SandboxError):
            await sandbox.exec("true")
        await sandbox.close()
        again = await open_sandbox(layers, SMALL, backend)
        assert (await again.exec("echo ok")).output == b"ok\n"
        await again.close()
        assert not cgroups_of(keeper), "the next keeper removes what the last one could not"

    asyncio.run(play())


MANY = """
import asyncio, pathlib, sys
from etude.environments.sandbox import Layers, open_sandbox
from etude.environments.sandbox.keeper.client import keeper_pid
async def main():
    boxes = [await open_sandbox(Layers(pathlib.Path(sys.argv[1])), backend="process") for _ in range(4)]
    for box in boxes:
        await box.exec("mkdir many; cd many; seq 3000 | xargs touch")
    tasks = [asyncio.ensure_future(box.exec("sleep 3600")) for box in boxes]
    await asyncio.wait(tasks, timeout=0.5)
    print(keeper_pid("process"), flush=True)
    await asyncio.gather(*tasks)
asyncio.run(main())
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_leftovers_of_a_killed_keeper_are_removed_without_another_keeper(layers: Layers, backend: str) -> None:
    async def play() -> int:
        sandbox, keeper = await whose_keeper_was_killed(layers, backend)
        await sandbox.close()
        return keeper

    keeper = asyncio.run(play())
    before = cgroups_of(keeper)
    removed = remove_leftovers()
    assert not cgroups_of(keeper)
    assert {os.path.basename(path) for path in before} <= set(removed)


def test_one_sandboxs_end_does_not_stop_the_removal_of_another(layers: Layers) -> None:
    command = [sys.executable, "-c", MANY, str(layers.workspace)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        keeper = int(server.stdout.readline())
        assert len(folders_of(server.pid)) == 4
        server.kill()
    until(lambda: not alive(keeper))
    until(lambda: not folders_of(server.pid))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_forgotten_sandbox_is_dropped(layers: Layers, backend: str) -> None:
    async def play() -> None:
        sandbox = await open_sandbox(layers, SMALL, backend)
        keeper = keeper_pid(backend)
        assert keeper is not None
        before = len(cgroups_of(keeper))
        del sandbox
        if before:
            until(lambda: len(cgroups_of(keeper)) < before)

    asyncio.run(play())


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_sandbox_outlives_its_event_loop(layers: Layers, backend: str) -> None:
    sandbox = asyncio.run(open_sandbox(layers, SMALL, backend))
    for number in range(3):
        result = asyncio.run(sandbox.exec(f"echo {number}"))
        assert result.output == f"{number}\n".encode()
    asyncio.run(sandbox.close())


def test_a_forked_worker_has_its_own_keeper(layers: Layers) -> None:
    async def play() -> int:
        sandbox = await open_sandbox(layers, SMALL, "bubblewrap")
        assert (await sandbox.exec("echo ok")).output == b"ok\n"
        await sandbox.close()
        return keeper_pid("bubblewrap") or 0

    inherited = asyncio.run(open_sandbox(layers, SMALL, "bubblewrap"))
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            try:
                asyncio.run(inherited.exec("true"))
            except SandboxError as error:
                assert "parent process" in str(error)
            os.write(writer, str(asyncio.run(play())).encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(writer)
    theirs = int(os.read(reader, 100))
    os.close(reader)
    assert asyncio.run(inherited.exec("echo still")).output == b"still\n"
    asyncio.run(inherited.close())
    assert theirs and theirs != keeper_pid("bubblewrap")
    until(lambda: not alive(theirs))


def test_stale_folders_may_be_removed_by_many_at_once(layers: Layers) -> None:
    stale = [Path(tempfile.mkdtemp(prefix=f"etude-99999999{number}-1-")) for number in range(10)]

    async def main() -> None:
        sandboxes = await asyncio.gather(*(open_sandbox(layers, backend="process") for _ in range(8)))
        for sandbox in sandboxes:
            await sandbox.close()

    asyncio.run(main())
    assert not any(folder.exists() for folder in stale)


def test_a_stale_folder_is_removed_at_the_next_start(layers: Layers) -> None:
    stale = Path(tempfile.mkdtemp(prefix="etude-999999999-1-"))
    (stale / "locked" / "inner").mkdir(parents=True)
    (stale / "locked").chmod(0)
    sandbox = asyncio.run(open_sandbox(layers, SMALL, "process"))
    asyncio.run(sandbox.close())
    assert not stale.exists()


def test_the_keeper_cannot_be_looked_into(layers: Layers) -> None:
    sandbox = asyncio.run(open_sandbox(layers, SMALL, "bubblewrap"))
    keeper = keeper_pid("bubblewrap")
    assert Path(f"/proc/{keeper}/environ").read_bytes() == b"LC_ALL=C.UTF-8\0" or os.geteuid()
    assert Path(f"/proc/{keeper}/environ").stat().st_uid == 0
    asyncio.run(sandbox.close())


def test_sixty_four_sandboxes_share_one_keeper(layers: Layers) -> None:
    async def one(number: int) -> bytes:
        sandbox = await open_sandbox(layers, SMALL, "bubblewrap")
        try:
            await sandbox.exec(f"echo {number} >mine")
            return (await sandbox.exec("cat mine; ls | wc -l")).output
        finally:
            await sandbox.close()

    async def play() -> list[bytes]:
        return await asyncio.gather(*(one(number) for number in range(64)))

    assert asyncio.run(play()) == [f"{number}\n11\n".encode() for number in range(64)]
