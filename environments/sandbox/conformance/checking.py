"""Tools of the checks: the marks of checks, their assertions, and the workspace on which they open sandboxes."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..protocol import MIB, SANDBOX_UID, Layers, Limits, Sandbox
from ..registry import opened_sandbox

# Time limits are generous: a check must pass on a busy machine, so it judges by CPU time, counts and order.
PATIENCE_S = 120.0
SMALL = Limits(memory=256 * MIB, disk=16 * MIB, files=2000, processes=40, timeout_s=PATIENCE_S)
CANARY = "etude-canary-7f3a"
BUSY = "while :; do :; done"


@dataclass(frozen=True)
class Opener:
    """Opens sandboxes of one backend over one small workspace."""

    backend: str
    layers: Layers

    def __call__(self) -> AbstractAsyncContextManager[Sandbox]:
        return opened_sandbox(self.layers, SMALL, self.backend)


Check = Callable[..., Awaitable[None]]
"""A check. Each parameter gets a new sandbox, but ``opened``: it gets the Opener."""
NEEDS: dict[str, str] = {}
"""The guarantee that a check needs, by the check's name; a backend may lack it."""


def needs(guarantee: str) -> Callable[[Check], Check]:
    """Mark a check as one that needs a guarantee which a backend may lack."""

    def mark(function: Check) -> Check:
        NEEDS[function.__name__] = guarantee
        return function

    return mark


@contextmanager
def raises(*kinds: type[BaseException], text: str = "") -> Iterator[None]:
    """Assert that an exception of one of these kinds is raised, with ``text`` in its message."""
    try:
        yield
    except kinds as error:
        assert text in str(error), error
        return
    raise AssertionError(f"{' or '.join(kind.__name__ for kind in kinds)} was not raised")


async def output_of(sandbox: Sandbox, command: str) -> str:
    """Return a command's output, asserting that it succeeded."""
    result = await sandbox.exec(command)
    assert result.exit_code == 0, (command, result)
    return result.output.decode().strip()


async def assert_fails(sandbox: Sandbox, command: str) -> None:
    """Assert that a command fails by itself."""
    result = await sandbox.exec(command)
    assert result.exit_code not in (0, None, 127), (command, result)


def python(code: str) -> list[str]:
    """Return a command that runs Python code."""
    return ["/usr/bin/python3", "-I", "-S", "-c", code]


def make_layers(folder: Path) -> Layers:
    """Write the workspace and the bind that the checks expect below ``folder``."""
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
