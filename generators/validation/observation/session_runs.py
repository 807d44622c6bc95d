"""Runs of sessions: groups of them, of one candidate or of several, in one sandbox."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....environments.sandbox import WORKSPACE, open_sandbox
from ....environments.snapshots import Snapshot
from ...engine.warm_suite import CODE_EXCHANGE, differences
from ..limits import OVERLOAD, suite_limit
from .outcomes import Outcomes
from .sessions import Session

OUTPUT_LIMIT = 64 << 20  # bytes
_PROGRAM = """import json, sys
job, names = json.load(sys.stdin), {"__name__": "session_runner"}
for text in job["program"]:
    exec(compile(text, "<session_runner>", "exec", dont_inherit=True), names)
names["main"](job)
"""
_MODULE = re.compile(r"(?:from|import) (\w+)")


@dataclass(frozen=True)
class Way:
    """A way to run sessions."""

    hash_seed: int = 0
    """The seed of hashes."""
    apart: bool = True
    """Whether each session has a process of its own; others may see what earlier ones left behind."""


@dataclass(frozen=True)
class SessionGroup:
    """Sessions that run with the same code."""

    sessions: tuple[Session, ...]
    """The sessions, in the order in which they run."""
    way: Way
    """How they run."""
    files: Mapping[str, bytes]
    """Path to content, where that differs from the tree; only bodies of functions may differ."""


@dataclass(frozen=True)
class SessionRuns:
    """Runs of groups of sessions on one tree."""

    snapshot: Snapshot
    """The Snapshot with the interpreter and the dependencies."""
    tree: Path
    """The folder that the sandbox shows."""
    backend: str = "auto"
    """The sandbox backend."""

    async def run(self, groups: Sequence[SessionGroup]) -> list[list[Outcomes] | None]:
        """Return the outcomes of each group's sessions, None where the files have to be those of the sandbox.

        That is so for a change that cannot be made in a running process, and for sessions that start processes or
        write files. A session has the outcomes up to its first error, imports included, and none when it cannot be
        shown. Raises SandboxError when a sandbox fails.
        """
        answers: dict[int, list[Outcomes] | None] = {}
        for seed in sorted({group.way.hash_seed for group in groups}):
            numbers = [number for number, group in enumerate(groups) if group.way.hash_seed == seed]
            different = list({_key(groups[number]): groups[number] for number in numbers}.values())
            by_key = dict(zip(map(_key, different), await self._with_seed(different, seed), strict=True))
            answers |= {number: by_key[_key(groups[number])] for number in numbers}
        return [answers[number] for number in range(len(groups))]

    async def _with_seed(self, groups: Sequence[SessionGroup], seed: int) -> list[list[Outcomes] | None]:
        """Return the outcomes of groups, each as if it ran alone, with this seed of hashes."""
        answers = await self._executed(groups, seed)
        if answers is None and len(groups) == 1:
            return [[()] * len(groups[0].sessions)]
        if answers is None:
            return [answer for group in groups for answer in await self._with_seed([group], seed)]
        results: list[list[Outcomes] | None] = []
        for group, answer in zip(groups, answers, strict=False):
            if "refused" in answer or (answer["tied"] and group.files):
                results.append(None)
            elif len(groups) > 1 and (answer["tied"] or answer["cpu_seconds"] > suite_limit(self.snapshot)):
                results += await self._with_seed([group], seed)
            else:
                results.append(answer.get("outcomes", [()] * len(group.sessions)))
        following = groups[len(results) :]
        return results + (await self._with_seed(following, seed) if following else [])

    async def _executed(self, groups: Sequence[SessionGroup], seed: int) -> list[dict[str, Any]] | None:
        """Return what the runner says of the groups up to the first that is tied to the sandbox, None without it."""
        limit = suite_limit(self.snapshot)
        sandbox = await open_sandbox(self.snapshot.layers(self.tree), backend=self.backend)
        try:
            result = await sandbox.exec(
                ["python", "-c", _PROGRAM],
                stdin=json.dumps(self._job(groups)).encode(),
                env={"PYTHONHASHSEED": str(seed)},
                timeout_s=OVERLOAD * limit * len(groups),
                cpu_s=limit * len(groups),
                idle_s=limit,
                output_limit=OUTPUT_LIMIT,
            )
        finally:
            await sandbox.close()
        try:
            answers: list[dict[str, Any]] = json.loads(result.output.rpartition(b"\n")[2])
        except ValueError:
            return None
        return answers

    def _job(self, groups: Sequence[SessionGroup]) -> dict[str, object]:
        python_path = self.snapshot.verifier.python_path
        runner = Path(__file__).with_name("session_runner.py")
        modules = set.intersection(*map(_modules, groups))
        return {
            "program": [path.read_text("utf-8") for path in (CODE_EXCHANGE, runner)],
            "path": [f"{WORKSPACE}/{item}".removesuffix("/.") for item in python_path],
            "imports": [f"import {name}" for name in sorted(modules)],
            "groups": [
                {
                    "files": differences(self.tree, group.files),
                    "apart": group.way.apart,
                    "imports": sorted({line for session in group.sessions for line in session.imports}),
                    "sessions": [[*session.imports, *session.lines] for session in group.sessions],
                }
                for group in groups
            ],
        }


def _modules(group: SessionGroup) -> set[str]:
    """Return the top-level modules that a group imports."""
    lines = {line for session in group.sessions for line in session.imports}
    return {match[1] for line in lines if (match := _MODULE.match(line))}


def _key(group: SessionGroup) -> tuple[object, ...]:
    """Return what the outcomes of a group depend on."""
    return group.sessions, group.way, tuple(sorted(group.files.items()))
