"""Rows of a set whose statements a language model writes in its own words, where its text passes every check."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...environments.runs.parallel import at_once
from ...environments.snapshots import Snapshot
from ...environments.tasks.task_trees import Materials
from ...errors import AccessDenied, EndpointFailed, EndpointUnavailable, LLMError
from ...llm import LLM
from ...models import Task
from ..base import Progress, ProgressUpdate
from ..model_endpoint import ModelEndpoint
from ..output.publish import Row
from ..validation.checks.duplicates import Fingerprint, duplicates, fingerprint
from ..validation.checks.exercise import Exercise
from ..validation.checks.leaks import LeakCheck
from .rewording_request import Message, Refusal, first_request, next_request, text_of, token_limit
from .statement_check import StatementCheck, with_statement

TRIES = 2
"""Answers that the model may give for one statement."""


@dataclass(frozen=True)
class Retained:
    """A task whose statement stays as it was generated."""

    task_id: str  # the task
    reason: str  # the reason that is counted
    detail: str  # why the last answer was refused


@dataclass
class RewritingReport:
    """What became of the statements, and what the model's answers cost."""

    model: str = ""  # name of the model; empty when statements were not rewritten
    rewritten: int = 0  # tasks with a new statement
    retained: dict[str, int] = field(default_factory=dict)  # tasks with the generated statement, by reason
    refused: dict[str, int] = field(default_factory=dict)  # refused answers by reason, those before a retry included
    details: list[Retained] = field(default_factory=list)  # the tasks with the generated statement
    calls: int = 0  # answers, the recorded ones included
    prompt_tokens: int = 0  # tokens that the model read
    completion_tokens: int = 0  # tokens that the model wrote


@dataclass
class _Outcome:
    """What became of one statement."""

    original: Task  # the task with the generated statement
    generated: Fingerprint  # its fingerprint
    text: str = ""  # the new statement; empty when it stays
    reworded: Fingerprint | None = None  # the fingerprint of the task with the new statement
    refusals: list[Refusal] = field(default_factory=list)  # why answers were refused, in order

    @property
    def fingerprint(self) -> Fingerprint:
        """Return the fingerprint of the task with the statement that it gets."""
        return self.reworded if self.text and self.reworded else self.generated

    def task(self, model: str) -> Task:
        """Return the task with the statement that it gets."""
        return with_statement(self.original, self.text, model) if self.text else self.original


class _Model:
    """The model: it answers equal requests once, so that answers do not depend on the order of the work."""

    def __init__(self, client: LLM) -> None:
        self._client = client
        self._answers: dict[str, asyncio.Task[str]] = {}

    async def answer(self, messages: Sequence[Message], tokens: int) -> str:
        """Return the text of the answer, empty when it has none. Raises LLMError."""
        key = json.dumps(messages)
        if key not in self._answers:
            self._answers[key] = asyncio.create_task(self._ask(messages, tokens))
        return await self._answers[key]

    async def _ask(self, messages: Sequence[Message], tokens: int) -> str:
        text = (await self._client.chat(messages, max_tokens=tokens)).message.get("content")
        return text if isinstance(text, str) else ""


async def with_rewritten_statements(
    rows: Sequence[Row],
    snapshots: Mapping[str, Snapshot],
    endpoint: ModelEndpoint,
    report: RewritingReport,
    progress: Progress,
) -> list[Row]:
    """Return the rows in their order; each task has a new statement, or the generated one where no answer passes.

    The order of answers decides nothing. ``report`` is filled in. Raises LLMError when the model cannot be asked; the
    answers so far are recorded.
    """
    tasks = [row.task for row in rows if row.task is not None]
    leaks = {digest: LeakCheck(snapshot) for digest, snapshot in snapshots.items()}
    async with endpoint.client() as client:
        model = _Model(client)

        async def one(task: Task) -> _Outcome:
            assert task.snapshot is not None, "generated tasks name their snapshot"
            digest = task.snapshot.digest
            trees = Materials(task, snapshots[digest])
            exercise = await asyncio.to_thread(Exercise.of, task, trees)
            outcome = _Outcome(task, fingerprint(task, exercise))
            await _rewrite(outcome, StatementCheck(task, trees, exercise, leaks[digest]), model)
            if outcome.text:
                outcome.reworded = fingerprint(with_statement(task, outcome.text), exercise)
            return outcome

        def show(done: int) -> None:
            progress(ProgressUpdate("statements", done, len(tasks)))

        try:
            outcomes = await at_once(tasks, client.concurrency, one, show)
        except LLMError as error:
            raise type(error)(f"{error}; run the same command again to resume") from error
        usage = client.usage
    report.model, report.calls = endpoint.model, usage.calls
    report.prompt_tokens, report.completion_tokens = usage.prompt_tokens, usage.completion_tokens
    _distinguish(outcomes)
    _count(outcomes, report)
    by_id = {outcome.original.task_id: outcome.task(endpoint.model) for outcome in outcomes}
    return [replace(row, task=by_id[row.task.task_id]) if row.task is not None else row for row in rows]


async def _rewrite(outcome: _Outcome, check: StatementCheck, model: _Model) -> None:
    """Ask for a new statement, and once more with the reasons when it is refused. Raises LLMError."""
    statement = outcome.original.problem_statement
    messages = first_request(statement)
    for _ in range(TRIES):
        try:
            answer = await model.answer(messages, token_limit(statement))
        except (EndpointUnavailable, AccessDenied):
            raise
        except EndpointFailed as error:
            outcome.refusals.append(Refusal("llm_failed", str(error)))
            return
        text = text_of(answer)
        refusals = await asyncio.to_thread(check.refusals, text)
        if not refusals:
            outcome.text = text
            return
        outcome.refusals.append(Refusal(refusals[0].reason, "; ".join(refusal.detail for refusal in refusals)))
        messages = next_request(messages, answer, refusals)


def _distinguish(outcomes: Sequence[_Outcome]) -> None:
    """Give tasks their generated statements back whose new ones make them duplicates of others (V6)."""
    by_id = {outcome.original.task_id: outcome for outcome in outcomes}
    changed = True
    while changed:
        changed = False
        repeats = duplicates(
            [(outcome.reworded if outcome.text else None) or outcome.generated for outcome in outcomes]
        )
        for repeated, first in repeats.items():
            reworded = [by_id[task_id] for task_id in (repeated, first) if by_id[task_id].text]
            for outcome in reworded[:1]:
                outcome.text, changed = "", True
                outcome.refusals.append(Refusal("v6_duplicate", f"with it, {repeated} repeats {first}"))


def _count(outcomes: Sequence[_Outcome], report: RewritingReport) -> None:
    retained = [outcome for outcome in outcomes if not outcome.text]
    report.rewritten = len(outcomes) - len(retained)
    report.details = [
        Retained(outcome.original.task_id, outcome.refusals[-1].reason, outcome.refusals[-1].detail)
        for outcome in retained
    ]
    report.retained = dict(sorted(Counter(item.reason for item in report.details).items()))
    every = Counter(refusal.reason for outcome in outcomes for refusal in outcome.refusals)
    report.refused = dict(sorted(every.items()))
