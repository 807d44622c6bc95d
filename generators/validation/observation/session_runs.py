"""Runs of sessions: groups of them, of one candidate or of several, in one sandbox."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True, order=True)
class Way:
    """How sessions run."""

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
    """Executes groups of sessions on one tree."""

    snapshot: Snapshot
    """The Snapshot with the interpreter and the dependencies."""
    tree: Path
    """The folder that the sandbox shows."""
    backend: str = "auto"
    """The sandbox backend."""

    async def run(self, groups: Sequence[SessionGroup]) -> list[list[Outcomes] | None]:
        """Return the outcomes of each group's sessions; None where the change cannot be made in a running process.

        A session has the outcomes up to its first error, imports included, and none when it cannot be shown. Raises
        SandboxError when a sandbox fails.
        """
        answers: dict[int, list[Outcomes] | None] = {}
        for seed in sorted({group.way.hash_seed for group in groups}):
            numbers = [number for number, group in enumerate(groups) if group.way.hash_seed == seed]
            different = list({_key(groups[number]): groups[number] for number in numbers}.values())
            by_key = dict(zip(map(_key, different), await self._with_seed(different, seed), strict=True))
            answers |= {number: by_key[_key(groups[number])] for number in numbers}
        return [answers[number] for number in range(len(groups))]

    async def _with_seed(self, groups: Sequence[SessionGroup], seed: int) -> list[list[Outcomes] | None]:
        limit = len(groups) * suite_limit(self.snapshot)
        sandbox = await open_sandbox(self.snapshot.layers(self.tree), backend=self.backend)
        try:
            result = await sandbox.exec(
                ["python", "-c", _PROGRAM],
                stdin=json.dumps(self._job(groups)).encode(),
                env={"PYTHONHASHSEED": str(seed)},
                timeout_s=OVERLOAD * limit,
                cpu_s=limit,
                idle_s=limit,
                output_limit=OUTPUT_LIMIT,
            )
        finally:
            await sandbox.close()
        try:
            answers = json.loads(result.output)
        except ValueError:
            if len(groups) == 1:
                return [[()] * len(groups[0].sessions)]
            return [answer for group in groups for answer in await self._with_seed([group], seed)]
        return [
            answer[0].get("outcomes") if answer else [()] * len(group.sessions)
            for group, answer in zip(groups, answers, strict=True)
        ]

    def _job(self, groups: Sequence[SessionGroup]) -> dict[str, object]:
        python_path = self.snapshot.verifier.python_path
        runner = Path(__file__).with_name("session_runner.py")
        imports = {line for group in groups for session in group.sessions for line in session.imports}
        modules = {match[1] for line in imports if (match := _MODULE.match(line))}
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


def _key(group: SessionGroup) -> tuple[object, ...]:
    """Return what the outcomes of a group depend on."""
    return group.sessions, group.way, tuple(sorted(group.files.items()))
