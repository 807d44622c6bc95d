"""The verdicts of the escape suite: for one backend, and for a plain subprocess."""

from __future__ import annotations

import errno
import importlib
import json
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from .....errors import SandboxError
from ...module_texts import LOADER, module_texts
from ...protocol import MIB, Layers
from ..checking import Opener, make_layers
from . import outside
from .host import Host, prepared_host
from .inside.calls import attempts_in
from .naive import Box, NaiveBox

_INSIDE = ("network", "processes", "files", "rights", "settings")
_HERE = "conformance.escapes.inside"
_SHARED = ("kernel.linux", "kernel.seccomp", f"{_HERE}.calls")
_BOOT = f"""
{LOADER}
import json
job = json.load(sys.stdin)
load(job["modules"])
sys.modules[job["runner"]].run(job)
"""
ABSENT = "absent"
_ALONE = ("writes_a_file_of_the_host",)
_OUTPUT = 16 * MIB
_ABSENT_CODES = {errno.ENOENT, errno.ENOSYS, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ENODEV, errno.EOPNOTSUPP}


INSIDE: dict[str, str] = {
    name: module
    for module in _INSIDE
    for name in attempts_in(importlib.import_module(f".inside.{module}", __package__))
}
"""The module of every attempt that a command makes on its own, by its name."""
OUTSIDE: dict[str, outside.Attempt] = attempts_in(outside)
"""Every attempt in which the server takes part, by its name."""
ESCAPES = (*INSIDE, *OUTSIDE)
"""The names of all attempts."""

GAPS: dict[str, str] = {
    "reads_the_table_of_interfaces": "loopback",
    "reads_the_table_of_listeners": "loopback",
    "reads_the_table_of_unix_sockets": "loopback",
    "reads_the_settings_of_an_interface": "file-metadata",
    "sees_a_process_of_the_host": "process-list",
    "reads_the_command_lines_of_others": "process-list",
    "reads_the_locks_of_the_host": "process-list",
    "reads_how_the_kernel_was_started": "machine-facts",
    "reads_the_version_of_the_kernel": "machine-facts",
    "reads_the_load_of_the_host": "machine-facts",
    "reads_the_counters_of_the_disks": "machine-facts",
    "reads_which_boot_this_is": "machine-facts",
    "reads_the_name_of_the_host": "machine-facts",
    "reads_the_settings_of_devices": "machine-facts",
    "reads_where_its_files_lie_on_the_host": "bind-paths",
}
"""The guarantee that stops an attempt, where a backend may lack it."""
MACHINE_DEPENDENT = frozenset(
    "opens_a_crypto_socket opens_a_socket_to_the_hypervisor connects_to_a_container_engine "
    "connects_to_a_listener_over_ipv6 lists_the_interfaces_of_the_host reads_the_table_of_interfaces "
    "reads_the_settings_of_an_interface lowers_the_limits_of_another reads_the_disk_of_the_host loads_a_kernel_module "
    "reaches_the_ports_of_the_machine raises_its_limits lowers_its_place_for_the_memory_killer "
    "asks_the_kernel_for_an_emergency registers_a_program_format sets_a_helper_of_the_kernel "
    "opens_a_device_of_the_host sets_a_release_agent reads_the_settings_of_devices counts_events_of_the_processor "
    "types_into_a_terminal".split()
)
"""The attempts whose aim some machines lack, or keep even from their root; every other one works without a sandbox."""


async def _make_inside(names: Sequence[str], box: Box, host: Host) -> dict[str, str]:
    """Make attempts in one command; return what each achieved, "" for nothing. ``absent`` means that its aim is."""
    modules = [*_SHARED, *dict.fromkeys(f"{_HERE}.{INSIDE[name]}" for name in names)]
    job = {
        "modules": module_texts(modules),
        "runner": f"sandbox.{_HERE}.calls",
        "attempts": [(f"sandbox.{_HERE}.{INSIDE[name]}", name) for name in names],
        "target": host.target,
    }
    command = ["/usr/bin/python3", "-I", "-S", "-c", _BOOT]
    result = await box.exec(command, stdin=json.dumps(job).encode(), output_limit=_OUTPUT)
    lines = dict(json.loads(line) for line in result.output.splitlines() if line.startswith(b"["))
    missing = [name for name in names if name not in lines]
    if missing:
        raise SandboxError(f"the attempt {missing[0]} did not end: {result.output[-500:]!r}")
    return {name: _achieved(lines[name].encode("latin-1"), host) for name in names}


def _achieved(line: bytes, host: Host) -> str:
    kind, _, text = line.partition(b" ")
    if kind == b"did":
        return "was let in"
    if kind == b"read":
        return "read a secret of the host" if any(proof in text for proof in host.proofs) else ""
    if kind == b"refused":
        return ABSENT if int(text.split()[0]) in _ABSENT_CODES else ""
    return line.decode("utf-8", "replace")


async def make_attempts(one: Box, other: Box, host: Host, *, trusted: bool) -> AsyncIterator[tuple[str, str]]:
    """Make every attempt; yield its name and what it achieved, "" for nothing, ABSENT when its aim is not there.

    Where nothing ought to get out, whatever reached the host counts against every attempt that was made meanwhile;
    a ``trusted`` box reaches it by right.
    """
    together = [name for name in INSIDE if name not in _ALONE]
    achieved = await _make_inside(together, one, host)
    deeds = "" if trusted else host.disturbance()
    for name in together:
        yield name, achieved[name] or deeds
    host.disturbance()
    for name in _ALONE:
        outcome = await _make_inside([name], one, host)
        yield name, host.disturbance() or outcome[name]
    for name, attempt in OUTSIDE.items():
        try:
            text = await attempt(one, other, host)
        except (OSError, ValueError, SandboxError) as error:
            text = f"broke {error!r}"
        yield name, text
        await one.reset()
        await other.reset()


@asynccontextmanager
async def _prepared() -> AsyncIterator[tuple[Host, Layers]]:
    with tempfile.TemporaryDirectory(prefix="etude-escape-") as folder, prepared_host(Path(folder)) as host:
        # The path of the layers holds the secret, as a cache's path holds a digest.
        named = Path(folder, host.proofs[0].decode())
        named.mkdir()
        named.chmod(0o755)
        yield host, make_layers(named)


async def run_escapes(backend: str) -> dict[str, str]:
    """Make every attempt on a backend and return ``ok``, ``excused: LABEL`` or ``failed: what it achieved``."""
    verdicts = {}
    async with _prepared() as (host, layers):
        opened = Opener(backend, layers)
        async with opened() as one, opened() as other:
            async for name, result in make_attempts(one, other, host, trusted=False):
                achieved = "" if result == ABSENT else result
                if achieved and GAPS.get(name) in one.report.lacks:
                    verdicts[name] = f"excused: {GAPS[name]}"
                else:
                    verdicts[name] = f"failed: {achieved}" if achieved else "ok"
    return verdicts


async def run_natively() -> dict[str, str]:
    """Make every attempt without a sandbox and return ``works: what it achieved``, ``absent`` or ``refused``.

    ``absent`` means that this machine lacks what the attempt aims at.
    """
    async with _prepared() as (host, layers):
        one, other = (NaiveBox(layers.workspace.parent / name, layers, host.inherited) for name in ("one", "other"))
        results = {name: result async for name, result in make_attempts(one, other, host, trusted=True)}
    return {name: _native_verdict(result) for name, result in results.items()}


def _native_verdict(result: str) -> str:
    if result in ("", ABSENT):
        return result or "refused"
    return result if result.startswith("broke") else f"works: {result}"
