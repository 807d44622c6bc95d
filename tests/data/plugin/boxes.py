"""A third party's environment with a verifier and a monitor of its own, for tests: words are put into a box."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from etude.environments.actions import Solution, call, turn
from etude.environments.base import BaseSession
from etude.environments.declaration import SUBMIT_SCHEMA, Opening
from etude.environments.grading import Submission, Verdict
from etude.environments.tasks.task_set import TaskSet
from etude.environments.tool_protocol import function_schema, parameters_schema
from etude.errors import StatedFault, ToolError
from etude.models import CustomVerifier, Finding, GeneratorRef, Task
from etude.monitors import Inspection
from pydantic import Field

PUT = function_schema("put", "Put a word into the box.", parameters_schema({"word": {"type": "string"}}, ["word"]))
LOOK = function_schema("look", "List what is in the box.", parameters_schema({}, []))


@dataclass(frozen=True)
class BoxKnobs:
    """Settings of the boxes."""

    words: Annotated[int, Field(ge=1, le=9)] = 2
    """Words that a box must hold."""


class BoxSession(BaseSession):
    """Boxes: put the right words into a box, in order."""

    makes_tasks = True

    @classmethod
    def knobs(cls) -> type:
        return BoxKnobs

    @classmethod
    def tasks(cls, folder: Path | None = None, knobs: BoxKnobs | None = None) -> TaskSet:
        count = (knobs or BoxKnobs()).words
        return TaskSet([box(number, count) for number in range(3)])

    @classmethod
    def tools(cls, knobs: BoxKnobs | None = None) -> list[dict[str, Any]]:
        return [PUT, LOOK, SUBMIT_SCHEMA]

    @classmethod
    def solve(cls, task: Task) -> Solution:
        words = task.verifier.settings["words"]
        return Solution([turn("put it", call("put", word=word)) for word in words], call("submit", answer="done"))

    async def open_world(self, task: Task, tools: list[str]) -> Opening:
        self.box: list[str] = []
        return await super().open_world(task, tools)

    async def run_tool(self, name: str, arguments: dict[str, Any]) -> tuple[str, str]:
        if name == "look":
            return "ok", " ".join(self.box) or "(empty)"
        if arguments["word"] == "stuck":
            raise StatedFault("transport_error", "the lid is stuck: call put again with another word", "lid")
        if not arguments["word"].strip():
            raise ToolError("invalid_args", "put: word must not be empty")
        self.box.append(arguments["word"])
        return "ok", f"{len(self.box)} words"

    async def submission(self, task: Task, answer: str) -> Submission:
        return Submission(task, answer=answer, effects={"box": " ".join(self.box)})


def box(number: int, count: int) -> Task:
    words = [f"word{number}{place}" for place in range(count)]
    return Task(
        task_id=f"box-{number}",
        environment="boxes",
        generator=GeneratorRef(name="boxes", version="1", seed=number),
        problem_statement=f"Put these words into the box, in this order: {', '.join(words)}.",
        verifier=CustomVerifier(kind="box", settings={"words": words}, components=["right_words"]),
    )


async def verify(submission: Submission) -> Verdict:
    """Compare the words in the box with those of the task."""
    right = " ".join(submission.task.verifier.settings["words"])
    return Verdict({"right_words": float(submission.effects.get("box") == right)})


class Shouting:
    """Words in capital letters in any call of an episode."""

    name = "shouting"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return a finding for each turn with a word in capitals; the word CHEAT is confirmed, BREAK fails."""
        findings = []
        for number, played in enumerate(inspection.turns):
            text = str(played.action.get("arguments") or played.action.get("tool_calls"))
            if "BREAK" in text:
                raise RuntimeError("cannot read\nthis turn")
            if "CHEAT" in text or "LOUD" in text:
                severity = "confirmed" if "CHEAT" in text else "suspect"
                findings.append(Finding(exploit_id="X01", severity=severity, turn=number, excerpt=text[:400]))
        return findings
