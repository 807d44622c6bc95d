"""Wire types: the records of ``models.py`` as OpenEnv's."""

from __future__ import annotations

from typing import Any

from openenv.core.env_server.types import Action as OpenEnvAction
from openenv.core.env_server.types import Observation as OpenEnvObservation
from openenv.core.env_server.types import State as OpenEnvState
from pydantic import ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from ... import models
from ..wire_values import plain


class Action(models.Action, OpenEnvAction):
    """An action of any shape. ``metadata`` has a loose type too: a model may emit that key as well as any other."""

    model_config = ConfigDict(extra="allow")

    metadata: Any = Field(default_factory=dict)

    def raw(self) -> dict[str, Any]:
        """Return the JSON object that arrived."""
        fields = {name: value for name, value in self.__dict__.items() if name in self.model_fields_set}
        return plain({**fields, **(self.model_extra or {})})


class Observation(models.Observation, OpenEnvObservation):
    """An observation whose absent fields stay absent: a client may show all of it to a policy."""

    model_config = ConfigDict(extra="forbid")

    reward: float = 0.0

    @model_serializer(mode="wrap")
    def _drop_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {k: v for k, v in handler(self).items() if v is not None and not (k == "metadata" and not v)}


class State(models.State, OpenEnvState):
    """The infrastructure side; ``token`` opens ``/episodes/{episode_id}`` for this session's episodes."""

    model_config = ConfigDict(extra="allow")


_FIELDS = tuple(models.Observation.model_fields)


def wire_observation(observation: models.Observation) -> Observation:
    """Return a session's observation for the wire."""
    values = observation.__dict__
    return Observation(**{name: values[name] for name in _FIELDS})
