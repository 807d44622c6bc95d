"""Checks of isolation: what a command can see, reach and do."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

from ..protocol import SANDBOX_UID, Sandbox
from .checking import CANARY, Opener, assert_fails, needs, output_of, python

# What is visible


async def shows_nothing_of_the_hosts_environment(opened: Opener) -> None:
    os.environ["ETUDE_TEST_CANARY"] = CANARY
    async with opened() as sandbox:
        shown = await sandbox.exec("env; cat /proc/self/environ /proc/1/environ /proc/*/environ 2>/dev/null; true")
        assert CANARY.encode() not in shown.output, shown
        names = {line.split("=")[0] for line in (await output_of(sandbox, "env")).splitlines()}
        assert not names & {"LD_PRELOAD", "PYTHONPATH", "VIRTUAL_ENV", "ETUDE_TEST_CANARY", "SUDO_USER"}, names


async def inherits_no_descriptor(sandbox: Sandbox) -> None:
    listing = "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd')))"
    assert (await sandbox.exec(python(listing))).output in (b"[0, 1, 2, 3]\n", b"[0, 1, 2]\n")


@needs("process-list")
async def sees_no_process_of_the_host(sandbox: Sandbox) -> None:
    pids = (await output_of(sandbox, "echo /proc/[0-9]*")).split()
    assert len(pids) <= 4, pids


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
                await assert_fails(sandbox, f"cat {path}")
            await assert_fails(sandbox, f"ln -s {secret} link; cat link")


async def hides_installed_python_packages(sandbox: Sandbox) -> None:
    places = "/usr/lib/python3*/dist-packages /usr/lib/python3*/site-packages /usr/share/python-wheels"
    count = await output_of(sandbox, f"find {places} -type f -exec cat {{}} + 2>/dev/null | wc -c")
    assert count == "0", count
    # Other programs of a host bring whole packages; what is shown of /usr has none.
    metadata = "-name '*.dist-info' -o -name '*.egg-info' -o -name third_party -o -name node_modules"
    assert await output_of(sandbox, f"find -L /usr \\( {metadata} \\) 2>/dev/null; true") == ""


@needs("mount-view")
async def keeps_the_base_read_only(sandbox: Sandbox) -> None:
    for path in ("/usr/x", "/etc/x", "/x", "/dev/x", "/proc/sys/kernel/hostname"):
        result = await sandbox.exec(f"echo x >{path}")
        assert result.exit_code not in (0, None), (path, result)


async def cannot_write_outside_its_folders(sandbox: Sandbox) -> None:
    for path in ("/usr/x", "/etc/passwd", "/x", "/usr/bin/env", "/var/x", f"/proc/{os.getpid()}/mem"):
        await assert_fails(sandbox, f"echo x >>{path}")


async def has_the_binds_read_only(sandbox: Sandbox) -> None:
    assert await output_of(sandbox, "cat /opt/etude/env/marker") == "from the bind"
    await assert_fails(sandbox, "echo x >/opt/etude/env/marker")
    await assert_fails(sandbox, "touch /opt/etude/env/new")


@needs("shared-memory")
async def has_private_shared_memory(one: Sandbox, other: Sandbox) -> None:
    await output_of(one, "echo x >/dev/shm/x")
    assert await output_of(other, "ls /dev/shm") == ""


async def sees_nothing_of_another_sandbox(one: Sandbox, other: Sandbox) -> None:
    await one.write("/workspace/private", CANARY.encode())
    await one.write("/tmp/private", CANARY.encode())
    shown = await other.exec("cat /workspace/private /tmp/private; ls /workspace /tmp")
    assert CANARY.encode() not in shown.output and b"private\n" not in shown.output, shown


# Rights


async def runs_as_the_fixed_user(sandbox: Sandbox) -> None:
    uid = int(await output_of(sandbox, "id -u"))
    assert uid == (SANDBOX_UID if "mount-view" not in sandbox.report.lacks or os.geteuid() == 0 else os.geteuid())


async def has_no_capability_and_gains_none(sandbox: Sandbox) -> None:
    status = dict(line.split(":\t", 1) for line in (await output_of(sandbox, "cat /proc/self/status")).splitlines())
    assert {status[f"Cap{name}"] for name in ("Inh", "Prm", "Eff", "Amb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    uids = await output_of(sandbox, "cp /usr/bin/id /tmp/id; chmod 4755 /tmp/id; /tmp/id -u 2>/dev/null; id -u")
    assert len(set(uids.split())) == 1


async def denies_dangerous_system_calls(sandbox: Sandbox) -> None:
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
    code = "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\nx86 = os.uname().machine == 'x86_64'\n"
    for name, call in probes.items():
        code += f"ctypes.set_errno(0); print('{name}', {call}, ctypes.get_errno())\n"
    result = await sandbox.exec(python(code))
    assert result.output.decode().splitlines() == [f"{name} -1 1" for name in probes], result


async def allows_what_programs_need(sandbox: Sandbox) -> None:
    code = (
        "import asyncio, os, subprocess, threading, tempfile\n"
        "t = threading.Thread(target=print, args=('thread',), kwargs={'flush': True}); t.start(); t.join()\n"
        "print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout, end='', flush=True)\n"
        "print(asyncio.run(asyncio.sleep(0, 'loop')))\n"
        "with tempfile.TemporaryFile() as f: print(f.write(b'file'))\n"
        "os.symlink('a', 'link'); os.link('kept', 'hard'); os.mkfifo('fifo')\n"
        "os.mkdir('d'); os.rename('d', 'e'); os.chmod('e', 0o700); print(os.getcwd().count('workspace'))\n"
    )
    result = await sandbox.exec(python(code))
    assert result.output == b"thread\nchild\nloop\n4\n1\n", result


async def has_no_network(opened: Opener) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        async with opened() as sandbox:
            await assert_fails(sandbox, f"exec 5<>/dev/tcp/127.0.0.1/{port}")
            code = (
                "import socket\n"
                "for family in (2, 10, 17, 38, 40):\n"
                "  try:\n"
                "    s = socket.socket(family, 3 if family == 17 else 1); s.settimeout(2)\n"
                "    s.connect(('192.0.2.1', 80)); print('reached', family)\n"
                "  except OSError: pass\n"
            )
            result = await sandbox.exec(python(code))
            assert result.exit_code == 0 and result.output == b"", result
        listener.setblocking(False)
        try:
            listener.accept()
            raise AssertionError("the host was reached")
        except BlockingIOError:
            pass


@needs("loopback")
async def has_a_private_loopback(sandbox: Sandbox) -> None:
    code = (
        "import socket\ns = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname())\n"
        "s.accept()[0].send(b'x'); print(c.recv(1))\n"
        "print(len(open('/proc/net/route').readlines()) <= 1)"
    )
    assert (await sandbox.exec(python(code))).output == b"b'x'\nTrue\n"


@needs("signal-isolation")
async def cannot_signal_the_server(sandbox: Sandbox) -> None:
    await assert_fails(sandbox, f"kill -0 {os.getpid()}")
