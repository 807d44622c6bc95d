"""A node of the stand-in for a cluster: it really runs a pod, as a container of this machine's docker.

What docker enforces here as a kubelet's runtime does: the image, command and arguments (with the kubelet's expansion of
``$(NAME)``), user, capabilities, no_new_privs, the default seccomp profile, the read-only root, limits of memory and
CPU, stdin that ends with its first client, the default masks of /proc, folders in memory with a size (0777, of root, as
the kubelet makes them), read-only mounts of hostPath and of a claim's subPath, the hostname, a network with an
interface and a name server, the termination log that everyone may write. What it does not do: probes, init containers,
several containers, a service account, a RuntimeClass, a NetworkPolicy, limits of processes, logs on the node's disk.
"""

from __future__ import annotations

import contextlib
import io
import re
import socket
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import docker

from etude.environments.sandbox import Layers
from etude.environments.sandbox.docker.engine import DOCKER, Engine
from etude.environments.sandbox.docker.image import find_root

# Those of containerd, and so of most clusters.
MASKED = [
    *(
        f"/proc/{name}"
        for name in "asound acpi kcore keys latency_stats timer_list timer_stats sched_debug scsi".split()
    ),
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
]
_READ_ONLY = [f"/proc/{name}" for name in "bus fs irq sys sysrq-trigger".split()]
_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")


@dataclass(frozen=True)
class NodeImage:
    """An image that the node can pull: docker's name of it, and folders of this machine that belong to it."""

    name: str
    binds: Mapping[str, str] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()


class BadMount(Exception):
    """Raised for a volume that the kubelet could not mount."""


def image_of_this_machine() -> NodeImage:
    """Return an image that consists of this machine's base layer, with the closed home of root that images have."""
    root = find_root(Engine(DOCKER), Layers(Path("/")))
    image = NodeImage(root.image, root.binds, root.hidden)
    return with_folder(image, "root", 0o700, f"{root.image.partition(':')[0]}-for-pods")


def with_folder(image: NodeImage, folder: str, mode: int, name: str, file: str = "") -> NodeImage:
    """Return an image with one more folder, and perhaps an empty file in it; it is made when it is missing."""
    api = docker.APIClient(version="auto")
    if not api.images(name=f"{name}:latest", quiet=True):
        made = api.create_container(image.name, command=["true"])["Id"]
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            archive.addfile(entry)
            if file:
                archive.addfile(tarfile.TarInfo(f"{folder}/{file}"))
        api.put_archive(made, "/", buffer.getvalue())
        api.commit(made, repository=name, tag="latest")
        api.remove_container(made)
    return replace(image, name=f"{name}:latest")


class Node:
    """Runs pods."""

    def __init__(self, images: Mapping[str, NodeImage], claims: Mapping[str, Path]) -> None:
        self.images = images
        self.claims = claims
        self.cgroup: Path | None = None
        """A folder that pods see as their control group, in place of the real one."""
        self.withheld: set[str] = set()
        """Capabilities that the runtime does not give."""
        self.api = docker.APIClient(version="auto", timeout=600, max_pool_size=64)
        self._logs = tempfile.TemporaryDirectory(prefix="etude-termination-")

    def start(self, pod: Mapping[str, Any]) -> str:
        """Start a pod's container and return its id. Raises BadMount, and docker's errors."""
        name = pod["metadata"]["name"]
        made: str = self.api.create_container_from_config(self._config(pod), f"k8s-{name}")["Id"]
        try:
            self.api.start(made)
        except BaseException:
            self.remove(made)
            raise
        return made

    def _config(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        spec = pod["spec"]
        (container,) = spec["containers"]
        image = self.images[container["image"]]
        environment = {variable["name"]: variable["value"] for variable in container.get("env", ())}
        rights, limits = container["securityContext"], container["resources"]["limits"]
        memory = int(limits["memory"])
        tmpfs, mounts = self._mounts(spec, container)
        mounts += [_bind(host, inside) for inside, host in sorted(image.binds.items())]
        mounts += [_bind(str(self.cgroup), "/sys/fs/cgroup")] if self.cgroup else []
        log = Path(self._logs.name, pod["metadata"]["name"])
        log.touch()
        log.chmod(0o666)
        mounts.append({**_bind(str(log), container["terminationMessagePath"]), "ReadOnly": False})
        options = [] if rights["allowPrivilegeEscalation"] else ["no-new-privileges"]
        return {
            "Image": image.name,
            "Entrypoint": [_expanded(word, environment) for word in container["command"]],
            "Cmd": [_expanded(word, environment) for word in container["args"]],
            "User": f"{rights['runAsUser']}:{rights['runAsGroup']}",
            "WorkingDir": container["workingDir"],
            "Hostname": spec["hostname"],
            "Env": [f"{name}={value}" for name, value in environment.items()],
            "OpenStdin": container["stdin"],
            "StdinOnce": container["stdinOnce"],
            "HostConfig": {
                "NetworkMode": "host" if spec["hostNetwork"] else "bridge",
                "IpcMode": "host" if spec["hostIPC"] else "private",
                "PidMode": "host" if spec["hostPID"] else "",
                "Privileged": rights["privileged"],
                "ReadonlyRootfs": rights["readOnlyRootFilesystem"],
                "CapDrop": rights["capabilities"]["drop"],
                "CapAdd": sorted(set(rights["capabilities"]["add"]) - self.withheld),
                "SecurityOpt": [*options, "label=disable"],
                "Memory": memory,
                "MemorySwap": memory,
                "NanoCpus": int(limits["cpu"].removesuffix("m")) * 1_000_000,
                "Dns": spec["dnsConfig"]["nameservers"],
                "DnsSearch": ["."],
                "LogConfig": {"Type": "none"},
                "Tmpfs": tmpfs,
                "Mounts": mounts,
                "MaskedPaths": [*MASKED, *image.hidden],
                "ReadonlyPaths": _READ_ONLY,
            },
        }

    def _mounts(self, spec: Mapping[str, Any], container: Mapping[str, Any]) -> tuple[dict[str, str], list[Any]]:
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        tmpfs, mounts = {}, []
        for mount in container["volumeMounts"]:
            volume, path = volumes[mount["name"]], mount["mountPath"]
            read_only = mount.get("readOnly", False)
            if "emptyDir" in volume:
                assert volume["emptyDir"]["medium"] == "Memory"
                mode = "ro" if read_only else "rw"
                tmpfs[path] = f"{mode},exec,suid,dev,mode=777,size={volume['emptyDir']['sizeLimit']}"
            else:
                mounts.append({**_bind(str(self._folder(volume, mount)), path), "ReadOnly": read_only})
        return tmpfs, mounts

    def _folder(self, volume: Mapping[str, Any], mount: Mapping[str, Any]) -> Path:
        if "hostPath" in volume:
            folder = Path(volume["hostPath"]["path"])
        else:
            below = mount["subPath"]
            if below.startswith("/") or ".." in below.split("/"):
                raise BadMount(f"subPath {below} leaves the volume")
            folder = self.claims[volume["persistentVolumeClaim"]["claimName"]] / below
        if not folder.is_dir():
            raise BadMount(f"MountVolume.SetUp failed for volume {volume['name']}: {folder} is not a directory")
        return folder

    def attach(self, container: str) -> socket.socket:
        """Return a socket that carries a container's input in, and docker's pieces of its output out."""
        wish = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        attached = self.api.attach_socket(container, wish)
        plain = socket.socket(fileno=socket.dup(attached._sock.fileno()))
        attached.close()
        plain.setblocking(False)
        return plain

    def wait(self, container: str) -> tuple[int, bool]:
        """Wait for a container's end; return its exit code, and whether the kernel killed it for want of memory."""
        code: int = self.api.wait(container, timeout=3600)["StatusCode"]
        state = self.api.inspect_container(container)["State"]
        return code, state["OOMKilled"] and code == 137

    def remove(self, container: str) -> None:
        with contextlib.suppress(docker.errors.NotFound, docker.errors.APIError):
            self.api.remove_container(container, force=True, v=True)

    def close(self) -> None:
        self.api.close()
        self._logs.cleanup()


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` as the kubelet does: an unknown name stays, a doubled dollar becomes one."""
    return _REFERENCE.sub(lambda found: "$" if found[0] == "$$" else variables.get(found[1], found[0]), text)


def _bind(host: str, inside: str) -> dict[str, Any]:
    return {"Type": "bind", "Source": host, "Target": inside, "ReadOnly": True}
