"""Conformance: commands, their results, time, and the life of a sandbox."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

from ....errors import SandboxError
from ..registry import open_sandbox
from .check_kit import SMALL, Opener, check, output_of


@check()
async def runs_a_string_in_bash_and_a_list_as_it_is(opened: Opener) -> None:
    async with opened() as sandbox:
        assert await output_of(sandbox, "echo ${BASH_VERSION:+bash}") == "bash"
        assert (await sandbox.exec(["echo", "$HOME;", "a b"])).output == b"$HOME; a b\n"


@check()
async def reports_exit_codes_signals_and_missing_commands(opened: Opener) -> None:
    async with opened() as sandbox:
        assert (await sandbox.exec("exit 7")).exit_code == 7
        assert (await sandbox.exec("kill -TERM $$")).exit_code == 128 + 15
        missing = await sandbox.exec(["no-such-command"])
        assert missing.exit_code == 127 and b"no-such-command" in missing.output
        assert (await sandbox.exec(["/etc/passwd"])).exit_code == 126
        assert (await sandbox.exec("true", cwd="/no/such/folder")).exit_code == 126


@check()
async def refuses_impossible_commands_as_results(opened: Opener) -> None:
    async with opened() as sandbox:
        assert (await sandbox.exec("echo a\0b")).exit_code == 126
        assert (await sandbox.exec(["echo", "x" * (1 << 20)])).exit_code == 126
        assert (await sandbox.exec("echo \ud800")).exit_code == 0
        assert await output_of(sandbox, "echo still here") == "still here"


@check()
async def merges_stdout_and_stderr_in_order(opened: Opener) -> None:
    async with opened() as sandbox:
        assert await output_of(sandbox, "echo 1; echo 2 >&2; echo 3") == "1\n2\n3"


@check()
async def keeps_bytes_that_are_not_utf8(opened: Opener) -> None:
    async with opened() as sandbox:
        assert (await sandbox.exec(r"printf '\xff\x00\xfe'")).output == b"\xff\x00\xfe"


@check()
async def closes_stdin_and_feeds_bytes_when_given(opened: Opener) -> None:
    async with opened() as sandbox:
        assert (await sandbox.exec("cat", timeout_s=10)).output == b""
        data = bytes(range(256)) * 2000
        assert (await sandbox.exec("cat", stdin=data)).output == data


@check()
async def sets_environment_and_working_folder(opened: Opener) -> None:
    async with opened() as sandbox:
        await sandbox.write("sub/file", b"")
        result = await sandbox.exec("echo $A; ls", env={"A": "x y='\n"}, cwd="/workspace/sub")
        assert result.output == b"x y='\nfile\n", result
        assert await output_of(sandbox, "pwd") == "/workspace"


@check()
async def caps_a_flood_with_head_tail_and_count(opened: Opener) -> None:
    async with opened() as sandbox:
        result = await sandbox.exec("echo first; head -c 8000000 /dev/zero; echo last", output_limit=1000)
        assert len(result.output) == 1000 and result.dropped == 8_000_000 + 11 - 1000
        assert result.output.startswith(b"first\n") and result.output.endswith(b"last\n")
        flood = await sandbox.exec("yes", timeout_s=0.5, output_limit=1000)
        assert flood.timed_out and len(flood.output) == 1000 and flood.dropped > 0
        assert await output_of(sandbox, "echo ok") == "ok"


@check()
async def carries_a_private_channel(opened: Opener) -> None:
    async with opened() as sandbox:
        result = await sandbox.exec("echo public; printf '\\0secret' >&$ETUDE_CHANNEL", channel=True)
        assert (result.output, result.channel) == (b"public\n", b"\0secret")
        flood = await sandbox.exec("head -c 3000000 /dev/zero >&3; echo done", channel=True, channel_limit=500)
        assert flood.output == b"done\n" and flood.channel == bytes(500)


# Time

_UNTIL_DONE = "until [ -e /tmp/done ]; do sleep 0.05; done"


@check()
async def a_timeout_kills_the_whole_tree(opened: Opener) -> None:
    async with opened() as sandbox:
        late = "(setsid sh -c 'sleep 1.5; touch /workspace/late' &); trap '' TERM; sleep 60 & wait"
        result = await sandbox.exec(late, timeout_s=0.5)
        assert result.timed_out and result.exit_code is None and result.seconds < 10
        assert await output_of(sandbox, "sleep 1.6; ls /workspace/late 2>/dev/null || echo none") == "none"


@check()
async def a_background_child_does_not_delay_the_return(opened: Opener) -> None:
    async with opened() as sandbox:
        result = await sandbox.exec("sleep 60 & (setsid sleep 60 &) ; echo hi")
        assert result.exit_code == 0 and result.output == b"hi\n" and result.seconds < 15


@check()
async def everything_is_dead_on_return(opened: Opener) -> None:
    async with opened() as sandbox:
        await sandbox.exec("(setsid sh -c 'while :; do date +%N >/workspace/beat; done' &); sleep 0.2")
        first = await sandbox.read("beat")
        assert await sandbox.read("beat") == first


@check()
async def is_usable_after_a_cancelled_call(opened: Opener) -> None:
    async with opened() as sandbox:
        task = asyncio.ensure_future(sandbox.exec("echo started; sleep 60"))
        done, _ = await asyncio.wait([task], timeout=0.3)
        assert not done
        task.cancel()
        try:
            await task
            raise AssertionError("not cancelled")
        except asyncio.CancelledError:
            pass
        assert await output_of(sandbox, "echo ok") == "ok"


_BUSY = "while :; do :; done"


@check()
async def stops_a_busy_command_at_its_cpu_limit_beside_busy_neighbours(opened: Opener) -> None:
    async with opened() as sandbox, opened() as one, opened() as other:
        neighbours = [asyncio.ensure_future(box.exec(_BUSY, timeout_s=60)) for box in (one, other)]
        result = await sandbox.exec(_BUSY, timeout_s=60, cpu_s=0.5)
        for neighbour in neighbours:
            neighbour.cancel()
        await asyncio.wait(neighbours)
        assert result.timed_out and result.exit_code is None, result
        assert 0.4 < result.cpu_seconds < 5 and result.seconds < 60, result


@check()
async def counts_the_cpu_time_of_descendants(opened: Opener) -> None:
    burn = "/usr/bin/python3 -ISc 'import time\nwhile time.process_time() < 0.3: pass'"
    async with opened() as sandbox:
        result = await sandbox.exec(f'{burn}; (setsid sh -c "{burn}; touch /tmp/done" &); {_UNTIL_DONE}')
        assert result.exit_code == 0 and result.cpu_seconds >= 0.5, result
        detached = await sandbox.exec(f"(setsid sh -c '{_BUSY}' &); sleep 60", timeout_s=60, cpu_s=0.3)
        assert detached.timed_out and detached.seconds < 60, detached


@check()
async def stops_a_sleeping_command_at_its_idle_limit(opened: Opener) -> None:
    async with opened() as sandbox:
        result = await sandbox.exec("sleep 60", timeout_s=60, idle_s=0.5)
        assert result.timed_out and result.exit_code is None, result
        assert 0.5 <= result.seconds < 60 and result.cpu_seconds < 0.5, result


@check()
async def lets_a_working_command_finish_below_its_limits(opened: Opener) -> None:
    async with opened() as sandbox:
        result = await sandbox.exec("for _ in $(seq 30); do /bin/true; done; echo ok", cpu_s=30, idle_s=10)
        assert (result.exit_code, result.output, result.timed_out) == (0, b"ok\n", False), result
        assert 0 < result.cpu_seconds < 30, result


# The episode


@check()
async def keeps_files_within_an_episode_and_drops_them_at_reset(opened: Opener) -> None:
    async with opened() as sandbox:
        await output_of(sandbox, "echo 1 >/tmp/t; echo 2 >w; rm kept; chmod 700 /tmp")
        assert await output_of(sandbox, "cat /tmp/t w") == "1\n2"
        await sandbox.reset()
        assert await output_of(sandbox, "ls -A /tmp; cat kept; ls w 2>/dev/null || true") == "kept"
        assert (opened.layers.workspace / "kept").read_text() == "kept\n"


@check()
async def close_is_idempotent_and_final(opened: Opener) -> None:
    sandbox = await open_sandbox(opened.layers, SMALL, opened.backend)
    await sandbox.close()
    await sandbox.close()
    for call in (sandbox.exec("true"), sandbox.read("kept"), sandbox.reset(), sandbox.changes()):
        try:
            await call
            raise AssertionError("worked after close")
        except SandboxError as error:
            assert "closed" in str(error)


@check()
async def close_ends_a_running_call(opened: Opener) -> None:
    async with opened() as sandbox:
        task = asyncio.ensure_future(sandbox.exec("sleep 60"))
        await asyncio.wait([task], timeout=0.3)
        await sandbox.close()
        try:
            await asyncio.wait_for(task, 10)
            raise AssertionError("returned")
        except SandboxError:
            pass


@check()
async def refuses_a_second_call_at_once(opened: Opener) -> None:
    async with opened() as sandbox:
        first = asyncio.ensure_future(sandbox.exec("sleep 0.3; echo one"))
        await asyncio.wait([first], timeout=0.05)
        try:
            await sandbox.exec("echo two")
            raise AssertionError("ran")
        except SandboxError as error:
            assert "busy" in str(error)
        assert (await first).output == b"one\n"


@check()
async def runs_sandboxes_side_by_side(opened: Opener) -> None:
    async def one(number: int) -> float:
        async with opened(replace(SMALL, timeout_s=30)) as sandbox:
            await sandbox.write("n", str(number).encode())
            started = time.monotonic()
            assert await output_of(sandbox, "sleep 1; cat n") == str(number)
            return time.monotonic() - started

    started = time.monotonic()
    await asyncio.gather(*(one(number) for number in range(12)))
    assert time.monotonic() - started < 11, "one after the other"


@check()
async def a_wrong_request_is_an_infrastructure_error(opened: Opener) -> None:
    layers = replace(opened.layers, binds={"/opt/etude/env": Path("/no/such/folder")}, unmapped={})
    try:
        await (await open_sandbox(layers, SMALL, opened.backend)).close()
        raise AssertionError("opened")
    except (SandboxError, FileNotFoundError) as error:
        assert "/no/such/folder" in str(error)
