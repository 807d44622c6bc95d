"""The driver of the bubblewrap backend: a mount namespace per sandbox, one bwrap per command. Stdlib only."""

from __future__ import annotations

import os
import resource
import shutil
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..kernel import linux, seccomp
from ..kernel.cgroups import Group
from ..kernel.launch import OPEN_FILES, become_user, lower_limit, place_descriptors, report, restore_signals
from ..layers.base_layer import HIDDEN_PROC, SANDBOX_UID
from .driver import Unavailable, standard_descriptors
from .mounts import Stage, StageBuilder

_SECCOMP, _STATUS = 4, 5
_ARGUMENTS = (
    "bwrap --unshare-user --unshare-pid --unshare-net --unshare-ipc --unshare-uts --unshare-cgroup-try "
    f"--hostname etude --die-with-parent --new-session --cap-drop ALL --uid {SANDBOX_UID} --gid {SANDBOX_UID} "
    f"--seccomp {_SECCOMP} --json-status-fd {_STATUS} --dev-bind /r / --proc /proc"
).split()
# Set inside: a limit set before the user namespace exists would also count every other sandbox of this user.
_LIMITED = 'ulimit -u {0} 2>/dev/null || ulimit -p {0}; exec "$@"'
_KILLED_FROM = 128
"""An exit code above this one is that of a command that a signal has ended."""
_NO_NAMESPACES = (
    "user namespaces are refused here ({0}); try `sysctl -w user.max_user_namespaces=15000 "
    "kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0`, or, in a container, its "
    "`--privileged` or `--security-opt seccomp=unconfined`"
)


@dataclass
class _State:
    """One sandbox."""

    spec: Mapping[str, Any]
    """The request that opened it."""
    stage: Stage
    filling: int | None = None
    """A new writable layer that the server fills, for the next stage."""


class NamespaceDriver:
    """Builds stages and starts bwrap in them, as the sandbox user when the keeper is root."""

    kill_signal = signal.SIGKILL

    def __init__(self) -> None:
        self._rootless = os.geteuid() != 0
        hidden = [f"/proc/{name}" for name in HIDDEN_PROC if os.path.exists(f"/proc/{name}")]
        self._arguments = [*_ARGUMENTS, *(word for path in hidden for word in ("--ro-bind", "/blank", path))]
        self._broken = ""
        self._tested = False
        self.helpers: set[int] = set()
        try:
            if self._rootless:
                _enter_user_namespace()
            bwrap = shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin")
            if bwrap is None:
                self._broken = "bwrap not found; apt-get install bubblewrap (or dnf, apk, pacman)"
                return
            self._bwrap = os.open(bwrap, os.O_PATH | os.O_CLOEXEC)
            self._seccomp = os.memfd_create("seccomp", os.MFD_CLOEXEC)
            os.write(self._seccomp, seccomp.program(network=True))
            self._builder = StageBuilder(self._rootless)
        except (OSError, NotImplementedError) as error:
            self._broken = _NO_NAMESPACES.format(error) if isinstance(error, OSError) else str(error)

    def open(self, spec: dict[str, Any], group: Group | None) -> _State:
        if self._broken:
            raise Unavailable(self._broken)
        state = _State(spec, self._build(spec))
        if not self._tested:
            self._test(state, group)
            self._tested = True
        return state

    def _build(self, spec: Mapping[str, Any], layer: int | None = None) -> Stage:
        disk, files = int(spec["limits"]["disk"]), int(spec["limits"]["files"])
        try:
            return self._builder.build(spec["workspace"], spec["binds"], disk, files, layer)
        except OSError as error:
            # Until one sandbox has worked the machine may be at fault, afterwards only the request.
            if self._tested or isinstance(error, (FileNotFoundError, NotADirectoryError)) or error.errno is None:
                raise
            raise Unavailable(f"mounting is refused here ({error})") from error

    def _test(self, state: _State, group: Group | None) -> None:
        """Run ``true`` once: only that shows whether this machine lets bubblewrap work."""
        status_reader, status = os.pipe2(os.O_CLOEXEC)
        reader, writer = os.pipe2(os.O_CLOEXEC)
        null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        request = {"argv": ["/usr/bin/env", "true"], "env": {"PATH": "/usr/bin:/bin"}, "cwd": "/"}
        pid = self.start(state, group, request, {"stdin": null, "output": writer}, status)
        os.close(writer)
        os.close(status)
        os.close(null)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with os.fdopen(reader, "rb") as output, os.fdopen(status_reader, "rb") as status_lines:
            reason = (output.read(2000) or status_lines.read(2000)).decode("utf-8", "replace").strip()
        if code < 0 or code > _KILLED_FROM:  # that says nothing about this machine
            raise OSError(f"bubblewrap was killed while it was tried out (exit {code}); open a sandbox again")
        if code:
            raise Unavailable(_NO_NAMESPACES.format(reason))

    def start(
        self, state: _State, group: Group | None, request: dict[str, Any], fds: dict[str, int], status: int
    ) -> int:
        argv = [*self._arguments, "--chdir", request["cwd"]]
        for key, value in request["env"].items():
            argv += ["--setenv", key, value]
        argv.append("--")
        limits = state.spec["limits"]
        if group is None:
            argv += ["/bin/sh", "-c", _LIMITED.format(int(limits["processes"])), "sh"]
        words = [word.encode("latin-1") for word in argv + request["argv"]]
        keeper = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        outcome = "failed"
        try:
            self._prepare(state, group, limits, keeper, fds, status)
            outcome = "refused"
            os.execve(self._bwrap, words, {})
        except OSError as error:
            report(status, {outcome: str(error) if outcome == "failed" else error.strerror})
        finally:
            os._exit(125)

    def _prepare(
        self,
        state: _State,
        group: Group | None,
        limits: Mapping[str, Any],
        keeper: int,
        fds: Mapping[str, int],
        status: int,
    ) -> None:
        """Prepare the forked child for bwrap: descriptors, limits, mounts and user."""
        program = os.open(f"/proc/self/fd/{self._seccomp}", os.O_RDONLY)
        place_descriptors({**standard_descriptors(fds), _STATUS: status, _SECCOMP: program})
        if group is not None:
            group.enter()
        else:
            lower_limit(resource.RLIMIT_AS, int(limits["memory"]))
        lower_limit(resource.RLIMIT_NOFILE, OPEN_FILES)
        self._builder.enter(state.stage)
        if not self._rootless:
            become_user(SANDBOX_UID)
        restore_signals()
        linux.die_with_parent(keeper, signal.SIGKILL)

    def reset(self, state: _State, filled: bool) -> list[int]:
        layer, state.filling = state.filling, None
        if filled and layer is None:
            raise ValueError("no layer has been filled")
        try:
            old, state.stage = state.stage, self._build(state.spec, layer if filled else None)
        finally:
            if layer is not None:
                os.close(layer)
        return list(old.fds())

    def layer(self, state: _State) -> list[int]:
        return [state.stage.layer]

    def new_layer(self, state: _State) -> list[int]:
        if state.filling is not None:
            os.close(state.filling)
            state.filling = None
        state.filling = self._builder.layer(int(state.spec["limits"]["disk"]), int(state.spec["limits"]["files"]))
        return [state.filling]

    def close(self, state: _State) -> list[int]:
        return [*state.stage.fds(), *([] if state.filling is None else [state.filling])]


def _enter_user_namespace() -> None:
    """Become root of a new user namespace, which may mount but owns nothing more than this user does."""
    uid, gid = os.geteuid(), os.getegid()
    linux.unshare(linux.CLONE_NEWUSER | linux.CLONE_NEWNS)
    for name, text in {"setgroups": "deny", "uid_map": f"0 {uid} 1", "gid_map": f"0 {gid} 1"}.items():
        Path("/proc/self", name).write_text(text)
