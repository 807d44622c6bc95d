"""Which sandbox there is: by name, or the strongest that works here. Never one that was not asked for and is weaker."""

from __future__ import annotations

import os
import sys

from ...errors import SandboxError, SandboxUnavailable
from ...registry import Registry
from . import Layers, Limits, Sandbox

BACKENDS = Registry(
    "sandbox",
    "etude.sandboxes",
    {
        "bubblewrap": ".environments.sandbox.backends.bubblewrap:open_bubblewrap",
        "docker": ".environments.sandbox.docker.backend:open_docker",
        "podman": ".environments.sandbox.docker.podman:open_podman",
        "process": ".environments.sandbox.backends.process:open_process",
    },
)
# Strongest first.
_AUTOMATIC = ("bubblewrap", "docker", "process")


async def open_sandbox(layers: Layers, limits: Limits = Limits(), backend: str = "auto") -> Sandbox:
    """A new sandbox over ``layers``.

    ``auto`` takes ``ETUDE_SANDBOX`` or else the strongest backend that works here; the sandbox's report names it.
    Raises UnknownName, SandboxUnavailable (none of them works here, and how to get it) and SandboxError (bad request).
    """
    if not layers.workspace.is_dir():
        raise SandboxError(f"{layers.workspace} is not a folder: nothing to show at /workspace")
    if backend == "auto":
        backend = os.environ.get("ETUDE_SANDBOX") or "auto"
    refused = []
    for name in _AUTOMATIC if backend == "auto" else (backend,):
        try:
            sandbox: Sandbox = await BACKENDS.load(name)(layers, limits)
            return sandbox
        except SandboxUnavailable as error:
            refused.append(f"{name}: {error}")
    raise SandboxUnavailable("; ".join(refused))


def available() -> dict[str, str | None]:
    """For each backend None when it works here, else one line: why not, and the remedy. Blocks for a moment."""
    found: dict[str, str | None] = {}
    for name in BACKENDS.names():
        try:
            probe = getattr(sys.modules[BACKENDS.load(name).__module__], "probe", None)
        except ImportError as error:
            found[name] = f"cannot be imported: {error}"
            continue
        found[name] = probe() if probe is not None else None
    return found
