"""A running vLLM server as a sampler over HTTP: token ids in, token ids out.

Any framework whose policy is served by vLLM can play whole episodes with it, and needs no torch:

    completions = Completions("http://127.0.0.1:8001", "my-model")
    chat = completions.chat(AutoTokenizer.from_pretrained("my-model"))
    async with Client("http://127.0.0.1:8000") as client:
        played = await rollout({"split": "train", "index": 0}, chat, client)

vLLM's ``/v1/completions`` accepts a prompt of ids, and with ``return_token_ids`` returns the sampled ids. They include
the id that stops a turn (the tokenizer's, or one of ``stop_token_ids``) with its logprob; only the text beside them
lacks it. The logprobs are those of the sampled distribution when the server was started with ``--logprobs-mode
processed_logprobs``, which matters at every temperature except 1.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from ...errors import EndpointFailed, EndpointRefused
from ...llm.attempts import AttemptFailed, backoff
from ...llm.endpoints import address, is_local
from ...llm.printable import one_line, shown
from ..chat.chat_policy import TemplateChat
from ..rollouts.rollout import Sample

WHOLE = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "repetition_penalty": 1.0,
}
"""Sampling from the whole vocabulary; always sent, because a server takes other defaults from the model's files."""
_RESERVED = frozenset(
    ("model", "prompt", "max_tokens", "n", "seed", "logprobs", "return_token_ids", "stop_token_ids", "echo", "stream")
)
_TRANSIENT = (408, 409, 425, 429)
_ROUNDING = 1e-3


@dataclass
class Completions:
    """One model of a vLLM server. Use it in one event loop, and close it.

    Raises LLMError for a bad address, ValueError for sampling that each request sets for itself.
    """

    url: str
    """Address of the server, with or without ``/v1``."""
    model: str
    """Name of the model at the server."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """Sampling parameters that override ``WHOLE``."""
    stops: Collection[int] = ()
    """Ids that end a turn; ``chat`` sets them to ``TemplateChat.stops``."""
    seed: int | None = None
    """Seed from which the seeds of the requests are drawn."""
    timeout_s: float = 600.0
    """Seconds for one attempt; a server that is receiving weights answers late."""
    attempts: int = 8
    """Attempts for one turn."""
    sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep
    """Pause between attempts."""

    def __post_init__(self) -> None:
        self.url = address(self.url).removesuffix("/v1")
        reserved = sorted(set(self.sampling) & _RESERVED)
        if reserved:
            raise ValueError(f"sampling sets {reserved[0]!r}, which each request sets for itself; leave it out")
        self._seeds = random.Random(self.seed)
        self._http: httpx.AsyncClient | None = None

    def chat(self, tokenizer: Any, *, arguments: Mapping[str, Any] | None = None) -> TemplateChat:
        """Return the policy behind its tokenizer's template. Raises ChatError as ``TemplateChat``."""
        chat = TemplateChat(tokenizer, self.sample, arguments=arguments)
        self.stops = chat.stops
        return chat

    async def sample(self, ids: Sequence[int], room: int) -> Sample:
        """Sample a turn of at most ``room`` ids, its stop included, each with its logprob; a ``chat_policy.Sampler``.

        Raises EndpointRefused, with the remedy, for an error that another attempt would repeat; EndpointFailed when the
        server does not answer, or is too busy, ``attempts`` times.
        """
        body = {
            **WHOLE,
            **self.sampling,
            "model": self.model,
            "prompt": list(ids),
            "max_tokens": room,
            "n": 1,
            # Parallel engines start from the same seed: two requests without a seed could get the same samples.
            "seed": self._seeds.getrandbits(63),
            "logprobs": 0,
            "return_token_ids": True,
            "stop_token_ids": sorted(self.stops),
        }
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._read(await self._post(body), body["prompt"])
            except AttemptFailed as error:
                if attempt >= self.attempts:
                    raise EndpointFailed(f"{error} (attempt {attempt} of {self.attempts})") from None
            await self.sleep(backoff(attempt))

    @property
    def opened(self) -> bool:
        """Return whether connections are open."""
        return self._http is not None

    async def close(self) -> None:
        """Close the connections; the next request opens new ones. Idempotent."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    # --- internals --------------------------------------------------------------------------------------------

    @property
    def _where(self) -> str:
        return f"the policy's server {shown(self.url)}"

    async def _post(self, body: Mapping[str, Any]) -> Any:
        """Return the answer to one request. Raises AttemptFailed and EndpointRefused."""
        if self._http is None:
            # No limit on connections: the server has a queue for the turns that are requested at once.
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
            self._http = httpx.AsyncClient(timeout=self.timeout_s, limits=limits, trust_env=not is_local(self.url))
        try:
            response = await self._http.post(f"{self.url}/v1/completions", json=dict(body))
        except (httpx.InvalidURL, UnicodeError) as error:
            raise EndpointRefused(f"{self._where} cannot be reached ({one_line(error)}); check its address") from None
        except httpx.HTTPError as error:
            cause = one_line(str(error) or type(error).__name__)
            raise AttemptFailed(f"{self._where} does not answer ({cause}); is `vllm serve` running there?") from None
        if not response.is_success:
            raise self._refused(response.status_code, one_line(response.text))
        try:
            return response.json()
        except ValueError:
            raise AttemptFailed(f"{self._where} answered without JSON: {one_line(response.text)}") from None

    def _refused(self, status: int, answer: str) -> Exception:
        message = f"{self._where} answered {status}: {answer}"
        if status >= 500 or status in _TRANSIENT:
            return AttemptFailed(message)
        if status == 404:
            return EndpointRefused(f"{message}; is {self.model!r} a name that its /v1/models lists?")
        if status == 400 and "context length" in answer:
            return EndpointRefused(f"{message}; set max_ids to no more than the server's --max-model-len")
        return EndpointRefused(message)

    def _read(self, answer: Any, prompt: Sequence[int]) -> Sample:
        """Read a completion. Raises AttemptFailed for a turn that was broken off, EndpointRefused for inexact ids."""
        try:
            choice = answer["choices"][0]
            ids, read = choice.get("token_ids"), choice.get("prompt_token_ids")
            scores = (choice.get("logprobs") or {}).get("token_logprobs") or []
        except (TypeError, LookupError, AttributeError):
            raise AttemptFailed(f"{self._where} answered without a completion: {one_line(answer)}") from None
        if choice.get("finish_reason") == "abort":
            raise AttemptFailed(f"{self._where} broke the turn off")
        if ids is None:
            raise EndpointRefused(
                f"{self._where} returned no token ids; use vLLM 0.10.2 or newer, and no proxy that drops "
                "`return_token_ids`"
            )
        if read is not None and list(read) != list(prompt):
            raise EndpointRefused(
                f"{self._where} read other ids than it was sent ({len(read)} for {len(prompt)}); turn off what edits "
                "prompts there"
            )
        if len(scores) != len(ids) or None in scores:
            raise EndpointRefused(
                f"{self._where} returned {len(scores) - scores.count(None)} logprobs for {len(ids)} token ids; "
                "set --max-logprobs and --logprobs-mode so that it scores each sampled token"
            )
        return Sample(list(ids), [_score(logprob) for logprob in scores])


def _score(logprob: float) -> float:
    """Return a logprob; rounding may put that of a certain token slightly above 0."""
    return 0.0 if 0.0 < logprob < _ROUNDING else float(logprob)
