"""The judge: asks a model for verdicts and keeps those whose citations exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ...errors import BudgetSpent, EndpointFailed
from ...llm import Reply
from ...models import Finding
from .case import Case
from .prompt import ask
from .verdict import Verdict, citation_problem, read_verdicts

OUTCOMES = ("judged", "not_asked", "discarded", "unreadable", "failed", "budget")
"""How the judgement of one episode ends.

``discarded`` verdicts cite what does not exist; ``unreadable`` ones do not have the form; ``failed`` and ``budget`` are
requests without an answer.
"""
MOST_ROLLOUTS = 6
"""Episodes of one request."""
_NAMES = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Chat(Protocol):
    """The model that is asked: ``etude.llm.LLM``, or anything like it."""

    async def chat(self, messages: Sequence[Mapping[str, Any]]) -> Reply: ...


@dataclass(frozen=True)
class Judged:
    """The judgement of one episode. ``problem`` says why a verdict does not count; ``group`` is what was compared."""

    outcome: str
    verdict: Verdict | None = None
    problem: str = ""
    group: int = 1

    @property
    def findings(self) -> list[Finding]:
        """Return the verdict's findings; none unless its citations exist."""
        return self.verdict.findings if self.outcome == "judged" and self.verdict is not None else []


class Judge:
    """Judge of episodes that asks ``llm``; its budget and its retries are those of ``llm``."""

    def __init__(self, llm: Chat) -> None:
        self._llm = llm

    async def judge(self, cases: Sequence[Case]) -> list[Judged]:
        """Return a judgement for each episode of one task, in their order.

        An episode alone is judged when the mechanical filter marks something in it; several are shown side by side,
        at most ``MOST_ROLLOUTS`` in a request, when one of them is marked or has a reward. Raises LLMError when
        nothing can be asked at all (EndpointRefused, CassetteMiss).
        """
        judged: list[Judged] = []
        for group in _groups(cases):
            judged += await self._group(group)
        return judged

    async def _group(self, cases: Sequence[Case]) -> list[Judged]:
        if not any(case.is_marked or (len(cases) > 1 and case.reward) for case in cases):
            return [Judged("not_asked", group=len(cases)) for _ in cases]
        named = [replace(case, name=name) for case, name in zip(cases, _NAMES, strict=False)]
        try:
            reply = await self._llm.chat(ask(named))
        except BudgetSpent:
            return [Judged("budget", group=len(cases)) for _ in cases]
        except EndpointFailed as error:
            return [Judged("failed", problem=str(error), group=len(cases)) for _ in cases]
        content = reply.message.get("content")
        verdicts = read_verdicts(content if isinstance(content, str) else "", [case.name for case in named])
        return [_judged(verdicts[case.name], case, len(cases)) for case in named]


def _judged(verdict: Verdict | str, case: Case, group: int) -> Judged:
    if isinstance(verdict, str):
        return Judged("unreadable", problem=verdict, group=group)
    problem = citation_problem(verdict, case)
    return Judged("discarded" if problem else "judged", verdict, problem, group)


def _groups(cases: Sequence[Case]) -> list[Sequence[Case]]:
    """Return the episodes in groups of nearly equal size."""
    if not cases:
        return []
    number = -(-len(cases) // MOST_ROLLOUTS)
    size = -(-len(cases) // number)
    return [cases[start : start + size] for start in range(0, len(cases), size)]
