"""What every sandbox backend must do: named checks, one behaviour each, run by the tests and by ``etude sandbox check``.

A check may name the guarantee that it needs; a backend that lists it in ``report.lacks`` is excused, and says so.
``python -m etude.environments.sandbox.conformance BACKEND`` runs all and prints JSON: name to ``ok``, ``excused: ...``
or ``failed: ...``.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from . import MIB, SANDBOX_UID, Layers, Limits, Sandbox, SandboxError
from .opening import open_sandbox

SMALL = Limits(memory=256 * MIB, disk=16 * MIB, files=2000, processes=40, timeout_s=20.0)
CANARY = "etude-canary-7f3a"


@dataclass(frozen=True)
class Opener:
    """Opens sandboxes of one backend over one small workspace."""

    backend: str
    layers: Layers

    @asynccontextmanager
    async def __call__(self, limits: Limits = SMALL) -> AsyncIterator[Sandbox]:
        sandbox = await open_sandbox(self.layers, limits, self.backend)
        try:
            yield sandbox
        finally:
            await sandbox.close()


Check = Callable[[Opener], Awaitable[None]]
CHECKS: dict[str, Check] = {}
NEEDS: dict[str, str] = {}


def check(needs: str = "") -> Callable[[Check], Check]:
    def register(function: Check) -> Check:
        name = function.__name__
        CHECKS[name] = function
        if needs:
            NEEDS[name] = needs
        return function

    return register


async def _output(sandbox: Sandbox, command: str) -> str:
    """A command's output, asserting that it worked."""
    result = await sandbox.exec(command)
    assert result.exit_code == 0, (command, result)
    return result.output.decode().strip()


async def _refused(sandbox: Sandbox, command: str) -> None:
    """Assert that a command fails by itself, and quickly."""
    result = await sandbox.exec(command, timeout_s=10)
    assert result.exit_code not in (0, None, 127), (command, result)


def _python(code: str) -> list[str]:
    return ["/usr/bin/python3", "-I", "-S", "-c", code]


# Commands and their results


@check()
async def runs_a_string_in_bash_and_a_list_as_it_is(opened: Opener) -> None:
    async with opened() as sandbox:
        assert await _output(sandbox, "echo ${BASH_VERSION:+bash}") == "bash"
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
        assert await _output(sandbox, "echo still here") == "still here"


@check()
async def merges_stdout_and_stderr_in_order(opened: Opener) -> None:
    async with opened() as sandbox:
        assert await _output(sandbox, "echo 1; echo 2 >&2; echo 3") == "1\n2\n3"


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
        assert await _output(sandbox, "pwd") == "/workspace"


@check()
async def caps_a_flood_with_head_tail_and_count(opened: Opener) -> None:
    async with opened() as sandbox:
        result = await sandbox.exec("echo first; head -c 8000000 /dev/zero; echo last", output_limit=1000)
        assert len(result.output) == 1000 and result.dropped == 8_000_000 + 11 - 1000
        assert result.output.startswith(b"first\n") and result.output.endswith(b"last\n")
        flood = await sandbox.exec("yes", timeout_s=0.5, output_limit=1000)
        assert flood.timed_out and len(flood.output) == 1000 and flood.dropped > 0
        assert await _output(sandbox, "echo ok") == "ok"


@check()
async def carries_a_private_channel(opened: Opener) -> None:
    async with opened() as sandbox:
        result = await sandbox.exec("echo public; printf '\\0secret' >&$ETUDE_CHANNEL", channel=True)
        assert (result.output, result.channel) == (b"public\n", b"\0secret")
        flood = await sandbox.exec("head -c 3000000 /dev/zero >&3; echo done", channel=True, channel_limit=500)
        assert flood.output == b"done\n" and flood.channel == bytes(500)


# Time


@check()
async def a_timeout_kills_the_whole_tree(opened: Opener) -> None:
    async with opened() as sandbox:
        late = "(setsid sh -c 'sleep 1.5; touch /workspace/late' &); trap '' TERM; sleep 60 & wait"
        result = await sandbox.exec(late, timeout_s=0.5)
        assert result.timed_out and result.exit_code is None and result.seconds < 10
        assert await _output(sandbox, "sleep 1.6; ls /workspace/late 2>/dev/null || echo none") == "none"


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
        assert await _output(sandbox, "echo ok") == "ok"


# What is visible


@check()
async def shows_nothing_of_the_hosts_environment(opened: Opener) -> None:
    os.environ["ETUDE_TEST_CANARY"] = CANARY
    async with opened() as sandbox:
        found = await sandbox.exec("env; cat /proc/self/environ /proc/1/environ /proc/*/environ 2>/dev/null; true")
        assert CANARY.encode() not in found.output, found
        names = {line.split("=")[0] for line in (await _output(sandbox, "env")).splitlines()}
        assert not names & {"LD_PRELOAD", "PYTHONPATH", "VIRTUAL_ENV", "ETUDE_TEST_CANARY", "SUDO_USER"}, names


@check()
async def inherits_no_descriptor(opened: Opener) -> None:
    async with opened() as sandbox:
        listing = "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd')))"
        assert (await sandbox.exec(_python(listing))).output in (b"[0, 1, 2, 3]\n", b"[0, 1, 2]\n")


@check("process-list")
async def sees_no_process_of_the_host(opened: Opener) -> None:
    async with opened() as sandbox:
        pids = (await _output(sandbox, "echo /proc/[0-9]*")).split()
        assert len(pids) <= 4, pids


@check()
async def reads_nothing_of_the_host_but_the_base(opened: Opener) -> None:
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder, "secret")
        secret.write_text(CANARY)
        Path(folder).chmod(0o755)
        async with opened() as sandbox:
            for path in (
                str(secret),
                "/etc/shadow",
                f"/proc/{os.getpid()}/environ",
                f"/proc/{os.getpid()}/root/etc/shadow",
            ):
                await _refused(sandbox, f"cat {path}")
            await _refused(sandbox, f"ln -s {secret} link; cat link")


@check()
async def hides_installed_python_packages(opened: Opener) -> None:
    async with opened() as sandbox:
        places = "/usr/lib/python3*/dist-packages /usr/lib/python3*/site-packages /usr/share/python-wheels"
        count = await _output(sandbox, f"find {places} -type f -exec cat {{}} + 2>/dev/null | wc -c")
        assert count == "0", count


@check("mount-view")
async def keeps_the_base_read_only(opened: Opener) -> None:
    async with opened() as sandbox:
        for path in ("/usr/x", "/etc/x", "/x", "/dev/x", "/proc/sys/kernel/hostname"):
            result = await sandbox.exec(f"echo x >{path}")
            assert result.exit_code not in (0, None), (path, result)


@check()
async def cannot_write_outside_its_folders(opened: Opener) -> None:
    async with opened() as sandbox:
        for path in ("/usr/x", "/etc/passwd", "/x", "/usr/bin/env", "/var/x", f"/proc/{os.getpid()}/mem"):
            await _refused(sandbox, f"echo x >>{path}")


@check()
async def has_the_binds_read_only(opened: Opener) -> None:
    async with opened() as sandbox:
        assert await _output(sandbox, "cat /opt/etude/env/marker") == "from the bind"
        await _refused(sandbox, "echo x >/opt/etude/env/marker")
        await _refused(sandbox, "touch /opt/etude/env/new")


@check("shared-memory")
async def has_private_shared_memory(opened: Opener) -> None:
    async with opened() as one, opened() as other:
        await _output(one, "echo x >/dev/shm/x")
        assert await _output(other, "ls /dev/shm") == ""


@check()
async def sees_nothing_of_another_sandbox(opened: Opener) -> None:
    async with opened() as one, opened() as other:
        await one.write("/workspace/mine", CANARY.encode())
        await one.write("/tmp/mine", CANARY.encode())
        found = await other.exec("cat /workspace/mine /tmp/mine; ls /workspace /tmp")
        assert CANARY.encode() not in found.output and b"mine\n" not in found.output, found


# Rights


@check()
async def runs_as_the_fixed_user(opened: Opener) -> None:
    async with opened() as sandbox:
        uid = int(await _output(sandbox, "id -u"))
        assert uid == (SANDBOX_UID if "mount-view" not in sandbox.report.lacks or os.geteuid() == 0 else os.geteuid())


@check()
async def has_no_capability_and_gains_none(opened: Opener) -> None:
    async with opened() as sandbox:
        status = dict(line.split(":\t", 1) for line in (await _output(sandbox, "cat /proc/self/status")).splitlines())
        assert {status[f"Cap{name}"] for name in ("Inh", "Prm", "Eff", "Amb")} == {"0" * 16}
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
        uids = await _output(sandbox, "cp /usr/bin/id /tmp/id; chmod 4755 /tmp/id; /tmp/id -u; id -u")
        assert len(set(uids.split())) == 1


@check()
async def denies_dangerous_system_calls(opened: Opener) -> None:
    probes = {
        "unshare": "libc.unshare(0x10000000)",
        "mount": "libc.mount(b'none', b'/tmp', b'tmpfs', 0, None)",
        "ptrace": "libc.ptrace(0, 0, 0, 0)",
        "setns": "libc.setns(0, 0)",
        "keyctl": "libc.syscall(250 if x86 else 219, 0, -3, 1)",
        "bpf": "libc.syscall(321 if x86 else 280, 0, 0, 0)",
        "io_uring": "libc.syscall(425, 1, 0)",
        "userfaultfd": "libc.syscall(323 if x86 else 282, 0)",
        "open_tree": "libc.syscall(428, -100, b'/', 1)",
        "clone": "libc.syscall(56 if x86 else 220, 0x10000011, 0, 0, 0, 0)",
        "injection": "libc.ioctl(0, 0x5412, b'x')",
    }
    async with opened() as sandbox:
        code = "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\nx86 = os.uname().machine == 'x86_64'\n"
        for name, call in probes.items():
            code += f"ctypes.set_errno(0); print('{name}', {call}, ctypes.get_errno())\n"
        result = await sandbox.exec(_python(code))
        assert result.output.decode().splitlines() == [f"{name} -1 1" for name in probes], result


@check()
async def allows_what_programs_need(opened: Opener) -> None:
    code = (
        "import asyncio, os, subprocess, threading, tempfile\n"
        "t = threading.Thread(target=print, args=('thread',), kwargs={'flush': True}); t.start(); t.join()\n"
        "print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout, end='', flush=True)\n"
        "print(asyncio.run(asyncio.sleep(0, 'loop')))\n"
        "with tempfile.TemporaryFile() as f: print(f.write(b'file'))\n"
        "os.symlink('a', 'link'); os.link('kept', 'hard'); os.mkfifo('fifo')\n"
        "os.mkdir('d'); os.rename('d', 'e'); os.chmod('e', 0o700); print(os.getcwd().count('workspace'))\n"
    )
    async with opened() as sandbox:
        result = await sandbox.exec(_python(code))
        assert result.output == b"thread\nchild\nloop\n4\n1\n", result


@check()
async def has_no_network(opened: Opener) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        async with opened() as sandbox:
            await _refused(sandbox, f"exec 5<>/dev/tcp/127.0.0.1/{port}")
            code = "import socket\nfor family in (2, 10, 17, 38, 40):\n  try:\n    s = socket.socket(family, 3 if family == 17 else 1)\n"
            code += (
                "    s.settimeout(2); s.connect(('192.0.2.1', 80)); print('reached', family)\n  except OSError: pass\n"
            )
            result = await sandbox.exec(_python(code))
            assert result.exit_code == 0 and result.output == b"", result
        listener.setblocking(False)
        try:
            listener.accept()
            raise AssertionError("the host was reached")
        except BlockingIOError:
            pass


@check("loopback")
async def has_a_loopback_of_its_own(opened: Opener) -> None:
    code = (
        "import socket\ns = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname())\n"
        "s.accept()[0].send(b'x'); print(c.recv(1))\n"
        "print(len(open('/proc/net/route').readlines()) <= 1)"
    )
    async with opened() as sandbox:
        assert (await sandbox.exec(_python(code))).output == b"b'x'\nTrue\n"


@check("signal-isolation")
async def cannot_signal_the_server(opened: Opener) -> None:
    async with opened() as sandbox:
        await _refused(sandbox, f"kill -0 {os.getpid()}")


# Limits


@check("process-quota")
async def contains_a_fork_bomb(opened: Opener) -> None:
    bomb = "import os, time\nn = 0\ntry:\n  while True:\n    if os.fork() == 0: time.sleep(60)\n    n += 1\nexcept OSError: print(n)"
    async with opened() as sandbox:
        result = await sandbox.exec(_python(bomb))
        assert result.exit_code == 0 and 10 < int(result.output) <= SMALL.processes, result
        wild = await sandbox.exec(":(){ :|:& };:; sleep 5", timeout_s=1)
        assert wild.seconds < 15
        assert await _output(sandbox, "echo ok") == "ok"


@check()
async def contains_a_memory_bomb(opened: Opener) -> None:
    async with opened() as sandbox:
        result = await sandbox.exec(_python(f"b = bytearray({SMALL.memory * 2}); print(len(b))"))
        assert result.exit_code not in (0, None), result
        assert result.oom_killed or b"MemoryError" in result.output
        assert await _output(sandbox, "echo ok") == "ok"


@check("memory-total")
async def limits_the_sum_of_memory(opened: Opener) -> None:
    hold = f"import os\nfor _ in range(4): os.fork()\nb = bytearray({SMALL.memory // 6}); input()"
    async with opened() as sandbox:
        result = await sandbox.exec([*_python(hold)], timeout_s=5)
        assert result.oom_killed, result


@check("disk-quota")
async def survives_a_full_disk(opened: Opener) -> None:
    async with opened() as sandbox:
        for folder in ("/workspace", "/tmp", "/dev/shm"):
            full = await sandbox.exec(f"head -c {2 * SMALL.disk} /dev/zero >{folder}/big; echo $?; rm {folder}/big")
            assert full.output.endswith(b"1\n") and b"No space" in full.output, full
        many = await sandbox.exec(f"mkdir d && cd d && seq {2 * SMALL.files} | xargs touch; echo $?; rm -r ../d")
        assert b"No space" in many.output, many
        try:
            await sandbox.write("big", bytes(2 * SMALL.disk))
            raise AssertionError("written")
        except OSError as error:
            assert "No space" in str(error), error
        await sandbox.write("big", b"small")
        assert await sandbox.read("big") == b"small"


@check()
async def limits_one_file(opened: Opener) -> None:
    async with opened() as sandbox:
        result = await sandbox.exec(f"head -c {2 * SMALL.disk} /dev/zero >/workspace/big")
        assert result.exit_code not in (0, None), result


# Files


@check()
async def reads_and_writes_files(opened: Opener) -> None:
    async with opened() as sandbox:
        data = bytes(range(256)) * 3000
        await sandbox.write("deep/er/a 'b\"$(x)\n-n", data)
        assert await sandbox.read("/workspace/deep/er/a 'b\"$(x)\n-n") == data
        await sandbox.write("-rf", b"")
        assert await sandbox.read("-rf") == b""
        assert await sandbox.read("kept") == b"kept\n"
        await sandbox.write("tool.sh", b"new")
        assert await _output(sandbox, "stat -c %a tool.sh; cat tool.sh") == "755\nnew"


@check()
async def read_and_write_raise_the_right_errors(opened: Opener) -> None:
    async with opened() as sandbox:
        await _output(sandbox, "mkfifo fifo; ln -s loop loop; ln -s /dev/zero zero; mkdir dir; ln -s nowhere dangling")
        cases: list[tuple[str, type[Exception]]] = [
            ("absent", FileNotFoundError),
            ("dangling", FileNotFoundError),
            ("loop", FileNotFoundError),
            ("dir", IsADirectoryError),
            ("fifo", PermissionError),
            ("zero", PermissionError),
            ("kept", ValueError),
            ("", FileNotFoundError),
            ("a\0b", FileNotFoundError),
        ]
        for path, kind in cases:
            try:
                await sandbox.read(path, limit=2)
                raise AssertionError(f"read {path!r}")
            except kind:
                pass
        for path in ("dir", "fifo", "/usr/x", "kept/below", "/proc/x"):
            try:
                await sandbox.write(path, b"x")
                raise AssertionError(f"wrote {path!r}")
            except OSError as error:
                assert error.filename == path, error


@check()
async def read_sees_what_a_link_means_inside(opened: Opener) -> None:
    async with opened() as sandbox:
        await _output(sandbox, "ln -s /workspace/kept good; ln -s /etc/shadow bad; ln -s ../../../../etc/shadow worse")
        assert await sandbox.read("good") == b"kept\n"
        for name in ("bad", "worse"):
            try:
                await sandbox.read(name)
                raise AssertionError("read the host's file")
            except (FileNotFoundError, PermissionError):
                pass


@check()
async def reports_every_kind_of_change(opened: Opener) -> None:
    commands = (
        "echo new >new; echo edit >>edited; rm gone; touch touched; cp kept tmp; cat tmp >kept; rm tmp; "
        "ln -s /etc/shadow link; mkfifo pipe; rm -r folder; chmod +x plain; echo data >turned.tmp; rm -r turned; "
        "mv turned.tmp turned; rm flat; mkdir flat; echo in >flat/in; mkdir -p only/folders; ln new hard; mkdir -p emptied; "
        "rm -r rebuilt; mkdir rebuilt; echo b >rebuilt/b"
    )
    async with opened() as sandbox:
        assert await sandbox.changes() == []
        await _output(sandbox, commands)
        changes = {change.path: change for change in await sandbox.changes()}
        kinds = {path: change.kind for path, change in changes.items()}
        assert kinds == {
            "new": "file",
            "edited": "file",
            "gone": "deleted",
            "link": "symlink",
            "pipe": "special",
            "folder": "deleted",
            "plain": "file",
            "turned": "file",
            "flat": "deleted",
            "flat/in": "file",
            "hard": "file",
            "rebuilt/a": "deleted",
            "rebuilt/b": "file",
        }, kinds
        assert list(changes) == sorted(changes)
        assert changes["new"].content == b"new\n" and changes["new"].size == 4 and not changes["new"].executable
        assert changes["plain"].executable and changes["link"].content == b"/etc/shadow"


@check()
async def bounds_what_it_reports(opened: Opener) -> None:
    async with opened() as sandbox:
        await _output(sandbox, "head -c 5000 /dev/zero >big; truncate -s 8M sparse; echo s >small; chmod 0 small")
        changes = {change.path: change for change in await sandbox.changes(max_bytes=4096)}
        assert (changes["big"].size, changes["big"].content) == (5000, None)
        assert (changes["sparse"].size, changes["sparse"].content) == (8 * MIB, None)
        assert changes["small"].content == b"s\n"
        await _output(sandbox, "seq 30 | xargs touch")
        try:
            await sandbox.changes(max_files=20)
            raise AssertionError("not bounded")
        except ValueError as error:
            assert "20" in str(error)


@check()
async def survives_odd_names_and_deep_folders(opened: Opener) -> None:
    deep = "import os\nfor _ in range(400): os.mkdir('d' * 50); os.chdir('d' * 50)\nopen('f', 'w').close()"
    async with opened() as sandbox:
        await _output(sandbox, "printf x >$'a\\xff\\n'; mkdir locked; echo x >locked/x; chmod 0 locked")
        changes = {change.path: change.kind for change in await sandbox.changes()}
        assert changes == {"a\udcff\n": "file", "locked/x": "file"}, changes
        assert (await sandbox.exec(_python(deep))).exit_code == 0
        found = {change.kind: change.path for change in await sandbox.changes()}
        assert "special" in found and found["special"].startswith("d" * 50)
        await sandbox.reset()
        assert await sandbox.changes() == []


# The episode


@check()
async def keeps_files_within_an_episode_and_drops_them_at_reset(opened: Opener) -> None:
    async with opened() as sandbox:
        await _output(sandbox, "echo 1 >/tmp/t; echo 2 >w; rm kept; chmod 700 /tmp")
        assert await _output(sandbox, "cat /tmp/t w") == "1\n2"
        await sandbox.reset()
        assert await _output(sandbox, "ls -A /tmp; cat kept; ls w 2>/dev/null || true") == "kept"
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
            assert await _output(sandbox, "sleep 1; cat n") == str(number)
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


def make_layers(folder: Path) -> Layers:
    """The workspace and the bind that the checks expect, below ``folder``."""
    tree, bound = folder / "tree", folder / "bound"
    files = {
        "kept": "kept\n",
        "edited": "a\n",
        "gone": "g\n",
        "touched": "t\n",
        "plain": "p\n",
        "flat": "f\n",
        "folder/a/b": "b\n",
        "folder/c": "c\n",
        "turned/x": "x\n",
        "rebuilt/a": "a\n",
        "tool.sh": "#!/bin/sh\n",
    }
    for name, text in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tree / "tool.sh").chmod(0o755)
    bound.mkdir()
    (bound / "marker").write_text("from the bind\n")
    for path in (folder, bound, tree):
        path.chmod(0o755)
    if os.geteuid() == 0:
        for path in (tree, *tree.rglob("*")):
            os.chown(path, SANDBOX_UID, SANDBOX_UID)
    return Layers(tree, {"/opt/etude/env": bound})


async def run_check(name: str, opened: Opener) -> str:
    """``ok``, ``excused: LABEL`` or ``failed: why``."""
    needs = NEEDS.get(name, "")
    if needs:
        async with opened() as sandbox:
            if needs in sandbox.report.lacks:
                return f"excused: {needs}"
    try:
        await CHECKS[name](opened)
    except Exception as error:
        return f"failed: {type(error).__name__}: {error}"
    return "ok"


async def run_all(backend: str, jobs: int = 4) -> dict[str, str]:
    """Every check on one backend, ``jobs`` at a time."""
    turn = asyncio.Semaphore(jobs)

    async def run(name: str, opened: Opener) -> str:
        async with turn:
            return await run_check(name, opened)

    with tempfile.TemporaryDirectory(prefix="etude-check-") as folder:
        opened = Opener(backend, make_layers(Path(folder)))
        return dict(zip(CHECKS, await asyncio.gather(*(run(name, opened) for name in CHECKS)), strict=True))


if __name__ == "__main__":
    results = asyncio.run(run_all(sys.argv[1]))
    print(json.dumps(results, indent=1))
    sys.exit(any(result.startswith("failed") for result in results.values()))
