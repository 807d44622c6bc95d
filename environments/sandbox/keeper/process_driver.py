"""The driver of the process backend: a guard per command, which leaves nothing of it behind. Stdlib only.

The guard is the subreaper of everything that the command starts, double forks included. When the command ends, must be
stopped, or the keeper dies, the guard first stops all descendants, so that none can fork away, and then kills them.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from ..kernel import landlock, linux, seccomp
from ..kernel.cgroups import Group
from ..kernel.launch import OPEN_FILES, become_command, become_user, lower_limit, report, restore_signals
from ..layers.base_layer import PYTHON_PREFIX, ROOT_LINKS, SANDBOX_UID, hidden_below, shown_below_usr
from .driver import Driver, Unavailable, standard_descriptors

_ETC = (
    "alternatives hostname hosts group ld.so.cache ld.so.conf ld.so.conf.d localtime mime.types nsswitch.conf passwd "
    "protocols services"
).split()
# No terminal and no shared memory: both would be shared with the host.
_DEVICES = ("null", "zero", "full", "random", "urandom")
_STATUS = 4
_REMOVE = 'chmod -R u+rwX -- "$1" 2>/dev/null; rm -rf -- "$1"'
_WAKE = {signal.SIGTERM, signal.SIGCHLD}


@dataclass
class _State:
    """One sandbox."""

    spec: Mapping[str, Any]
    """The request that opened it."""
    rules: int | None
    """The Landlock ruleset; None where the machine's owner accepted that there is none."""


class GuardDriver(Driver):
    """Starts commands under guards, confined by Landlock, seccomp and resource limits."""

    kill_signal = signal.SIGTERM

    def __init__(self) -> None:
        self._hidden: dict[str, list[str]] = {}
        self.helpers: set[int] = set()
        try:
            self._seccomp = seccomp.program(network=False)
        except NotImplementedError as error:
            self._broken = str(error)
        else:
            self._broken = ""

    def open(self, spec: dict[str, Any], group: Group | None) -> _State:
        if self._broken:
            raise Unavailable(self._broken)
        return _State(spec, self._rules(spec) if spec["landlock"] else None)

    def _rules(self, spec: Mapping[str, Any]) -> int:
        """Return the allow-list: the base layer, the binds, and the sandbox's own two folders."""
        rules = landlock.Ruleset()
        python = spec["binds"].get(PYTHON_PREFIX)
        usr = [os.path.normpath(f"/usr/{part}") for part in shown_below_usr()]
        base = [*usr, *(f"/{name}" for name in ROOT_LINKS if not os.path.islink(f"/{name}"))]
        for path in dict.fromkeys([*base, *spec["binds"].values()]):
            if path not in self._hidden and path == python:
                self._hidden[path] = hidden_below(Path(path))
            elif path not in self._hidden and path in usr:
                part = os.path.relpath(path, "/usr")
                inside = [os.path.relpath(name, part) for name in hidden_below(Path("/usr"))]
                self._hidden[path] = [name for name in inside if not name.startswith("..")]
            rules.read(path, self._hidden.get(path, ()))
        for name in _ETC:
            rules.read(f"/etc/{name}")
        rules.read("/proc")
        for name in _DEVICES:
            rules.device(f"/dev/{name}")
        for name in ("workspace", "tmp"):
            rules.write(f"{spec['folder']}/{name}")
        return rules.fd

    def start(
        self, state: _State, group: Group | None, request: dict[str, Any], fds: dict[str, int], status: int
    ) -> int:
        keeper = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        try:
            self._guard(state, group, request, fds, status, keeper)
        except OSError as error:
            report(status, {"failed": str(error)})
        finally:
            os._exit(125)

    def _guard(
        self,
        state: _State,
        group: Group | None,
        request: Mapping[str, Any],
        fds: Mapping[str, int],
        status: int,
        keeper: int,
    ) -> NoReturn:
        signal.pthread_sigmask(signal.SIG_BLOCK, _WAKE)
        restore_signals()
        linux.become_subreaper()
        linux.die_with_parent(keeper, signal.SIGTERM)
        if group is not None:
            group.enter()
        command = os.fork()
        if command == 0:
            confine = partial(self._confine, state, group is None)
            become_command(request, standard_descriptors(fds), status, confine, self._seccomp)
        os.dup2(status, _STATUS)
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        os.closerange(_STATUS + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        code = _watch(command)
        _sweep()
        if code is not None:
            report(_STATUS, {"exit-code": code})
        os._exit(0)

    def _confine(self, state: _State, limit_each: bool) -> None:
        """Give up rights, in the command's process."""
        limits = state.spec["limits"]
        lower_limit(resource.RLIMIT_NOFILE, OPEN_FILES)
        lower_limit(resource.RLIMIT_FSIZE, int(limits["disk"]))
        if limit_each:
            lower_limit(resource.RLIMIT_AS, int(limits["memory"]))
            # This limit counts every process of the user, so it is set above what runs already.
            lower_limit(resource.RLIMIT_NPROC, linux.threads_of_user() + int(limits["processes"]))
        if os.geteuid() == 0:
            become_user(SANDBOX_UID)
        linux.no_new_privileges()
        if state.rules is not None:
            landlock.restrict(state.rules)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WAKE)

    def close(self, state: _State) -> list[int]:
        folder = state.spec["folder"]
        # The server removes its folder; one that is still there belonged to a server that died.
        if os.path.isdir(folder):
            command = ["sh", "-c", _REMOVE, "sh", folder]
            self.helpers.add(os.posix_spawn("/bin/sh", command, {"PATH": "/usr/bin:/bin"}))
        return [] if state.rules is None else [state.rules]


def _watch(command: int) -> int | None:
    """Wait for the command's exit code; return None when asked to stop before."""
    while signal.sigwaitinfo(_WAKE).si_signo != signal.SIGTERM:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == command:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            if pid == 0:
                break
    return None


def _sweep() -> None:
    """Kill every descendant and wait until none is left."""
    stopped: set[int] = set()
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        living = linux.descendants(os.getpid())
        fresh = living - stopped
        for pid in fresh or living:
            try:
                os.kill(pid, signal.SIGSTOP if fresh else signal.SIGKILL)
            except ProcessLookupError:
                continue
        stopped = living if fresh else set()
        if not fresh:
            time.sleep(0.001)
