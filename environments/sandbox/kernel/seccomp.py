"""The system calls that a sandbox may not make, as a classic BPF program. Stdlib only.

A deny-list: what is refused answers EPERM (``clone3``: ENOSYS, so that libc falls back to ``clone``, whose flags can be
seen; a socket family: EAFNOSUPPORT; what shows or drops the pages of shared files in memory, through which one sandbox
could leave a message for the next: EOPNOTSUPP or EINVAL). A foreign architecture and x32 are killed. It is the second
wall behind the namespaces (or Landlock), against the kernel's rarely used doors.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Sequence
from dataclasses import dataclass


def _table(text: str) -> dict[str, tuple[int | None, int | None]]:
    """Return the numbers on x86_64 and aarch64 by a call's name; None ("-") where an architecture lacks the call."""
    rows = [row.split() for row in text.split(",")]
    return {name: (_number(x86_64), _number(aarch64)) for name, x86_64, aarch64 in rows}


def _number(text: str) -> int | None:
    return None if text == "-" else int(text)


# Refused or not by their arguments.
_BY_ARGUMENT = _table("""
    ioctl 16 29, socket 41 198, socketpair 53 199, clone 56 220, clone3 435 435, prlimit64 302 261,
    setpriority 141 140, sched_setparam 142 118, sched_setscheduler 144 119, sched_setaffinity 203 122,
    sched_setattr 314 274, preadv2 327 286, fadvise64 221 223, madvise 28 233
""")
SYSCALLS = _BY_ARGUMENT | _table("""
    acct 163 89, add_key 248 217, adjtimex 159 171, bpf 321 280, chroot 161 51, clock_adjtime 305 266,
    clock_settime 227 112, delete_module 176 106, fanotify_init 300 262, finit_module 313 273, fsconfig 431 431,
    fsmount 432 432, fsopen 430 430, fspick 433 433, init_module 175 105, io_uring_enter 426 426,
    io_uring_register 427 427, io_uring_setup 425 425, ioperm 173 -, iopl 172 -, kcmp 312 272,
    kexec_file_load 320 294, kexec_load 246 104, keyctl 250 219, lookup_dcookie 212 18, memfd_secret 447 447,
    mincore 27 232, cachestat 451 451,
    modify_ldt 154 -, mount 165 40, mount_setattr 442 442, move_mount 429 429, move_pages 279 239,
    name_to_handle_at 303 264, nfsservctl 180 42, open_by_handle_at 304 265, open_tree 428 428,
    open_tree_attr 467 467, perf_event_open 298 241, pidfd_getfd 438 438, pivot_root 155 41, process_madvise 440 440,
    process_mrelease 448 448, process_vm_readv 310 270, process_vm_writev 311 271, ptrace 101 117, quotactl 179 60,
    quotactl_fd 443 443, reboot 169 142, request_key 249 218, setdomainname 171 162, sethostname 170 161,
    setns 308 268, settimeofday 164 170, swapoff 168 225, swapon 167 224, syslog 103 116, umount2 166 39,
    unshare 272 97, uselib 134 -, userfaultfd 323 282, vhangup 153 58
""")
# Without an IPC namespace these reach the host's objects.
HOST_IPC = _table("""
    shmget 29 194, shmat 30 196, shmctl 31 195, semget 64 190, semop 65 193, semctl 66 191, semtimedop 220 192,
    msgget 68 186, msgsnd 69 189, msgrcv 70 188, msgctl 71 187, mq_open 240 180, mq_unlink 241 181
""")
# The argument that names another process, for calls that check the user alone and so reach a server of the same user.
_PROCESS_ARGUMENT = {"prlimit64": 0, "setpriority": 1} | dict.fromkeys(
    ("sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr"), 0
)
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_NAMESPACE_FLAGS = 0x7E020000
_TERMINAL_INJECTION = (0x5412, 0x541C)
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_SOCK_STREAM, _SOCK_SEQPACKET = 1, 5

_LOAD = 0x20
_AND = 0x54
_EQUAL = 0x15
_SET = 0x45
_RETURN = 0x06
# Values of an argument that reveal the page cache or change it: RWF_NOWAIT, POSIX_FADV_DONTNEED, MADV_PAGEOUT.
_PAGE_CACHE = {
    "preadv2": (5, _SET, 0x8, errno.EOPNOTSUPP),
    "fadvise64": (3, _EQUAL, 4, errno.EINVAL),
    "madvise": (2, _EQUAL, 21, errno.EINVAL),
}
_KILL = 0x80000000
_ALLOW = 0x7FFF0000


def _deny(code: int) -> int:
    return 0x00050000 | code


@dataclass(frozen=True)
class _Op:
    code: int
    value: int
    on_true: str = ""
    on_false: str = ""
    label: str = ""


def _assemble(ops: Sequence[_Op]) -> bytes:
    """Resolve labels (forward only, as BPF wants) and pack. A jump without a label goes to the next instruction."""
    places = {op.label: index for index, op in enumerate(ops) if op.label}
    packed = bytearray()
    for index, op in enumerate(ops):
        jumps = [places[name] - index - 1 if name else 0 for name in (op.on_true, op.on_false)]
        if any(not 0 <= jump <= 255 for jump in jumps):
            raise ValueError(f"seccomp jump out of reach at instruction {index}")
        packed += struct.pack("=HBBI", op.code, *jumps, op.value)
    return bytes(packed)


def _argument(index: int) -> int:
    # The low half of an argument in ``struct seccomp_data``: both architectures are little-endian.
    return 16 + 8 * index


def _family_rules(number: dict[str, int], network: bool) -> list[_Op]:
    """Allow sockets of four families with a network namespace; without one only connected pairs, which name no peer."""
    ops: list[_Op] = []
    if network:
        for call in ("socket", "socketpair"):
            ops += [_Op(_EQUAL, number[call], on_false=f"after {call}"), _Op(_LOAD, _argument(0))]
            ops += [_Op(_EQUAL, family, on_true="allow") for family in (_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK)]
            ops += [_Op(_RETURN, _deny(errno.EAFNOSUPPORT)), _Op(_LOAD, 0, label=f"after {call}")]
        return ops
    ops += [_Op(_EQUAL, number["socket"], on_false="pair"), _Op(_RETURN, _deny(errno.EPERM))]
    ops += [_Op(_EQUAL, number["socketpair"], on_false="after pair", label="pair"), _Op(_LOAD, _argument(1))]
    ops += [_Op(_AND, 0xF)]
    ops += [_Op(_EQUAL, kind, on_true="allow") for kind in (_SOCK_STREAM, _SOCK_SEQPACKET)]
    return [*ops, _Op(_RETURN, _deny(errno.EPERM)), _Op(_LOAD, 0, label="after pair")]


def _argument_rules(number: dict[str, int]) -> list[_Op]:
    ops = [_Op(_EQUAL, number["clone3"], on_false="after clone3"), _Op(_RETURN, _deny(errno.ENOSYS))]
    ops += [_Op(_EQUAL, number["clone"], on_false="after clone", label="after clone3"), _Op(_LOAD, _argument(0))]
    ops += [_Op(_SET, _NAMESPACE_FLAGS, on_false="allow"), _Op(_RETURN, _deny(errno.EPERM))]
    ops += [_Op(_EQUAL, number["ioctl"], on_false="after ioctl", label="after clone"), _Op(_LOAD, _argument(1))]
    ops += [_Op(_EQUAL, request, on_true="refuse ioctl") for request in _TERMINAL_INJECTION]
    ops += [_Op(_RETURN, _ALLOW), _Op(_RETURN, _deny(errno.EPERM), label="refuse ioctl")]
    return [*ops, _Op(_LOAD, 0, label="after ioctl")]


def _others_rules(number: dict[str, int]) -> list[_Op]:
    """Allow calls on limits and priority for the calling process (0) alone."""
    ops: list[_Op] = []
    for call, index in _PROCESS_ARGUMENT.items():
        ops += [_Op(_EQUAL, number[call], on_false=f"after {call}"), _Op(_LOAD, _argument(index))]
        ops += [_Op(_EQUAL, 0, on_true="allow"), _Op(_RETURN, _deny(errno.EPERM))]
        ops += [_Op(_LOAD, 0, label=f"after {call}")]
    return ops


def _page_cache_rules(number: dict[str, int]) -> list[_Op]:
    ops: list[_Op] = []
    for call, (index, test, value, code) in _PAGE_CACHE.items():
        ops += [_Op(_EQUAL, number[call], on_false=f"after {call}"), _Op(_LOAD, _argument(index))]
        ops += [_Op(test, value, on_false="allow"), _Op(_RETURN, _deny(code)), _Op(_LOAD, 0, label=f"after {call}")]
    return ops


def _with_allow_nearby(ops: list[_Op]) -> list[_Op]:
    """Point each "allow" jump at its own return, directly behind it, since a jump reaches 255 instructions."""
    result: list[_Op] = []
    for count, op in enumerate(ops):
        if "allow" not in (op.on_true, op.on_false):
            result.append(op)
            continue
        here, past = f"allow {count}", f"past {count}"
        if op.on_true == "allow":
            result += [_Op(op.code, op.value, here, past, op.label)]
        else:
            result += [_Op(op.code, op.value, past, here, op.label)]
        result += [_Op(_RETURN, _ALLOW, label=here), _Op(_AND, 0xFFFFFFFF, label=past)]
    return result


def program(*, network: bool, machine: str = "") -> bytes:
    """Return the filter for this machine; ``network`` says that the sandbox has its own network and IPC namespaces.

    Raises NotImplementedError on an architecture without a table.
    """
    machine = machine or platform.machine()
    if machine not in _ARCHITECTURES:
        raise NotImplementedError(f"no seccomp table for {machine}; there are: {', '.join(_ARCHITECTURES)}")
    column, audit = _ARCHITECTURES[machine]
    tables = SYSCALLS if network else {**SYSCALLS, **HOST_IPC}
    number = {name: value for name, pair in tables.items() if (value := pair[column]) is not None}
    ops = [_Op(_LOAD, 4), _Op(_EQUAL, audit, on_true="native"), _Op(_RETURN, _KILL)]
    ops += [_Op(_LOAD, 0, label="native")]
    if machine == "x86_64":
        ops += [_Op(_SET, 0x40000000, on_false="not x32"), _Op(_RETURN, _KILL), _Op(_LOAD, 0, label="not x32")]
    ops += _argument_rules(number) + _family_rules(number, network) + _page_cache_rules(number)
    if not network:
        ops += _others_rules(number)
    refused = [value for name, value in number.items() if name not in _BY_ARGUMENT]
    ops += [_Op(_EQUAL, value, on_true="refuse") for value in sorted(refused)]
    ops += [_Op(_RETURN, _ALLOW), _Op(_RETURN, _deny(errno.EPERM), label="refuse")]
    return _assemble(_with_allow_nearby(ops))
