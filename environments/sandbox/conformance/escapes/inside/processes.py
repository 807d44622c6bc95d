"""Attempts on other processes: their memory, environment, descriptors, folders and limits.

The aim is a process of the host that belongs to the sandbox's own user, so that only the sandbox protects it.
"""

from __future__ import annotations

import ctypes
import os
import resource
from typing import TYPE_CHECKING

from .calls import Found, Target, call, contents, each_process, first, gathered, in_child

if TYPE_CHECKING:
    from .calls import Attempt

_PTRACE_SEIZE, _PTRACE_DETACH = 0x4206, 17
_CLONE_NEWUTS = 0x04000000


def signals_a_process_of_the_host(target: Target) -> Found:
    os.kill(target["pid"], 0)
    return True


def reads_the_memory_of_another(target: Target) -> Found:
    memory = os.open(f"/proc/{target['pid']}/mem", os.O_RDONLY | os.O_CLOEXEC)
    return os.pread(memory, 64, target["address"])


def copies_the_memory_of_another(target: Target) -> Found:
    class Vector(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    buffer = ctypes.create_string_buffer(64)
    here, there = Vector(ctypes.addressof(buffer), 64), Vector(target["address"], 64)
    call("process_vm_readv", target["pid"], ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    return buffer.raw


def traces_another_process(target: Target) -> Found:
    call("ptrace", _PTRACE_SEIZE, target["pid"], 0, 0)
    return True


def compares_itself_with_another(target: Target) -> Found:
    call("kcmp", os.getpid(), target["pid"], 3, 0, 0)
    return True


def takes_a_descriptor_of_another(target: Target) -> Found:
    process = os.pidfd_open(target["pid"])
    return os.read(call("pidfd_getfd", process, target["descriptor"], 0), 100)


def walks_through_the_folder_of_another(target: Target) -> Found:
    name = os.path.basename(target["secret"])
    return gathered(f"{folder}/{name}" for folder in each_process("cwd"))  # another process may have such a file too


def inherits_an_open_file(target: Target) -> Found:
    return gathered(f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd") if int(number) > 2)


def walks_out_through_an_open_folder(target: Target) -> Found:
    folders = ["/proc/self/fd", *each_process("fd")]

    def walk(folder: str) -> Found:
        return first(lambda name: contents(f"{folder}/{name}{'/..' * 40}{target['secret']}"), os.listdir(folder))

    return first(walk, folders)


def lowers_the_priority_of_another(target: Target) -> Found:
    os.setpriority(os.PRIO_PROCESS, target["pid"], 1)
    return True


def lowers_the_limits_of_another(target: Target) -> Found:
    limits = resource.prlimit(target["pid"], resource.RLIMIT_NICE)
    resource.prlimit(target["pid"], resource.RLIMIT_NICE, limits)
    return True


def moves_another_to_other_cores(target: Target) -> Found:
    os.sched_setaffinity(target["pid"], os.sched_getaffinity(target["pid"]))
    return True


def joins_the_namespaces_of_another(target: Target) -> Found:
    def join(path: str) -> bool:
        descriptor = os.open(path, os.O_RDONLY)
        return in_child(lambda: call("setns", descriptor, _CLONE_NEWUTS))

    return first(join, [f"/proc/{target['pid']}/ns/uts", "/proc/1/ns/uts"])


ATTEMPTS: dict[str, Attempt] = {
    "sees_a_process_of_the_host": lambda target: os.path.exists(f"/proc/{target['pid']}/stat"),
    "reads_the_environment_of_others": lambda target: gathered(each_process("environ")),
    "reads_its_own_environment": lambda target: gathered(["/proc/self/environ", "/proc/1/environ"]),
    "reads_the_command_lines_of_others": lambda target: gathered(each_process("cmdline")),
    "opens_a_descriptor_of_another": lambda target: contents(f"/proc/{target['pid']}/fd/{target['descriptor']}"),
    "walks_through_the_root_of_another": lambda target: first(
        lambda root: contents(root + target["secret"]), each_process("root")
    ),
}
