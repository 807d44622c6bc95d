"""Session protocol: what agents and servers ask of an object that plays tasks, without any wire's types."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple, Protocol

from ..models import Episode, Observation, State

Work = Literal["execution", "grading"]
"""Work of a session that a server may let wait: running a tool, or grading."""
limiter: ContextVar[Callable[[Work], AbstractAsyncContextManager[Any]]] = ContextVar(
    "limiter", default=lambda work: nullcontext()
)
"""Makes the context in which a piece of work runs; entering it may wait. By default nothing waits."""


class Standing(NamedTuple):
    """An episode and its token; annotations are made on request, as they take longer than a turn of a drill."""

    record: Episode
    """The session's own record, to be read at once and not to be changed."""
    token: str
    """The token that forks of the session's episodes need; '' when they cannot be forked."""
    episode: Callable[[], Episode]
    """Makes the annotated copy of this episode, also after the session has started another one."""


class Session(Protocol):
    """An object that plays one episode at a time. ``close`` is idempotent and may follow a cancelled step."""

    @property
    def reset(self) -> Callable[..., Coroutine[Any, Any, Observation]]:
        """Start an episode; the named arguments are those of ``ResetArgs``."""
        ...

    async def step(self, action: Mapping[str, Any]) -> Observation:
        """Play one turn."""
        ...

    def state(self) -> State:
        """Return the infrastructure side of the episode at once, also while a step runs."""
        ...

    def standing(self) -> Standing:
        """Return where the episode is, at once, also while a step runs. Raises SessionError before the first reset."""
        ...

    def episode(self) -> Episode:
        """Return an annotated copy of the episode so far. Raises SessionError before the first reset."""
        ...

    async def close(self) -> None:
        """End the session and what it runs."""
        ...
