"""The registry of sandboxes: opens one by name, or the strongest that works here, never a weaker one than asked for."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ...errors import SandboxError, SandboxUnavailable
from ...registry import Registry
from .protocol import Backend, Layers, Limits, Sandbox

SANDBOXES = Registry(
    "sandbox",
    "etude.sandboxes",
    {
        "bubblewrap": ".environments.sandbox.backends.bubblewrap:BUBBLEWRAP",
        "docker": ".environments.sandbox.docker.backend:DOCKER_BACKEND",
        "kubernetes": ".environments.sandbox.kubernetes.backend:KUBERNETES",
        "podman": ".environments.sandbox.docker.backend:PODMAN_BACKEND",
        "process": ".environments.sandbox.backends.process:PROCESS",
    },
)
# Strongest first. Third-party sandboxes, and those of a cluster, are opened by name alone.
_AUTOMATIC = ("bubblewrap", "docker", "process")
_chosen: set[str] = set()
"""The backends that ``auto`` has opened in this process: a weaker one never takes their place."""


async def open_sandbox(layers: Layers, limits: Limits = Limits(), backend: str = "auto") -> Sandbox:
    """Open a new sandbox over ``layers``.

    ``auto`` takes ``ETUDE_SANDBOX`` or else the strongest backend that works here; the sandbox's report names it.
    Raises UnknownName, SandboxUnavailable (none works here, and how to get it) and SandboxError (a bad request, or the
    backend that ``auto`` has chosen before fails).
    """
    if not layers.workspace.is_dir():
        raise SandboxError(f"the workspace {layers.workspace} is not a folder; create it first")
    if backend == "auto":
        backend = os.environ.get("ETUDE_SANDBOX") or "auto"
    reasons = []
    for name in _AUTOMATIC if backend == "auto" else (backend,):
        try:
            sandbox = await load_backend(name).open(layers, limits)
        except SandboxUnavailable as error:
            if backend == "auto" and name in _chosen:
                raise SandboxError(f"{name} has worked before and does not work now: {error}") from error
            reasons.append(f"{name}: {error}")
        else:
            if backend == "auto":
                _chosen.add(name)
            return sandbox
    raise SandboxUnavailable("; ".join(reasons))


@asynccontextmanager
async def opened_sandbox(layers: Layers, limits: Limits = Limits(), backend: str = "auto") -> AsyncIterator[Sandbox]:
    """Open a new sandbox for an ``async with`` block, at whose end it is closed. Raises as ``open_sandbox`` does."""
    sandbox = await open_sandbox(layers, limits, backend)
    try:
        yield sandbox
    finally:
        await sandbox.close()


def load_backend(name: str) -> Backend:
    """Return a registered backend. Raises UnknownName, and SandboxUnavailable for one that cannot be imported."""
    try:
        backend = SANDBOXES.load(name)
    except (ImportError, AttributeError) as error:
        raise SandboxUnavailable(f"cannot be imported ({error}); install what it needs") from error
    if not isinstance(backend, Backend):
        raise SandboxUnavailable(f"{SANDBOXES.paths()[name]} is not a Backend; point its entry point to one")
    return backend


def configured_names() -> list[str]:
    """Return the backends that the settings of this machine mean, sorted, whether they work or not."""
    return [name for name in SANDBOXES.names() if _is_configured(name)]


def _is_configured(name: str) -> bool:
    try:
        return load_backend(name).configured()
    except SandboxUnavailable:
        return True


def remove_leftovers() -> list[str]:
    """Remove what killed processes of the built-in backends without an engine have left, and return its names."""
    return [name for backend in ("bubblewrap", "process") for name in load_backend(backend).cleanup()]


def available() -> dict[str, str | None]:
    """Return for each backend None when it works here, else why not and the remedy. Blocks for a moment."""
    return {name: _reason_against(name) for name in SANDBOXES.names()}


def _reason_against(name: str) -> str | None:
    try:
        return load_backend(name).probe()
    except SandboxUnavailable as error:
        return str(error)
