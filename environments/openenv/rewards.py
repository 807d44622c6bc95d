"""The reward as OpenEnv rubrics: one per component, and their product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from openenv.core.rubrics import Rubric

from ...models import Reward


class Component(Rubric):
    """A required component of the grade. A component that the grade lacks counts 0, never 1."""

    def __init__(self, name: str, grade: Callable[[], Reward | None]) -> None:
        super().__init__()
        self.name = name
        self._grade = grade

    def forward(self, action: Any, observation: Any) -> float:
        """Return the value of the component."""
        reward = self._grade()
        return reward.components.get(self.name, 0.0) if reward is not None and reward.valid else 0.0


class EpisodeReward(Rubric):
    """The product of the components that the task requires; 0 until the episode is graded."""

    def __init__(self, names: list[str], grade: Callable[[], Reward | None]) -> None:
        super().__init__()
        self.names = names
        self.components = [Component(name, grade) for name in names]
        for component in self.components:
            setattr(self, component.name, component)

    def forget(self) -> None:
        """Drop the last episode's scores."""
        rubrics: list[Rubric] = [self, *self.components]
        for rubric in rubrics:
            rubric.last_score = None

    def forward(self, action: Any, observation: Any) -> float:
        """Return the product."""
        value = 1.0 if self.components else 0.0
        for component in self.components:
            value *= component(action, observation)
        return value
