"""Attempts on files: of the host, of its base layer, and of programs whose rights they would change."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from .calls import Found, Target, call, contents, first, in_child, makes_a_folder_in, opens

if TYPE_CHECKING:
    from .calls import Attempt

_DEVICES = ("kmsg", "kvm", "fuse", "loop-control", "mem", "net/tun", "hwrng", "btrfs-control", "cpu_dma_latency")
_FOLDERS_OF_THE_BASE = ("/usr/bin", "/usr/local/bin", "/etc", "/usr/lib", "/opt/etude/env")
_DEVICE_BYTES = 16
# VFS_CAP_REVISION_2 with CAP_SYS_ADMIN, permitted and effective.
_ADMIN = bytes.fromhex("0100000200002000000000000000000000000000")


def _new(name: str) -> str:
    """Return a path in the working folder that does not exist."""
    path = os.path.join(os.getcwd(), name)
    if os.path.lexists(path):
        os.unlink(path)
    return path


def _read_through(link: Callable[[str, str], None], path: str) -> bytes:
    """Return a file's contents, read through a new link to it."""
    name = _new("link-out")
    link(path, name)
    try:
        return contents(name)
    finally:
        os.unlink(name)


def _read_device(kind: int, number: int) -> bytes:
    """Make a device file and return the first bytes of the device."""
    path = _new("device")
    os.mknod(path, 0o666 | kind, number)
    try:
        return contents(path, _DEVICE_BYTES)
    finally:
        os.unlink(path)


def climbs_above_its_root(target: Target) -> Found:
    starts = ["", "/proc/self/root", "/proc/self/cwd", "/proc/1/root", "/tmp"]
    return first(lambda start: contents(f"{start}{'/..' * 40}{target['secret']}"), starts)


def asks_which_pages_are_in_memory(target: Target) -> Found:
    descriptor = os.open(sys.executable, os.O_RDONLY)
    try:
        with mmap.mmap(descriptor, 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE) as pages:
            address = ctypes.addressof(ctypes.c_char.from_buffer(pages))
            return call("mincore", address, 4096, ctypes.create_string_buffer(1)) == 0
    finally:
        os.close(descriptor)


def reads_only_what_is_in_memory(target: Target) -> Found:
    with Path(sys.executable).open("rb") as file:
        return os.preadv(file.fileno(), [bytearray(16)], 0, os.RWF_NOWAIT) == 16


def drops_pages_from_memory(target: Target) -> Found:
    with Path(sys.executable).open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 4096, os.POSIX_FADV_DONTNEED)
    return True


def opens_a_file_by_its_handle(target: Target) -> Found:
    handle = bytes.fromhex(target["handle"])
    folders = [os.path.dirname(target["secret"]), "/", "/usr/bin", "/workspace", "/opt/etude/env", "/tmp", "/etc"]

    def open_below(folder: str) -> Found:
        mount = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        return os.read(call("open_by_handle_at", mount, ctypes.create_string_buffer(handle, len(handle)), 0), 100)

    return first(open_below, folders)


def writes_a_file_of_the_host(target: Target) -> Found:
    # Whether it was written is looked up by the host.
    Path(target["mark"]).write_text("written", "ascii")
    return False


def runs_a_setuid_program(target: Target) -> Found:
    program = _new("setuid-id")
    shutil.copy("/usr/bin/id", program)
    try:
        os.chown(program, 0, 0)
    except OSError:
        pass
    os.chmod(program, 0o4755)

    def become_nobody() -> None:
        try:
            os.setresuid(65534, 65534, 65534)
        except OSError:
            pass

    try:
        uid = subprocess.run([program, "-u"], preexec_fn=become_nobody, capture_output=True, check=False)
    finally:
        os.unlink(program)
    return uid.stdout.strip() == b"0"


def gives_a_program_capabilities(target: Target) -> Found:
    program = _new("capable-id")
    shutil.copy("/usr/bin/id", program)
    try:
        os.setxattr(program, "security.capability", _ADMIN)
        return True
    finally:
        os.unlink(program)


def writes_a_mark_of_the_overlay(target: Target) -> Found:
    folder = _new("marked")
    os.mkdir(folder)
    try:
        os.setxattr(folder, "trusted.overlay.opaque", b"y")
        return True
    finally:
        os.rmdir(folder)


ATTEMPTS: dict[str, Attempt] = {
    "reads_a_file_of_the_host": lambda target: contents(target["secret"]),
    "follows_a_link_to_the_host": lambda target: _read_through(os.symlink, target["secret"]),
    "links_a_file_of_the_host": lambda target: _read_through(os.link, target["secret"]),
    "reads_the_disk_of_the_host": lambda target: len(_read_device(stat.S_IFBLK, target["disk"])) == _DEVICE_BYTES,
    "makes_a_device": lambda target: _read_device(stat.S_IFCHR, os.makedev(1, 5)) == bytes(_DEVICE_BYTES),
    "opens_a_device_of_the_host": lambda target: first(lambda name: opens(f"/dev/{name}", os.O_RDONLY), _DEVICES),
    "writes_to_the_base_layer": lambda target: first(
        opens, ["/etc/hostname", "/etc/passwd", "/usr/bin/env", "/usr/bin/python3"]
    ),
    "adds_a_program_to_the_base_layer": lambda target: first(makes_a_folder_in, _FOLDERS_OF_THE_BASE),
    "changes_its_root": lambda target: in_child(lambda: os.chroot(".")),
}
