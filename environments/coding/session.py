"""The coding session: one agent, one task, one sandbox; reset, turns, and a grade at the end."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from ...errors import GraderError, InfrastructureError, SandboxError, SessionError, SnapshotError
from ...hints.transcript.status_line import BUDGET_ENDED
from ...models import (
    Episode,
    EpisodeEnd,
    ErrorTurn,
    FileChange,
    Fork,
    Observation,
    Reward,
    State,
    Task,
    ToolMessage,
    Turn,
)
from ..annotations import UNTOLD, Annotations
from ..base import Standing
from ..forks import EpisodeStore, KeptEpisode, Point, shared_store
from ..grading import collect, grade, ungradable, unplayable
from ..messages import NO_CALL
from ..messages import NOT_RUN as NOT_RUN
from ..reset_args import Defaults, prompt, start, tool_names
from ..sandbox import WORKSPACE, Limits, Sandbox, open_sandbox
from ..tasks.task_set import TaskSet
from ..tasks.task_trees import Materials, materials
from ..tasks.visible_paths import listed
from ..tool_protocol import Context, message
from ..turn_parsing import ParsedTurn, model_tokens, parse_turn
from .tools import TOOLS, run_call, schemas

Annotate = Literal["state", "observation"]
T = TypeVar("T")
MAX_CHANGES = 50_000


@dataclass(frozen=True)
class Budget:
    """When an episode ends by itself: turns, wall-clock seconds, tokens that the model wrote (``None``: no limit)."""

    turns: int = 100
    seconds: float = 3600.0
    tokens: int | None = None


class CodingSession:
    """Plays the tasks of a set, one episode at a time.

    ``annotate="observation"`` puts the ErrorTurns of each turn into its observation; by default they are in ``state()``
    alone. ``tools`` are the names of the tools that the agent gets (default: all). ``store`` keeps what forks start
    from (default: one for the process); the token in ``state()`` opens this session's episodes to other sessions.
    """

    def __init__(
        self,
        tasks: TaskSet,
        *,
        backend: str = "auto",
        limits: Limits = Limits(),
        budget: Budget = Budget(),
        annotate: Annotate = "state",
        tools: Sequence[str] | None = None,
        store: EpisodeStore | None = None,
    ) -> None:
        self._tasks = tasks
        self._backend = backend
        self._limits = limits
        self._budget = budget
        self._store = shared_store() if store is None else store
        self._defaults = Defaults(annotate, tool_names(tools), secrets.token_hex(16))
        self._lock = asyncio.Lock()
        self._running: asyncio.Task[Observation] | None = None
        self._sandbox: Sandbox | None = None
        self._sandbox_of = ""
        self._episode: Episode | None = None
        self._closed = False
        self._broken = ""

    # --- the four calls -------------------------------------------------------------------------------------

    async def reset(
        self,
        *,
        seed: int | None = None,
        episode_id: str | None = None,
        task_id: str | None = None,
        split: str | None = None,
        index: int | None = None,
        replay: Sequence[Mapping[str, Any]] | None = None,
        fork_of: str | None = None,
        turn: int | None = None,
        token: str | None = None,
        annotate: str | None = None,
        tools: Sequence[str] | None = None,
    ) -> Observation:
        """Start an episode; a running one ends as ``closed``.

        The task is ``task_id``, or ``index`` in ``split``, or drawn by ``seed`` (from ``split`` when given). ``replay``
        plays stored actions first: their messages are in the observation, in order. ``fork_of`` starts in the state
        before ``turn`` of a kept episode (default: after all its turns), as if its actions had been replayed, with its
        task and tools; ``token`` is that of the session that played it, if that is another. Turns and tokens of the
        past count, seconds start anew. Raises SessionError for arguments that make no sense,
        InfrastructureError when the machine fails.
        """
        given = {
            "seed": seed,
            "episode_id": episode_id,
            "task_id": task_id,
            "split": split,
            "index": index,
            "replay": replay,
            "fork_of": fork_of,
            "turn": turn,
            "token": token,
            "annotate": annotate,
            "tools": tools,
        }
        return await self._alone(self._reset(given))

    async def step(self, action: Mapping[str, Any]) -> Observation:
        """Play one turn. Raises SessionError (no episode, over, closed), InfrastructureError (the episode is void)."""
        if not isinstance(action, Mapping):
            raise SessionError(f"an action is a JSON object, got {type(action).__name__}")
        return await self._alone(self._step(dict(action)))

    def state(self) -> State:
        """The infrastructure side, at once, also while a turn is running."""
        episode = self._episode
        if episode is None:
            return State()
        return State(
            episode_id=episode.episode_id,
            step_count=len(episode.turns),
            task_id=episode.task_id,
            token=self._defaults.token,
            error_turns=list(self._annotations.error_turns()),
            findings=list(episode.findings),
            reward=episode.reward,
            sandbox=episode.sandbox,
            fork=episode.fork,
            end=episode.end,
        )

    def standing(self) -> Standing:
        """Where the episode is, at once, also while a turn is running. Raises SessionError before the first reset."""
        episode = self._episode
        if episode is None:
            raise SessionError("no episode is being played: reset first")
        return Standing(episode, self._defaults.token, self._annotations.episode)

    def episode(self) -> Episode:
        """A copy of the episode so far; its turns never change again. Raises SessionError before the first reset."""
        return self.standing().episode()

    async def close(self) -> None:
        """End the session and its sandbox; a turn in flight is cut off. Idempotent."""
        self._closed = True
        running = self._running
        if running is not None and not running.done():
            running.cancel()
            await asyncio.wait({running})
        self._abandon()
        await self._drop_sandbox()

    # --- inside ---------------------------------------------------------------------------------------------

    async def _alone(self, call: Any) -> Observation:
        """One call at a time; ``close`` ends it, and what the machine does wrong voids the episode."""
        if self._closed:
            call.close()
            raise SessionError("this session is closed: open another")
        if self._lock.locked():
            call.close()
            raise SessionError("this session is playing a turn: one call at a time")
        async with self._lock:
            self._running = asyncio.ensure_future(call)
            try:
                return await self._running
            except asyncio.CancelledError:
                self._running.cancel()
                await asyncio.wait({self._running})
                self._void("its last call was cut off")
                self._sandbox_of = ""
                if self._closed:
                    raise SessionError("this session was closed") from None
                raise
            except (SandboxError, GraderError, SnapshotError) as error:
                self._void(str(error))
                await self._drop_sandbox()
                raise InfrastructureError(str(error)) from error
            finally:
                self._running = None

    async def _reset(self, given: Mapping[str, Any]) -> Observation:
        begun = start(self._tasks, self._store, self._defaults, given)
        past, task = begun.episode, begun.episode.task
        self._abandon()
        self._broken = "its reset did not finish"
        made = await _in_own_thread(partial(_prepare, task, self._tasks.blobs))
        before = len(past.turns)
        actions = begun.actions + [turn.action for turn in await self._enter(past, made)]
        assert self._sandbox is not None
        self._past, self._task, self._made, self._names, self._how = past, task, made, past.tools, begun.annotate
        self._silent, self._tokens = past.points[-1].silent, past.points[-1].tokens
        self._started = time.monotonic()
        self._episode = Episode(
            episode_id=past.episode_id,
            task_id=task.task_id,
            seed=past.seed,
            prompt=prompt(task, past.tools),
            tools=schemas(past.tools),
            files=list(_files(made)),
            turns=list(past.turns),
            sandbox=self._sandbox.report,
            fork=None if begun.fork_of is None else Fork(episode_id=begun.fork_of, turn=before, replayed=len(actions)),
        )
        self._annotations = Annotations(self._episode)
        self._broken = ""
        return await self._catch_up(self._episode, actions)

    async def _enter(self, past: KeptEpisode, made: Materials) -> list[Turn]:
        """Open or reset the sandbox, in the kept state that is nearest; the turns of the past that are still to play.

        The same task's sandbox is reset, which costs next to nothing; any other is replaced.
        """
        opened = self._sandbox is None or self._sandbox_of != str(made.agent_tree)
        if opened:
            await self._drop_sandbox()
            self._sandbox = await open_sandbox(made.agent_layers, self._limits, self._backend)
            self._sandbox_of = str(made.agent_tree)
        assert self._sandbox is not None
        backend = self._sandbox.report.backend
        at, turns = past.nearest(len(past.turns), backend), list(past.turns)
        self._store.cut(past, at, backend)
        layer = past.points[-1].layer
        if layer is not None:
            await self._sandbox.restore(layer)
        elif not opened:
            await self._sandbox.reset()
        return turns[at:]

    async def _catch_up(self, episode: Episode, actions: Sequence[Mapping[str, Any]]) -> Observation:
        """The first observation, after what was played before and the ``actions``, played now."""
        first = Observation(prompt=episode.prompt, tools=episode.tools, workdir=WORKSPACE)
        first.messages = [message for turn in episode.turns for message in turn.messages]
        if episode.turns:
            first.annotations = await self._last_annotations(episode)
        for action in actions:
            if first.done:
                self._void("its past goes on after its end")
                raise SessionError("replay goes on after the end of the episode: cut it there")
            played = await self._step(dict(action))
            first.messages += played.messages
            first.done, first.reward, first.annotations = played.done, played.reward, played.annotations
        return first

    async def _step(self, action: dict[str, Any]) -> Observation:
        episode = self._live()
        started = time.monotonic()
        turn = parse_turn(action, len(episode.turns))
        self._tokens += model_tokens(action)
        messages, end = await self._play(turn)
        if end is None and self._over_budget(len(episode.turns) + 1):
            end = "budget"
            messages.append(ToolMessage(role="user", content=BUDGET_ENDED))
        played = Turn(action=action, messages=messages, seconds=time.monotonic() - started)
        episode.turns.append(played)
        if end is not None:
            await self._finish(end)
        self._store.add(self._past, played, None if end is not None else await self._state_after(turn))
        annotations = await self._last_annotations(episode)
        observation = Observation(messages=messages, done=end is not None, annotations=annotations)
        if end is not None and episode.reward is not None:
            observation.reward = episode.reward.value
        return observation

    async def _last_annotations(self, episode: Episode) -> list[ErrorTurn] | None:
        """The last turn's, for an agent that is to see them."""
        if self._how != "observation":
            return None
        errors = await asyncio.to_thread(self._annotations.error_turns)
        return [error for error in errors if error.turn == len(episode.turns) - 1]

    async def _state_after(self, turn: ParsedTurn) -> Point:
        assert self._sandbox is not None
        wrote = any(call.name in TOOLS and TOOLS[call.name].writes for call in turn.calls)
        return await self._store.state_of(self._past, self._sandbox, wrote, self._silent, self._tokens)

    def _live(self) -> Episode:
        """The running episode. Raises SessionError that says why there is none."""
        if self._broken:
            raise SessionError(f"this episode is void ({self._broken}): reset to play another")
        if self._episode is None:
            raise SessionError("no episode is being played: reset first")
        if self._episode.end is not None:
            raise SessionError("this episode is over: reset to play another")
        return self._episode

    async def _play(self, turn: ParsedTurn) -> tuple[list[ToolMessage], EpisodeEnd | None]:
        """Run a turn's calls in order; what follows a submit is not run."""
        if not turn.calls:
            self._silent += 1
            return [ToolMessage(role="user", content=NO_CALL)], "no_tool_call" if self._silent >= 2 else None
        self._silent = 0
        assert self._sandbox is not None
        context = Context(self._sandbox, self._task, self._limits)
        messages: list[ToolMessage] = []
        end: EpisodeEnd | None = None
        for call in turn.calls:
            if end is not None:
                messages.append(message(call, NOT_RUN))
                continue
            answer = await run_call(call, context, self._names)
            if call.name == "submit" and answer.content.partition("\n")[0] == "ok":
                end = "submit"
            messages.append(answer)
        return messages, end

    def _over_budget(self, turns: int) -> bool:
        budget = self._budget
        tokens = budget.tokens is not None and self._tokens >= budget.tokens
        return turns >= budget.turns or tokens or time.monotonic() - self._started >= budget.seconds

    async def _finish(self, end: EpisodeEnd) -> None:
        """Freeze, collect, grade. No process of the agent is alive by now: each exec ends with all it started."""
        episode, task = self._live(), self._task
        assert self._sandbox is not None
        try:
            changes = await self._sandbox.changes(max_files=MAX_CHANGES)
        except ValueError as error:  # too many files: the agent's doing
            result = ungradable(task, f"the workspace cannot be collected: {error}")
            episode.diff = [FileChange(path=UNTOLD, kind="refused", reason=f"size: {error}")]
        else:
            made = self._made
            result = await grade(task, changes, backend=self._backend, limits=self._limits, snapshot=made.snapshot)
            accepted, refused = await asyncio.to_thread(collect, changes, task, made.agent_tree, made.installed)
            episode.diff = [*accepted, *refused]
        episode.grade = result
        episode.findings = list(result.findings)
        episode.reward = result.reward
        episode.seconds = time.monotonic() - self._started
        episode.end = end

    def _abandon(self) -> None:
        """An episode that nobody finished is not graded."""
        if self._episode is not None and self._episode.end is None:
            self._episode.seconds = time.monotonic() - self._started
            self._episode.reward = Reward(valid=False, assurance=self._task.assurance)
            if not self._broken:
                self._episode.end = "closed"

    def _void(self, cause: str) -> None:
        self._broken = cause
        if self._episode is not None and self._episode.end is None:
            self._episode.reward = Reward(valid=False)

    async def _drop_sandbox(self) -> None:
        sandbox, self._sandbox, self._sandbox_of = self._sandbox, None, ""
        if sandbox is not None:
            await sandbox.close()


async def _in_own_thread(call: Callable[[], T]) -> T:
    """Run what may take minutes. Not in the loop's few shared threads, which the other sessions' grades wait for."""
    executor = ThreadPoolExecutor(1, thread_name_prefix="etude-prepare")
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, call)
    finally:
        executor.shutdown(wait=False)


def _prepare(task: Task, blobs: Path | None) -> Materials:
    """Blocking: the task's trees, made when they are not in the cache. Raises GraderError."""
    try:
        made = materials(task, blobs=blobs)
        _ = made.agent_layers, made.grading_layers, made.installed, _files(made)
    except (SnapshotError, ValueError) as error:
        raise unplayable(task, error) from error
    return made


def _files(made: Materials) -> tuple[str, ...]:
    return listed(made.agent_tree, tuple(made.task.source_globs))
