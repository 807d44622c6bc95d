"""Attempts on the settings of the kernel and on control groups, and to read which machine this is."""

from __future__ import annotations

import glob
import os
from pathlib import Path

from .calls import Found, Target, contents, first, gathered, opens

# It belongs to the namespace of processes, and a write to it is refused.
_HARMLESS = ("ns_last_pid",)
_GROUPS = ("/sys/fs/cgroup", *(f"/sys/fs/cgroup/{name}" for name in ("pids", "memory", "cpu", "unified", "systemd")))


def sets_the_core_pattern(target: Target) -> Found:
    return opens("/proc/sys/kernel/core_pattern")


def sets_any_kernel_setting(target: Target) -> Found:
    folders = ((folder, name) for folder, _, names in os.walk("/proc/sys") for name in names)
    files = (os.path.join(folder, name) for folder, name in folders if name not in _HARMLESS)
    # A file that is hidden behind a device is none.
    return first(opens, filter(os.path.isfile, files))


def asks_the_kernel_for_an_emergency(target: Target) -> Found:
    return opens("/proc/sysrq-trigger")


def registers_a_program_format(target: Target) -> Found:
    return opens("/proc/sys/fs/binfmt_misc/register")


def sets_a_helper_of_the_kernel(target: Target) -> Found:
    return opens("/sys/kernel/uevent_helper")


def sets_a_release_agent(target: Target) -> Found:
    return first(opens, [f"{group}/release_agent" for group in _GROUPS])


def asks_for_notice_on_release(target: Target) -> Found:
    return first(opens, [f"{group}/notify_on_release" for group in _GROUPS])


def leaves_its_control_group(target: Target) -> Found:
    def move(group: str) -> bool:
        Path(f"{group}/cgroup.procs").write_text("0", "ascii")
        return True

    return first(move, _GROUPS)


def makes_a_control_group(target: Target) -> Found:
    def make(group: str) -> bool:
        os.mkdir(f"{group}/etude-escape")
        os.rmdir(f"{group}/etude-escape")
        return True

    return first(make, _GROUPS)


def reads_the_settings_of_devices(target: Target) -> Found:
    return bool(glob.glob("/sys/block/*/queue/scheduler"))


def reads_how_the_kernel_was_started(target: Target) -> Found:
    return bool(contents("/proc/cmdline").strip())


def reads_the_version_of_the_kernel(target: Target) -> Found:
    return bool(contents("/proc/version").strip())


def reads_the_load_of_the_host(target: Target) -> Found:
    return bool(contents("/proc/loadavg").strip())


def reads_the_counters_of_the_disks(target: Target) -> Found:
    return bool(contents("/proc/diskstats").strip())


def reads_the_locks_of_the_host(target: Target) -> Found:
    return f":{target['locked']} ".encode() in contents("/proc/locks")


def reads_which_boot_this_is(target: Target) -> Found:
    return gathered(["/proc/sys/kernel/random/boot_id", "/etc/machine-id"])


def reads_the_name_of_the_host(target: Target) -> Found:
    return os.uname().nodename == target["hostname"]


def reads_where_its_files_lie_on_the_host(target: Target) -> Found:
    tables = gathered(f"/proc/self/{name}" for name in ("mountinfo", "mounts", "mountstats"))
    links = [os.readlink("/proc/self/cwd"), os.getcwd(), os.path.realpath("/opt/etude/env")]
    return tables + " ".join(links).encode()
