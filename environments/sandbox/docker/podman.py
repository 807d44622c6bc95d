"""The podman backend: the docker backend over Podman's socket, which speaks the same language."""

from __future__ import annotations

from .. import Layers, Limits
from . import backend as docker
from .engine import PODMAN


async def open_podman(layers: Layers, limits: Limits) -> docker.Docker:
    """A new sandbox. Raises SandboxUnavailable where Podman's service is missing, SandboxError for a bad request."""
    return await docker.open_docker(layers, limits, PODMAN)


def probe() -> str | None:
    """None when Podman's service answers here, else why not."""
    return docker.probe(PODMAN)


def cleanup() -> list[str]:
    """Remove the containers of dead servers; their names. Raises SandboxError."""
    return docker.cleanup(PODMAN)
