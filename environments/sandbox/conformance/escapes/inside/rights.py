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

from .calls import Found, Target, call, contents, first, in_child

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
_MNT_DETACH = 2


def makes_a_user_namespace(target: Target) -> Found:
    return in_child(lambda: call("unshare", _NEWUSER))


def makes_any_namespace(target: Target) -> Found:
    kinds = (_NEWNS, _NEWCGROUP, _NEWUTS, _NEWIPC, _NEWPID, _NEWNET)
    return first(lambda kind: in_child(lambda: call("unshare", kind)), kinds)


def _reap(pid: int) -> bool:
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return True


def clones_into_a_user_namespace(target: Target) -> Found:
    return _reap(call("clone", _NEWUSER | _SIGCHLD, 0, 0, 0, 0))


def clones_by_the_newer_call(target: Target) -> Found:
    arguments = struct.pack("=8Q", _NEWUSER, 0, 0, 0, _SIGCHLD, 0, 0, 0)
    return _reap(call("clone3", arguments, len(arguments)))


def _folder() -> bytes:
    os.makedirs("mount-point", exist_ok=True)
    return b"mount-point"


def mounts_a_file_system(target: Target) -> Found:
    place = _folder()
    call("mount", b"none", place, b"tmpfs", 0, None)
    call("umount2", place, _MNT_DETACH)
    return True


def binds_a_folder(target: Target) -> Found:
    place = _folder()
    call("mount", b"/usr", place, None, 4096, None)
    call("umount2", place, _MNT_DETACH)
    return True


def makes_a_mount_by_the_newer_calls(target: Target) -> Found:
    context = call("fsopen", b"tmpfs", 1)
    call("fsconfig", context, 6, None, None, 0)
    os.close(call("fsmount", context, 1, 0))
    return True


def copies_a_tree_of_mounts(target: Target) -> Found:
    os.close(call("open_tree", -100, b"/usr", 1))
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


def makes_a_map_of_the_kernels_filter_machine(target: Target) -> Found:
    attributes = struct.pack("=4I", 2, 4, 4, 1) + bytes(112)
    os.close(call("bpf", 0, attributes, len(attributes)))
    return True


def makes_an_io_ring(target: Target) -> Found:
    os.close(call("io_uring_setup", 1, ctypes.create_string_buffer(120)))
    return True


def adds_a_key(target: Target) -> Found:
    return call("add_key", b"user", b"etude-escape", b"x", 1, _PROCESS_KEYRING) > 0


def reads_its_keyring(target: Target) -> Found:
    return call("keyctl", 0, _PROCESS_KEYRING, 1) > 0


def counts_events_of_the_processor(target: Target) -> Found:
    attributes = struct.pack("=2IQ", 1, 112, 0) + bytes(96)
    os.close(call("perf_event_open", attributes, 0, -1, -1, 0))
    return True


def handles_page_faults(target: Target) -> Found:
    os.close(call("userfaultfd", 0))
    return True


def watches_a_whole_file_system(target: Target) -> Found:
    os.close(call("fanotify_init", 0, 0))
    return True


def reads_the_kernels_log(target: Target) -> Found:
    return call("syslog", 10, 0, 0) > 0


def _is_let_in(code: int, name: str, *arguments: object) -> bool:
    """Make a call that cannot succeed; return whether it failed for its arguments, not for want of rights."""
    try:
        call(name, *arguments)
    except OSError as error:
        if error.errno != code:
            raise
    return True


def loads_a_kernel_module(target: Target) -> Found:
    return _is_let_in(8, "init_module", b"no module", 9, b"")


def turns_a_file_into_swap(target: Target) -> Found:
    return _is_let_in(2, "swapon", b"/no/such/file", 0)


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


def raises_its_priority(target: Target) -> Found:
    return in_child(lambda: os.nice(-5))


def becomes_a_real_time_process(target: Target) -> Found:
    return in_child(lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1)))


def lowers_its_place_for_the_memory_killer(target: Target) -> Found:
    return in_child(lambda: Path("/proc/self/oom_score_adj").write_text("-1000", "ascii"))
