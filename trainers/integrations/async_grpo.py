"""OpenEnv's ``TrainableSession`` for TRL's asynchronous GRPO: a session that plays its whole episode itself.

HarnessRolloutWorker(
    harness_session_factory=functools.partial(
        OwnedSessionFactory, "http://127.0.0.1:8000",
        policy_url="http://127.0.0.1:8001", model="my-model", tokenizer="my-model"),
    dataset=Dataset.from_list(harness_rows(tasks)), ...)

TRL then samples no turn itself: ``rollout`` plays with our chat against the vLLM server, and sampled ids are never
tokenised again. So the calls of one turn are one turn, malformed calls are answered as such, and an episode is one
training sequence. The worker's ``max_tokens`` and its LoRA names are not passed on: set ``max_turn_ids``, and train all
weights.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError, Future, wait
from dataclasses import dataclass, field
from typing import Any

from openenv.core.harness import Message, TrainingTrace

from ...errors import ChatError, EndpointFailed, EndpointRefused, ServerError
from ...llm.printable import one_line
from ..chat.chat_policy import TemplateChat
from ..rollouts.rollout import Rollout, rollout
from ..rollouts.session_pool import Limits
from .completions import Completions
from .episodes import Outcome
from .harness import EtudeSession, EtudeSessionFactory
from .traces import RecordedEpisode

PLAYED, VOID, REFUSED = 0, 1, 2
"""Exit codes: the episode has its reward, it has none, or the policy cannot play at all."""


@dataclass
class Policy:
    """The policy of one process; ``tokenizer`` is a folder or a name, loaded when the first episode is played."""

    completions: Completions
    tokenizer: str
    template: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._chat: TemplateChat | None = None

    def chat(self) -> TemplateChat:
        """Return the chat; any thread may call it. Raises ChatError for a missing tokenizer or an unusable template."""
        with self._lock:
            if self._chat is None:
                self._chat = self.completions.chat(_load_tokenizer(self.tokenizer), arguments=self.template)
            return self._chat


class OwnedSession(EtudeSession):
    """One episode, which ``wait_for_completion`` plays to its end.

    The factory's ``timeout_s`` is used where the caller gives none. Raises as ``Episode.begin``.
    """

    def __init__(self, factory: OwnedSessionFactory, arguments: Mapping[str, Any]) -> None:
        super().__init__(factory.sessions, arguments, factory.system)
        self._factory, self._policy = factory, factory.policy
        self._name = str(arguments.get("episode_id") or uuid.uuid4().hex)
        self._playing: Future[int] | None = None
        self._recorded: RecordedEpisode | None = None
        self._refusal = ""

    def wait_for_completion(self, timeout_s: float | None = None) -> int:
        """Play the episode; return 0 when it has its reward, 1 when it has none, 2 when the policy cannot play at all.

        Raises TimeoutError after ``timeout_s`` seconds. No further turn is sampled then, and the episode is graded as
        it is.
        """
        limit = self._factory.timeout_s if timeout_s is None else timeout_s
        if self._playing is None:
            try:
                chat = self._policy.chat()
            except ChatError as error:
                return self._refuse(error)
            self._playing = self._sessions.submit(self._play(chat, limit))
        try:
            return self._playing.result(limit)
        except CancelledError:
            return VOID

    def fetch_training_trace(self) -> TrainingTrace:
        """Return the turns so far, each with its error turns in ``metadata``; an episode in progress is ended.

        Raises ValueError for a policy that cannot play at all: TRL's worker then stops with this message, whereas it
        would silently leave out every episode without a reward.
        """
        outcome = self._settle()
        if self._refusal:
            raise ValueError(self._refusal)
        model = self._policy.completions.model
        entries = [] if self._recorded is None else self._recorded.entries(model, self._name, outcome)
        return TrainingTrace.from_entries(entries)

    def played(self) -> Rollout | None:
        """Return the turns so far with the outcome of the episode, which must be over; None without a turn."""
        return None if self._recorded is None else self._recorded.rollout(self._episode.outcome)

    def close(self) -> None:
        """End an episode in progress, ungraded, and cancel the wait for it. Idempotent, from any thread."""
        if self._playing is not None:
            self._playing.cancel()
        super().close()

    # --- internals --------------------------------------------------------------------------------------------

    async def _play(self, chat: TemplateChat, limit: float | None) -> int:
        deadline = None if limit is None else asyncio.get_running_loop().time() + limit
        recorded = self._recorded = RecordedEpisode(chat, self._episode, self._first, deadline)
        try:
            if not self._episode.over:
                sizes = {"max_ids": self._factory.max_ids, "max_turn_ids": self._factory.max_turn_ids}
                played = await rollout({}, recorded, recorded, system=self._system, **sizes)
                recorded.truncated = played.truncated
        except TimeoutError:
            raise TimeoutError(f"the episode did not end within {limit} s") from None
        except (EndpointRefused, ChatError) as error:
            self._refusal = str(error)
            await self._episode.give_up(error)
            return REFUSED
        except EndpointFailed as error:
            await self._episode.give_up(error)
        except ServerError:  # the episode is void already
            pass
        return VOID if self._episode.outcome.reward is None else PLAYED

    def _refuse(self, error: Exception) -> int:
        self._refusal = str(error)
        self._sessions.run(self._episode.give_up(error))
        return REFUSED

    def _settle(self) -> Outcome:
        if self._playing is not None:
            wait([self._playing])  # the environment finishes the turn that it is playing
        return super()._settle()

    def _turn_places(self, transcript: Sequence[Message]) -> list[int]:
        """Return the index of each assistant's message: here each is a turn."""
        return [place for place, message in enumerate(transcript) if message["role"] == "assistant"]


@dataclass(eq=False, kw_only=True)
class OwnedSessionFactory(EtudeSessionFactory):
    """Factory of sessions that play a policy on a vLLM server. It can be pickled.

    Raises LLMError for a bad address, ValueError for unknown sampling.
    """

    policy_url: str
    """Address of the vLLM server."""
    model: str
    """Name of the model at that server."""
    tokenizer: str
    """Folder or name of the model's tokenizer."""
    sampling: Mapping[str, Any] | None = None
    """Sampling parameters, with TRL's names; the default samples from the whole vocabulary."""
    max_ids: int = Limits.max_ids
    """Length of an episode in ids."""
    max_turn_ids: int = Limits.max_turn_ids
    """Length of a turn in ids."""
    template: Mapping[str, Any] | None = None
    """Arguments of the chat template."""
    timeout_s: float | None = None
    """Seconds of an episode; None sets no limit."""

    def __post_init__(self) -> None:
        super().__post_init__()
        completions = Completions(self.policy_url, self.model, dict(self.sampling or {}))
        self.policy = Policy(completions, self.tokenizer, dict(self.template or {}))

    def create(self, task: Any, seed: int | None = None, episode_id: str | None = None) -> OwnedSession:
        """Start an episode. Raises as ``EtudeSessionFactory.create``."""
        return OwnedSession(self, self._reset_arguments(task, seed, episode_id))

    def close(self) -> None:
        """End all sessions, and the connections to the policy's server. Idempotent."""
        if self.policy.completions.opened:
            self.sessions.run(self.policy.completions.close())
        super().close()


def _load_tokenizer(name: str) -> Any:
    from transformers import AutoTokenizer  # loaded only where episodes are played

    try:
        return AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        remedy = "name the folder or the model that the policy's server was started with"
        raise ChatError(f"cannot load a tokenizer from {name!r} ({one_line(error)}); {remedy}") from None
