"""Attempts in which the server takes part: its collector, its next command, another sandbox beside.

Each returns what got through, "" when nothing did. A box is a sandbox, or a plain subprocess for comparison. The
attempts are the public functions, and the rows of the table ``ATTEMPTS``: several ways to try one thing.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shlex
import socket
import time
from collections.abc import Awaitable, Callable
from functools import partial

from .host import Host
from .naive import Box

Attempt = Callable[[Box, Box, Host], Awaitable[str]]

_PATIENCE_S = 10.0
_START_S = 60.0
_BEAT_S = 0.3
_ASK_S = 3.0
# Each ends when it finds a file, or after a while, since nothing kills it without a sandbox.
_BEAT = (
    "import os, time\nend = time.time() + 12\n"
    "while time.time() < end and not os.path.exists('halt'): open('beat', 'a').write('.'); time.sleep(0.02)"
)
_DAEMONS = {
    "session": f"setsid python3 -c {shlex.quote(_BEAT)} </dev/null >/dev/null 2>&1 &",
    "orphan": f"(trap '' HUP TERM INT; (python3 -c {shlex.quote(_BEAT)} </dev/null >/dev/null 2>&1 &) &)",
    "chain": (
        "setsid python3 -c 'import os, time\nend = time.time() + 12\n"
        'while time.time() < end and not os.path.exists("halt"):\n'
        '  if os.fork(): os._exit(0)\n  os.setsid(); open("beat", "a").write("."); time.sleep(0.01)\' '
        "</dev/null >/dev/null 2>&1 &"
    ),
}


async def _outlives(one: Box, other: Box, host: Host, *, daemon: str) -> str:
    await one.exec(f"rm -f beat; {_DAEMONS[daemon]}\nuntil [ -s beat ]; do sleep 0.01; done", timeout_s=_START_S)
    before = len(await one.read("beat"))
    await asyncio.sleep(_BEAT_S)
    after = len(await one.read("beat"))
    await one.exec("touch halt; sleep 0.3; rm halt beat")
    return f"wrote {after - before} times after its command" if after > before else ""


_SERVE = (
    "import socket\nserver = socket.create_server(('127.0.0.1', {port}))\nserver.settimeout(4)\n"
    "client = server.accept()[0]\nclient.sendall(b'forged')"
)


def _ask(port: int) -> str:
    end = time.monotonic() + _ASK_S
    while time.monotonic() < end:
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as client:
                return client.recv(100).decode()
        except OSError:
            time.sleep(0.05)
    return ""


async def serves_on_a_port_of_the_host(one: Box, other: Box, host: Host) -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serving = asyncio.ensure_future(one.exec(["/usr/bin/python3", "-I", "-S", "-c", _SERVE.format(port=port)]))
    answer = await asyncio.to_thread(_ask, port)
    await serving
    return answer


# What one sandbox leaves for another: how to leave it, and how to find it.
_LEAVE = {
    "file": ("open('/tmp/{name}', 'w').write('{text}')", "print(open('/tmp/{name}').read())"),
    "memory": ("open('/dev/shm/{name}', 'w').write('{text}')", "print(open('/dev/shm/{name}').read())"),
    "segment": (
        "import ctypes; c = ctypes.CDLL(None); c.shmat.restype = ctypes.c_void_p\n"
        "i = c.shmget({key}, 100, 0o1666); a = c.shmat(i, None, 0); ctypes.memmove(a, b'{text}', len('{text}'))",
        "import ctypes; c = ctypes.CDLL(None); c.shmat.restype = ctypes.c_void_p\n"
        "i = c.shmget({key}, 0, 0o666); assert i >= 0; a = c.shmat(i, None, 0); print(ctypes.string_at(a))",
    ),
    "queue": (
        "import ctypes, os; c = ctypes.CDLL('librt.so.1')\n"
        "q = c.mq_open(b'/{name}', os.O_RDWR | os.O_CREAT, 0o666, None)\n"
        "assert c.mq_send(q, b'{text}', len('{text}'), 0) == 0",
        "import ctypes, os; c = ctypes.CDLL('librt.so.1'); q = c.mq_open(b'/{name}', os.O_RDWR | os.O_NONBLOCK)\n"
        "b = ctypes.create_string_buffer(10000); assert c.mq_receive(q, b, 10000, None) > 0; print(b.value)",
    ),
}
_FORGET = (
    "import ctypes, os; c = ctypes.CDLL(None); i = c.shmget({key}, 0, 0o666)\nif i >= 0: c.shmctl(i, 0, None)\n"
    "ctypes.CDLL('librt.so.1').mq_unlink(b'/{name}')\n"
    "for f in ('/tmp/{name}', '/dev/shm/{name}'):\n  if os.path.exists(f): os.unlink(f)"
)


async def _passes(one: Box, other: Box, host: Host, *, way: str) -> str:
    words = {"name": f"etude-{secrets.token_hex(6)}", "text": secrets.token_hex(8), "key": secrets.randbits(30)}
    for box, code in zip((one, other), _LEAVE[way], strict=True):
        result = await box.exec(["/usr/bin/python3", "-I", "-S", "-c", code.format(**words)])
    await one.exec(["/usr/bin/python3", "-I", "-S", "-c", _FORGET.format(**words)])
    return "another sandbox read it" if str(words["text"]).encode() in result.output else ""


async def passes_a_message_over_an_abstract_socket(one: Box, other: Box, host: Host) -> str:
    name, text = secrets.token_hex(8), secrets.token_hex(8)
    serve = f"import socket\ns = socket.socket(1); s.bind('\\x00{name}'); s.listen(); s.settimeout(3)\n"
    ask = (
        "import socket, time\nend = time.time() + 3\nwhile time.time() < end:\n"
        f"  try: s = socket.socket(1); s.connect('\\x00{name}'); print(s.recv(100)); break\n"
        "  except OSError: time.sleep(0.05)"
    )
    codes = [f"{serve}s.accept()[0].send(b'{text}')", ask]
    pairs = zip((one, other), codes, strict=True)
    results = await asyncio.gather(*(box.exec(["/usr/bin/python3", "-I", "-S", "-c", code]) for box, code in pairs))
    return "another sandbox read it" if text.encode() in results[1].output else ""


# The collector


async def _collected(box: Box, host: Host, path: str) -> str:
    """Return whether the server's collector takes up the host's secret. One that hangs was caught as well."""
    data = b""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            data += b"".join(change.content or b"" for change in await box.changes() if change.kind != "symlink")
            with contextlib.suppress(OSError, ValueError):
                data += await box.read(path)
    except TimeoutError:
        return "the collector hangs"
    return "the collector took the secret" if any(proof in data for proof in host.proofs) else ""


async def _has_collected(one: Box, other: Box, host: Host, *, command: str, path: str) -> str:
    await one.exec(command.format(**host.target))
    return await _collected(one, host, path)


async def stops_the_collector_with_a_pipe(one: Box, other: Box, host: Host) -> str:
    await one.exec("mkfifo wait.py")
    reading = asyncio.ensure_future(_collected(one, host, "wait.py"))
    outcome = await reading
    # A thread that still waits for a writer would never end.
    await one.exec("exec 3<>wait.py; echo >&3", timeout_s=1)
    return outcome


async def _writes_through(one: Box, other: Box, host: Host, *, command: str, path: str) -> str:
    await one.exec(command.format(**host.target))
    try:
        await one.write(path, b"written")
    except OSError:
        return ""
    return host.disturbance()


async def _hides(one: Box, other: Box, host: Host, *, command: str, path: str) -> str:
    await one.exec(command)
    hidden = path not in {change.path for change in await one.changes()}
    return f"the change of {path} is not collected" if hidden else ""


async def survives_a_reset(one: Box, other: Box, host: Host) -> str:
    await one.exec("echo forged >/dev/shm/etude-survivor; echo forged >/tmp/etude-survivor")
    await one.reset()
    survivors = await one.exec("ls /dev/shm/etude-survivor /tmp/etude-survivor 2>/dev/null; true")
    await one.exec("rm -f /dev/shm/etude-survivor /tmp/etude-survivor")
    return "its files survived" if survivors.output else ""


ATTEMPTS: dict[str, Attempt] = {
    "outlives_its_command_in_a_session": partial(_outlives, daemon="session"),
    "outlives_its_command_as_an_orphan": partial(_outlives, daemon="orphan"),
    "outlives_its_command_in_a_chain_of_forks": partial(_outlives, daemon="chain"),
    "passes_a_message_in_a_temporary_file": partial(_passes, way="file"),
    "passes_a_message_in_shared_memory": partial(_passes, way="memory"),
    "passes_a_message_in_a_memory_segment": partial(_passes, way="segment"),
    "passes_a_message_in_a_queue": partial(_passes, way="queue"),
    "has_a_link_collected": partial(_has_collected, command="ln -s {secret} answer.py", path="answer.py"),
    "has_a_linked_folder_collected": partial(
        _has_collected, command="rm -r folder; ln -s $(dirname {secret}) folder", path="folder/secret"
    ),
    "has_a_hard_link_collected": partial(_has_collected, command="ln {secret} hard.py", path="hard.py"),
    "has_a_link_through_proc_collected": partial(
        _has_collected, command="ln -s /proc/self/root{secret} answer.py", path="answer.py"
    ),
    "has_a_link_written_through": partial(_writes_through, command="ln -s {mark} out.py", path="out.py"),
    "has_a_linked_folder_written_through": partial(
        _writes_through, command="rm -r folder; ln -s $(dirname {mark}) folder", path="folder/mark"
    ),
    "hides_a_change_behind_its_times": partial(
        _hides, command="touch -r kept times; echo KEPT >kept; touch -r times kept; rm times", path="kept"
    ),
    "hides_a_change_behind_a_device": partial(_hides, command="rm plain; mknod plain c 0 0 || true", path="plain"),
}
