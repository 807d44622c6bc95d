"""The client: one call is some attempts, each within its time, its turn and the budget."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import AccessDenied, EndpointFailed, EndpointRefused, EndpointUnavailable, LLMError
from .answers import Reply, read_message, refusal, reply_of, size
from .budget import Budget, Cost, Meter, Price, Usage
from .cassettes import Cassette
from .endpoints import BASE_URL, address, is_local, masked, secret_in, shown, usable
from .errors import Again, one_line

if TYPE_CHECKING:
    import httpx

MAX_ANSWER = 16 << 20
"""Bytes of the largest answer that is read."""
MAX_WAIT_S = 60.0
"""Seconds that an endpoint may ask us to wait; one that asks for more is given up."""
Bound = tuple[int, int]


@dataclass
class LLM:
    """A model behind an endpoint. ``options`` go into every request; ``max_tokens`` bounds each answer.

    ``timeout_s`` is for one attempt, from connecting to the last byte; ``concurrency`` is the number of attempts at
    once. ``shared_meter`` replaces the budget: several clients then share it. Use it in one event loop, in ``async with``, or ``close`` it.
    """

    model: str
    base_url: str = BASE_URL
    api_key: str = field(default="", repr=False)
    price: Price = Price()
    budget: Budget = Budget()
    max_tokens: int = 4096
    options: Mapping[str, Any] = field(default_factory=dict)
    concurrency: int = 8
    timeout_s: float = 300.0
    attempts: int = 5
    cassette: Cassette | None = None
    shared_meter: Meter | None = None
    sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep

    def __post_init__(self) -> None:
        self.base_url = address(self.base_url)
        usable(self.api_key)
        self.usage = Usage()
        if self.budget.usd is not None and not (self.price.prompt or self.price.completion):
            raise LLMError("a budget in USD needs the price of a token: give --price IN,OUT in USD per million tokens")
        self.meter = self.shared_meter or Meter(self.budget)
        self._gate = asyncio.Semaphore(self.concurrency)
        self._http: httpx.AsyncClient | None = None
        self._limit_name = "max_tokens"
        self._bad = 0

    async def chat(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = (), **options: Any
    ) -> Reply:
        """One answer to ``messages``; ``options`` win over the client's. Raises LLMError."""
        body = self._body(messages, tools, options)
        # A token is a piece of at least one byte, and the JSON around a message outweighs what a template puts there.
        bound = (size(body), int(body["max_tokens"]))
        answer = None if self.cassette is None else self.cassette.replay(body)
        reply = await (self._asked(body, bound) if answer is None else self._replayed(answer, bound))
        self.usage.calls += 1
        self.usage.estimated += reply.estimated
        self.usage.prompt_tokens += reply.prompt_tokens
        self.usage.completion_tokens += reply.completion_tokens
        self.usage.usd += reply.usd
        return reply

    def holds(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()) -> bool:
        """Whether the cassette has an answer to this, for which nobody is asked."""
        return self.cassette is not None and self.cassette.holds(self._body(messages, tools, {}))

    async def close(self) -> None:
        """Idempotent."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def __aenter__(self) -> LLM:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def _body(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], options: Mapping[str, Any]
    ) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "messages": list(messages), "max_tokens": self.max_tokens}
        return body | {**({"tools": list(tools)} if tools else {}), **self.options, **options}

    async def _replayed(self, answer: Mapping[str, Any], bound: Bound) -> Reply:
        """An answer of the cassette, counted as if it had been asked for."""
        reply = reply_of(answer, self.price, bound[0])
        await self.meter.charge_replayed(self._cost(bound), self._cost((reply.prompt_tokens, reply.completion_tokens)))
        return reply

    async def _asked(self, body: dict[str, Any], bound: Bound) -> Reply:
        """Attempts until one is answered. Raises LLMError."""
        attempt = 1
        while True:
            try:
                return await self._attempt(body, bound)
            except Again as error:
                wait = _backoff(attempt) if error.wait is None else error.wait
                if wait > MAX_WAIT_S:
                    raise EndpointUnavailable(
                        f"{error} and asks to wait {wait:.0f} s, more than {MAX_WAIT_S:.0f}"
                    ) from None
                if attempt >= self.attempts:
                    raise EndpointUnavailable(f"{error} (attempt {attempt} of {self.attempts})") from None
            attempt += 1
            self.usage.retries += 1
            await self.sleep(wait)

    async def _attempt(self, body: dict[str, Any], bound: Bound) -> Reply:
        """One attempt, paid for whatever becomes of it. Raises Again and LLMError."""
        async with self._gate:
            await self.meter.admit(self._cost(bound))
            cost = bound  # until we know better: what is cut off while it runs may be charged for
            try:
                status, headers, data = await self._post(body)
                if status >= 300:
                    cost = (0, 0)
                    raise self._refused(status, headers, data)
                answer = read_message(data, secret_in(self.api_key))
                if answer is None:
                    raise Again(f"{self._where} answered without a message: {self._quoted(data)}", lost=True)
                reply = reply_of(answer, self.price, bound[0])
                cost = (reply.prompt_tokens, reply.completion_tokens)
                if self.cassette is not None:
                    self.cassette.keep(body, answer)
            except Again as error:
                cost = bound if error.lost else (0, 0)
                self.usage.lost += error.lost
                raise
            finally:
                self.meter.settle(self._cost(bound), self._cost(cost))
        return reply

    def _cost(self, tokens: Bound) -> Cost:
        return float(sum(tokens)), self.price.usd(*tokens)

    async def _post(self, body: dict[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body of one request. Raises Again."""
        import httpx

        if self._http is None:
            self._http = httpx.AsyncClient(timeout=self.timeout_s, trust_env=not is_local(self.base_url))
        sent = {(self._limit_name if name == "max_tokens" else name): value for name, value in body.items()}
        # Encoded twice, a kilobyte unfolds to gigabytes within one read: nothing that is encoded is read.
        headers = {"Accept-Encoding": "identity"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        request = self._http.stream("POST", f"{self.base_url}/chat/completions", json=sent, headers=headers)
        data = bytearray()
        try:
            # httpx bounds each read; an endpoint that sends a byte now and then would take for ever.
            async with asyncio.timeout(self.timeout_s), request as response:
                encoding = response.headers.get("content-encoding", "").strip().lower()
                if encoding not in ("", "identity"):
                    said = f"(encoded as {encoding}, which it was asked not to do)"
                    if response.status_code < 300:
                        raise Again(f"{self._where} sent its answer {self._quoted(said)}", lost=True)
                    return response.status_code, response.headers, said.encode("utf-8", "replace")
                async for chunk in response.aiter_raw():
                    data += chunk
                    if len(data) > MAX_ANSWER:
                        raise Again(f"{self._where} sent more than {MAX_ANSWER} bytes", lost=True)
                return response.status_code, response.headers, bytes(data)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Again(f"cannot connect to {self._where} ({self._quoted(str(error))})") from None
        except (TimeoutError, httpx.TimeoutException):
            raise Again(f"{self._where} did not answer within {self.timeout_s:g} s", lost=True) from None
        except (httpx.InvalidURL, UnicodeError) as error:  # a name or path that looked like one until it was used
            raise EndpointRefused(f"{self._where} cannot be asked ({one_line(error)}); check --base-url") from None
        except httpx.HTTPError as error:
            said = self._quoted(str(error) or type(error).__name__)
            raise Again(f"{self._where} broke off ({said})", lost=True) from None

    @property
    def _where(self) -> str:
        return f"the endpoint {shown(self.base_url)}"

    def _quoted(self, data: bytes | str) -> str:
        """The beginning of what others wrote, for a message; without the key, should it be echoed."""
        text = data if isinstance(data, str) else data.decode("utf-8", "replace")
        return one_line(masked(text, self.api_key)) or "(nothing)"

    def _refused(self, status: int, headers: Mapping[str, str], data: bytes) -> Exception:
        text = self._quoted(data)
        said = f"{self._where} answered {status}: {text}"
        if status == 400 and "max_completion_tokens" in text and self._limit_name == "max_tokens":
            self._limit_name = "max_completion_tokens"  # the name that OpenAI's reasoning models ask for
            return Again(said, wait=0.0)
        error = refusal(status, headers, text, said)
        if self.usage.calls:  # among answers, a refusal is a matter of that call
            denied = status == 402 or (isinstance(error, EndpointRefused) and status in (401, 403, 429))
            failed = EndpointFailed(said) if isinstance(error, EndpointRefused) else error
            return AccessDenied(str(error)) if denied else failed
        # A bad request may be bad luck, and several are under way at once; nothing but bad ones is a setting.
        self._bad += type(error) is EndpointFailed
        if self._bad > self.concurrency:
            return EndpointRefused(f"{said}; so it did the {self._bad - 1} times before")
        return error


def _backoff(attempt: int) -> float:
    """Seconds before attempt ``attempt + 1``: doubling from half a second, with jitter so that callers spread."""
    return float(min(30.0, 0.5 * 2 ** (attempt - 1)) * random.uniform(0.5, 1.0))
