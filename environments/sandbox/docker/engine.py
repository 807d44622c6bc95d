"""A container engine on this machine, through docker-py: Docker, or Podman's socket, which speaks the same language.

Every container is labelled with the process that owns it, so that what a dead server left can be found and removed.
"""

from __future__ import annotations

import contextlib
import io
import os
import socket
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....errors import EngineGone, SandboxError, SandboxUnavailable
from ..kernel import linux

LABEL = "etude.sandbox"
OWNER = "etude.owner"
_TIMEOUT_S = 60
_FIRST_WORD_S = 10
_LAST_WORDS = 4096


@dataclass(frozen=True)
class Kind:
    """One engine: how messages call it, where it listens, and how to get it."""

    name: str
    socket_variable: str
    sockets: tuple[str, ...]
    remedy: str

    def address(self) -> str:
        """Return the socket's path. Raises SandboxUnavailable for an engine that is not on this machine."""
        named = os.environ.get(self.socket_variable, "")
        scheme, _, path = named.rpartition("://")
        if scheme not in ("", "unix"):
            why = "its containers show folders of this machine, so it must run here"
            raise SandboxUnavailable(f"{self.socket_variable}={named} is not a unix socket: {why}")
        user_folder = os.environ.get("XDG_RUNTIME_DIR", "$RUN")
        candidates = [path] if path else [socket_path.replace("$RUN", user_folder) for socket_path in self.sockets]
        return next((candidate for candidate in candidates if os.path.exists(candidate)), candidates[0])


DOCKER = Kind(
    "docker",
    "DOCKER_HOST",
    ("/var/run/docker.sock", "$RUN/docker.sock"),
    "apt-get install docker.io, and start it: systemctl start docker (or: dockerd)",
)
PODMAN = Kind(
    "podman",
    "ETUDE_PODMAN_SOCKET",
    ("/run/podman/podman.sock", "$RUN/podman/podman.sock"),
    "apt-get install podman, and start its service: podman system service --time 0 unix:///run/podman/podman.sock",
)


class Engine:
    """A connection to one engine. Safe to use from several threads."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.address = kind.address()
        try:
            import docker
        except ImportError as error:
            raise SandboxUnavailable(f"docker-py is not installed: pip install 'etude[server]' ({error})") from error
        self._check_socket()
        with self.errors("connect"):
            url = f"unix://{self.address}"
            # One quick question first: an engine that holds its socket but does not answer must not cost a minute.
            docker.APIClient(base_url=url, timeout=_FIRST_WORD_S).close()
            self.api = docker.APIClient(base_url=url, version="auto", timeout=_TIMEOUT_S, max_pool_size=32)
            self.info: dict[str, Any] = self.api.info()

    def _check_socket(self) -> None:
        """Raise SandboxUnavailable with the remedy when no engine listens there, or not to this user."""
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.settimeout(_FIRST_WORD_S)
                probe.connect(self.address)
        except PermissionError as error:
            whom = "add yourself to its group (usermod -aG docker $USER, then log in again), or run as root"
            raise SandboxUnavailable(f"no permission on {self.address}: {whom}") from error
        except OSError as error:
            raise SandboxUnavailable(f"no {self.kind.name} engine at {self.address}: {self.kind.remedy}") from error

    @contextlib.contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Turn whatever docker-py raises into a SandboxError of one line."""
        import docker.errors
        import requests

        try:
            yield
        except docker.errors.APIError as error:
            raise SandboxError(f"{self.kind.name} refuses to {what}: {_line(error.explanation or error)}") from error
        except docker.errors.DockerException as error:
            raise SandboxError(f"{self.kind.name} cannot {what}: {_line(error)}") from error
        except (requests.RequestException, OSError) as error:
            raise EngineGone(f"{self.kind.name} cannot {what}: the engine is gone ({_line(error)})") from error

    @property
    def rootless(self) -> bool:
        return any("rootless" in option for option in self.info.get("SecurityOptions") or ())

    def check_runtime(self, runtime: str) -> None:
        """Raise SandboxUnavailable for a runtime that the engine does not know."""
        runtimes = sorted(self.info.get("Runtimes") or {})
        if self.kind is PODMAN:
            raise SandboxUnavailable(
                f"podman's service chooses the runtime: start it with `podman --runtime {runtime} system service`, "
                "and unset ETUDE_DOCKER_RUNTIME"
            )
        if runtime not in runtimes:
            raise SandboxUnavailable(
                f"docker has no runtime {runtime!r} (it has {', '.join(runtimes)}): install it, name it under "
                "'runtimes' in /etc/docker/daemon.json and restart docker"
            )

    def has_image(self, name: str) -> bool:
        with self.errors("list its images"):
            return bool(self.api.images(name=name, quiet=True))

    def import_image(
        self, name: str, files: Mapping[str, bytes], links: Mapping[str, str], folders: Sequence[str]
    ) -> None:
        """Make an image of a few files, without any registry."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for path in folders:
                _add(archive, path, tarfile.DIRTYPE, mode=0o755)
            for path, content in files.items():
                _add(archive, path, tarfile.REGTYPE, content)
            for path, target in links.items():
                _add(archive, path, tarfile.SYMTYPE, target=target)
        repository, _, tag = name.partition(":")
        with self.errors("import an image"):
            answer = self.api.import_image_from_data(buffer.getvalue(), repository=repository, tag=tag)
        if '"error' in str(answer):
            raise SandboxError(f"{self.kind.name} cannot import an image: {_line(answer)}")

    def build_image(self, name: str, recipe: str) -> None:
        """Build an image from another one that is there. Raises SandboxError with the builder's last words."""
        words = ""
        with self.errors("build an image"):
            for part in self.api.build(
                fileobj=io.BytesIO(recipe.encode()), tag=name, rm=True, forcerm=True, network_mode="none", decode=True
            ):
                words = (words + part.get("stream", ""))[-_LAST_WORDS:]
                if "error" in part:
                    raise SandboxError(
                        f"{self.kind.name} cannot build {name}: {_line(words)[-200:]} ({_line(part['error'])[-40:]})"
                    )

    def start(self, config: Mapping[str, Any], name: str) -> tuple[str, socket.socket]:
        """Create, attach to and start a container; return its id and the attached stream."""
        with self.errors("start a container"):
            container = self.api.create_container_from_config(config, name)["Id"]
        try:
            with self.errors("start a container"):
                wish = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
                attached = _socket_of(self.api.attach_socket(container, wish))
                self.api.start(container)
        except BaseException:
            self.remove(container)
            raise
        return container, attached

    def remove(self, container: str) -> bool:
        """Kill and remove a container; return False when it was gone."""
        import docker.errors

        with self.errors("remove a container"):
            try:
                self.api.remove_container(container, force=True, v=True)
            except docker.errors.NotFound:
                return False
            except docker.errors.APIError as error:
                if error.status_code == 409:  # it is being removed already
                    return False
                raise
        return True

    def remove_leftovers(self, owned: str = "", *, dead: bool = True) -> list[str]:
        """Remove the containers of every owner (or of one) that is ``dead``, started or not; return their names."""
        labels = [f"{LABEL}=1", *([f"{OWNER}={owned}"] if owned else [])]
        with self.errors("list its containers"):
            containers = self.api.containers(all=True, filters={"label": labels})
        removed = []
        for container in containers:
            if owner_is_dead(container["Labels"].get(OWNER, "")) is dead and self.remove(container["Id"]):
                removed.append((container["Names"] or [container["Id"][:12]])[0].lstrip("/"))
        return removed


def owner() -> str:
    """Return what names this process for good: boot, pid namespace, pid, start time."""
    pid = os.getpid()
    return f"{_boot()}/{_pid_namespace()}/{pid}/{linux.start_time(pid)}"


def owner_is_dead(label: str) -> bool:
    """Return whether the process that a label names is gone. One in another pid namespace counts as alive."""
    parts = label.split("/")
    if len(parts) != 4 or not parts[2].isdigit():
        return False
    boot, namespace, pid, started = parts
    if boot != _boot():
        return True
    return namespace == _pid_namespace() and linux.start_time(int(pid)) != started


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


def _pid_namespace() -> str:
    return str(os.stat("/proc/self/ns/pid").st_ino)


def _socket_of(attached: Any) -> socket.socket:
    """Return the plain socket below what docker-py hands out, on a new descriptor."""
    raw = getattr(attached, "_sock", attached)
    plain = socket.socket(fileno=os.dup(raw.fileno()))
    attached.close()
    return plain


def _add(
    archive: tarfile.TarFile, path: str, kind: bytes, content: bytes = b"", mode: int = 0o644, target: str = ""
) -> None:
    entry = tarfile.TarInfo(path)
    entry.type, entry.mode, entry.size, entry.linkname = kind, mode, len(content), target
    archive.addfile(entry, io.BytesIO(content))


def _line(text: object) -> str:
    return " ".join(str(text).split())[-400:]
