"""Everything that a new statement must pass: the same facts, then V7 and V4 as for generated statements."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...environments.tasks.task_trees import Materials
from ...models import REWRITTEN_BY, Task
from ..validation.checks.adequacy import missing_items
from ..validation.checks.exercise import Exercise
from ..validation.checks.leaks import LeakCheck
from ..validation.deliverables import audit as delivered
from .rewording_request import Refusal
from .same_facts import differences

WORDS = "prompt_words"
"""The feature that counts the words of a statement."""


@dataclass(frozen=True)
class StatementCheck:
    """The checks of new statements for one task."""

    task: Task  # the task, with the statement that was generated
    trees: Materials  # its trees
    exercise: Exercise  # what its solution changes
    leaks: LeakCheck  # the leak scanner of its Snapshot

    def refusals(self, text: str) -> list[Refusal]:
        """Return why ``text`` cannot be the statement of the task; empty when it can. Blocks while files are read."""
        if not text:
            return [Refusal("no_statement", "it has no text between <statement> and </statement>")]
        return differences(self.task, text) or self._missing(text) or self._leaks(text)

    def _missing(self, text: str) -> list[Refusal]:
        """Run V7. What it misses is in the generated statement, so the model may read it."""
        items = missing_items(with_statement(self.task, text), self.trees, self.exercise)
        lines = ", ".join(f"the {item.kind} {item.name!r}" for item in items)
        return [Refusal("v7_under_specified", f"it no longer states {lines}")] if items else []

    def _leaks(self, text: str) -> list[Refusal]:
        """Run V4: the text shows no code of the solution, and hides nothing that makes a file of the workspace one."""
        shown = self.leaks.find_in_text(text, self.task, self.trees, self.exercise)
        if shown:
            return [Refusal("v4_leak", f"it says {shown[0].excerpt!r}, which the statement does not; leave that out")]
        task = with_statement(self.task, text)
        leaks = self.leaks.find(task, self.trees, self.exercise)
        if delivered.is_delivered(task):
            where = delivered.readable(task, self.trees, leaks)
        else:
            where = str(leaks[0]) if leaks else ""
        return [Refusal("v4_leak", "it gives the answer away, or lacks a name that the statement has")] if where else []


def with_statement(task: Task, text: str, model: str = "") -> Task:
    """Return the task with another statement; ``model`` wrote it, where it is not empty."""
    features = dict(task.features)
    if features.get(WORDS) == _word_count(task.problem_statement):
        features[WORDS] = _word_count(text)
    if model:
        features[REWRITTEN_BY] = model
    return task.model_copy(update={"problem_statement": text, "features": features})


def _word_count(text: str) -> int:
    return len(re.findall(r"\S+", text))
