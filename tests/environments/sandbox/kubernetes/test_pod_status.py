"""What a pod's status means, for ends that the stand-in does not bring about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from etude.environments.sandbox.kubernetes.pod_status import hopeless, is_leftover, why_ended
from etude.errors import SandboxUnavailable

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def pod(phase: str, state: dict[str, Any] | None = None, age: timedelta = timedelta(), **status: Any) -> dict[str, Any]:
    created = (NOW - age).strftime("%Y-%m-%dT%H:%M:%SZ")
    statuses = {"containerStatuses": [{"state": state}]} if state else {}
    return {"metadata": {"creationTimestamp": created}, "status": {"phase": phase, **statuses, **status}}


def ended(age: timedelta, code: int = 0, **fields: Any) -> dict[str, Any]:
    finished = (NOW - age).strftime("%Y-%m-%dT%H:%M:%SZ")
    return pod("Succeeded", {"terminated": {"exitCode": code, "finishedAt": finished, **fields}}, age)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (None, "the pod was deleted from outside"),
        (pod("Failed", reason="Evicted", message="low on memory."), "was evicted (low on memory): give the nodes"),
        (pod("Failed", reason="DeadlineExceeded", message="m"), "the pod ended (DeadlineExceeded: m)"),
        (ended(timedelta(), 137, reason="OOMKilled"), "(OOMKilled): where the kubelet kills a whole container"),
        (ended(timedelta(), 3, reason="Error"), "ended with 3 (the server was silent for a minute)"),
        (ended(timedelta(), 128, reason="StartError", message="no python3"), "ended with 128 (no python3)"),
        (pod("Running", {"running": {}}), "the connection to the pod was closed"),
    ],
)
def test_why_a_pod_ended(found: dict[str, Any] | None, why: str) -> None:
    assert why in why_ended(found)


@pytest.mark.parametrize("reason", ["ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError"])
def test_a_pod_that_will_not_start_is_given_up(reason: str) -> None:
    error = hopeless(pod("Pending", {"waiting": {"reason": reason, "message": "why"}}), "image:1")
    assert isinstance(error, SandboxUnavailable) and f"{reason}: why" in str(error) and "image:1" in str(error)


@pytest.mark.parametrize(
    "state", [{"waiting": {"reason": "ContainerCreating"}}, {"waiting": {"reason": "ErrImagePull"}}]
)
def test_a_pod_that_may_yet_start_is_waited_for(state: dict[str, Any]) -> None:
    assert hopeless(pod("Pending", state), "image:1") is None


@pytest.mark.parametrize(
    ("found", "of_no_use"),
    [
        (ended(timedelta(minutes=10)), True),
        (ended(timedelta(minutes=1)), False),  # its owner may still ask why
        (pod("Running", {"running": {}}, timedelta(days=2)), False),  # its worker ends without a sign of its owner
        (pod("Pending", None, timedelta(minutes=10)), False),
        (pod("Pending", None, timedelta(hours=2)), True),
    ],
)
def test_which_pods_are_leftovers(found: dict[str, Any], of_no_use: bool) -> None:
    assert is_leftover(found, NOW) is of_no_use
