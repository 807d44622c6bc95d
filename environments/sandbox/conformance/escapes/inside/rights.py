"""Attempts to gain rights: namespaces, mounts, and system calls that reach deep into the kernel."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import socket
import struct
import termios
from pathlib import Path
from typing import TYPE_CHECKING

from .calls import Found, Target, call, contents, first, in_child

if TYPE_CHECKING:
    from .calls import Attempt

_NEWNS, _NEWCGROUP, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = (
    0x00020000,
    0x02000000,
    0x04000000,
    0x08000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
_SIGCHLD = 17
_PROCESS_KEYRING = -2
_MS_BIND = 4096
_MNT_DETACH = 2
_MAP_OF_ONE = struct.pack("=4I", 2, 4, 4, 1) + bytes(112)
_EVENT = struct.pack("=2IQ", 1, 112, 0) + bytes(96)


def makes_any_namespace(target: Target) -> Found:
    kinds = (_NEWNS, _NEWCGROUP, _NEWUTS, _NEWIPC, _NEWPID, _NEWNET)
    return first(lambda kind: in_child(lambda: call("unshare", kind)), kinds)


def _reap(pid: int) -> bool:
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return True


def clones_by_the_newer_call(target: Target) -> Found:
    arguments = struct.pack("=8Q", _NEWUSER, 0, 0, 0, _SIGCHLD, 0, 0, 0)
    return _reap(call("clone3", arguments, len(arguments)))


def _mounts(source: bytes, kind: bytes | None, flags: int) -> bool:
    """Mount something on a new folder, unmount it, and return True."""
    os.makedirs("mount-point", exist_ok=True)
    call("mount", source, b"mount-point", kind, flags, None)
    call("umount2", b"mount-point", _MNT_DETACH)
    return True


def _opens_by(name: str, *arguments: object) -> bool:
    """Make a system call that returns a descriptor, close that, and return True."""
    os.close(call(name, *arguments))
    return True


def makes_a_mount_by_the_newer_calls(target: Target) -> Found:
    context = call("fsopen", b"tmpfs", 1)
    call("fsconfig", context, 6, None, None, 0)
    os.close(call("fsmount", context, 1, 0))
    return True


def becomes_root(target: Target) -> Found:
    if os.geteuid() == 0:
        return True
    os.setresuid(0, 0, 0)
    return True


def has_a_capability(target: Target) -> Found:
    lines = contents("/proc/self/status").decode().splitlines()
    sets = [line.split()[1] for line in lines if line.startswith(("CapInh", "CapPrm", "CapEff", "CapAmb"))]
    return any(int(value, 16) for value in sets)


def _is_let_in(code: int, name: str, *arguments: object) -> bool:
    """Make a call that cannot succeed; return whether it failed for its arguments, not for want of rights."""
    try:
        call(name, *arguments)
    except OSError as error:
        if error.errno != code:
            raise
    return True


def reaches_the_ports_of_the_machine(target: Target) -> Found:
    call("ioperm", 0x80, 1, 1)
    return True


def renames_the_host(target: Target) -> Found:
    name = socket.gethostname().encode()
    call("sethostname", name, len(name))
    return True


def types_into_a_terminal(target: Target) -> Found:
    def type_one() -> None:
        os.setsid()
        _, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        fcntl.ioctl(slave, termios.TIOCSTI, b"x")

    return in_child(type_one)


def raises_its_limits(target: Target) -> Found:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard + 1, hard + 1))
    except ValueError as error:
        raise PermissionError(1, str(error)) from error
    return True


ATTEMPTS: dict[str, Attempt] = {
    "makes_a_user_namespace": lambda target: in_child(lambda: call("unshare", _NEWUSER)),
    "clones_into_a_user_namespace": lambda target: _reap(call("clone", _NEWUSER | _SIGCHLD, 0, 0, 0, 0)),
    "mounts_a_file_system": lambda target: _mounts(b"none", b"tmpfs", 0),
    "binds_a_folder": lambda target: _mounts(b"/usr", None, _MS_BIND),
    "copies_a_tree_of_mounts": lambda target: _opens_by("open_tree", -100, b"/usr", 1),
    "makes_a_map_of_the_kernels_filter_machine": lambda target: _opens_by("bpf", 0, _MAP_OF_ONE, len(_MAP_OF_ONE)),
    "makes_an_io_ring": lambda target: _opens_by("io_uring_setup", 1, ctypes.create_string_buffer(120)),
    "adds_a_key": lambda target: call("add_key", b"user", b"etude-escape", b"x", 1, _PROCESS_KEYRING) > 0,
    "reads_its_keyring": lambda target: call("keyctl", 0, _PROCESS_KEYRING, 1) > 0,
    "counts_events_of_the_processor": lambda target: _opens_by("perf_event_open", _EVENT, 0, -1, -1, 0),
    "handles_page_faults": lambda target: _opens_by("userfaultfd", 0),
    "watches_a_whole_file_system": lambda target: _opens_by("fanotify_init", 0, 0),
    "reads_the_kernels_log": lambda target: call("syslog", 10, 0, 0) > 0,
    "loads_a_kernel_module": lambda target: _is_let_in(8, "init_module", b"no module", 9, b""),
    "turns_a_file_into_swap": lambda target: _is_let_in(2, "swapon", b"/no/such/file", 0),
    "raises_its_priority": lambda target: in_child(lambda: os.nice(-5)),
    "becomes_a_real_time_process": lambda target: in_child(
        lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    ),
    "lowers_its_place_for_the_memory_killer": lambda target: in_child(
        lambda: Path("/proc/self/oom_score_adj").write_text("-1000", "ascii")
    ),
}
