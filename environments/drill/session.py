"""The drill session: short procedural exercises in using tools, without a repository and without a sandbox.

It plays by the same rules as the coding session: the same status lines, ends, annotations, forks. A turn takes
microseconds, so it is where trainers warm up and are measured.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import SessionError
from ...hints.transcript.status_line import BUDGET_ENDED
from ...models import Episode, ErrorTurn, Fork, Grade, Observation, Reward, State, ToolMessage, Turn
from ..annotations import Annotations
from ..base import Standing
from ..forks import EpisodeStore, KeptEpisode, Point, shared_store
from ..reset_args import Defaults, start
from ..turn_parsing import model_tokens, parse_turn
from .play import SUBMIT, Play
from .tasks import DrillTasks

MAX_TURNS = 32
_RULES = """

---

- Each tool result starts with a status line: ok, or error and what is wrong.
- When you are done, call submit with the answer: it ends the episode.
"""


class DrillSession:
    """Plays drills, one episode at a time; options and calls as CodingSession's.

    ``max_turns`` end an episode, which is then graded as it is. Without a sandbox nothing waits: calls never overlap.
    """

    def __init__(
        self,
        tasks: DrillTasks | None = None,
        *,
        annotate: str = "state",
        max_turns: int = MAX_TURNS,
        store: EpisodeStore | None = None,
    ) -> None:
        self._tasks = DrillTasks() if tasks is None else tasks
        self._max_turns = max_turns
        self._store = shared_store() if store is None else store
        self._defaults = Defaults(annotate, [], secrets.token_hex(16))
        self._episode: Episode | None = None
        self._closed = False

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
        """Start an episode, as CodingSession.reset does; without a task's name or split ``seed`` draws from ``train``.

        Raises SessionError for arguments that make no sense, ``tools`` among them.
        """
        if self._closed:
            raise SessionError("this session is closed: open another")
        if tools is not None:
            raise SessionError("a drill's tools are part of the drill: leave tools out")
        given = {
            "seed": seed,
            "episode_id": episode_id,
            "task_id": task_id,
            "split": split or ("train" if index is not None and task_id is None else None),
            "index": index,
            "replay": replay,
            "fork_of": fork_of,
            "turn": turn,
            "token": token,
            "annotate": annotate,
        }
        begun = start(self._tasks, self._store, self._defaults, given)
        self._abandon()
        self._enter(begun.episode, begun.annotate)
        if begun.fork_of is not None:
            past = len(begun.episode.turns)
            self._live().fork = Fork(episode_id=begun.fork_of, turn=past, replayed=past)
        return self._first(begun.actions)

    async def step(self, action: Mapping[str, Any]) -> Observation:
        """Play one turn. Raises SessionError (no episode, over, closed)."""
        if not isinstance(action, Mapping):
            raise SessionError(f"an action is a JSON object, got {type(action).__name__}")
        return self._step(dict(action))

    def state(self) -> State:
        """The infrastructure side."""
        episode = self._episode
        if episode is None:
            return State()
        return State.model_construct(
            episode_id=episode.episode_id,
            step_count=len(episode.turns),
            task_id=episode.task_id,
            token=self._defaults.token,
            error_turns=list(self._annotations.error_turns()),
            findings=[],
            reward=episode.reward,
            fork=episode.fork,
            injected=list(episode.injected),
            end=episode.end,
        )

    def standing(self) -> Standing:
        """Where the episode is, not annotated. Raises SessionError before the first reset."""
        return Standing(self._begun(), self._defaults.token, self._annotations.episode)

    def episode(self) -> Episode:
        """A copy of the episode so far; its turns never change again. Raises SessionError before the first reset."""
        self._begun()
        return self._annotations.episode()

    async def close(self) -> None:
        """End the session. Idempotent."""
        self._closed = True
        self._abandon()

    # --- inside ---------------------------------------------------------------------------------------------

    def _enter(self, past: KeptEpisode, how: str) -> None:
        """Start in the state after the turns of the past, reached by playing their calls again."""
        self._past, self._how, self._task = past, how, past.task
        drill = self._tasks.drill(past.task.task_id)
        self._play = Play(drill)
        for number, turn in enumerate(past.turns):
            self._play.turn(parse_turn(turn.action, number), number)
        self._tokens = past.points[-1].tokens
        self._started = time.monotonic()
        self._episode = Episode(
            episode_id=past.episode_id,
            task_id=past.task.task_id,
            seed=past.seed,
            prompt=drill.statement + _RULES,
            tools=[*(tool.schema() for tool in drill.tools), SUBMIT],
            turns=list(past.turns),
            injected=list(self._play.injected),
        )
        self._annotations = Annotations(self._episode)

    def _first(self, actions: Sequence[Mapping[str, Any]]) -> Observation:
        """The first observation, after what was played before and the ``actions``, played now."""
        episode = self._live()
        first = Observation(prompt=episode.prompt, tools=episode.tools)
        first.workdir = self._tasks.drill(episode.task_id).workdir
        first.messages = [message for turn in episode.turns for message in turn.messages]
        if episode.turns:
            first.annotations = self._last_annotations(episode)
        for action in actions:
            if first.done:
                episode.reward = Reward(valid=False)
                raise SessionError("replay goes on after the end of the episode: cut it there")
            played = self._step(dict(action))
            first.messages += played.messages
            first.done, first.reward, first.annotations = played.done, played.reward, played.annotations
        return first

    def _step(self, action: dict[str, Any]) -> Observation:
        episode = self._live()
        started, number = time.monotonic(), len(episode.turns)
        messages, end = self._play.turn(parse_turn(action, number), number)
        self._tokens += model_tokens(action)
        if end is None and number + 1 >= self._max_turns:
            end = "budget"
            messages.append(ToolMessage(role="user", content=BUDGET_ENDED))
        turn = Turn(action=action, messages=messages, seconds=time.monotonic() - started)
        episode.turns.append(turn)
        if len(episode.injected) != len(self._play.injected):
            episode.injected = list(self._play.injected)
        after = None if end is not None else Point(self._play.silent, self._tokens, kept=False)
        self._store.add(self._past, turn, after)
        if end is not None:
            episode.end, episode.reward = end, self._play.reward(self._task)
            episode.grade = Grade(reward=episode.reward)
            episode.seconds = time.monotonic() - self._started
        reward = 0.0 if episode.reward is None else episode.reward.value
        annotations = self._last_annotations(episode)
        return Observation(messages=messages, done=end is not None, reward=reward, annotations=annotations)

    def _last_annotations(self, episode: Episode) -> list[ErrorTurn] | None:
        """The last turn's, for an agent that is to see them."""
        if self._how != "observation":
            return None
        return [error for error in self._annotations.error_turns() if error.turn == len(episode.turns) - 1]

    def _begun(self) -> Episode:
        if self._episode is None:
            raise SessionError("no episode is being played: reset first")
        return self._episode

    def _live(self) -> Episode:
        """The running episode. Raises SessionError that says why there is none."""
        if self._closed:
            raise SessionError("this session is closed: open another")
        if self._episode is None:
            raise SessionError("no episode is being played: reset first")
        if self._episode.end is not None:
            raise SessionError("this episode is over: reset to play another")
        return self._episode

    def _abandon(self) -> None:
        """An episode that nobody finished is not graded."""
        if self._episode is not None and self._episode.end is None:
            self._episode.seconds = time.monotonic() - self._started
            self._episode.reward = Reward(valid=False, assurance=self._task.assurance)
            self._episode.end = "closed"
