"""Etude's own sandboxes under the clock of the peers."""

from __future__ import annotations

from pathlib import Path

from ...environments.sandbox import Layers, Sandbox, available, open_sandbox


class EtudeSandbox:
    """One sandbox of a backend. The tree is its read-only lower layer, so that nothing is copied."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._opened: Sandbox | None = None

    @property
    def sandbox(self) -> Sandbox:
        """Return the open sandbox."""
        assert self._opened is not None, "start the sandbox first"
        return self._opened

    async def start(self, tree: Path) -> None:
        """Open a sandbox over the tree."""
        self._opened = await open_sandbox(Layers(tree), backend=self._backend)

    async def run(self, command: str) -> str:
        """Run a shell command and return its output."""
        result = await self.sandbox.exec(command)
        assert result.exit_code == 0, f"{command!r} failed: {result.output[-500:]!r}"
        return result.output.decode()

    async def reset(self) -> None:
        """Drop the writable layer."""
        await self.sandbox.reset()

    async def fork_to(self, other: EtudeSandbox) -> None:
        """Save the writable layer, and restore it in another sandbox."""
        await other.sandbox.restore(await self.sandbox.save())

    async def stop(self) -> None:
        """Close the sandbox."""
        await self.sandbox.close()


def working_backends() -> list[str]:
    """Return the backends that work here. Blocks for a moment."""
    return [name for name, reason in available().items() if reason is None]
