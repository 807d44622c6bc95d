"""Settings of the kubernetes backend, all of them environment variables that start with ETUDE_KUBERNETES."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....errors import SandboxError, SandboxUnavailable

IMAGE, NAMESPACE, BINDS = "ETUDE_KUBERNETES_IMAGE", "ETUDE_KUBERNETES_NAMESPACE", "ETUDE_KUBERNETES_BINDS"
NETWORK, START, POD = "ETUDE_KUBERNETES_NETWORK", "ETUDE_KUBERNETES_START", "ETUDE_KUBERNETES_POD"
_NETWORKS = ("none", "loopback")
_START_S = 120.0
# What an operator's file may add. Everything else either isolates the pod or belongs to the conversation with it.
_METADATA = ("annotations", "labels")
_SPEC = (
    "activeDeadlineSeconds affinity hostUsers imagePullSecrets nodeSelector priorityClassName runtimeClassName "
    "schedulerName tolerations topologySpreadConstraints"
).split()
_HOST = "host"
_CLAIM = "claim"


@dataclass(frozen=True)
class Claim:
    """A PersistentVolumeClaim that the server has mounted too."""

    name: str
    folder: Path
    """Where the server has mounted it."""


@dataclass(frozen=True)
class Settings:
    """What the environment says about pods."""

    image: str
    """The image of the pods, which holds bash, git and /usr/bin/python3."""
    namespace: str
    """The namespace of the pods; empty for the one of the kubeconfig or of the server's own pod."""
    claim: Claim | None
    """The claim that shows folders of the server to pods; None for folders of the node itself."""
    host: bool
    """Whether pods run on this machine and see its folders."""
    loopback: bool
    """Whether commands have a loopback interface, for which the worker takes down all others."""
    start_s: float
    """Seconds that a pod may take to start."""
    extra: Mapping[str, Mapping[str, Any]]
    """Fields that the operator adds, below ``metadata`` and ``spec``."""

    @property
    def runtime(self) -> str:
        """Return the name of the pods' RuntimeClass, empty for the cluster's own runtime."""
        return str(self.extra.get("spec", {}).get("runtimeClassName") or "")


def is_configured() -> bool:
    """Return whether pods are meant here at all."""
    return bool(os.environ.get(IMAGE))


def read_settings() -> Settings:
    """Return the settings. Raises SandboxUnavailable when the image is missing, SandboxError for a bad value."""
    image = os.environ.get(IMAGE, "")
    if not image:
        raise SandboxUnavailable(
            f"{IMAGE} is not set: name an image made with examples/deploy/sandbox.Dockerfile that the nodes can pull"
        )
    network = os.environ.get(NETWORK) or _NETWORKS[0]
    if network not in _NETWORKS:
        raise SandboxError(f"{NETWORK}={network!r} is not a kind of network; choose one of {', '.join(_NETWORKS)}")
    host, claim = _folders(os.environ.get(BINDS, ""))
    return Settings(
        image=image,
        namespace=os.environ.get(NAMESPACE, ""),
        claim=claim,
        host=host,
        loopback=network == "loopback",
        start_s=_seconds(os.environ.get(START, "")),
        extra=_extra(os.environ.get(POD, "")),
    )


def _folders(text: str) -> tuple[bool, Claim | None]:
    if text in ("", _HOST):
        return text == _HOST, None
    kind, _, place = text.partition(":")
    name, _, folder = place.partition(":")
    if kind != _CLAIM or not name or not folder.startswith("/"):
        raise SandboxError(f"{BINDS}={text!r} is neither '{_HOST}' nor '{_CLAIM}:NAME:/FOLDER'; set it to one of them")
    return False, Claim(name, Path(os.path.realpath(folder)))


def _seconds(text: str) -> float:
    try:
        seconds = float(text or _START_S)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise SandboxError(f"{START}={text!r} is not a positive number of seconds")
    return seconds


def _extra(path: str) -> Mapping[str, Mapping[str, Any]]:
    """Return what the operator's file adds. Raises SandboxError for a file that cannot be read or adds too much."""
    if not path:
        return {}
    import yaml  # with the kubernetes client

    try:
        content = yaml.safe_load(Path(path).read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise SandboxError(f"cannot read {POD}={path}: {' '.join(str(error).split())}") from error
    for section, allowed in (("", ("metadata", "spec")), ("metadata", _METADATA), ("spec", _SPEC)):
        fields = (content.get(section) or {}) if section else content
        if not isinstance(fields, dict):
            raise SandboxError(f"{section or 'the content'} of {path} is not a mapping; write fields of a pod")
        for name in fields:
            if name not in allowed:
                where = f"{section}.{name}" if section else name
                raise SandboxError(f"{path} may not set {where}; it may set {', '.join(allowed)}")
    return {section: content[section] or {} for section in content}
