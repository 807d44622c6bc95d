"""Gymnasium: an environment whose actions and observations are JSON texts.

An action is an assistant's message in OpenAI's format, or text without calls. An observation is a list of messages.
``info`` has the tools after ``reset``, and annotations after the last turn.
"""

from __future__ import annotations

import json
import math
import string
from contextlib import suppress
from typing import Any

import gymnasium

from ....client import SyncClient
from ....errors import ServerError
from ....models import Observation
from ..episodes import Episode
from ..sessions import Sessions
from .turns import action_of, annotations_of, messages_of


class EtudeEnv(gymnasium.Env[str, str]):
    """One session on a server; an episode without a valid score ends as truncated, with the reward NaN."""

    def __init__(self, url: str, split: str = "train", max_characters: int = 1 << 22) -> None:
        self.observation_space = self.action_space = gymnasium.spaces.Text(max_characters, charset=string.printable)
        self._sessions, self._split, self._tasks = Sessions(url), split, list[str]()
        self._episode = Episode(self._sessions)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode; ``options`` are the arguments of the client's ``reset``, by default a random task."""
        super().reset(seed=seed)
        if not (options or self._tasks):
            with SyncClient(self._sessions.url) as client:
                self._tasks = [task.task_id for task in client.tasks(self._split)]
        first = self._sessions.run(self._episode.begin(options or {"task_id": str(self.np_random.choice(self._tasks))}))
        return json.dumps([{"role": "user", "content": first.prompt or ""}]), {"tools": first.tools or []}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play one turn. The verified reward comes with the last turn."""
        message: Any = None
        with suppress(ValueError):
            message = json.loads(action)
        turn = action_of(message) if isinstance(message, dict) else {"text": action}
        try:
            observation = self._sessions.run(self._episode.step(turn))
        except ServerError:  # the episode is void, and its outcome says why
            observation = Observation(done=True)
        text, outcome = json.dumps(messages_of(observation)), self._episode.outcome
        if not observation.done:
            return text, 0.0, False, False, {}
        valid = outcome.reward is not None
        return text, math.nan if outcome.reward is None else outcome.reward, valid, not valid, annotations_of(outcome)

    def close(self) -> None:
        """End the session; an episode in progress is not graded. Idempotent."""
        self._sessions.close()
