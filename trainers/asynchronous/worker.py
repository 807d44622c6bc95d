"""Rollout worker of TRL's asynchronous GRPO whose samples carry their whole episode, as distillation needs it.

TRL's queue has samples with fixed fields, and its dataset passes only some of them to the collator. One of these is
``metrics``, which no tensor is made of. So a sample's metrics become ``EpisodeMetrics``: the same numbers, and with
them the episode and the version of the policy that played it.
"""

from __future__ import annotations

import copy
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.queues import Queue
from typing import Any

from trl.experimental.async_grpo.async_rollout_worker import TrainingSequence
from trl.experimental.async_grpo.openenv_harness import HarnessRolloutWorker, _HarnessRolloutLoop

from ...errors import ServerError
from ...llm.printable import one_line
from ..integrations.async_grpo import OwnedSession, OwnedSessionFactory
from ..rollouts.rollout import Rollout

_Loop: Any = _HarnessRolloutLoop
_Worker: Any = HarnessRolloutWorker
_Sequence: Any = TrainingSequence


@dataclass(frozen=True)
class Played:
    """Origin of one sample."""

    rollout: Rollout | None
    """The episode; None for a sample that is not the first one of its episode."""
    model_version: int
    """Number of weight transfers before the first episode of the sample's group began."""


class EpisodeMetrics(dict[str, float]):
    """Metrics of one sample, with its origin."""

    def __init__(self, values: Mapping[str, float], played: Played) -> None:
        super().__init__(values)
        self.played = played


@dataclass
class _PlayedSequence(_Sequence):
    """TRL's training row, with its episode."""

    rollout: Rollout | None = None


class _RememberingFactory:
    """Factory that remembers the session that each thread created last: TRL's loop keeps a session to itself."""

    def __init__(self, factory: OwnedSessionFactory) -> None:
        self._factory, self.policy, self._of_thread = factory, factory.policy, threading.local()

    def create(self, task: Any, seed: int | None = None, episode_id: str | None = None) -> OwnedSession:
        self._of_thread.session = None
        self._of_thread.session = self._factory.create(task, seed=seed, episode_id=episode_id)
        session: OwnedSession = self._of_thread.session
        return session

    def take(self) -> OwnedSession | None:
        """Return the session that this thread created last, once."""
        session: OwnedSession | None = self._of_thread.session
        self._of_thread.session = None
        return session

    def close(self) -> None:
        self._factory.close()


class EpisodeLoop(_Loop):
    """TRL's loops of playing and scoring; ``harness_session_factory`` must return an ``OwnedSessionFactory``."""

    _factory: Any

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._factory = _RememberingFactory(self._factory)

    def run(self) -> None:
        """Play until the trainer stops; samples that it has not taken by then do not delay the end of the process.

        Ctrl-C reaches this process too. The trainer ends its step first, for which it needs samples.
        """
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            super().run()
        finally:
            for unread in (self.rollout_buffer, self._metrics_queue):
                if isinstance(unread, Queue):
                    unread.cancel_join_thread()

    def _run_session(self, prompt: Any, group_id: int = 0) -> tuple[Any, Any]:
        (completion, ids, sequences, *others), metrics = super()._run_session(prompt, group_id)
        session = self._factory.take()
        rollout = None if session is None else session.played()
        played = [
            _PlayedSequence(**vars(sequence), rollout=None if place else rollout)
            for place, sequence in enumerate(sequences)
        ]
        return (completion, ids, played, *others), metrics

    async def _score_group(self, group: Any) -> list[Any]:
        samples: list[Any] = await super()._score_group(group)
        sequences = [sequence for of_episode in group.completions_sequences for sequence in of_episode]
        for sample, sequence in zip(samples, sequences, strict=True):
            sample.metrics = EpisodeMetrics(sample.metrics, Played(sequence.rollout, sample.model_version))
        return samples


class EpisodeWorker(_Worker):
    """TRL's worker with ``EpisodeLoop`` in its process. ``arguments`` are those of ``HarnessRolloutWorker``."""

    _loop_cls = EpisodeLoop

    def __init__(self, *, processing_class: Any, **arguments: Any) -> None:
        if getattr(processing_class, "response_template", None) is None:
            # TRL would refuse a chat template that it cannot parse, but our sessions read the turns themselves.
            processing_class = copy.copy(processing_class)
            processing_class.response_template = {}
        super().__init__(processing_class=processing_class, reward_funcs=[], **arguments)

    def check_health(self, stale_after_s: float) -> None:
        """Raise ServerError, in one line, if the process has failed or does nothing for this many seconds."""
        try:
            super().check_health(stale_after_s)
        except RuntimeError as error:
            cause = str(error.__cause__ or error).splitlines()[0]
            raise ServerError(f"the process that plays the episodes has failed ({one_line(cause)})") from error
