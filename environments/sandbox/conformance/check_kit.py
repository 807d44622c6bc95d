"""The vocabulary of the conformance suite: how a check is named, and what it opens its sandboxes on."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from ..protocol import MIB, SANDBOX_UID, Layers, Limits, Sandbox
from ..registry import open_sandbox

SMALL = Limits(memory=256 * MIB, disk=16 * MIB, files=2000, processes=40, timeout_s=20.0)
CANARY = "etude-canary-7f3a"


@dataclass(frozen=True)
class Opener:
    """Opens sandboxes of one backend over one small workspace."""

    backend: str
    layers: Layers

    @asynccontextmanager
    async def __call__(self, limits: Limits = SMALL) -> AsyncIterator[Sandbox]:
        sandbox = await open_sandbox(self.layers, limits, self.backend)
        try:
            yield sandbox
        finally:
            await sandbox.close()


Check = Callable[[Opener], Awaitable[None]]
CHECKS: dict[str, Check] = {}
NEEDS: dict[str, str] = {}


def check(needs: str = "") -> Callable[[Check], Check]:
    def register(function: Check) -> Check:
        name = function.__name__
        CHECKS[name] = function
        if needs:
            NEEDS[name] = needs
        return function

    return register


async def output_of(sandbox: Sandbox, command: str) -> str:
    """A command's output, asserting that it worked."""
    result = await sandbox.exec(command)
    assert result.exit_code == 0, (command, result)
    return result.output.decode().strip()


async def refuses(sandbox: Sandbox, command: str) -> None:
    """Assert that a command fails by itself, and quickly."""
    result = await sandbox.exec(command, timeout_s=10)
    assert result.exit_code not in (0, None, 127), (command, result)


def python(code: str) -> list[str]:
    return ["/usr/bin/python3", "-I", "-S", "-c", code]


def make_layers(folder: Path) -> Layers:
    """The workspace and the bind that the checks expect, below ``folder``."""
    tree, bound = folder / "tree", folder / "bound"
    files = {
        "kept": "kept\n",
        "edited": "a\n",
        "gone": "g\n",
        "touched": "t\n",
        "plain": "p\n",
        "flat": "f\n",
        "folder/a/b": "b\n",
        "folder/c": "c\n",
        "turned/x": "x\n",
        "rebuilt/a": "a\n",
        "tool.sh": "#!/bin/sh\n",
    }
    for name, text in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tree / "tool.sh").chmod(0o755)
    bound.mkdir()
    (bound / "marker").write_text("from the bind\n")
    for path in (folder, bound, tree):
        path.chmod(0o755)
    if os.geteuid() == 0:
        for path in (tree, *tree.rglob("*")):
            os.chown(path, SANDBOX_UID, SANDBOX_UID)
    return Layers(tree, {"/opt/etude/env": bound})
