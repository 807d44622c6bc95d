"""The manifest of a pod: its image, its mounts, its rights and its limits.

The worker's program travels in the arguments, compressed: plain text would be searched for ``$(NAME)`` by the kubelet.
The network namespace of a pod is connected, so commands get no sockets (seccomp), or the worker takes the interfaces
down before any command runs; a NetworkPolicy is a second wall behind both.
"""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ....errors import SandboxError
from ..containers.worker_program import PYTHON_OPTIONS, worker_arguments
from ..containers.worker_sandbox import room
from ..layers.base_layer import PYTHON_PREFIX, hidden_below
from ..protocol import MIB, Layers, Limits
from .settings import BINDS, Settings

LABEL = "etude.sandbox"
OWNER = "etude.owner"
CONTAINER = "worker"
TERMINATION_LOG = "/root/etude-termination"
"""A file that everyone may write, so it lies in a folder that only root may enter."""
# The worker's own memory; the tree that it keeps is added.
_WORKER_MEMORY = 32 * MIB
_SMALLEST_TREE = (1 * MIB, 256)
# The last resort against a pod that no server ends.
_DEADLINE_S = 24 * 3600
# It becomes the sandbox user, kills, and gives that user the folders in memory.
RIGHTS = ("CHOWN", "KILL", "SETGID", "SETUID")
CUTTING_RIGHT = "NET_ADMIN"
_BOOT = (
    "import base64, json, sys, zlib; sys.argv[1:] = json.loads(zlib.decompress(base64.b64decode(sys.argv[1]))); "
    "exec(sys.argv.pop(1))"
)


def pod_manifest(settings: Settings, layers: Layers, limits: Limits, tree_bytes: int, owner: str) -> dict[str, Any]:
    """Return a pod without a name. Raises SandboxError for a bind that cannot be shown.

    It is the same for every workspace of about one size over the same binds, so that pods can be kept ready.
    """
    size = room(tree_bytes, _SMALLEST_TREE[0])
    volumes, mounts = _binds(settings, layers)
    for name, path, most in (
        ("workspace", "/workspace", limits.disk + size),
        ("tmp", "/tmp", limits.disk),
        ("shm", "/dev/shm", limits.disk),
    ):
        volumes.append(_in_memory(name, most))
        mounts.append({"name": name, "mountPath": path})
    resources = {"cpu": f"{round(limits.cpus * 1000)}m", "memory": str(limits.memory + _WORKER_MEMORY + 2 * size)}
    container = {
        "name": CONTAINER,
        "image": settings.image,
        "command": ["/usr/bin/python3", *PYTHON_OPTIONS],
        "args": [_BOOT, _packed(worker_arguments())],
        "workingDir": "/",
        "env": [{"name": "LC_ALL", "value": "C.UTF-8"}, {"name": "PATH", "value": "/usr/local/bin:/usr/bin:/bin"}],
        "stdin": True,
        "stdinOnce": True,
        "resources": {"requests": resources, "limits": resources},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": [*RIGHTS, *([CUTTING_RIGHT] if settings.loopback else [])]},
            "privileged": False,
            "readOnlyRootFilesystem": True,
            "runAsGroup": 0,
            "runAsNonRoot": False,
            "runAsUser": 0,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationMessagePath": TERMINATION_LOG,
        "volumeMounts": sorted(mounts, key=lambda mount: mount["mountPath"]),
    }
    metadata, spec = ({**settings.extra.get(section, {})} for section in ("metadata", "spec"))
    labels = {**metadata.pop("labels", {}), LABEL: "1", OWNER: owner}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "labels": labels},
        "spec": {
            "activeDeadlineSeconds": _DEADLINE_S,
            **spec,
            **_isolated(),
            "containers": [container],
            "volumes": volumes,
        },
    }


def _isolated() -> dict[str, Any]:
    """Return the pod's own fields, which nothing overrides."""
    return {
        "automountServiceAccountToken": False,
        # Neither the cluster's names nor a way to look them up.
        "dnsConfig": {"nameservers": ["127.0.0.1"]},
        "dnsPolicy": "None",
        "enableServiceLinks": False,
        "hostIPC": False,
        "hostNetwork": False,
        "hostPID": False,
        "hostname": "etude",
        "restartPolicy": "Never",
        "shareProcessNamespace": False,
        "terminationGracePeriodSeconds": 1,
    }


def _binds(settings: Settings, layers: Layers) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the volumes and mounts that show the layers' folders, without the Python packages of an interpreter."""
    volumes: list[dict[str, Any]] = []
    mounts: list[dict[str, Any]] = []
    for number, (inside, host) in enumerate(sorted(layers.binds.items())):
        folder = host.resolve()
        if not folder.is_dir():
            raise SandboxError(f"{host} does not exist")
        if settings.host:
            volumes.append({"name": f"bind-{number}", "hostPath": {"path": str(folder), "type": "Directory"}})
            mounts.append({"name": f"bind-{number}", "mountPath": inside, "readOnly": True})
        else:
            mounts.append({"name": "binds", "mountPath": inside, "readOnly": True, "subPath": _below(settings, folder)})
    if layers.binds and settings.claim:
        source = {"claimName": settings.claim.name, "readOnly": True}
        volumes.append({"name": "binds", "persistentVolumeClaim": source})
    if hidden := list(_hidden(layers.binds)):
        volumes.append(_in_memory("hidden", MIB))
        mounts += [{"name": "hidden", "mountPath": path, "readOnly": True} for path in hidden]
    return volumes, mounts


def _below(settings: Settings, folder: Path) -> str:
    """Return a folder's path in the claim. Raises SandboxError for one that lies elsewhere."""
    if settings.claim is None:
        raise SandboxError(
            f"pods cannot see {folder}: set {BINDS} to claim:NAME:/FOLDER, where FOLDER is the claim's mount on this "
            "server, or to 'host' when the pods run on this machine"
        )
    if not folder.is_relative_to(settings.claim.folder) or folder == settings.claim.folder:
        raise SandboxError(
            f"pods cannot see {folder}: it is not below {settings.claim.folder}, where the claim {settings.claim.name} "
            f"is mounted; set ETUDE_CACHE to a folder below {settings.claim.folder}"
        )
    return str(folder.relative_to(settings.claim.folder))


def _hidden(binds: Mapping[str, Path]) -> Iterable[str]:
    if PYTHON_PREFIX in binds:
        for name in hidden_below(binds[PYTHON_PREFIX].resolve()):
            yield os.path.join(PYTHON_PREFIX, name)


def _in_memory(name: str, most: int) -> dict[str, Any]:
    return {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": str(most)}}


def _packed(arguments: list[str]) -> str:
    return base64.b64encode(zlib.compress(json.dumps(arguments).encode(), 9)).decode()
