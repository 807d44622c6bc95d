"""OpenEnv's ``Environment`` around a session."""

from __future__ import annotations

import asyncio
import inspect
import logging
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from openenv.core.env_server.exceptions import SessionCapacityError
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action as OpenEnvAction
from openenv.core.env_server.types import Observation as OpenEnvObservation

from ... import models
from ...errors import InfrastructureError, SessionError, UnknownName
from ...loop_thread import LoopThread
from ...monitors.agentic import Judge
from ..annotations import changed_paths
from ..grading.components import required_components
from ..reset_args import ResetArgs
from ..session import Session, Standing
from ..single_flight import CutOff, SingleFlight
from ..tasks.task_set import Tasks
from ..wire_values import LeftBehind, plain, served_episode
from .mcp_tools import ToolsClient, as_call, listing
from .scoring import Scoring
from .task_provider import TaskProvider
from .types import Action, Observation, State, wire_observation

log = logging.getLogger(__name__)
T = TypeVar("T")

NO_TASKS = (
    "this server has no tasks: `etude generate pypi:cachetools==5.5.0 --out tasks/` makes some; "
    "then `etude serve --tasks tasks/`, or set ETUDE_TASKS=tasks/"
)


class EtudeEnvironment(TaskProvider, Environment[OpenEnvAction, OpenEnvObservation, State]):
    """Plays tasks over OpenEnv. Cheap to construct: the session is made at the first ``reset``.

    ``make_session`` makes the session, ``tools`` are the schemas listed before any ``reset``, ``archive`` receives
    ``(episode_id, token, episode)`` when an episode is left behind, ``admit`` is called before the session is made and
    may refuse by raising. ``judge`` may take ``judge_weight`` of a reward away (see ``penalty``). One call runs at a
    time, in its caller's task.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(
        self,
        tasks: Tasks,
        make_session: Callable[[], Session],
        *,
        tools: list[dict[str, Any]] | None = None,
        archive: Callable[[str, str, LeftBehind], None] | None = None,
        admit: Callable[[], None] | None = None,
        judge: Judge | None = None,
        judge_weight: float = 0.5,
    ) -> None:
        self._scoring = Scoring(self._record, judge, judge_weight)
        super().__init__(rubric=self._scoring.rubric)
        self.tasks = tasks
        self.tools = tools or []
        self.token = secrets.token_hex(16)
        self.mcp_client = ToolsClient(self)
        self._make_session = make_session
        self._archive = archive
        self._admit = admit
        self._session: Session | None = None
        self._playing = False
        self._void: str | None = None
        self._closed = False
        self._flight = SingleFlight()
        self._home: asyncio.AbstractEventLoop | None = None
        self._thread: LoopThread | None = None

    # OpenEnv's four calls

    async def reset_async(
        self, /, seed: int | None = None, episode_id: str | None = None, **arguments: Any
    ) -> Observation:
        """Start an episode. Raises SessionError (bad argument, no such task, closed) or InfrastructureError."""
        return await self._alone(self._reset, {"seed": seed, "episode_id": episode_id, **arguments})

    async def step_async(
        self, action: OpenEnvAction, timeout_s: float | None = None, **arguments: Any
    ) -> OpenEnvObservation:
        """Play one turn. Raises SessionError (reset first, over, closed) or InfrastructureError."""
        raw = action.raw() if isinstance(action, Action) else plain(action.model_dump())
        if raw.get("type") == "list_tools":
            return listing(self.tools_now)
        if raw.get("type") == "call_tool" and "tool_name" in raw:
            return as_call(raw["tool_name"], await self.call(raw["tool_name"], raw.get("arguments", {})))
        return await self._alone(self._step, raw)

    async def call(self, name: Any, arguments: Any) -> Observation:
        """Play one tool call as a separate turn."""
        raw = {"tool_calls": [{"id": f"mcp-{self.turns}", "name": name, "arguments": arguments}]}
        return await self._alone(self._step, plain(raw))

    @property
    def state(self) -> State:
        """Return the infrastructure side at once; before the first reset it has no episode and no token."""
        if not self._playing or self._session is None:
            return State()
        state = self._scoring.applied_to(State(**{**self._session.state().model_dump(), "token": self.token}))
        if self._void is not None:
            state.reward = models.Reward(valid=False)
        return state

    async def close_async(self) -> None:
        """End the session and what it runs. Idempotent; a call in flight is cancelled and ends as SessionError."""
        if self._closed:
            return
        self._closed = True
        await self._flight.cut()
        if self._session is not None:
            try:
                await self._session.close()
            finally:
                self._leave()

    # The same, for callers without an event loop

    def reset(self, seed: int | None = None, episode_id: str | None = None, **arguments: Any) -> Observation:
        """Start an episode and wait for it."""
        return self._blocking(self.reset_async(seed, episode_id, **arguments))

    def step(self, action: OpenEnvAction, timeout_s: float | None = None, **arguments: Any) -> OpenEnvObservation:
        """Play one turn and wait for it."""
        return self._blocking(self.step_async(action, timeout_s, **arguments))

    def close(self) -> None:
        """End the session. On the event loop that plays, return at once; what still runs is in ``closing``."""
        if self._closed:
            return
        if self._session is None:
            self._closed = True
        elif self._thread is not None:
            self._thread.run(self.close_async())
            self._thread.stop()
        elif self._home is not None and self._home.is_running() and self._home is not _current_loop():
            asyncio.run_coroutine_threadsafe(self.close_async(), self._home).result()
        elif _current_loop() is not None:
            task = asyncio.ensure_future(self.close_async())
            closing.add(task)
            task.add_done_callback(closing.discard)
        else:
            asyncio.run(self.close_async())

    # For the server

    @property
    def tools_now(self) -> list[dict[str, Any]]:
        """Return the running episode's tools as they are now, else those of the last reset."""
        changed = self._session.state().tools if self._session is not None and self._playing else None
        return self.tools if changed is None else changed

    @property
    def changed(self) -> list[str] | None:
        """Return the paths in the running episode's frozen diff (see ``annotations.changed_paths``)."""
        standing = self._standing()
        return changed_paths(standing.record) if standing is not None else None

    @property
    def turns(self) -> int:
        """Return the number of turns of the running episode; unlike ``state``, this annotates nothing."""
        standing = self._standing()
        return len(standing.record.turns) if standing is not None else 0

    @property
    def busy(self) -> bool:
        """Return whether a call is running."""
        return self._flight.busy

    @property
    def open(self) -> bool:
        """Return whether there is a session, with the resources that it holds."""
        return self._session is not None and not self._closed

    def served(self, episode_id: str) -> dict[str, Any] | None:
        """Return the running episode as the holder of its token may read it, None when it has another id."""
        standing = self._standing()
        if standing is None or standing.record.episode_id != episode_id:
            return None
        reward = standing.record.reward if self._void is None else models.Reward(valid=False)
        return served_episode(standing.episode().model_copy(update={"reward": reward}))

    # Inside

    async def _reset(self, arguments: dict[str, Any]) -> Observation:
        checked = ResetArgs.read(arguments).present()
        if not self.tasks.list_splits():
            raise SessionError(NO_TASKS)
        self._leave()
        if self._session is None:
            if self._admit is not None:
                self._admit()
            self._session = self._make_session()
        try:
            first = await self._session.reset(**checked)
        except (SessionError, UnknownName, IndexError) as error:
            raise SessionError(str(error)) from error
        self._playing = True
        record, token, _ = self._session.standing()
        # A session that keeps episodes for forks brings their token: one token opens both.
        self.token = token or self.token
        names = required_components(self.tasks.by_id(record.task_id)) if record.task_id else []
        self.rubric = self._scoring.begin(names)
        self.tools = first.tools or self.tools
        return await self._scored({}, first)

    async def _step(self, raw: dict[str, Any]) -> Observation:
        if self._session is None or not self._playing:
            raise SessionError("no episode is being played: reset first")
        if self._void is not None:
            raise SessionError(f"this episode is void ({self._void}): reset to play another")
        return await self._scored(raw, await self._session.step(raw))

    async def _scored(self, raw: dict[str, Any], played: models.Observation) -> Observation:
        """Return the observation for the wire; at the end of the episode its reward comes from the rubrics."""
        observation = wire_observation(played)
        if observation.done:
            observation.reward = await self._apply_rubric_async(raw, observation)
            self._scoring.settle(observation.reward)
        return observation

    async def _alone(self, call: Callable[[dict[str, Any]], Awaitable[T]], argument: dict[str, Any]) -> T:
        """Run one call at a time, translate what it raises, and void the episode when the machine fails."""
        try:
            async with self._flight:
                if self._closed:
                    raise SessionError("this session is closed: open another")
                self._home = asyncio.get_running_loop()
                return await self._translated(call, argument)
        except CutOff:
            raise SessionError("this session was closed") from None

    async def _translated(self, call: Callable[[dict[str, Any]], Awaitable[T]], argument: dict[str, Any]) -> T:
        try:
            return await call(argument)
        except asyncio.CancelledError:
            if not self._flight.cutting:
                self._void = "its last call was cut off"
            raise
        except (SessionError, SessionCapacityError):
            raise
        except Exception as error:
            log.exception("an episode became void")
            failure = (
                error if isinstance(error, InfrastructureError) else InfrastructureError(str(error) or repr(error))
            )
            self._void = str(failure)
            raise failure from error

    def _standing(self) -> Standing | None:
        if not self._playing or self._session is None:
            return None
        return self._scoring.applied(self._session.standing())

    def _record(self) -> models.Episode | None:
        """Return the record of the episode, None when there is none or it is void."""
        standing = self._standing() if self._void is None else None
        return None if standing is None else standing.record

    def _leave(self) -> None:
        """Hand the episode that is left behind to the archive."""
        standing = self._standing() if self._archive is not None else None
        if standing is not None and self._archive is not None:
            episode = LeftBehind.now(standing, void=self._void is not None)
            self._archive(standing.record.episode_id, self.token, episode)
        self._playing = False
        self._void = None

    def _blocking(self, call: Coroutine[Any, Any, T]) -> T:
        if self._thread is None:
            self._thread = LoopThread()
        return self._thread.run(call)


closing: set[asyncio.Future[None]] = set()
"""Sessions that a synchronous ``close`` on the event loop is still ending; a server awaits them before it exits."""


def _current_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


# OpenEnv reads the signature at each reset; computing it takes longer than checking the arguments.
EtudeEnvironment.reset_async.__signature__ = inspect.signature(EtudeEnvironment.reset_async)  # type: ignore[attr-defined]
