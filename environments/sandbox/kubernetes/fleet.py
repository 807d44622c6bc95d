"""The pods of this process: how one is started, those that are kept ready, and their removal."""

from __future__ import annotations

import atexit
import json
import os
import threading
import time
from collections.abc import Mapping
from typing import Any

from ....errors import SandboxError, SandboxUnavailable
from ....loop_thread import LoopThread
from ..containers.background import Background
from ..containers.spares import Spares, Started
from ..containers.stream import Stream, close_all
from . import pod_status
from .attach import attach
from .cluster import Cluster
from .pod_status import State

_SPARES_AT_ONCE = 8
_STARTS_AT_ONCE = 32
_BETWEEN_S = 0.5
# The kubelet reports the end of a container a moment after its connection has ended.
_LAST_LOOK_S = 5.0


class Fleet:
    """The connections, pods and threads of this process; shared by its event loops."""

    def __init__(self) -> None:
        self.owner = os.urandom(12).hex()
        self.starter: Background[Any] = Background(_STARTS_AT_ONCE, "etude-pod")
        self.spares = Spares(_SPARES_AT_ONCE)
        self._lock = threading.Lock()
        self._clusters: dict[str, Cluster] = {}
        self._carrier: LoopThread | None = None
        self._closing = False
        self.checked_images: set[str] = set()
        """Images that were found to hold what commands need, and nothing that they must not see."""

    def cluster(self, namespace: str) -> Cluster:
        """Return a connection; the first one also removes leftovers of dead servers. Blocks."""
        key = f"{os.environ.get('KUBECONFIG', '')} {namespace}"
        with self._lock:
            if key not in self._clusters:
                cluster = Cluster(namespace)
                cluster.check_connection()
                cluster.remove_leftovers()
                self.spares.keep_alive()
                self._carrier = self._carrier or LoopThread()
                self._clusters[key] = cluster
            return self._clusters[key]

    def forget_cluster(self, cluster: Cluster) -> None:
        """Drop a connection that failed: the next sandbox reads the configuration again."""
        with self._lock:
            self._clusters = {key: other for key, other in self._clusters.items() if other is not cluster}

    def start(self, cluster: Cluster, manifest: Mapping[str, Any], patience_s: float) -> Started:
        """Start a new pod and connect with its worker. Blocks for seconds; raises SandboxError."""
        name = f"etude-sandbox-{os.urandom(5).hex()}"
        cluster.create(manifest, name)
        try:
            _wait_until_running(cluster, name, manifest["spec"]["containers"][0]["image"], patience_s)
            assert self._carrier is not None
            attached = attach(
                self._carrier, cluster, name, lambda: _epitaph(cluster, name), lambda: self._remove(cluster, name)
            )
        except BaseException:
            self._remove(cluster, name)
            raise
        return Started(name, Stream(attached, "kubernetes", f"the pod {name} is gone (or the way to it)"))

    def _remove(self, cluster: Cluster, name: str) -> None:
        try:
            if not self._closing:
                cluster.delete(name)
        except SandboxError:
            return  # its worker has ended, or does within a minute; a later server deletes it

    def close(self) -> None:
        """Delete every pod that this process still has."""
        self._closing = True
        # Those that start end with it; then nothing starts any more.
        self._remove_owned()
        self.spares.close()
        self._remove_owned()

    def _remove_owned(self) -> None:
        for cluster in self._clusters.values():
            try:
                cluster.remove_owned(self.owner)
            except SandboxError:
                continue


def spare_key(cluster: Cluster, manifest: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return what pods that can stand in for each other have in common."""
    return cluster.host, cluster.namespace, json.dumps(manifest, sort_keys=True)


def _wait_until_running(cluster: Cluster, name: str, image: str, patience_s: float) -> None:
    """Wait for a pod's worker. Raises SandboxError with the cluster's own words when it does not start."""
    give_up = time.monotonic() + patience_s
    last: dict[str, Any] = {}
    while time.monotonic() < give_up:
        for pod in cluster.watch(name, max(1.0, give_up - time.monotonic())):
            if pod is None:
                raise SandboxError(f"the pod {name} was deleted while it started; open a new sandbox")
            last = pod
            state = pod_status.state_of(pod)
            if state is State.RUNNING:
                return
            if state is State.ENDED:
                raise SandboxError(f"the pod {name} did not start: {pod_status.why_ended(pod)}")
            if error := pod_status.hopeless(pod, image):
                raise error
            if time.monotonic() > give_up:
                break
        time.sleep(_BETWEEN_S)
    raise _too_slow(cluster, name, last, patience_s)


def _too_slow(cluster: Cluster, name: str, pod: dict[str, Any], patience_s: float) -> SandboxError:
    if pod and pod_status.is_unschedulable(pod):
        return SandboxError(
            f"no node takes the pod {name} within {patience_s:g} s ({pod_status.why_not_started(pod)}): add nodes or "
            "memory, keep fewer sandboxes open, or wait longer with ETUDE_KUBERNETES_START"
        )
    reason = cluster.warning(name) or (pod and pod_status.why_not_started(pod)) or "nothing is said about it"
    kind = SandboxUnavailable if "Image" in reason or "mount" in reason.lower() else SandboxError
    return kind(
        f"the pod {name} did not start within {patience_s:g} s ({reason}): correct that, or wait longer with "
        "ETUDE_KUBERNETES_START"
    )


def _epitaph(cluster: Cluster, name: str) -> str:
    """Return why a pod that should run has ended."""
    give_up = time.monotonic() + _LAST_LOOK_S
    try:
        pod = cluster.pod(name)
        while pod and pod_status.state_of(pod) is not State.ENDED and time.monotonic() < give_up:
            time.sleep(_BETWEEN_S)
            pod = cluster.pod(name)
    except SandboxError as error:
        return str(error)
    return pod_status.why_ended(pod)


_fleet: Fleet | None = None
_fleet_lock = threading.Lock()


def fleet() -> Fleet:
    """Return this process's fleet."""
    global _fleet
    with _fleet_lock:
        if _fleet is None:
            _fleet = Fleet()
        return _fleet


def close_fleet() -> None:
    """Delete every pod of this process; the next sandbox makes a new fleet."""
    global _fleet
    with _fleet_lock:
        closing, _fleet = _fleet, None
    if closing is not None:
        closing.close()


def _after_fork() -> None:
    global _fleet, _fleet_lock
    _fleet_lock = threading.Lock()
    if _fleet is not None:
        close_all()
        _fleet = None


atexit.register(close_fleet)
os.register_at_fork(after_in_child=_after_fork)
