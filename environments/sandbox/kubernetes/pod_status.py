"""What a pod's status says: whether it runs, why it does not start, and why it ended."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from ....errors import SandboxError, SandboxUnavailable

_ENDED = ("Succeeded", "Failed")
_IMAGE_REASONS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable")
_BROKEN_REASONS = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff")
# Those of the worker.
_EXIT_CODES = {
    0: "its connection was closed",
    3: "the server was silent for a minute",
    4: "a command could not be killed",
}
# Clocks of servers and nodes differ. A living owner has looked at its pod by then, and deleted it.
_KEPT = timedelta(minutes=5)
_UNSTARTED = timedelta(hours=1)
_LONGEST = 300

Pod = Mapping[str, Any]


class State(enum.Enum):
    """What can be done with a pod."""

    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"


def state_of(pod: Pod) -> State:
    """Return whether a pod starts, runs or has ended."""
    if pod.get("status", {}).get("phase") in _ENDED or "deletionTimestamp" in pod["metadata"]:
        return State.ENDED
    return State.RUNNING if "running" in _container_state(pod) else State.STARTING


def hopeless(pod: Pod, image: str) -> SandboxError | None:
    """Return the error of a pod that will not start, None while there is hope."""
    waiting = _container_state(pod).get("waiting") or {}
    reason, message = waiting.get("reason", ""), line(waiting.get("message", ""))
    if reason in _IMAGE_REASONS and reason != "ErrImagePull":  # the kubelet tries that once more
        return SandboxUnavailable(
            f"the cluster cannot pull the image {image} ({reason}: {message}); push it where the nodes can pull it, "
            "or name imagePullSecrets in the file of ETUDE_KUBERNETES_POD"
        )
    if reason in _BROKEN_REASONS:
        return SandboxUnavailable(
            f"the image {image} cannot be started ({reason}: {message}): make it with "
            "examples/deploy/sandbox.Dockerfile"
        )
    return None


def why_not_started(pod: Pod) -> str:
    """Return what a pod waits for, as far as its status says; the scheduler's own words for one without a node."""
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"{condition.get('reason', 'Unschedulable')}: {line(condition.get('message', ''))}"
    waiting = _container_state(pod).get("waiting") or {}
    return ": ".join(part for part in (waiting.get("reason", ""), line(waiting.get("message", ""))) if part)


def is_unschedulable(pod: Pod) -> bool:
    """Return whether no node takes the pod."""
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)


def why_ended(pod: Pod | None) -> str:
    """Return why a pod ended, with the remedy where there is one; ``None`` is a pod that does not exist any more."""
    if pod is None:
        return "the pod was deleted from outside"
    status = pod.get("status", {})
    terminated = _container_state(pod).get("terminated") or {}
    if status.get("reason") == "Evicted":
        return f"the pod was evicted ({line(status.get('message', ''))}): give the nodes more room"
    if terminated.get("reason") == "OOMKilled":
        return (
            "the pod ran out of memory (OOMKilled): where the kubelet kills a whole container, set its "
            "singleProcessOOMKill, or raise the memory limit"
        )
    if status.get("reason"):
        return f"the pod ended ({status['reason']}: {line(status.get('message', ''))})"
    if terminated:
        code: int = terminated.get("exitCode", -1)
        text = line(terminated.get("message", "")) or _EXIT_CODES.get(code, "")
        return f"its worker ended with {code} ({text})" if text else f"its worker ended with {code}"
    if "deletionTimestamp" in pod["metadata"]:
        return "the pod was deleted from outside"
    return "the connection to the pod was closed, by a restart of the API server or by a proxy between"


def is_leftover(pod: Pod, now: datetime) -> bool:
    """Return whether a pod of any server is of no use: it ended some minutes ago, or has not started within an hour."""
    if state_of(pod) is State.STARTING:
        return now - _time(pod["metadata"]["creationTimestamp"]) > _UNSTARTED
    ended = (_container_state(pod).get("terminated") or {}).get("finishedAt")
    if pod.get("status", {}).get("phase") not in _ENDED:
        return False
    return now - _time(ended or pod["metadata"]["creationTimestamp"]) > _KEPT


def utc_now() -> datetime:
    return datetime.now(UTC)


def line(text: object) -> str:
    """Return a message of the cluster as one line that is not too long."""
    return " ".join(str(text).split())[:_LONGEST].rstrip(".")


def _container_state(pod: Pod) -> dict[str, Any]:
    statuses = pod.get("status", {}).get("containerStatuses") or [{}]
    state: dict[str, Any] = statuses[0].get("state") or {}
    return state


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
