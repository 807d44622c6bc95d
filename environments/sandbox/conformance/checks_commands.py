"""Checks of commands: how they are started, what they are given, and what is reported about them."""

from __future__ import annotations

from ..protocol import Sandbox
from .checking import output_of


async def runs_a_string_in_bash(sandbox: Sandbox) -> None:
    assert await output_of(sandbox, "echo ${BASH_VERSION:+bash}") == "bash"


async def runs_a_list_without_a_shell(sandbox: Sandbox) -> None:
    assert (await sandbox.exec(["echo", "$HOME;", "a b"])).output == b"$HOME; a b\n"


async def reports_exit_codes_and_signals(sandbox: Sandbox) -> None:
    assert (await sandbox.exec("exit 7")).exit_code == 7
    assert (await sandbox.exec("kill -TERM $$")).exit_code == 128 + 15


async def reports_commands_that_cannot_start(sandbox: Sandbox) -> None:
    missing = await sandbox.exec(["no-such-command"])
    assert missing.exit_code == 127 and b"no-such-command" in missing.output
    assert (await sandbox.exec(["/etc/passwd"])).exit_code == 126
    assert (await sandbox.exec("true", cwd="/no/such/folder")).exit_code == 126


async def refuses_impossible_commands_as_results(sandbox: Sandbox) -> None:
    assert (await sandbox.exec("echo a\0b")).exit_code == 126
    assert (await sandbox.exec(["echo", "x" * (1 << 20)])).exit_code == 126
    assert (await sandbox.exec("echo \ud800")).exit_code == 0
    assert await output_of(sandbox, "echo still here") == "still here"


async def merges_stdout_and_stderr_in_order(sandbox: Sandbox) -> None:
    assert await output_of(sandbox, "echo 1; echo 2 >&2; echo 3") == "1\n2\n3"


async def returns_bytes_that_are_not_utf8(sandbox: Sandbox) -> None:
    assert (await sandbox.exec(r"printf '\xff\x00\xfe'")).output == b"\xff\x00\xfe"


async def gives_an_empty_stdin_by_default(sandbox: Sandbox) -> None:
    result = await sandbox.exec("cat")
    assert (result.exit_code, result.output) == (0, b""), result


async def feeds_bytes_to_stdin(sandbox: Sandbox) -> None:
    data = bytes(range(256)) * 2000
    assert (await sandbox.exec("cat", stdin=data)).output == data


async def sets_environment_and_working_folder(sandbox: Sandbox) -> None:
    await sandbox.write("sub/file", b"")
    result = await sandbox.exec("echo $A; ls", env={"A": "x y='\n"}, cwd="/workspace/sub")
    assert result.output == b"x y='\nfile\n", result
    assert await output_of(sandbox, "pwd") == "/workspace"


async def caps_output_with_head_tail_and_count(sandbox: Sandbox) -> None:
    result = await sandbox.exec("echo first; head -c 8000000 /dev/zero; echo last", output_limit=1000)
    assert len(result.output) == 1000 and result.dropped == 8_000_000 + 11 - 1000
    assert result.output.startswith(b"first\n") and result.output.endswith(b"last\n")


async def survives_a_flood_of_output(sandbox: Sandbox) -> None:
    flood = await sandbox.exec("yes", cpu_s=0.3, output_limit=1000)
    assert flood.timed_out and len(flood.output) == 1000 and flood.dropped > 0, flood
    assert await output_of(sandbox, "echo ok") == "ok"


async def carries_a_private_channel(sandbox: Sandbox) -> None:
    result = await sandbox.exec("echo public; printf '\\0secret' >&$ETUDE_CHANNEL", channel=True)
    assert (result.output, result.channel) == (b"public\n", b"\0secret")


async def caps_the_private_channel(sandbox: Sandbox) -> None:
    flood = await sandbox.exec("head -c 3000000 /dev/zero >&3; echo done", channel=True, channel_limit=500)
    assert flood.output == b"done\n" and flood.channel == bytes(500)
