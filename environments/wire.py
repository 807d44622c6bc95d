"""The OpenEnv face of a session: wire types derived from ``models.py``, and one ``Environment`` around a session.

A *session* is the plain object that plays a task (``coding.py`` and its kin); everything here translates. Two errors
leave it: ``SessionError`` (the client's doing; says what to do) and ``Infrastructure`` (ours; the episode is void).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from openenv.core.env_server.exceptions import SessionCapacityError
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import CallToolObservation, ListToolsObservation, Tool, ToolError, ToolErrorType
from openenv.core.env_server.types import Action as OpenEnvAction
from openenv.core.env_server.types import EnvironmentMetadata
from openenv.core.env_server.types import Observation as OpenEnvObservation
from openenv.core.env_server.types import State as OpenEnvState
from openenv.core.rubrics import Rubric
from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, ValidationError, model_serializer

from .. import models
from ..client import LoopThread
from ..registry import UnknownName, did_you_mean
from .coding import SessionError
from .frames import Infrastructure, error_code, message_text, plain, served_episode, tool_schemas
from .tasks import Tasks

log = logging.getLogger(__name__)
T = TypeVar("T")

DESCRIPTION = "Real repositories as practice pieces for coding agents: hidden tests, exact error turns, hints."

NO_TASKS = (
    "this server has no tasks: `etude generate pypi:cachetools==5.5.0 --out tasks/` makes some; "
    "then `etude serve --tasks tasks/`, or set ETUDE_TASKS=tasks/"
)


class Session(Protocol):
    """What plays a task. ``close`` is idempotent and may follow a cancelled step."""

    @property
    def reset(self) -> Callable[..., Coroutine[Any, Any, models.Observation]]: ...

    async def step(self, action: Mapping[str, Any]) -> models.Observation: ...

    def state(self) -> models.State: ...

    def episode(self) -> models.Episode: ...

    async def close(self) -> None: ...


# --- Types on the wire ----------------------------------------------------------------------------------------


class Action(models.Action, OpenEnvAction):
    """Any JSON object. ``metadata`` is loose too: a model may emit that key as well as any other."""

    model_config = ConfigDict(extra="allow")

    metadata: Any = Field(default_factory=dict)

    def raw(self) -> dict[str, Any]:
        """The JSON object that arrived."""
        fields = {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}
        return plain({**fields, **(self.model_extra or {})})


class Observation(models.Observation, OpenEnvObservation):
    """Absent fields stay absent, so that a client which shows the whole observation to a policy adds no noise."""

    model_config = ConfigDict(extra="forbid")

    reward: float = 0.0

    @model_serializer(mode="wrap")
    def _drop_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {k: v for k, v in handler(self).items() if v is not None and not (k == "metadata" and not v)}


class State(models.State, OpenEnvState):
    """The infrastructure side; ``token`` opens ``/episodes/{episode_id}`` for this session's episodes."""

    model_config = ConfigDict(extra="allow")


class ResetArguments(BaseModel):
    """What ``reset`` takes; a task is chosen by ``task_id``, or by ``split`` and ``index``, or is that of ``fork_of``.

    ``token`` is that of the session that played ``fork_of``; nobody forks, and so reads, an episode without it.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    seed: int | None = None
    episode_id: str | None = Field(default=None, min_length=1, max_length=255)
    task_id: str | None = None
    split: str | None = None
    index: int | None = None
    replay: list[dict[str, Any]] | None = None
    fork_of: str | None = None
    turn: int | None = None
    token: str | None = None
    annotate: str | None = None
    tools: list[str] | None = None
    faults: str | None = None


def reset_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that were given, checked. Raises SessionError that names the first wrong one."""
    for name in given:
        if name not in ResetArguments.model_fields:
            raise SessionError(f"reset: {did_you_mean('argument', name, ResetArguments.model_fields)}")
    try:
        checked = ResetArguments.model_validate(plain(dict(given)))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise SessionError(f"reset: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    return checked.model_dump(exclude_none=True)


_OBSERVED = tuple(models.Observation.model_fields)

# --- Reward -----------------------------------------------------------------------------------------------------


class Component(Rubric):
    """One required component of the grade. A component that the grade lacks counts 0, never 1."""

    def __init__(self, name: str, grade: Callable[[], models.Reward | None]) -> None:
        super().__init__()
        self.name = name
        self._grade = grade

    def forward(self, action: Any, observation: Any) -> float:
        reward = self._grade()
        return reward.components.get(self.name, 0.0) if reward is not None and reward.valid else 0.0


class EpisodeReward(Rubric):
    """The product of the components that the task's verifier requires; 0 until the episode is graded."""

    def __init__(self, names: list[str], grade: Callable[[], models.Reward | None]) -> None:
        super().__init__()
        self.components = [Component(name, grade) for name in names]
        for component in self.components:
            setattr(self, component.name, component)

    def forward(self, action: Any, observation: Any) -> float:
        value = 1.0 if self.components else 0.0
        for component in self.components:
            value *= component(action, observation)
        return value


# --- The environment --------------------------------------------------------------------------------------------

_TOOL_ERRORS = {
    "tool_not_found": ToolErrorType.TOOL_NOT_FOUND,
    "invalid_args": ToolErrorType.INVALID_ARGS,
    "malformed_call": ToolErrorType.INVALID_ARGS,
    "transport_error": ToolErrorType.TRANSPORT_ERROR,
}


class ToolsClient:
    """OpenEnv's MCP handler drives an environment through a client; this one calls the same ``step`` directly."""

    def __init__(self, environment: EtudeEnvironment) -> None:
        self._environment = environment

    def is_connected(self) -> bool:
        return True

    async def __aenter__(self) -> ToolsClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        return None

    async def list_tools(self) -> list[dict[str, Any]]:
        return [
            {"name": tool.name, "description": tool.description, "inputSchema": tool.parameters}
            for tool in tool_schemas(self._environment.tools_now)
        ]

    async def call_tool(self, name: Any, arguments: Any) -> dict[str, Any]:
        """MCP's result shape, plus ``data`` (the text), ``done`` and ``reward``: this path is scored like any other."""
        observation = await self._environment.call(name, arguments)
        text = message_text(observation)
        return {
            "content": [{"type": "text", "text": text}],
            "isError": bool(error_code(text)),
            "data": text,
            "done": observation.done,
            "reward": observation.reward,
        }


class EtudeEnvironment(Environment[OpenEnvAction, OpenEnvObservation, State]):
    """Plays tasks over OpenEnv. Cheap to construct: the session is made at the first ``reset``.

    ``make_session`` makes the session, ``tools`` are the schemas listed before any ``reset``, ``archive`` receives
    ``(episode_id, token, episode)`` when an episode is left behind, ``admit`` is asked before the session is made and
    may refuse by raising. One call runs at a time.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(
        self,
        tasks: Tasks,
        make_session: Callable[[], Session],
        *,
        tools: list[dict[str, Any]] | None = None,
        archive: Callable[[str, str, dict[str, Any]], None] | None = None,
        admit: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(rubric=EpisodeReward([], self._graded))
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
        self._lock = asyncio.Lock()
        self._running: asyncio.Task[Any] | None = None
        self._home: asyncio.AbstractEventLoop | None = None
        self._thread: LoopThread | None = None

    # OpenEnv's four calls

    async def reset_async(
        self, /, seed: int | None = None, episode_id: str | None = None, **arguments: Any
    ) -> Observation:
        """Start an episode. Raises SessionError (bad argument, no such task, closed) or Infrastructure."""
        given = {"seed": seed, "episode_id": episode_id, **arguments}
        return await self._alone(lambda: self._reset({k: v for k, v in given.items() if v is not None}))

    async def step_async(
        self, action: OpenEnvAction, timeout_s: float | None = None, **arguments: Any
    ) -> OpenEnvObservation:
        """Play one turn. Raises SessionError (reset first, over, closed) or Infrastructure."""
        raw = action.raw() if isinstance(action, Action) else plain(action.model_dump())
        if raw.get("type") == "list_tools":
            listed = [
                Tool(name=t.name, description=t.description, input_schema=t.parameters)
                for t in tool_schemas(self.tools_now)
            ]
            return ListToolsObservation(tools=listed, reward=0.0)
        if raw.get("type") == "call_tool" and "tool_name" in raw:
            return _as_call(raw["tool_name"], await self.call(raw["tool_name"], raw.get("arguments", {})))
        return await self._alone(lambda: self._step(raw))

    async def call(self, name: Any, arguments: Any) -> Observation:
        """One tool call as a turn of its own."""
        raw = {"tool_calls": [{"id": f"mcp-{self.state.step_count}", "name": name, "arguments": arguments}]}
        return await self._alone(lambda: self._step(plain(raw)))

    @property
    def state(self) -> State:
        """Never waits. Before the first reset: no episode, and no token yet."""
        if not self._playing or self._session is None:
            return State()
        state = State(**{**self._session.state().model_dump(), "token": self.token})
        if self._void is not None:
            state.reward = models.Reward(valid=False)
        return state

    async def close_async(self) -> None:
        """End the session and what it runs. Idempotent; a call in flight is cancelled and ends as SessionError."""
        if self._closed:
            return
        self._closed = True
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})
        if self._session is not None:
            try:
                await self._session.close()
            finally:
                self._leave()

    # The same, for callers without an event loop

    def reset(self, seed: int | None = None, episode_id: str | None = None, **arguments: Any) -> Observation:
        return self._blocking(self.reset_async(seed, episode_id, **arguments))

    def step(self, action: OpenEnvAction, timeout_s: float | None = None, **arguments: Any) -> OpenEnvObservation:
        return self._blocking(self.step_async(action, timeout_s, **arguments))

    def close(self) -> None:
        """As ``close_async``. On the loop that plays it returns at once; what still runs is in ``closing``."""
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

    # Tasks: public rows only

    def list_splits(self) -> list[str]:
        return list(self.tasks.list_splits())

    def list_tasks(self, split: str) -> list[models.PublicTask]:
        """Raises IndexError for an unknown split, which OpenEnv answers as the client's mistake."""
        if split not in self.tasks.list_splits():
            raise IndexError(did_you_mean("split", split, self.tasks.list_splits()))
        return self.tasks.list_tasks(split)

    def num_tasks(self, split: str) -> int:
        return len(self.list_tasks(split))

    def get_task(self, split: str, index: int) -> models.PublicTask:
        rows = self.list_tasks(split)
        if not 0 <= index < len(rows):
            raise IndexError(f"split {split!r} has tasks 0 to {len(rows) - 1}")
        return rows[index]

    def get_task_range(self, split: str, start: int | None = None, stop: int | None = None) -> list[models.PublicTask]:
        return self.list_tasks(split)[start:stop]

    def get_metadata(self) -> EnvironmentMetadata:
        return EnvironmentMetadata(name="etude", description=DESCRIPTION, version="0.1.0", author="Etude")

    # For the server

    @property
    def tools_now(self) -> list[dict[str, Any]]:
        """The running episode's tools as they are now, else those of the last reset."""
        changed = self._session.state().tools if self._session is not None and self._playing else None
        return self.tools if changed is None else changed

    @property
    def busy(self) -> bool:
        return self._running is not None

    @property
    def open(self) -> bool:
        """Whether there is a session, with what it holds."""
        return self._session is not None and not self._closed

    def served(self, episode_id: str) -> dict[str, Any] | None:
        """The running episode as its token's holder may read it, if it has this id."""
        if not self._playing or self._session is None or self.state.episode_id != episode_id:
            return None
        episode = self._session.episode()
        if self._void is not None:
            episode = episode.model_copy(update={"reward": models.Reward(valid=False)})
        return served_episode(episode)

    # Inside

    async def _reset(self, given: dict[str, Any]) -> Observation:
        arguments = reset_arguments(given)
        if not self.tasks.list_splits():
            raise SessionError(NO_TASKS)
        self._leave()
        if self._session is None:
            if self._admit is not None:
                self._admit()
            self._session = self._make_session()
        try:
            first = await self._session.reset(**arguments)
        except (SessionError, UnknownName, IndexError) as error:
            raise SessionError(str(error)) from error
        self._playing = True
        # A session that keeps episodes for forks brings their token: one token opens both.
        self.token = self._session.state().token or self.token
        task_id = self._session.state().task_id
        names = self.tasks.by_id(task_id).verifier.components if task_id else []
        self.rubric = EpisodeReward(names, self._graded)
        self.tools = first.tools or self.tools
        return await self._scored({}, first)

    async def _step(self, raw: dict[str, Any]) -> Observation:
        if self._session is None or not self._playing:
            raise SessionError("no episode is being played: reset first")
        if self._void is not None:
            raise SessionError(f"this episode is void ({self._void}): reset to play another")
        return await self._scored(raw, await self._session.step(raw))

    async def _scored(self, raw: dict[str, Any], seen: models.Observation) -> Observation:
        """The observation for the wire; at the end of the episode its reward comes from the rubrics."""
        observation = Observation.model_construct(**{name: getattr(seen, name) for name in _OBSERVED}, metadata={})
        if observation.done:
            observation.reward = await self._apply_rubric_async(raw, observation)
            graded = self._graded()
            if graded is not None and abs(graded.value - observation.reward) > 1e-9:
                raise Infrastructure(f"the grade says {graded.value}, its components {observation.reward}")
        return observation

    async def _alone(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run one call at a time, translate what it raises, and void the episode when the machine failed."""
        async with self._lock:
            if self._closed:
                raise SessionError("this session is closed: open another")
            self._home = asyncio.get_running_loop()
            self._running = asyncio.create_task(call())
            try:
                return await self._running
            except asyncio.CancelledError:
                if self._closed and not _being_cancelled():
                    raise SessionError("this session was closed") from None
                self._void = "its last call was cut off"
                raise
            except (SessionError, SessionCapacityError):
                raise
            except Exception as error:
                log.exception("an episode became void")
                failure = error if isinstance(error, Infrastructure) else Infrastructure(str(error) or repr(error))
                self._void = str(failure)
                raise failure from error
            finally:
                self._running = None

    def _graded(self) -> models.Reward | None:
        return self._session.state().reward if self._session is not None and self._void is None else None

    def _leave(self) -> None:
        """Hand the episode that is left behind to the archive."""
        if self._playing and self._session is not None and self._archive is not None:
            episode_id = self._session.state().episode_id or ""
            served = self.served(episode_id)
            if served is not None:
                if served["end"] is None and served["reward"] is None:
                    served |= {"end": "closed", "reward": models.Reward(valid=False).model_dump()}
                self._archive(episode_id, self.token, served)
        self._playing = False
        self._void = None

    def _blocking(self, call: Coroutine[Any, Any, T]) -> T:
        if self._thread is None:
            self._thread = LoopThread()
        return self._thread.run(call)


closing: set[asyncio.Future[None]] = set()
"""Sessions that a synchronous ``close`` on the event loop is still ending; a server awaits them before it leaves."""


def _current_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _as_call(name: Any, observation: Observation) -> CallToolObservation:
    text = message_text(observation)
    code = error_code(text)
    status = text.partition("\n")[0]
    error = ToolError(error_type=_TOOL_ERRORS[code], message=status) if code in _TOOL_ERRORS else None
    return CallToolObservation(
        tool_name=str(name), result=text, error=error, done=observation.done, reward=observation.reward
    )
