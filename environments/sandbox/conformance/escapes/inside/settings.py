"""Attempts on the settings of the kernel and on control groups, and to read which machine this is."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import TYPE_CHECKING

from .calls import Found, Target, contents, first, gathered, makes_a_folder_in, opens

if TYPE_CHECKING:
    from .calls import Attempt

# It belongs to the namespace of processes, and a write to it is refused.
_HARMLESS = ("ns_last_pid",)
_GROUPS = ("/sys/fs/cgroup", *(f"/sys/fs/cgroup/{name}" for name in ("pids", "memory", "cpu", "unified", "systemd")))


def sets_any_kernel_setting(target: Target) -> Found:
    folders = ((folder, name) for folder, _, names in os.walk("/proc/sys") for name in names)
    files = (os.path.join(folder, name) for folder, name in folders if name not in _HARMLESS)
    # A file that is hidden behind a device is none.
    return first(opens, filter(os.path.isfile, files))


def leaves_its_control_group(target: Target) -> Found:
    def move(group: str) -> bool:
        Path(f"{group}/cgroup.procs").write_text("0", "ascii")
        return True

    return first(move, _GROUPS)


def reads_where_its_files_lie_on_the_host(target: Target) -> Found:
    tables = gathered(f"/proc/self/{name}" for name in ("mountinfo", "mounts", "mountstats"))
    links = [os.readlink("/proc/self/cwd"), os.getcwd(), os.path.realpath("/opt/etude/env")]
    return tables + " ".join(links).encode()


ATTEMPTS: dict[str, Attempt] = {
    "sets_the_core_pattern": lambda target: opens("/proc/sys/kernel/core_pattern"),
    "asks_the_kernel_for_an_emergency": lambda target: opens("/proc/sysrq-trigger"),
    "registers_a_program_format": lambda target: opens("/proc/sys/fs/binfmt_misc/register"),
    "sets_a_helper_of_the_kernel": lambda target: opens("/sys/kernel/uevent_helper"),
    "sets_a_release_agent": lambda target: first(opens, [f"{group}/release_agent" for group in _GROUPS]),
    "asks_for_notice_on_release": lambda target: first(opens, [f"{group}/notify_on_release" for group in _GROUPS]),
    "makes_a_control_group": lambda target: first(makes_a_folder_in, _GROUPS),
    "reads_the_settings_of_devices": lambda target: bool(glob.glob("/sys/block/*/queue/scheduler")),
    "reads_how_the_kernel_was_started": lambda target: bool(contents("/proc/cmdline").strip()),
    "reads_the_version_of_the_kernel": lambda target: bool(contents("/proc/version").strip()),
    "reads_the_load_of_the_host": lambda target: bool(contents("/proc/loadavg").strip()),
    "reads_the_counters_of_the_disks": lambda target: bool(contents("/proc/diskstats").strip()),
    "reads_the_locks_of_the_host": lambda target: f":{target['locked']} ".encode() in contents("/proc/locks"),
    "reads_which_boot_this_is": lambda target: gathered(["/proc/sys/kernel/random/boot_id", "/etc/machine-id"]),
    "reads_the_name_of_the_host": lambda target: os.uname().nodename == target["hostname"],
}
