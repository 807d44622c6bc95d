"""The client: a call is one or more attempts, each bounded in time, in concurrency and by the budget."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import AccessDenied, EndpointFailed, EndpointRefused, EndpointUnavailable, LLMError
from .answers import Reply, read_message, reply_of, size
from .attempts import AttemptFailed, backoff, refusal
from .budget import Budget, Cost, Meter, Price, Usage
from .cassettes import Cassette
from .endpoints import BASE_URL, address, is_local, usable
from .printable import masked, one_line, secret_in, shown

if TYPE_CHECKING:
    import httpx

MAX_ANSWER = 16 << 20
"""Largest answer that is read, in bytes."""
MAX_WAIT_S = 60.0
"""Longest pause that an endpoint may ask for, in seconds; a call to one that asks for more is given up."""
Bound = tuple[int, int]


@dataclass
class LLM:
    """Client of one model behind an endpoint. Use it in one event loop, in ``async with``, or ``close`` it."""

    model: str
    """Name of the model, as the endpoint knows it."""
    base_url: str = BASE_URL
    """Address of the endpoint, without ``/chat/completions``."""
    api_key: str = field(default="", repr=False)
    """Key that is sent with every request; empty sends none."""
    price: Price = Price()
    """Price of the model's tokens."""
    budget: Budget = Budget()
    """Limit on the cost of all calls."""
    max_tokens: int = 4096
    """Tokens that one answer may have."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Fields that are added to every request, such as ``temperature``."""
    concurrency: int = 8
    """Attempts that may run at the same time."""
    timeout_s: float = 300.0
    """Seconds that one attempt may take, from connecting to the last byte."""
    attempts: int = 5
    """Attempts before a call is given up."""
    cassette: Cassette | None = None
    """Recorded answers; None sends every request."""
    shared_meter: Meter | None = None
    """Meter of several clients that share a budget; it replaces ``budget``."""
    sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep
    """Function that waits between attempts, in seconds."""

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
        self._bad_requests = 0

    async def chat(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = (), **options: Any
    ) -> Reply:
        """Return one answer to ``messages``; ``options`` override the client's. Raises LLMError."""
        body = self._body(messages, tools, options)
        bound = _bound(body)
        answer = None if self.cassette is None else self.cassette.replay(body)
        reply = await (self._request(body, bound) if answer is None else self._replayed(answer, bound))
        self.usage.calls += 1
        self.usage.estimated += reply.estimated
        self.usage.prompt_tokens += reply.prompt_tokens
        self.usage.completion_tokens += reply.completion_tokens
        self.usage.usd += reply.usd
        return reply

    def holds(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()) -> bool:
        """Return whether the cassette answers this request, so that the endpoint is not called."""
        return self.cassette is not None and self.cassette.holds(self._body(messages, tools, {}))

    def bound(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()) -> Cost:
        """Return the most tokens and USD that one attempt at this request may cost."""
        return self._cost(_bound(self._body(messages, tools, {})))

    async def close(self) -> None:
        """Close the connections. Idempotent."""
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
        """Return an answer of the cassette, charged as if it came from the endpoint."""
        reply = reply_of(answer, self.price, bound[0])
        await self.meter.charge_replayed(self._cost(bound), self._cost((reply.prompt_tokens, reply.completion_tokens)))
        return reply

    async def _request(self, body: dict[str, Any], bound: Bound) -> Reply:
        """Try until an attempt is answered. Raises LLMError."""
        attempt = 1
        while True:
            try:
                return await self._attempt(body, bound)
            except AttemptFailed as error:
                wait = backoff(attempt) if error.wait is None else error.wait
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
        """Make one attempt and charge it to the budget, however it ends. Raises AttemptFailed and LLMError."""
        async with self._gate:
            await self.meter.admit(self._cost(bound))
            cost = bound  # an attempt that is cancelled while it runs may be charged for
            try:
                status, headers, data = await self._post(body)
                if status >= 300:
                    cost = (0, 0)
                    raise self._refused(status, headers, data)
                answer = read_message(data, secret_in(self.api_key))
                if answer is None:
                    raise AttemptFailed(f"{self._where} answered without a message: {self._quoted(data)}", charged=True)
                reply = reply_of(answer, self.price, bound[0])
                cost = (reply.prompt_tokens, reply.completion_tokens)
                if self.cassette is not None:
                    self.cassette.keep(body, answer)
            except AttemptFailed as error:
                cost = bound if error.charged else (0, 0)
                self.usage.unanswered += error.charged
                raise
            finally:
                self.meter.settle(self._cost(bound), self._cost(cost))
        return reply

    def _cost(self, tokens: Bound) -> Cost:
        return float(sum(tokens)), self.price.usd(*tokens)

    async def _post(self, body: dict[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
        """Send one request; return its status, headers and body. Raises AttemptFailed and EndpointRefused."""
        import httpx

        if self._http is None:
            self._http = httpx.AsyncClient(timeout=self.timeout_s, trust_env=not is_local(self.base_url))
        sent = {(self._limit_name if name == "max_tokens" else name): value for name, value in body.items()}
        # A compressed kilobyte may unpack to gigabytes within one read, so compressed answers are refused.
        headers = {"Accept-Encoding": "identity"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        request = self._http.stream("POST", f"{self.base_url}/chat/completions", json=sent, headers=headers)
        data = bytearray()
        try:
            # httpx bounds each read, not the whole answer: an endpoint that sends single bytes would never end.
            async with asyncio.timeout(self.timeout_s), request as response:
                encoding = response.headers.get("content-encoding", "").strip().lower()
                if encoding not in ("", "identity"):
                    note = f"(encoded as {encoding}, although the request forbids encodings)"
                    if response.status_code < 300:
                        raise AttemptFailed(f"{self._where} sent its answer {self._quoted(note)}", charged=True)
                    return response.status_code, response.headers, note.encode("utf-8", "replace")
                async for chunk in response.aiter_raw():
                    data += chunk
                    if len(data) > MAX_ANSWER:
                        raise AttemptFailed(f"{self._where} sent more than {MAX_ANSWER} bytes", charged=True)
                return response.status_code, response.headers, bytes(data)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise AttemptFailed(f"cannot connect to {self._where} ({self._quoted(str(error))})") from None
        except (TimeoutError, httpx.TimeoutException):
            raise AttemptFailed(f"{self._where} did not answer within {self.timeout_s:g} s", charged=True) from None
        except (httpx.InvalidURL, UnicodeError) as error:  # `address` accepts some addresses that httpx does not
            raise EndpointRefused(
                f"cannot send requests to {self._where} ({one_line(error)}); check --base-url"
            ) from None
        except httpx.HTTPError as error:
            cause = self._quoted(str(error) or type(error).__name__)
            raise AttemptFailed(f"{self._where} broke off the connection ({cause})", charged=True) from None

    @property
    def _where(self) -> str:
        return f"the endpoint {shown(self.base_url)}"

    def _quoted(self, data: bytes | str) -> str:
        """Return the beginning of foreign text for a message, with the key masked."""
        text = data if isinstance(data, str) else data.decode("utf-8", "replace")
        return one_line(masked(text, self.api_key)) or "(nothing)"

    def _refused(self, status: int, headers: Mapping[str, str], data: bytes) -> Exception:
        text = self._quoted(data)
        summary = f"{self._where} answered {status}: {text}"
        if status == 400 and "max_completion_tokens" in text and self._limit_name == "max_tokens":
            self._limit_name = "max_completion_tokens"  # the name that OpenAI's reasoning models ask for
            return AttemptFailed(summary, wait=0.0)
        error = refusal(status, headers, text, summary)
        if self.usage.calls:  # the settings work, so a refusal concerns this call alone
            denied = status == 402 or (isinstance(error, EndpointRefused) and status in (401, 403, 429))
            failed = EndpointFailed(summary) if isinstance(error, EndpointRefused) else error
            return AccessDenied(str(error)) if denied else failed
        # One bad request may be an accident; more than can run at the same time, without an answer, is a setting.
        self._bad_requests += type(error) is EndpointFailed
        if self._bad_requests > self.concurrency:
            return EndpointRefused(f"{summary}; the {self._bad_requests - 1} requests before it failed the same way")
        return error


def _bound(body: Mapping[str, Any]) -> Bound:
    """Return the most tokens that a request reads and writes.

    A token has at least one byte, and the JSON around a message is longer than what a chat template puts there.
    """
    return size(body), int(body["max_tokens"])
