"""The kubernetes backend: a hardened pod per sandbox, and in it one worker that runs the commands.

See pod.py for what a pod consists of, and ../containers for what runs in it. It is opened by its name alone: a cluster
is elsewhere, costs money, and needs an image and folders that only its operator can name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from ....errors import EngineGone, SandboxError, SandboxUnavailable
from ....models import SandboxReport
from ..containers.spares import Started
from ..containers.worker_sandbox import WorkerSandbox, packed_tree
from ..layers.base_layer import PACKAGE_FOLDERS
from ..protocol import Backend, Layers, Limits
from .cluster import Cluster
from .configuration import check_configured
from .fleet import fleet, spare_key
from .pod import TERMINATION_LOG, pod_manifest
from .settings import NETWORK, Settings, is_configured, read_settings

T = TypeVar("T")

KIND = "kubernetes"
# Nothing limits the number of files in a folder in memory, and the number of a pod's processes is a setting of the
# kubelet. A pod sees its node's /proc, and in its table of mounts the names of the folders that it is shown.
LACKS = ("bind-paths", "disk-quota", "machine-facts", "process-quota")
# Prints what is wrong with the image, a line each.
_CHECK_IMAGE = f"""
for program in bash git /usr/bin/python3; do
    command -v "$program" >/dev/null || echo "it has no $program"
done
for folder in {" ".join(f"/usr/{folder} /usr/local/{folder}" for folder in PACKAGE_FOLDERS)}; do
    if [ -d "$folder" ] && [ -n "$(ls -A "$folder" 2>&1)" ]; then echo "it shows Python packages in $folder"; fi
done
if [ -w {TERMINATION_LOG} ]; then echo "commands may enter /root"; fi
"""


async def open_kubernetes(layers: Layers, limits: Limits) -> WorkerSandbox:
    """Open a sandbox. Raises SandboxUnavailable where pods cannot run, SandboxError for a bad request or a full
    cluster.
    """
    settings = await asyncio.to_thread(read_settings)
    packed, _ = await asyncio.to_thread(packed_tree, layers.workspace)
    try:
        return await _open(settings, layers, limits, packed)
    except EngineGone:
        # The API was restarted, or its address has changed; this reads the configuration again.
        return await _open(settings, layers, limits, packed)


async def _open(settings: Settings, layers: Layers, limits: Limits, packed: bytes) -> WorkerSandbox:
    manifest = await asyncio.to_thread(pod_manifest, settings, layers, limits, len(packed), fleet().owner)
    cluster: Cluster = await _in_background(lambda: fleet().cluster(settings.namespace))
    key = spare_key(cluster, manifest)
    sandbox = None
    try:
        if spare := fleet().spares.take(key):
            try:
                sandbox = await _begun(spare, settings, layers, limits, packed)
            except SandboxError:
                sandbox = None  # it ended while it waited
        if sandbox is None:
            started = await _in_background(lambda: fleet().start(cluster, manifest, settings.start_s))
            sandbox = await _begun(started, settings, layers, limits, packed)
    except EngineGone:
        fleet().forget_cluster(cluster)
        raise
    fleet().spares.refill(key, lambda: fleet().start(cluster, manifest, settings.start_s))
    return sandbox


async def _in_background(call: Callable[[], T]) -> T:
    return await asyncio.wrap_future(fleet().starter.submit(call))


async def _begun(started: Started, settings: Settings, layers: Layers, limits: Limits, packed: bytes) -> WorkerSandbox:
    """Return a sandbox in a fresh pod, whose image is looked at when it is the first of that image."""
    lacks = [*LACKS, *([] if settings.loopback else ["loopback"])]
    report = SandboxReport(backend=KIND, isolation="container", limits="cgroup", lacks=sorted(lacks))
    sandbox = WorkerSandbox(KIND, started, layers, limits, report)
    # Another runtime may not report everything that the kernel does.
    watch = not settings.runtime
    reply = await sandbox.begin(packed, watch=watch, sockets=settings.loopback, cut=settings.loopback)
    if "uncut" in reply:
        await sandbox.close()
        raise SandboxUnavailable(
            f"the pod's runtime does not let the worker take its interfaces down ({reply['uncut']}): set {NETWORK}=none"
        )
    if reply["killed_together"]:
        sandbox.report = report.model_copy(update={"lacks": sorted([*lacks, "memory-total"])})
    try:
        await _check_image(sandbox, settings.image)
    except BaseException:
        await sandbox.close()
        raise
    return sandbox


async def _check_image(sandbox: WorkerSandbox, image: str) -> None:
    """Raise SandboxUnavailable for an image that lacks what commands need, or shows what they must not see."""
    if image in fleet().checked_images:
        return
    result = await sandbox.exec(["/bin/sh", "-c", _CHECK_IMAGE])
    if faults := result.output.decode("utf-8", "replace").split("\n")[:-1]:
        raise SandboxUnavailable(
            f"the image {image} cannot be used ({', '.join(faults)}): make it with examples/deploy/sandbox.Dockerfile"
        )
    fleet().checked_images.add(image)


def probe() -> str | None:
    """Return None when a cluster answers and allows pods, else why not. Blocks for some tenths of a second."""
    try:
        return _connected().forbidden()
    except SandboxError as error:
        return str(error)


def cleanup() -> list[str]:
    """Delete the pods of dead servers, and return their names. Raises SandboxError."""
    return _connected().remove_leftovers()


def _connected() -> Cluster:
    """Return a connection. A cluster is asked only where the settings say that it is meant."""
    check_configured()
    cluster = Cluster(read_settings().namespace)
    cluster.check_connection()
    return cluster


KUBERNETES = Backend(open_kubernetes, probe, cleanup, is_configured)
