"""Session whose calls are counted and logged, and wait for a slot."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any, TypeVar

from openenv.core.env_server.exceptions import SessionCapacityError

from .. import models
from ..environments import openenv as wire
from ..environments.session import Standing, limiter
from ..environments.wire_values import served_episode
from ..errors import SessionError
from .admission import Admission, client
from .metrics import Metrics
from .store import GradedStore
from .workers.place import Place
from .workers.placement import check_fork

log = logging.getLogger(__name__)
T = TypeVar("T")


class WatchedEnvironment(wire.EtudeEnvironment):
    """EtudeEnvironment that reports every call to ``metrics``, and logs it with the name of its request.

    Resets, tool calls and gradings wait for a slot of ``admission``. The session belongs to the client of the request
    in which it is made.

    Outcomes are ``ok``, ``refused`` (a mistake of the client), ``failed`` (of the machine), ``cut`` (the client left).
    """

    def __init__(
        self,
        *arguments: Any,
        metrics: Metrics,
        admission: Admission,
        store: GradedStore | None = None,
        place: Place = Place(),
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self.token = place.prefix + self.token
        self._is_stored = False
        self._chosen: str | None = None
        self._graded: set[str] = set()  # chosen ids of episodes that have a grade
        self._place = place
        self._admission = admission
        self.client = client.get()
        self._metrics = metrics
        self._store = store
        self._limiter = admission.limiter(self.client)

    @property
    def playing(self) -> bool:
        """Return whether an episode is being played that has not ended."""
        standing = self._standing() if self._void is None else None
        return standing is not None and standing.record.end is None

    async def _alone(self, call: Callable[[dict[str, Any]], Awaitable[T]], argument: dict[str, Any]) -> T:
        name, began, outcome = getattr(call, "__name__", "call").strip("_"), time.monotonic(), "failed"
        done = False
        limiter.set(self._limiter)
        try:
            result = await super()._alone(call, argument)
            outcome, done = "ok", bool(getattr(result, "done", False))
            return result
        except (SessionError, SessionCapacityError):
            outcome = "refused"
            raise
        except asyncio.CancelledError:
            outcome = "cut"
            raise
        finally:
            self._report(name, outcome, time.monotonic() - began, done=done)

    async def _reset(self, arguments: dict[str, Any]) -> wire.Observation:
        """Start an episode in one slot, with all calls that are replayed for it. Raises ServerStopping too.

        The id of a graded episode of this session is refused: its grade would be lost.
        """
        self._admission.check_draining()
        chosen = arguments.get("episode_id")
        if isinstance(chosen, str) and chosen in self._graded:
            raise SessionError(f"episode_id {chosen!r} names a graded episode of this session: give another, or none")
        if isinstance(arguments.get("token"), str):
            check_fork(arguments["token"], self._place)
        async with self._limiter("execution"):
            limiter.set(lambda work: nullcontext() if work == "execution" else self._limiter(work))
            observation = await super()._reset(arguments)
        self._chosen = chosen if isinstance(chosen, str) else None
        return observation

    async def _scored(self, raw: dict[str, Any], played: models.Observation) -> wire.Observation:
        """Return the observation for the wire; a graded episode is in the store before its last one is returned."""
        observation = await super()._scored(raw, played)
        standing = self._standing() if observation.done else None
        if standing is not None and standing.record.reward is not None and standing.record.reward.valid:
            if self._store is not None:
                await asyncio.to_thread(self._save, standing)
            if self._chosen is not None:
                self._graded.add(self._chosen)
        return observation

    def _save(self, standing: Standing) -> None:
        assert self._store is not None
        self._store.save(served_episode(standing.episode()), self.token)
        self._is_stored = True

    def _leave(self) -> None:
        """Hand the episode that is left behind to the archive, unless it is in the store: memory does not hold both."""
        archive = self._archive
        if self._is_stored:
            self._archive = None
        super()._leave()
        self._archive, self._is_stored = archive, False

    def _report(self, name: str, outcome: str, seconds: float, *, done: bool) -> None:
        self._metrics.called(name, outcome, seconds)
        standing = self._standing()
        record = standing.record if standing is not None else None
        fields: dict[str, Any] = {"call": name, "outcome": outcome, "seconds": round(seconds, 4)}
        if record is not None:
            fields |= {"episode_id": record.episode_id, "task_id": record.task_id}
        if done and record is not None:
            reward = record.reward.value if record.reward is not None and record.reward.valid else None
            self._metrics.ended(str(record.end), reward)
            fields |= {"end": record.end, "reward": reward}
        log.info("%s %s", name, outcome, extra=fields)
