"""BaseSession: all of a session that does not depend on what is played. An environment is one subclass of it.

The subclass declares its tools, tasks, knobs and solutions, and plays single calls (see ``declaration``). All else is
the same in every environment: episodes, budgets, grades, annotations, injected faults, forks, replays, one call at a
time, void episodes.
"""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any, ClassVar, Self

from ..errors import (
    EpisodeNotKept,
    FaultsError,
    GraderError,
    InfrastructureError,
    SandboxError,
    SessionError,
    SnapshotError,
    UnknownName,
)
from ..hints.transcript.status_line import BUDGET_ENDED
from ..models import Episode, EpisodeEnd, FileChange, Fork, Observation, Reward, State, Task, ToolMessage, Turn
from .declaration import Environment, Opening, with_give_up
from .faults.injector import Injector
from .faults.schedule import Schedule, read_schedule
from .forks import EpisodeStore, KeptEpisode, shared_store
from .grading.impossible import given_up
from .grading.submission import grade_submission, verifier_of
from .reset_args import ANNOTATE, ResetArgs, choose_task
from .running import Budget, RunningEpisode
from .sandbox import Limits
from .session import Session, Standing
from .single_flight import CutOff, SingleFlight
from .tasks.task_set import Tasks


class BaseSession(Environment):
    """Plays the tasks of a set, one episode at a time.

    ``annotate="observation"`` puts the ErrorTurns of each turn into its observation; by default they are in ``state()``
    alone. ``tools`` names the tools that the agent gets (default: all); ``faults`` is the schedule of faults for a
    ``reset`` that names none. ``store`` keeps what forks start from (default: one for the process); the token in
    ``state()`` opens this session's episodes to other sessions. ``backend`` and ``limits`` are those of the sandbox, in
    environments that have one.
    """

    default_budget: ClassVar[Budget] = Budget()
    """Budget of an episode in a session that is given none."""

    def __init__(
        self,
        tasks: Tasks | None = None,
        *,
        backend: str = "auto",
        limits: Limits = Limits(),
        budget: Budget | None = None,
        annotate: str = "state",
        tools: Sequence[str] | None = None,
        faults: str = "",
        store: EpisodeStore | None = None,
    ) -> None:
        """Make a session; nothing is opened before the first reset. Raises UnknownName and ValueError."""
        if annotate not in ANNOTATE:
            raise ValueError(f"annotate must be one of {', '.join(ANNOTATE)}, got {annotate!r}")
        self._tasks = self.tasks() if tasks is None else tasks
        self._backend = backend
        self._limits = limits
        self._budget = budget or self.default_budget
        self._annotate = annotate
        self._tools = self.choose_tools(tools)
        self._faults = read_schedule(faults)
        self._store = shared_store() if store is None else store
        self._token = self._store.new_token()
        self._flight = SingleFlight()
        self._running: RunningEpisode | None = None
        self._closed = False
        self._void_cause = ""
        self._world_is_suspect = False

    @classmethod
    def open(cls, tasks: Tasks, knobs: Any = None, **options: Any) -> Self:
        """Return a session with the knobs; ``options`` are those of the constructor."""
        return cls(tasks, **options)

    async def row(self, task: Task) -> Opening:
        """Return what the agent of a task is shown first, for export rows; by default an episode is started."""
        return await row_by_reset(self, task)

    # --- the calls of a session -------------------------------------------------------------------------------

    async def reset(self, **arguments: Any) -> Observation:
        """Start an episode; a running one ends as ``closed``. The arguments are the fields of ``ResetArgs``.

        A fork starts as if its past had been replayed: turns and tokens of the past count, seconds start again. Raises
        SessionError for arguments that make no sense, InfrastructureError when the machine fails.
        """
        return await self._alone(lambda: self._reset(ResetArgs.read(arguments)))

    async def step(self, action: Mapping[str, Any]) -> Observation:
        """Play one turn. Raises SessionError (no episode, over, closed), InfrastructureError (the episode is void)."""
        if not isinstance(action, Mapping):
            raise SessionError(f"an action must be a JSON object, got {type(action).__name__}")
        return await self._alone(lambda: self._step(dict(action)))

    def state(self) -> State:
        """Return the infrastructure side at once, also while a turn is running."""
        return State() if self._running is None else self._running.state(self._token)

    def standing(self) -> Standing:
        """Return where the episode is, at once, also while a turn is running. Raises SessionError before any reset."""
        if self._running is None:
            raise SessionError("no episode is being played: reset first")
        return Standing(self._running.record, self._token, self._running.annotations.episode)

    def episode(self) -> Episode:
        """Return a copy of the episode so far; its turns never change again. Raises SessionError before any reset."""
        return self.standing().episode()

    async def close(self) -> None:
        """End the session and its world; a turn in flight is cut off. Idempotent."""
        self._closed = True
        await self._flight.cut()
        self._abandon()
        await self.close_world()

    # --- one call at a time -----------------------------------------------------------------------------------

    async def _alone(self, call: Callable[[], Awaitable[Observation]]) -> Observation:
        """Run a call unless another one runs; what the machine does wrong, and a cancellation, void the episode."""
        if self._closed:
            raise SessionError("this session is closed: open another")
        if self._flight.busy:
            raise SessionError("this session is playing a turn: one call at a time")
        try:
            async with self._flight:
                return await self._voiding(call)
        except CutOff:
            raise SessionError("this session was closed") from None

    async def _voiding(self, call: Callable[[], Awaitable[Observation]]) -> Observation:
        try:
            return await call()
        except asyncio.CancelledError:
            self._void("its last call was cut off")
            self._world_is_suspect = True
            raise
        except (SandboxError, GraderError, SnapshotError) as error:
            self._void(str(error))
            await self.close_world()
            raise InfrastructureError(str(error)) from error

    def _void(self, cause: str) -> None:
        self._void_cause = cause
        if self._running is not None and self._running.record.end is None:
            self._running.record.reward = Reward(valid=False)

    def _abandon(self) -> None:
        """End an episode that is not over: it is not graded."""
        running = self._running
        if running is not None and running.record.end is None:
            running.record.seconds = running.seconds
            running.record.reward = Reward(valid=False, assurance=running.past.task.assurance)
            if not self._void_cause:
                running.record.end = "closed"

    # --- reset ------------------------------------------------------------------------------------------------

    async def _reset(self, arguments: ResetArgs) -> Observation:
        past, schedule = self._begin(arguments)
        forked_at = len(past.turns)
        self._abandon()
        self._void_cause = "its reset did not finish"
        if self._world_is_suspect:
            await self.close_world()
            self._world_is_suspect = False
        opening = with_give_up(await self.open_world(past.task, past.tools), past.task)
        if schedule:
            past.points[0] = replace(past.points[0], injector=Injector(schedule, past.task.task_id, opening.tools))
        actions = [*(arguments.replay or ()), *await self._rewind(past, opening)]
        fork = None
        if arguments.fork_of is not None:
            fork = Fork(episode_id=arguments.fork_of, turn=forked_at, replayed=len(actions))
        record = Episode(
            episode_id=past.episode_id,
            task_id=past.task.task_id,
            seed=past.seed,
            prompt=opening.prompt,
            tools=opening.tools,
            files=list(opening.files),
            turns=list(past.turns),
            sandbox=opening.sandbox,
            fork=fork,
        )
        self._running = RunningEpisode(record, past, arguments.annotate or self._annotate)
        self._void_cause = ""
        return await self._catch_up(self._running, opening, actions)

    def _begin(self, arguments: ResetArgs) -> tuple[KeptEpisode, Schedule]:
        """Return the new episode with its past, and its schedule of faults (a fork's is in its past).

        Raises SessionError.
        """
        episode_id = arguments.episode_id or uuid.uuid4().hex
        try:
            if arguments.fork_of is not None:
                token = self._token if arguments.token is None else arguments.token
                past = self._store.fork(arguments.fork_of, token, arguments.turn, episode_id, self._token)
                return past, Schedule()
            schedule = self._faults if arguments.faults is None else read_schedule(arguments.faults)
            tools = self._tools if arguments.tools is None else self.choose_tools(arguments.tools)
            seed = secrets.randbits(32) if arguments.seed is None else arguments.seed
            task = choose_task(self._tasks, arguments, seed)
            verifier_of(task)
        except (EpisodeNotKept, FaultsError, UnknownName, GraderError) as error:
            raise SessionError(str(error)) from None
        return self._store.begin(KeptEpisode(episode_id, self._token, task, tools, seed)), schedule

    async def _rewind(self, past: KeptEpisode, opening: Opening) -> list[dict[str, Any]]:
        """Bring the world to the kept state nearest to the end of the past; return the actions still to be played."""
        backend = opening.sandbox.backend if opening.sandbox is not None else ""
        at, turns = past.nearest(len(past.turns), backend), list(past.turns)
        self._store.cut(past, at, backend)
        await self.restore_world(past.points[-1].layer)
        return [turn.action for turn in turns[at:]]

    async def _catch_up(
        self, running: RunningEpisode, opening: Opening, actions: Sequence[Mapping[str, Any]]
    ) -> Observation:
        """Return the first observation, with the messages of the past and of the ``actions``, which are played now."""
        first = Observation(prompt=opening.prompt, tools=opening.tools, workdir=opening.workdir)
        first.messages = [message for turn in running.record.turns for message in turn.messages]
        if running.record.turns:
            first.annotations = await running.last_error_turns()
        for action in actions:
            if first.done:
                self._void("its replay continues after its end")
                raise SessionError("replay continues after the end of the episode; cut it there")
            played = await self._step(dict(action))
            first.messages += played.messages
            first.done, first.reward, first.annotations = played.done, played.reward, played.annotations
        return first

    # --- step -------------------------------------------------------------------------------------------------

    async def _step(self, action: dict[str, Any]) -> Observation:
        running, started = self._live(), monotonic()
        episode = running.record
        messages, end = await running.play(action, self.run_tool)
        if end is None and running.exhausts(self._budget):
            end = "budget"
            messages.append(ToolMessage(role="user", content=BUDGET_ENDED))
        turn = Turn(action=action, messages=messages, seconds=monotonic() - started)
        episode.turns.append(turn)
        after = None
        if end is None:
            wrote = any(map(self.changes_world, running.tools_run))
            after = await self._store.with_state(running.past, running.point(), wrote, self.save_world)
        else:
            await self._finish(running, end)
        self._store.add(running.past, turn, after)
        reward = 0.0 if episode.reward is None else episode.reward.value
        annotations = await running.last_error_turns()
        return Observation(messages=messages, done=end is not None, reward=reward, annotations=annotations)

    def _live(self) -> RunningEpisode:
        """Return the running episode. Raises SessionError, which says why there is none."""
        if self._void_cause:
            raise SessionError(f"this episode is void ({self._void_cause}): reset to play another")
        if self._running is None:
            raise SessionError("no episode is being played: reset first")
        if self._running.record.end is not None:
            raise SessionError("this episode is over: reset to play another")
        return self._running

    async def _finish(self, running: RunningEpisode, end: EpisodeEnd) -> None:
        """Freeze the world and grade it; what an agent gave up is not looked at."""
        episode = running.record
        if end == "give_up":
            grade, diff = given_up(running.past.task, running.reason), list[FileChange]()
        else:
            submission = await self.submission(running.past.task, running.answer)
            grade, diff = await grade_submission(replace(submission, turns=episode.turns))
        episode.grade, episode.diff = grade, diff
        episode.findings, episode.reward = list(grade.findings), grade.reward
        episode.seconds = running.seconds
        episode.end = end


async def row_by_reset(session: Session, task: Task) -> Opening:
    """Return what the agent of a task is shown first, by starting an episode."""
    first = await session.reset(task_id=task.task_id)
    return Opening(first.prompt or "", first.tools or [], first.workdir)
