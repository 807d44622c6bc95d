"""The score of an episode at its end: rubrics over the grade, the check that they agree, and what a judge took away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from openenv.core.rubrics import Rubric

from ...errors import InfrastructureError
from ...models import Episode, Finding, Reward, State
from ...monitors.agentic import Judge
from ..session import Standing
from .penalty import JudgePenalty, PenalisedReward
from .rewards import EpisodeReward

COMPONENT = "judge"
"""Name of the judge's factor among the components of a reward that was lowered."""
AnyState = TypeVar("AnyState", bound=State)


@dataclass(frozen=True)
class _Judgement:
    """Verdict of a judge on a graded episode: its findings, and the reward that is left."""

    findings: Sequence[Finding]
    reward: Reward | None

    def applied(self, episode: Episode) -> Episode:
        """Return a copy of the episode with the findings and the reward."""
        return episode.model_copy(update={"findings": [*episode.findings, *self.findings], "reward": self.reward})


class Scoring:
    """Scores the episodes of one environment. ``record`` returns the running episode, None when it is void.

    The session's own record is never changed: what a judge found is added to the copies that leave the environment.
    """

    def __init__(self, record: Callable[[], Episode | None], judge: Judge | None, weight: float) -> None:
        self._record = record
        self._graded = EpisodeReward([], self._grade)
        self._penalty = None if judge is None else JudgePenalty(judge, weight, record)
        self._judgement: _Judgement | None = None
        self.rubric: Rubric = self._graded

    def begin(self, names: list[str]) -> Rubric:
        """Return the rubric of an episode whose task requires the components ``names``."""
        self._judgement = None
        if names == self._graded.names:
            self._graded.forget()
            return self.rubric
        self.rubric = self._graded = EpisodeReward(names, self._grade)
        if self._penalty is not None:
            self.rubric = PenalisedReward(self._graded, self._penalty)
        return self.rubric

    def settle(self, value: float) -> None:
        """Check the rubrics against the grade, and remember what the judge changed. ``value`` is the rubric's.

        Raises InfrastructureError when the grade's reward is not the product of its components.
        """
        record, product = self._record(), self._graded.last_score or 0.0
        reward = None if record is None else record.reward
        if reward is not None and abs(reward.value - product) > 1e-9:
            raise InfrastructureError(
                f"the grade's reward is {reward.value}, but the product of its components is {product}; "
                "this is a defect of the verifier: report it"
            )
        if self._penalty is None or record is None:
            return
        if reward is not None and value < reward.value:
            components = {**reward.components, COMPONENT: value / reward.value}
            reward = reward.model_copy(update={"value": value, "components": components})
        self._judgement = _Judgement(tuple(self._penalty.findings), reward)

    def applied(self, standing: Standing) -> Standing:
        """Return the standing of the episode with the judge's findings and the reward that is left."""
        judgement = self._judgement
        if judgement is None:
            return standing
        make = standing.episode
        return standing._replace(record=judgement.applied(standing.record), episode=lambda: judgement.applied(make()))

    def applied_to(self, state: AnyState) -> AnyState:
        """Return the state with the judge's findings and the reward that is left."""
        if self._judgement is not None:
            state.findings = [*state.findings, *self._judgement.findings]
            state.reward = self._judgement.reward
        return state

    def _grade(self) -> Reward | None:
        record = self._record()
        return None if record is None else record.reward
