"""A sandbox's file system, built in a mount namespace that nothing but a file descriptor holds. Stdlib only.

The namespace's root is a small *stage*: ``/r`` is what the sandbox will see as its root, ``/w`` the sized tmpfs with
the writable layer, ``/proc`` the host's (bubblewrap needs it to mount a new one), ``/blank`` an empty file to hide
others with, and links so that bubblewrap finds its libraries. Closing the descriptor drops every mount; a keeper that
dies closes it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..kernel import linux
from ..kernel.linux import bind, mount
from ..layers import base_layer
from ..layers.base_layer import SANDBOX_UID

LAYER_FOLDERS = {"upper": 0o755, "work": 0o755, "tmp": 0o1777, "shm": 0o1777}
"""The folders of the writable layer and their first modes: the overlay's two folders, /tmp and /dev/shm."""
_QUIET = linux.MS_NOSUID | linux.MS_NODEV


@dataclass(frozen=True)
class Stage:
    """Descriptors of one built file system: its mount namespace, and the writable layer (``LAYER_FOLDERS``)."""

    namespace: int
    layer: int

    def fds(self) -> tuple[int, int]:
        return self.namespace, self.layer


class StageBuilder:
    """A builder of stages; ``rootless`` says that this process is root only in its own user namespace."""

    def __init__(self, rootless: bool) -> None:
        self.rootless = rootless
        self.owner = 0 if rootless else SANDBOX_UID
        # Only the machine's own root may keep an overlay's marks where no one else can set them.
        self._user_marks = rootless or Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]
        self._home = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        self._etc = base_layer.etc_files()
        self._hidden: dict[str, list[str]] = {}
        self._usr = base_layer.shown_below_usr()

    def layer(self, disk: int, files: int) -> int:
        """Return an empty writable layer, mounted nowhere yet, to be filled before ``build`` takes it."""
        layer = linux.detached_tmpfs(size=str(disk), nr_inodes=str(files), mode="755")
        try:
            self._make_folders(f"/proc/self/fd/{layer}")
        except BaseException:
            os.close(layer)
            raise
        return layer

    def _make_folders(self, layer: str) -> None:
        for name, mode in LAYER_FOLDERS.items():
            path = f"{layer}/{name}"
            os.mkdir(path)
            os.chown(path, self.owner, self.owner)
            os.chmod(path, mode)

    def build(self, workspace: str, binds: Mapping[str, str], disk: int, files: int, layer: int | None = None) -> Stage:
        """Return a new stage over ``workspace``, on a filled ``layer`` if given. Raises OSError naming the mount."""
        self._check_owner(workspace)
        for prefix in ("/usr", *(path for inside, path in binds.items() if inside == base_layer.PYTHON_PREFIX)):
            if prefix not in self._hidden:
                self._hidden[prefix] = base_layer.hidden_below(Path(prefix))
        linux.unshare(linux.CLONE_NEWNS)
        opened: dict[str, int] = {}
        try:
            mount("none", "/", flags=linux.MS_REC | linux.MS_PRIVATE)
            # Opened before the stage covers /tmp, where a source may lie.
            for path in ("/proc", "/usr", "/etc", "/", workspace, *binds.values()):
                opened.setdefault(path, os.open(path, os.O_PATH | os.O_CLOEXEC))
            devices = {name: os.open(f"/dev/{name}", os.O_PATH | os.O_CLOEXEC) for name in base_layer.DEVICES}
            opened.update({f"/dev/{name}": fd for name, fd in devices.items()})
            sources = {path: f"/proc/self/fd/{fd}" for path, fd in opened.items()}
            mount("tmpfs", "/tmp", "tmpfs", _QUIET, "mode=755")
            os.chdir("/tmp")
            self._mount_layer(layer, disk, files, sources[workspace])
            self._mount_all(sources, workspace, binds)
            linux.pivot_here()
            namespace = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            return Stage(namespace, os.open("/w", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        finally:
            linux.setns(self._home, linux.CLONE_NEWNS)
            for fd in opened.values():
                os.close(fd)

    def enter(self, stage: Stage) -> None:
        """Move the calling process into the stage. Called between fork and exec."""
        linux.setns(stage.namespace, linux.CLONE_NEWNS)

    def _check_owner(self, workspace: str) -> None:
        owner = os.stat(workspace).st_uid
        if owner != self.owner:
            whom = "this user" if self.rootless else f"uid {SANDBOX_UID}"
            raise PermissionError(f"{workspace} must belong to {whom}, or the sandbox cannot write it: chown -R it")

    def _mount_layer(self, layer: int | None, disk: int, files: int, lower: str) -> None:
        os.mkdir("w")
        if layer is not None:
            linux.attach(layer, "w")
            return
        mount("tmpfs", "w", "tmpfs", _QUIET, f"size={disk},nr_inodes={files},mode=755")
        self._make_folders("w")
        os.chmod("w/upper", os.stat(lower).st_mode & 0o7777)

    def _mount_all(self, sources: Mapping[str, str], workspace: str, binds: Mapping[str, str]) -> None:
        for name in ("r", "proc", "tmp", "empty"):
            os.mkdir(name)
        Path("blank").touch()
        mount(sources["/proc"], "proc", flags=linux.MS_BIND | linux.MS_REC)
        os.symlink("r/usr", "usr")
        mount("tmpfs", "r", "tmpfs", _QUIET, "mode=755")
        self._mount_base(sources)
        self._mount_devices(sources)
        bind("w/tmp", "r/tmp", read_only=False)
        for inside, path in sorted(binds.items()):
            self._mount_bind(inside, path, sources[path])
        self._mount_workspace(sources[workspace])
        mount("", "r", flags=linux.MS_BIND | linux.MS_REMOUNT | linux.MS_RDONLY | _QUIET)

    def _mount_base(self, sources: Mapping[str, str]) -> None:
        for name in ("usr", "etc", "dev", "proc", "tmp", "run", "var", "opt", "workspace"):
            os.mkdir(f"r/{name}", 0o755)
        os.symlink("/tmp", "r/var/tmp")
        os.symlink("/run", "r/var/run")
        for part in self._usr:
            os.makedirs(f"r/usr/{part}", exist_ok=True)
            bind(f"{sources['/usr']}/{part}", f"r/usr/{part}")
        self._hide("r/usr", "/usr")
        for name in base_layer.ROOT_LINKS:
            host = f"{sources['/']}/{name}"
            if os.path.islink(host):
                os.symlink(os.readlink(host), f"r/{name}")
            elif os.path.isdir(host):
                os.mkdir(f"r/{name}")
                bind(host, f"r/{name}")
            if os.path.lexists(f"r/{name}"):
                os.symlink(f"r/{name}", name)
        for name, content in self._etc.items():
            Path("r/etc", name).write_bytes(content)
        alternatives = f"{sources['/etc']}/alternatives"
        if os.path.isdir(alternatives):
            os.mkdir("r/etc/alternatives")
            bind(alternatives, "r/etc/alternatives")

    def _mount_devices(self, sources: Mapping[str, str]) -> None:
        for name in base_layer.DEVICES:
            Path("r/dev", name).touch()
            bind(sources[f"/dev/{name}"], f"r/dev/{name}", read_only=False, devices=True)
        for name, target in {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}.items():
            os.symlink(target, f"r/dev/{name}")
        os.symlink("pts/ptmx", "r/dev/ptmx")
        for name in ("shm", "pts"):
            os.mkdir(f"r/dev/{name}")
        bind("w/shm", "r/dev/shm", read_only=False)
        mount("devpts", "r/dev/pts", "devpts", linux.MS_NOSUID | linux.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")

    def _mount_bind(self, inside: str, path: str, source: str) -> None:
        target = f"r/{inside.strip('/')}"
        if os.path.isdir(source):
            os.makedirs(target, exist_ok=True)
            # As a layer, not a bind: the table of mounts would name the host's folder.
            marks = ",userxattr" if self._user_marks else ""
            mount("overlay", target, "overlay", _QUIET | linux.MS_RDONLY, f"lowerdir={source}:empty{marks}")
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            Path(target).touch()
            bind(source, target)
        if inside == base_layer.PYTHON_PREFIX:
            self._hide(target, path)

    def _hide(self, target: str, path: str) -> None:
        for name in self._hidden[path]:
            if os.path.isdir(f"{target}/{name}"):
                bind("empty", f"{target}/{name}")

    def _mount_workspace(self, lower: str) -> None:
        layers = f"lowerdir={lower},upperdir=w/upper,workdir=w/work"
        # Plain copy-up only, without redirects and metadata-only copies: the upper folder alone shows what changed.
        options = "userxattr" if self._user_marks else "index=off,xino=off,metacopy=off,redirect_dir=nofollow"
        mount("overlay", "r/workspace", "overlay", _QUIET, f"{layers},{options}")
