"""A stand-in for a cluster: the paths of the Kubernetes API that the backend uses, over TLS, in front of one node.

Each pod is checked against the published schema, then by the rules of the Pod Security Standard of its namespace, then
scheduled by its request of memory. What the account may do is read from the Role of examples/deploy. Settings make the
cluster refuse or fail as real ones do.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import secrets
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import docker
import kubernetes_validate
from helpers.stand_in_node import BadMount, Node

NAMESPACE = "etude"
# The Pod Security Standard "baseline" allows these to be added.
_BASELINE = set(
    "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID "
    "SYS_CHROOT".split()
)


class Refusal(Exception):
    """Raised for a request that the API refuses; it becomes a Status."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        }


@dataclass
class Cluster:
    """The stand-in: its settings and its pods."""

    node: Node
    rules: set[tuple[str, str]]
    """What the account may do: (verb, resource)."""
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    memory: int = 64 << 30
    """Bytes that the node has for pods."""
    standard: str = "baseline"
    """The Pod Security Standard of the namespace: privileged, baseline or restricted."""
    quota: int = 1000
    """How many pods the namespace may have."""
    broken: int = 0
    """So many of the next requests fail inside the API server."""
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    created: list[dict[str, Any]] = field(default_factory=list)
    """Every pod as it was asked for."""

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._log: list[dict[str, Any]] = []
        self._containers: dict[str, str] = {}
        self._numbers = itertools.count(1)

    # The API

    def allow(self, headers: Mapping[str, str], *needed: tuple[str, str]) -> None:
        if self.broken:
            self.broken -= 1
            raise Refusal(500, "InternalError", "etcdserver: leader changed")
        if headers.get("authorization") != f"Bearer {self.token}":
            raise Refusal(401, "Unauthorized", "Unauthorized")
        for verb, resource in needed:
            if (verb, resource) not in self.rules:
                account = f'User "system:serviceaccount:{NAMESPACE}:etude-sandboxes"'
                raise Refusal(
                    403,
                    "Forbidden",
                    f'{resource.partition("/")[0]} is forbidden: {account} cannot {verb} resource "{resource}" in API '
                    f'group "" in the namespace "{NAMESPACE}"',
                )

    def create(self, pod: dict[str, Any]) -> dict[str, Any]:
        name = pod["metadata"]["name"]
        try:
            kubernetes_validate.validate(pod, "1.31", strict=True)
        except kubernetes_validate.ValidationError as error:
            raise Refusal(422, "Invalid", f'Pod "{name}" is invalid: {error.message}') from error
        with self._lock:
            if name in self.pods:
                raise Refusal(409, "AlreadyExists", f'pods "{name}" already exists')
            if len(self.pods) >= self.quota:
                raise Refusal(403, "Forbidden", f'pods "{name}" is forbidden: exceeded quota: pods, used: {self.quota}')
            self._admit(pod)
            self.created.append(json.loads(json.dumps(pod)))
            pod["metadata"].update(uid=secrets.token_hex(16), creationTimestamp=_now(), namespace=NAMESPACE)
            pod["status"] = {"phase": "Pending"}
            self.pods[name] = pod
            self._changed("ADDED", pod)
        threading.Thread(target=self._schedule, args=(pod,), daemon=True).start()
        return pod

    def _admit(self, pod: dict[str, Any]) -> None:
        rights = pod["spec"]["containers"][0]["securityContext"]
        added = set(rights["capabilities"]["add"]) - _BASELINE
        volumes = [volume for volume in pod["spec"]["volumes"] if "hostPath" in volume]
        why = ""
        if self.standard == "restricted" and not rights["runAsNonRoot"]:
            why = "runAsNonRoot != true"
        elif self.standard == "baseline" and (added or volumes or rights["privileged"]):
            why = f"non-default capabilities {sorted(added)}" if added else "hostPath volumes"
        if why:
            name = pod["metadata"]["name"]
            message = f'pods "{name}" is forbidden: violates PodSecurity "{self.standard}:latest": {why}'
            raise Refusal(403, "Forbidden", message)

    def _schedule(self, pod: dict[str, Any]) -> None:
        container = pod["spec"]["containers"][0]
        needs = int(container["resources"]["requests"]["memory"])
        with self._lock:
            running = [one for one in self.pods.values() if "nodeName" in one["spec"] and _alive(one)]
            used = sum(int(one["spec"]["containers"][0]["resources"]["requests"]["memory"]) for one in running)
            fits = used + needs <= self.memory
            if fits:
                pod["spec"]["nodeName"] = "node"
        if not fits:
            message = "0/1 nodes are available: 1 Insufficient memory. preemption: no victims found."
            reason = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
            return self._set(pod, {"phase": "Pending", "conditions": [reason]})
        if container["image"] not in self.node.images:
            return self._set(pod, _waiting("ImagePullBackOff", f'Back-off pulling image "{container["image"]}"'))
        self._set(pod, _waiting("ContainerCreating", ""))
        try:
            started = self.node.start(pod)
        except BadMount as error:
            involved = {"kind": "Pod", "name": pod["metadata"]["name"]}
            self.events.append(
                {"involvedObject": involved, "type": "Warning", "reason": "FailedMount", "message": str(error)}
            )
            return None
        except docker.errors.APIError as error:
            return self._ended(pod, {"exitCode": 128, "reason": "StartError", "message": error.explanation})
        self._containers[pod["metadata"]["name"]] = started
        self._set(pod, {"phase": "Running", "containerStatuses": [_status({"running": {"startedAt": _now()}})]})
        if pod["metadata"]["name"] not in self.pods:  # deleted meanwhile
            self.node.remove(started)
        threading.Timer(pod["spec"]["activeDeadlineSeconds"], self._expire, (pod,)).start()
        with contextlib.suppress(docker.errors.NotFound):
            code, oom = self.node.wait(started)
            reason = "OOMKilled" if oom else "Error" if code else "Completed"
            return self._ended(pod, {"exitCode": code, "reason": reason})

    def _ended(self, pod: dict[str, Any], terminated: dict[str, Any]) -> None:
        phase = "Failed" if terminated["exitCode"] else "Succeeded"
        state = {"terminated": {**terminated, "startedAt": _now(), "finishedAt": _now()}}
        self._set(pod, {**pod["status"], "phase": phase, "containerStatuses": [_status(state)]})

    def _expire(self, pod: dict[str, Any]) -> None:
        if _alive(pod):
            message = "Pod was active on the node longer than the specified deadline"
            self.fail(pod["metadata"]["name"], "DeadlineExceeded", message)

    def delete(self, name: str) -> dict[str, Any]:
        with self._lock:
            pod = self.found(name)
            pod["metadata"]["deletionTimestamp"] = _now()
            self._changed("MODIFIED", pod)
        self.kill(name)
        with self._lock:
            if self.pods.pop(name, None):
                self._changed("DELETED", pod)
        if name in self._containers:
            self.node.remove(self._containers[name])
        return pod

    def found(self, name: str) -> dict[str, Any]:
        if name not in self.pods:
            raise Refusal(404, "NotFound", f'pods "{name}" not found')
        return self.pods[name]

    def _set(self, pod: dict[str, Any], status: dict[str, Any]) -> None:
        with self._lock:
            pod["status"] = status
            if pod["metadata"]["name"] in self.pods:
                self._changed("MODIFIED", pod)

    def _changed(self, kind: str, pod: dict[str, Any]) -> None:
        pod["metadata"]["resourceVersion"] = str(next(self._numbers))
        self._log.append({"type": kind, "object": json.loads(json.dumps(pod))})

    def listed(self, query: Any) -> list[dict[str, Any]]:
        with self._lock:
            return [pod for pod in self.pods.values() if _selected(pod, query)]

    async def watched(self, query: Any) -> AsyncIterator[str]:
        """Yield what exists, then what changes."""
        with self._lock:
            seen = len(self._log)
            lines = [{"type": "ADDED", "object": pod} for pod in self.listed(query)]
            text = "".join(f"{json.dumps(line)}\n" for line in lines)
        yield text
        give_up = asyncio.get_running_loop().time() + float(query.get("timeoutSeconds", 60))
        while asyncio.get_running_loop().time() < give_up:
            for event in self._log[seen:]:
                if _selected(event["object"], query):
                    yield f"{json.dumps(event)}\n"
                seen += 1
            await asyncio.sleep(0.01)

    # What happens to pods

    def kill(self, name: str) -> None:
        """Kill a pod's container, as the kubelet or the kernel does."""
        if name in self._containers:
            with contextlib.suppress(docker.errors.APIError):
                self.node.api.kill(self._containers[name])

    def fail(self, name: str, reason: str, message: str) -> None:
        """End a pod from outside, as an eviction does."""
        with self._lock:
            pod = self.pods[name]
            pod["status"] = {"phase": "Failed", "reason": reason, "message": message}
            self._changed("MODIFIED", pod)
        self.kill(name)

    def container_of(self, name: str) -> str:
        """Return the container of a running pod."""
        pod = self.found(name)
        if "running" not in (pod["status"].get("containerStatuses") or [{"state": {}}])[0]["state"]:
            raise Refusal(400, "BadRequest", "container worker is not running")
        return self._containers[name]


def _selected(pod: dict[str, Any], query: Any) -> bool:
    labels = [part.split("=") for part in query.get("labelSelector", "").split(",") if part]
    name = query.get("fieldSelector", "").removeprefix("metadata.name=")
    metadata = pod["metadata"]
    return name in ("", metadata["name"]) and all(metadata["labels"].get(key) == value for key, value in labels)


def _alive(pod: dict[str, Any]) -> bool:
    return pod["status"]["phase"] in ("Pending", "Running")


def _waiting(reason: str, message: str) -> dict[str, Any]:
    waiting = {"reason": reason, **({"message": message} if message else {})}
    return {"phase": "Pending", "containerStatuses": [_status({"waiting": waiting})]}


def _status(state: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": "worker",
        "state": state,
        "ready": "running" in state,
        "restartCount": 0,
        "image": "",
        "imageID": "",
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
