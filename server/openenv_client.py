"""OpenEnv's typed client for an Etude server; OpenEnv's ``GenericEnvClient`` works as well."""

from __future__ import annotations

from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient

from ..client import MESSAGE_TIMEOUT_S, observation_of
from ..models import Action, Observation, State


class EtudeEnv(EnvClient[Action | dict[str, Any], Observation, State]):
    """``async with EtudeEnv(base_url=...) as env``, or ``EtudeEnv(...).sync()``.

    Unlike its base it waits for a slow test run (half an hour, not one minute), and does not drop the connection while
    the caller computes without serving pings.
    """

    def __init__(self, base_url: str | None = None, **options: Any) -> None:
        options.setdefault("message_timeout_s", MESSAGE_TIMEOUT_S)
        options.setdefault("websocket_ping_timeout_s", None)
        super().__init__(base_url, **options)

    def _step_payload(self, action: Action | dict[str, Any]) -> dict[str, Any]:
        return action if isinstance(action, dict) else action.model_dump(exclude_unset=True)

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[Observation]:
        observation = observation_of(payload)
        return StepResult(observation=observation, reward=observation.reward, done=observation.done)

    def _parse_state(self, payload: dict[str, Any]) -> State:
        return State.model_validate(payload)
