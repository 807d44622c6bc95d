"""SkyRL-gym: a text environment whose actions are a model's text with Hermes' ``<tool_call>`` tags."""

from __future__ import annotations

import math
from typing import Any

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

from ....errors import ServerError
from ....hints.transcript.hermes import tagged_calls
from ....models import Observation
from ..episodes import Episode
from ..sessions import Sessions
from .turns import annotations_of, messages_of


class EtudeEnv(BaseTextEnv):  # type: ignore[misc, unused-ignore]
    """One episode. ``extras`` has ``reset``, the arguments of the client's reset; ``env_config`` has ``url``.

    The tools are in the first metadata: put them into the system message. A tool's result has the role ``user``. An
    episode without a valid score ends with the reward NaN, and its metadata says ``valid: False``: drop it.
    """

    def __init__(self, env_config: Any = None, extras: dict[str, Any] | None = None) -> None:
        super().__init__()
        self._task = (extras or {})["reset"]
        self._sessions = Sessions(env_config["url"])
        self._episode = Episode(self._sessions)

    def init(self, prompt: list[dict[str, str]]) -> tuple[list[dict[str, str]], dict[str, Any]]:
        """Start the episode; its statement follows ``prompt``."""
        first = self._sessions.run(self._episode.begin(self._task))
        return [*prompt, {"role": "user", "content": first.prompt or ""}], {"tools": first.tools or []}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Play one turn; malformed calls are turns too."""
        calls = [call.text if call.broken else call.value for call in tagged_calls(action)]
        text = action.partition("<tool_call>")[0]
        self.turns += 1
        try:
            observation = self._sessions.run(self._episode.step({"text": text, "tool_calls": calls}))
        except ServerError:  # the episode is void, and its outcome says why
            observation = Observation(done=True)
        outcome, answers = self._episode.outcome, messages_of(observation)
        score = math.nan if outcome.reward is None else outcome.reward
        return BaseTextEnvStepOutput(
            observations=[{"role": "user", "content": message["content"]} for message in answers],
            reward=score if observation.done else 0.0,
            done=observation.done,
            metadata=annotations_of(outcome) if observation.done else {},
        )

    def close(self) -> None:
        """End the session; an episode in progress is not graded. Idempotent."""
        self._sessions.close()
