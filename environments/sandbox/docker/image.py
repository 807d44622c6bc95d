"""The configuration of a container: its root, its mounts, its rights and its limits.

The root is this machine's allow-listed base layer, as with bubblewrap: a few files imported as an image, without any
registry, and folders of /usr bound read-only. ETUDE_DOCKER_BASE names an image to use instead; a copy without its
Python packages is built from it.
"""

from __future__ import annotations

import hashlib
import os
import resource
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....errors import SandboxError, SandboxUnavailable
from ..containers.worker_program import PYTHON_OPTIONS, worker_arguments
from ..containers.worker_sandbox import room
from ..layers.base_layer import HIDDEN_PROC, PYTHON_PREFIX, ROOT_LINKS, etc_files, hidden_below, shown_below_usr
from ..protocol import MIB, SANDBOX_UID, Layers, Limits
from .bind_links import mount_without_path
from .engine import LABEL, OWNER, PODMAN, Engine, owner

BASE_VARIABLE = "ETUDE_DOCKER_BASE"
RUNTIME_VARIABLE = "ETUDE_DOCKER_RUNTIME"
# The worker's own memory; the tree that it keeps is added.
_WORKER_MEMORY = 32 * MIB
_SMALLEST_TREE = (1 * MIB, 256)
# Of all sandboxes together; each container has its own limit too.
_PROCESSES = 16_384
_OPEN_FILES = 16_384
# Another runtime's own kernel is a program with threads, which the same limit counts.
_RUNTIME_PROCESSES = 256
_RIGHTS = ("SETUID", "SETGID", "KILL")
_FOLDERS = ("usr", "etc", "dev", "proc", "sys", "tmp", "run", "var", "opt", "workspace")
# The engine's own list, which the list given here replaces.
_MASKED = [
    *(f"/proc/{name}" for name in "asound acpi interrupts kcore keys latency_stats sched_debug scsi".split()),
    *(f"/proc/{name}" for name in "key-users locks partitions timer_list timer_stats vmstat".split()),
    *(f"/proc/{name}" for name in HIDDEN_PROC),
    # All of /sys but the control groups, which the worker reads: bubblewrap's sandboxes have no /sys.
    *(f"/sys/{name}" for name in "block bus class dev devices firmware hypervisor kernel module power".split()),
    *(f"/sys/fs/{name}" for name in "btrfs ext4 f2fs fuse xfs".split()),
]
_READ_ONLY = "/proc/bus /proc/fs /proc/irq /proc/sys /proc/sysrq-trigger".split()
PREPARE = """FROM {base}
USER 0:0
RUN rm -rf /usr/lib*/python*/site-packages /usr/lib*/python*/dist-packages /usr/lib*/python*/ensurepip/_bundled \\
    /usr/local/lib*/python*/site-packages /usr/local/lib*/python*/dist-packages \\
    /usr/local/lib*/python*/ensurepip/_bundled /usr/share/python-wheels; \\
    find /usr /opt -depth \\( -name '*.dist-info' -o -name '*.egg-info' -o -name third_party \\
    -o -name node_modules \\) \\
    -exec rm -rf {{}} + ; find / -xdev -type f -perm /6000 -exec chmod a-s {{}} + ; \\
    mkdir -p /workspace && python3 -c 'import ctypes, sys; sys.exit(sys.version_info < (3, 8))'
"""
# So that two sandboxes do not make the same image.
_one_at_a_time = threading.Lock()


@dataclass(frozen=True)
class Root:
    """The root of a container."""

    image: str
    """The image's name."""
    binds: dict[str, str]
    """The host's folders that belong to it, by their paths inside."""
    hidden: tuple[str, ...]
    """The paths below these folders that no command may see."""
    python: str
    """The interpreter that runs the worker."""


def find_root(engine: Engine, layers: Layers) -> Root:
    """Return the root for these layers, made when it is missing. Raises SandboxUnavailable with the way to get one."""
    base = os.environ.get(BASE_VARIABLE, "")
    with _one_at_a_time:
        return _prepared_root(engine, base) if base else _host_root(engine, layers)


def _prepared_root(engine: Engine, base: str) -> Root:
    if not engine.has_image(base):
        raise SandboxUnavailable(
            f"{BASE_VARIABLE}={base} is not an image of {engine.kind.name} here; run `{engine.kind.name} pull {base}`, "
            "or unset it to use this machine's own /usr"
        )
    with engine.errors(f"inspect {base}"):
        identity = engine.api.inspect_image(base)["Id"]
    recipe = PREPARE.format(base=base)
    name = f"localhost/etude-sandbox-{hashlib.sha256(f'{identity} {recipe}'.encode()).hexdigest()[:16]}:latest"
    if not engine.has_image(name):
        try:
            engine.build_image(name, recipe)
        except SandboxError as error:
            raise SandboxUnavailable(
                f"{base} cannot be a base, it needs a shell and python3 >= 3.8: {error}"
            ) from error
    return Root(name, {}, (), "python3")


def _host_root(engine: Engine, layers: Layers) -> Root:
    usr = shown_below_usr()
    binds = {os.path.normpath(f"/usr/{part}"): os.path.normpath(f"/usr/{part}") for part in usr}
    links = {"var/tmp": "/tmp", "var/run": "/run"}
    for name in ROOT_LINKS:
        path = Path("/", name)
        if path.is_symlink():
            links[name] = os.readlink(path)
        elif path.is_dir():
            binds[str(path)] = str(path)
    if Path("/etc/alternatives").is_dir():
        binds["/etc/alternatives"] = "/etc/alternatives"
    files = {f"etc/{name}": content for name, content in etc_files().items()}
    described = repr((sorted(files.items()), sorted(links.items()), _FOLDERS)).encode()
    image = f"localhost/etude-sandbox-{hashlib.sha256(described).hexdigest()[:16]}:latest"
    if not engine.has_image(image):
        engine.import_image(image, files, links, _FOLDERS)
    hidden = [f"/usr/{name}" for name in hidden_below(Path("/usr"))]
    shown = tuple(path for path in hidden if any(path.startswith(f"{part}/") or path == part for part in binds))
    python = "/usr/bin/python3"
    if not Path(python).exists():
        if PYTHON_PREFIX not in layers.binds:
            raise SandboxUnavailable(f"no {python} for the worker: apt-get install python3, or set {BASE_VARIABLE}")
        python = f"{PYTHON_PREFIX}/bin/python3"
    return Root(image, binds, shown, python)


def container_config(
    engine: Engine, root: Root, layers: Layers, limits: Limits, tree: tuple[int, int], runtime: str
) -> dict[str, Any]:
    """Return what the engine's API takes; ``tree`` holds the workspace's bytes and paths, which no limit counts.

    It is the same for every workspace of about one size over the same binds, so that containers can be kept ready.
    """
    size, paths = (room(value, least) for value, least in zip(tree, _SMALLEST_TREE, strict=True))
    folders_of_layers = {inside: str(host.resolve()) for inside, host in layers.binds.items()}
    for host in (*root.binds.values(), *folders_of_layers.values()):
        if not os.path.exists(host):
            raise SandboxError(f"{host} does not exist")
    # Everyone knows the folders of /usr; the others lie in a cache, whose names say what is played.
    binds = root.binds if hides_paths(engine) else {**root.binds, **folders_of_layers}
    overlays = folders_of_layers if hides_paths(engine) else {}
    python = layers.binds.get(PYTHON_PREFIX)
    hidden = [*root.hidden, *(f"{PYTHON_PREFIX}/{name}" for name in (hidden_below(python.resolve()) if python else ()))]
    memory = limits.memory + _WORKER_MEMORY + 2 * size
    folders = {
        "/workspace": (limits.disk + size, limits.files + paths, "755"),
        "/tmp": (limits.disk, limits.files, "1777"),
        "/dev/shm": (limits.disk, limits.files, "1777"),
    }
    host_config = {
        "NetworkMode": "none",
        "IpcMode": "private",
        "ReadonlyRootfs": True,
        "AutoRemove": True,
        "CapDrop": ["ALL"],
        "CapAdd": [*_RIGHTS, *(["CHOWN"] if engine.kind is PODMAN else [])],
        "SecurityOpt": ["no-new-privileges", "label=disable"],
        "PidsLimit": limits.processes + 1 + (_RUNTIME_PROCESSES if runtime else 0),
        "Memory": memory,
        "MemorySwap": memory,
        "NanoCpus": int(min(limits.cpus, os.cpu_count() or 1) * 1e9),
        "LogConfig": {"Type": "none"},
        "Ulimits": [
            _ulimit("nofile", resource.RLIMIT_NOFILE, _OPEN_FILES),
            _ulimit("nproc", resource.RLIMIT_NPROC, _PROCESSES),
        ],
        "Tmpfs": {path: _tmpfs(engine, *options) for path, options in folders.items()},
        "Mounts": [
            {"Type": "bind", "Source": host, "Target": inside, "ReadOnly": True}
            for inside, host in sorted(binds.items())
        ]
        + [mount_without_path(host, inside) for inside, host in sorted(overlays.items())],
        "MaskedPaths": [*_MASKED, *hidden],
        "ReadonlyPaths": _READ_ONLY,
    }
    if runtime:
        engine.check_runtime(runtime)
        host_config["Runtime"] = runtime
    return {
        "Image": root.image,
        "Entrypoint": [root.python, *PYTHON_OPTIONS],
        "Cmd": worker_arguments(),
        "User": "0:0",
        "WorkingDir": "/",
        "Hostname": "etude",
        "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8"],
        "Labels": {LABEL: "1", OWNER: owner()},
        "NetworkDisabled": True,
        "OpenStdin": True,
        "StdinOnce": True,
        **{f"Attach{name}": True for name in ("Stdin", "Stdout", "Stderr")},
        "HostConfig": host_config,
    }


def hides_paths(engine: Engine) -> bool:
    """Return whether the engine can show a folder without its path: docker as root, which mounts overlays."""
    return engine.kind is not PODMAN and not engine.rootless


def _ulimit(name: str, kind: int, most: int) -> dict[str, Any]:
    # Podman asks for more than a restricted machine grants; what this process has is a safe guess.
    hard = resource.getrlimit(kind)[1]
    value = most if hard == resource.RLIM_INFINITY else min(most, hard)
    return {"Name": name, "Soft": value, "Hard": value}


def _tmpfs(engine: Engine, size: int, files: int, mode: str) -> str:
    # Podman refuses to limit the number of files, and would copy the image's folder in.
    extra = "notmpcopyup" if engine.kind is PODMAN else f"nr_inodes={files},uid={SANDBOX_UID},gid={SANDBOX_UID}"
    return f"rw,exec,nosuid,nodev,size={size},mode={mode},{extra}"
