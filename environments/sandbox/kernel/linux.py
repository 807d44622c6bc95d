"""The few system calls that Python's standard library lacks. Stdlib only: the keeper imports this without a site."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Collection
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_RELATIME = 1 << 21
MNT_DETACH = 2

# The flags that a remount in a user namespace must keep: as statvfs names them, and as mount(2) does.
_MOUNT_FLAGS = {1: MS_RDONLY, 2: MS_NOSUID, 4: MS_NODEV, 8: MS_NOEXEC, 1024: 1024, 2048: 2048, 4096: MS_RELATIME}

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2

# The same numbers on every architecture.
_MOVE_MOUNT, _FSOPEN, _FSCONFIG, _FSMOUNT = 429, 430, 431, 432
_SET_STRING, _CREATE = 1, 6
_AT_FDCWD, _EMPTY_PATH = -100, 4

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _check(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), what)
    return result


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """Call mount(2). Raises an OSError that names both ends."""
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        os.fsencode(data) or None,
    )
    _check(result, f"mount {kind or source} on {target}")


def bind(source: str, target: str, *, read_only: bool = True, devices: bool = False) -> None:
    """Bind ``source`` over ``target``, without setuid files, and without devices unless asked for."""
    try:
        mount(source, target, flags=MS_BIND)
    except OSError:
        # In a user namespace the kernel refuses to uncover what lies under mounts that it locked: take them along.
        mount(source, target, flags=MS_BIND | MS_REC)
    flags = MS_BIND | MS_REMOUNT | MS_NOSUID | (0 if devices else MS_NODEV) | (MS_RDONLY if read_only else 0)
    present = os.statvfs(target).f_flag
    for statvfs_flag, mount_flag in _MOUNT_FLAGS.items():
        flags |= mount_flag if present & statvfs_flag else 0
    mount("", target, flags=flags)


def detached_tmpfs(**options: str) -> int:
    """Return a tmpfs that is mounted nowhere yet, as a descriptor of its root; without setuid files and devices."""
    context = syscall(_FSOPEN, b"tmpfs", 1)
    try:
        for name, value in options.items():
            syscall(_FSCONFIG, context, _SET_STRING, name.encode(), value.encode(), 0)
        syscall(_FSCONFIG, context, _CREATE, None, None, 0)
        return syscall(_FSMOUNT, context, 1, MS_NOSUID | MS_NODEV)
    finally:
        os.close(context)


def attach(fd: int, target: str) -> None:
    """Mount a file system that ``detached_tmpfs`` returned."""
    syscall(_MOVE_MOUNT, fd, b"", _AT_FDCWD, os.fsencode(target), _EMPTY_PATH)


def pivot_here() -> None:
    """Make the current folder (a mount point) the root, and let go of the old root."""
    _check(_libc.pivot_root(b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", MNT_DETACH), "umount the old root")
    os.chdir("/")


def unshare(flags: int) -> None:
    """Move this process into new namespaces (``CLONE_*``). Raises OSError."""
    _check(_libc.unshare(flags), "unshare")


def setns(fd: int, kind: int) -> None:
    """Move this process into the namespace of an open file. Raises OSError."""
    _check(_libc.setns(fd, kind), "setns")


def _prctl(option: int, value: int, third: object = 0) -> int:
    result = _libc.prctl(option, ctypes.c_ulong(value), third, ctypes.c_ulong(0), ctypes.c_ulong(0))
    return _check(result, f"prctl {option}")


def set_dumpable(dumpable: bool) -> None:
    """Show this process's memory, environment and files to others of its user, or hide them."""
    _prctl(_PR_SET_DUMPABLE, int(dumpable))


def die_with_parent(parent: int, signal_number: int) -> None:
    """Ask for a signal when ``parent`` dies; leave at once when it already has."""
    _prctl(_PR_SET_PDEATHSIG, signal_number)
    if os.getppid() != parent:
        os._exit(125)


def become_subreaper() -> None:
    """Make orphaned descendants children of this process."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def no_new_privileges() -> None:
    """Make sure that no program that this process starts has more rights than it."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def load_seccomp(program: bytes) -> None:
    """Install an assembled filter on this process; needs ``no_new_privileges`` first."""
    fprog = _Program(len(program) // 8, program)
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(fprog))


def syscall(number: int, *arguments: object) -> int:
    """Make a raw system call; integers are passed as machine words. Raises OSError."""
    words = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return _check(_libc.syscall(ctypes.c_long(number), *words), f"syscall {number}")


def start_time(pid: int) -> str:
    """Return when ``pid`` started, in clock ticks since boot, or "": with the pid it names a process for good."""
    fields = _stat_fields(pid)
    return fields[19] if fields else ""


def own_prefix() -> str:
    """Return how the names of what this process makes begin, so that a later process can see that it is gone."""
    return f"etude-{os.getpid()}-{start_time(os.getpid())}-"


def maker_is_gone(name: str) -> bool:
    """Return whether the process is gone whose ``own_prefix`` a name begins with; one that is not reaped yet is."""
    _, pid, started, _ = name.split("-", 3)
    if not (pid.isdigit() and started.isdigit()):
        return False
    fields = _stat_fields(int(pid))
    return not fields or fields[19] != started or fields[0] in "ZX"


def _stat_fields(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _children_by_parent() -> dict[int, list[int]]:
    """Return the children of every process that /proc shows, without zombies."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            fields = _stat_fields(int(entry))
            if fields and fields[0] not in "ZX":
                children.setdefault(int(fields[1]), []).append(int(entry))
    return children


def _children_of(pid: int) -> list[int]:
    """Return the children that the kernel lists for ``pid``; a child that ends meanwhile may hide another."""
    children: list[int] = []
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            children += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text("ascii").split())
    except OSError:
        return children
    return children


def cpu_seconds_below(root: int) -> float:
    """Return the CPU seconds used by everything below ``root``: live descendants, and children that were reaped.

    A parent is read before its children, so a process that ends meanwhile may be missed but never counts twice. A
    command that ignores SIGCHLD is not charged for children that have ended.
    """
    fields = _stat_fields(root)
    ticks = sum(map(int, fields[13:15]))
    lists_children = os.path.exists(f"/proc/self/task/{os.getpid()}/children")
    table = {} if lists_children else _children_by_parent()
    waiting, counted = [root], {root}
    while waiting:
        parent = waiting.pop()
        for child in _children_of(parent) if lists_children else table.get(parent, ()):
            fields = _stat_fields(child)
            if fields and child not in counted:
                counted.add(child)
                ticks += sum(map(int, fields[11:15]))
                waiting.append(child)
    return ticks / os.sysconf("SC_CLK_TCK")


def descendants(root: int, skip: Collection[int] = ()) -> set[int]:
    """Return every live process below ``root`` that /proc shows, without zombies, ``skip`` and what is below that."""
    children = _children_by_parent()
    below: set[int] = set()
    waiting = [root]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in below and child not in skip:
                below.add(child)
                waiting.append(child)
    return below


def threads_of_user() -> int:
    """Return how many threads of this user /proc shows, which is what RLIMIT_NPROC counts."""
    user, total = os.geteuid(), 0
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := _stat_fields(int(entry))):
            try:
                total += int(fields[17]) if os.stat(f"/proc/{entry}").st_uid == user else 0
            except FileNotFoundError:
                continue
    return total
