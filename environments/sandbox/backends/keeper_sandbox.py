"""The part of a sandbox that the backends with a keeper share: running commands, saving and restoring layers."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ....errors import SandboxError
from ....models import SandboxReport
from ..keeper.capture import Capture
from ..keeper.client import KeeperClient, as_file
from ..keeper.pump import Pump
from ..layers.records import Folder
from ..layers.save_layer import SavedTree
from ..protocol import MIB, SANDBOX_UID, ExecResult, Layers, Limits, SavedLayer
from .command_sandbox import CommandSandbox

T = TypeVar("T")


class KeeperSandbox(CommandSandbox):
    """A sandbox whose commands a keeper runs."""

    def __init__(self, client: KeeperClient, layers: Layers, limits: Limits, report: SandboxReport) -> None:
        super().__init__(layers, limits, report)
        self._client = client
        self._last_saved: Folder | None = None

    async def _run(
        self, request: Mapping[str, Any], stdin: bytes | None, limit: int, channel_limit: int | None
    ) -> ExecResult:
        with self._claimed():
            output, private = Capture(limit), Capture(channel_limit or 0, head_only=True)
            pumps = [Pump(output.feed)] + ([Pump(private.feed)] if channel_limit is not None else [])
            source = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) if not stdin else as_file(stdin)
            try:
                descriptors = dict(zip(("output", "channel"), (pump.writer for pump in pumps), strict=False))
                descriptors["stdin"] = source
                self._client.send({**request, "fds": list(descriptors)}, list(descriptors.values()))
                for pump in pumps:
                    pump.close_writer()
                reply = await self._answer()
            finally:
                os.close(source)
                for pump in pumps:
                    pump.finish()
        return self._result(reply, *output.result(), private.result()[0])

    async def _answer(self) -> dict[str, Any]:
        """Return the reply to an exec; a cancelled caller leaves a killed command, not a running one."""
        try:
            return (await self._client.receive())[0]
        except asyncio.CancelledError:
            try:
                self._client.send({"op": "kill"})
                await self._client.receive()
            except (asyncio.CancelledError, SandboxError):
                self._client.close()
            raise

    async def save(self, *, max_files: int = 10_000, max_bytes: int = 64 * MIB) -> SavedLayer:
        self._client.check_open()
        with self._claimed():
            try:
                saved = await self._save(max_files, max_bytes)
            except OSError as error:
                raise SandboxError(f"cannot save the writable layer: {error}") from error
        self._last_saved = saved.tree
        return self._saved_state(saved.tree, saved.fresh)

    async def restore(self, saved: SavedLayer) -> None:
        self._client.check_open()
        tree: Folder = self._saved_content(saved)
        with self._claimed():
            try:
                await self._restore(tree)
            except OSError as error:
                raise SandboxError(f"cannot restore a writable layer: {error}") from error
        self._last_saved = tree

    async def _save(self, max_files: int, max_bytes: int) -> SavedTree:
        """Return the writable layer. Raises OSError and ValueError."""
        raise NotImplementedError

    async def _restore(self, tree: Folder) -> None:
        """Drop the writable layer and take ``tree`` in its place. Raises OSError and SandboxError."""
        raise NotImplementedError

    async def close(self) -> None:
        """Kill and drop everything; a call that still waits raises SandboxError."""
        if self._client.closed:
            return
        if not self._busy:
            try:
                await self._client.ask({"op": "close"})
            except SandboxError:
                # The keeper is gone, and the sandbox with it.
                pass
        self._client.close()


async def uninterrupted(call: Callable[[], T]) -> T:
    """Run ``call`` in a thread. A cancelled caller waits for it: the files that it works on go with the caller."""
    running = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        raise


def owner_of_layers() -> int | None:
    """Return the uid that owns what a sandbox writes; None when it is this user."""
    return SANDBOX_UID if os.geteuid() == 0 else None


def open_request(layers: Layers, limits: Limits, **more: object) -> dict[str, object]:
    """Return the first request of every sandbox."""
    return {
        "op": "open",
        "workspace": str(layers.workspace.resolve()),
        "binds": {inside: str(host.resolve()) for inside, host in layers.binds.items()},
        "limits": dataclasses.asdict(limits),
        **more,
    }
