"""Checks of limits: time, CPU time, processes, memory and disk."""

from __future__ import annotations

import asyncio

from ..protocol import Sandbox
from .checking import BUSY, PATIENCE_S, SMALL, needs, output_of, python

_BURN = "/usr/bin/python3 -ISc 'import time\nwhile time.process_time() < 0.3: pass'"


async def ends_a_command_at_its_timeout(sandbox: Sandbox) -> None:
    result = await sandbox.exec("trap '' TERM; sleep 600 & wait", timeout_s=0.5)
    assert result.timed_out and result.exit_code is None and 0.5 <= result.seconds < 600, result


async def ends_a_busy_command_at_its_cpu_limit_beside_busy_neighbours(
    sandbox: Sandbox, one: Sandbox, other: Sandbox
) -> None:
    neighbours = [asyncio.ensure_future(neighbour.exec(BUSY)) for neighbour in (one, other)]
    result = await sandbox.exec(BUSY, cpu_s=0.5)
    for neighbour in neighbours:
        neighbour.cancel()
    await asyncio.wait(neighbours)
    assert result.timed_out and result.exit_code is None and result.seconds < PATIENCE_S, result
    assert 0.4 < result.cpu_seconds < 5, result


async def ends_busy_descendants_at_the_cpu_limit(sandbox: Sandbox) -> None:
    result = await sandbox.exec(f"(setsid sh -c '{BUSY}' &); sleep 600", cpu_s=0.3)
    assert result.timed_out and result.seconds < PATIENCE_S, result


async def counts_the_cpu_time_of_descendants(sandbox: Sandbox) -> None:
    detached = f'(setsid sh -c "{_BURN}; touch /tmp/done" &); until [ -e /tmp/done ]; do sleep 0.05; done'
    result = await sandbox.exec(f"{_BURN}; {detached}")
    assert result.exit_code == 0 and result.cpu_seconds >= 0.5, result


async def ends_a_sleeping_command_at_its_idle_limit(sandbox: Sandbox) -> None:
    result = await sandbox.exec("sleep 600", idle_s=0.5)
    assert result.timed_out and result.exit_code is None, result
    assert 0.5 <= result.seconds < PATIENCE_S and result.cpu_seconds < 0.5, result


async def lets_a_working_command_finish_below_its_limits(sandbox: Sandbox) -> None:
    result = await sandbox.exec("for _ in $(seq 30); do /bin/true; done; echo ok", cpu_s=30, idle_s=20)
    assert (result.exit_code, result.output, result.timed_out) == (0, b"ok\n", False), result
    assert 0 < result.cpu_seconds < 30, result


@needs("process-quota")
async def limits_the_number_of_processes(sandbox: Sandbox) -> None:
    bomb = (
        "import os, time\nn = 0\ntry:\n  while True:\n    if os.fork() == 0: time.sleep(600)\n    n += 1\n"
        "except OSError: print(n)"
    )
    result = await sandbox.exec(python(bomb))
    assert result.exit_code == 0 and 10 < int(result.output) <= SMALL.processes, result


@needs("process-quota")
async def survives_a_fork_bomb(sandbox: Sandbox) -> None:
    await sandbox.exec(":(){ :|:& };:; sleep 600", timeout_s=1)
    assert await output_of(sandbox, "echo ok") == "ok"


async def survives_a_memory_bomb(sandbox: Sandbox) -> None:
    result = await sandbox.exec(python(f"b = bytearray({SMALL.memory * 2}); print(len(b))"))
    assert result.exit_code not in (0, None), result
    assert result.oom_killed or b"MemoryError" in result.output
    assert await output_of(sandbox, "echo ok") == "ok"


@needs("memory-total")
async def limits_the_memory_of_all_processes_together(sandbox: Sandbox) -> None:
    share = SMALL.memory // 6
    hold = (
        f"import os, signal\nfor _ in range(16):\n  if os.fork() == 0:\n    b = bytearray({share})\n"
        "    signal.pause()\nos.wait()"
    )
    result = await sandbox.exec(python(hold))
    assert result.oom_killed and not result.timed_out, result


@needs("disk-quota")
async def limits_the_bytes_in_writable_folders(sandbox: Sandbox) -> None:
    for folder in ("/workspace", "/tmp", "/dev/shm"):
        full = await sandbox.exec(f"head -c {2 * SMALL.disk} /dev/zero >{folder}/big; echo $?; rm {folder}/big")
        assert full.output.endswith(b"1\n") and b"No space" in full.output, full


@needs("disk-quota")
async def limits_the_number_of_files(sandbox: Sandbox) -> None:
    many = await sandbox.exec(f"mkdir d && cd d && seq {2 * SMALL.files} | xargs touch; echo $?; rm -r ../d")
    assert b"No space" in many.output, many


@needs("disk-quota")
async def stays_usable_when_the_disk_is_full(sandbox: Sandbox) -> None:
    try:
        await sandbox.write("big", bytes(2 * SMALL.disk))
        raise AssertionError("written")
    except OSError as error:
        assert "No space" in str(error), error
    await sandbox.write("big", b"small")
    assert await sandbox.read("big") == b"small"


async def limits_the_size_of_one_file(sandbox: Sandbox) -> None:
    result = await sandbox.exec(f"head -c {2 * SMALL.disk} /dev/zero >/workspace/big")
    assert result.exit_code not in (0, None), result
