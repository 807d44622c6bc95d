"""What plays a task, without any protocol's types: the calls of a session, and where its episode stands."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple, Protocol

from ..models import Episode, Observation, State


class Standing(NamedTuple):
    """Where an episode is, without its annotations: to make them takes longer than a turn of a drill.

    ``record`` is the session's own, to be read at once and not to be changed; ``token`` opens forks of it ('': it has
    none). ``episode`` makes the annotated copy, also when the session has gone on to another one.
    """

    record: Episode
    token: str
    episode: Callable[[], Episode]


class Session(Protocol):
    """What plays a task. ``close`` is idempotent and may follow a cancelled step."""

    @property
    def reset(self) -> Callable[..., Coroutine[Any, Any, Observation]]: ...

    async def step(self, action: Mapping[str, Any]) -> Observation: ...

    def state(self) -> State: ...

    def standing(self) -> Standing:
        """At once, also while a step runs. Raises SessionError before the first reset."""
        ...

    def episode(self) -> Episode: ...

    async def close(self) -> None: ...
