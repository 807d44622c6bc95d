"""The penalty of a reward model as an OpenEnv rubric: a judge's verdict may lower a reward. It is off by default."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from openenv.core.rubrics import Rubric

from ...errors import LLMError
from ...llm import LLM
from ...models import Episode, Finding
from ...monitors.agentic import Case, Judge, is_of_judge, penalty_factor
from ..agents.openai import ModelOptions
from .rewards import EpisodeReward

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PenaltySettings:
    """The model that judges, and how much of a reward its verdict may take away."""

    model: str
    """Name of the model, as its endpoint knows it."""
    options: ModelOptions = field(default_factory=lambda: ModelOptions(timeout_s=60.0))
    """Endpoint of the model, and its limits."""
    weight: float = 0.5
    """Share of the reward that is taken away, from 0 to 1."""

    def open(self) -> LLM:
        """Return the client, which asks twice at most: an episode waits for it. Raises LLMError and ValueError."""
        penalty_factor([], self.weight)
        if "://" in self.model:
            raise LLMError("--judge takes the name of a model; give the endpoint's address with --base-url")
        llm = self.options.open(self.model, 16)
        return replace(llm, attempts=2)


class JudgePenalty(Rubric):
    """Factor of the reward, from ``1 - weight`` to 1.

    It is 1 unless a mechanical monitor reported more than ``info`` and the judge, asked for that episode alone, accuses
    it too (see ``monitors.agentic.penalty``). A judge that cannot be asked changes nothing.
    """

    def __init__(self, judge: Judge, weight: float, episode: Callable[[], Episode | None]) -> None:
        """``episode`` returns the episode that was just graded."""
        super().__init__()
        self.findings: list[Finding] = []
        self._judge, self._weight, self._episode = judge, weight, episode

    async def forward(self, action: Any, observation: Any) -> float:
        """Return the factor; ``findings`` are then those of the judge."""
        self.findings = []
        episode = self._episode()
        if episode is None:
            return 1.0
        mechanical = [finding for finding in episode.findings if not is_of_judge(finding)]
        case = Case.of("A", episode, mechanical)
        if not case.has_evidence:
            return 1.0
        try:
            (judged,) = await self._judge.judge([case])
        except LLMError as error:
            log.warning("the judge was not asked, and the reward stays as it is: %s", error)
            return 1.0
        if judged.outcome != "judged":
            log.warning("the judge gave no verdict that counts (%s %s)", judged.outcome, judged.problem)
        self.findings = judged.findings
        return penalty_factor([*mechanical, *self.findings], self._weight)


class PenalisedReward(Rubric):
    """The graded reward times the judge's factor; a reward of 0 cannot be lowered, so the judge is not asked."""

    def __init__(self, graded: EpisodeReward, penalty: JudgePenalty) -> None:
        super().__init__()
        self.graded = graded
        self.penalty = penalty

    async def forward(self, action: Any, observation: Any) -> float:
        """Return the product."""
        value = float(self.graded(action, observation))
        if not value:
            self.penalty.findings, self.penalty.last_score = [], None
            return value
        return value * float(await self.penalty(action, observation))
