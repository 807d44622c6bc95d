"""Client of the episode's wire, which needs ``websockets`` and ``httpx`` alone.

``async with Client(url) as client`` for async code; ``with connect(url) as client`` for the rest. One client is one
session: one episode at a time, calls in order. Anything that the server refuses raises a ``ServerError``.

A connection that is lost is opened again with the session's token, where the server waits for its client: the call that
was running returns as if nothing had happened, and its turn is played once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit, urlunsplit

from .client_socket import RECONNECT_HEADER as RECONNECT_HEADER
from .client_socket import SESSION_HEADER as SESSION_HEADER
from .client_socket import SessionSocket
from .errors import BadAddress, ConnectionLost, ServerError, ServerFull, ServerInfrastructureError
from .loop_thread import LoopThread
from .models import Episode, Observation, PublicTask, State

if TYPE_CHECKING:
    import httpx

KEY_VARIABLE = "ETUDE_API_KEY"
"""Environment variable with the key of servers that need one."""
MESSAGE_TIMEOUT_S = 1800.0
"""Seconds to wait for one answer: longer than the slowest turn, so that a slow test run does not lose the session."""
RECONNECT_TRIES = 7
"""Tries to connect again after a connection was lost: about ten seconds."""


def _is_local(url: str) -> bool:
    """Return whether a server runs on this machine, which no proxy reaches."""
    from .llm.endpoints import is_local  # here, because a program that only imports the client needs no endpoints

    return is_local(url)


class Client:
    """One session on a server. ``url`` is the server's base address, ``http(s)://`` or ``ws(s)://``.

    ``api_key`` is for a server that needs one; default: ETUDE_API_KEY. ``headers`` are sent with every request.
    ``reconnect_tries``: how often one call may try to connect again; 0: a lost connection ends the session.
    """

    def __init__(
        self,
        url: str,
        *,
        connect_timeout_s: float = 10.0,
        message_timeout_s: float = MESSAGE_TIMEOUT_S,
        api_key: str | None = None,
        reconnect_tries: int = RECONNECT_TRIES,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        key = os.environ.get(KEY_VARIABLE, "") if api_key is None else api_key
        self._headers = {**(headers or {}), **({"X-API-Key": key} if key else {})}
        self.url = _with_scheme(url, {"ws": "http", "wss": "https"})
        self._message_timeout_s = message_timeout_s
        self._socket = SessionSocket(
            _with_scheme(self.url, {"http": "ws", "https": "wss"}) + "/ws",
            self._headers,
            connect_timeout_s=connect_timeout_s,
            message_timeout_s=message_timeout_s,
            tries=reconnect_tries,
            through_proxy=not _is_local(self.url),
        )
        self._http: httpx.AsyncClient | None = None
        self._calling = False

    async def connect(self) -> Client:
        """Open the session. Raises ConnectionLost when nothing answers. Safe to call again."""
        from websockets.exceptions import InvalidStatus, WebSocketException

        address = self._socket.address
        try:
            if not self._socket.is_open:
                await self._socket.open()
        except InvalidStatus as error:
            status = error.response.status_code
            advice = f"; if it needs an API key, set {KEY_VARIABLE}" if status in (401, 403) else ""
            raise ServerError(f"{address} refused the connection: HTTP {status}{advice}", f"HTTP_{status}") from None
        except (OSError, TimeoutError, WebSocketException) as error:
            raise ConnectionLost(
                f"cannot connect to {address} ({error}): is the server running? `etude serve` starts one"
            ) from error
        return self

    async def reset(self, **arguments: Any) -> Observation:
        """Start an episode: ``task_id=``, or ``split=`` and ``index=``; also ``seed episode_id replay tools faults``.

        ``fork_of=`` an episode's id and ``turn=`` start in the state before that turn; for an episode of another
        session give ``token=`` too, from that session's state.
        """
        answer = await self._call("reset", arguments)
        await self._socket.learn_token()
        return observation_of(answer)

    async def step(self, action: Mapping[str, Any]) -> Observation:
        """Play one turn: the assistant's message as the model made it."""
        return observation_of(await self._call("step", dict(action)))

    async def state(self) -> State:
        """Return the infrastructure side of the episode. Keep it from the policy."""
        return State.model_validate(await self._call("state"))

    async def tasks(self, split: str | None = None) -> list[PublicTask]:
        """Return the public rows of the server's tasks."""
        return [PublicTask.model_validate(row) for row in await self._pages("tasks", split)]

    async def rows(self, split: str | None = None) -> list[dict[str, Any]]:
        """Return the tasks as rows for ``/seed_session``, with what the policy reads in OpenAI's Responses format."""
        return await self._pages("rows", split)

    async def episode(self, episode_id: str | None = None) -> Episode:
        """Return an episode of this session, running or finished; default: the current one."""
        state = await self.state()
        episode_id = episode_id or state.episode_id
        if episode_id is None or state.token is None:
            raise ServerError("no episode has been played in this session: reset first")
        headers = {"Authorization": f"Bearer {state.token}"}
        return Episode.model_validate(await self._get(f"/episodes/{quote(episode_id, safe='')}", headers=headers))

    async def close(self) -> None:
        """End the session. Idempotent."""
        http, self._http = self._http, None
        await self._socket.close()
        if http is not None:
            await http.aclose()

    async def __aenter__(self) -> Client:
        return await self.connect()

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def _call(self, kind: str, data: dict[str, Any] | None = None) -> dict[str, Any]:
        if not self._socket.is_open:
            raise ConnectionLost("not connected: call connect() first, or use the client in a `with` block")
        if self._calling:
            raise ServerError(f"{kind}: this session is busy with another call: wait for it, or open another session")
        self._calling = True
        try:
            answer = await self._socket.ask(kind, data)
        finally:
            self._calling = False
        if answer.get("type") == "error":
            raise _refusal(answer.get("data", {}))
        return answer["data"]

    async def _pages(self, name: str, split: str | None) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        while True:
            page = await self._get(f"/{name}", {"offset": len(rows), **({"split": split} if split else {})})
            rows += page[name]
            if len(rows) >= page["total"] or not page[name]:
                return rows

    async def _get(self, path: str, query: dict[str, Any] | None = None, headers: dict[str, str] | None = None) -> Any:
        import httpx

        if self._http is None:
            self._http = httpx.AsyncClient(timeout=self._message_timeout_s, trust_env=not _is_local(self.url))
        try:
            response = await self._http.get(self.url + path, params=query, headers={**self._headers, **(headers or {})})
        except httpx.HTTPError as error:
            raise ConnectionLost(f"cannot reach {self.url}{path} ({error})") from error
        if response.is_success:
            return response.json()
        detail = _detail(response.content) or f"HTTP {response.status_code}"
        raise ServerError(f"{path}: {detail}", f"HTTP_{response.status_code}")


def _detail(body: bytes) -> str:
    """Return what a refusal's body says: ``detail`` of a JSON object, else the start of its text."""
    text = body.decode("utf-8", "replace")
    try:
        return str(json.loads(text)["detail"])
    except (ValueError, KeyError, TypeError):
        return text[:200]


class SyncClient:
    """``Client`` for code without an event loop: it has the same calls, and each waits for its answer."""

    def __init__(self, url: str, **options: Any) -> None:
        self._client = Client(url, **options)
        self._thread = LoopThread()

    def reset(self, **arguments: Any) -> Observation:
        """Start an episode; see ``Client.reset``."""
        return self._thread.run(self._client.reset(**arguments))

    def step(self, action: Mapping[str, Any]) -> Observation:
        """Play one turn; see ``Client.step``."""
        return self._thread.run(self._client.step(action))

    def state(self) -> State:
        """Return the infrastructure side; see ``Client.state``."""
        return self._thread.run(self._client.state())

    def tasks(self, split: str | None = None) -> list[PublicTask]:
        """Return the public tasks; see ``Client.tasks``."""
        return self._thread.run(self._client.tasks(split))

    def rows(self, split: str | None = None) -> list[dict[str, Any]]:
        """Return the rows of the tasks; see ``Client.rows``."""
        return self._thread.run(self._client.rows(split))

    def episode(self, episode_id: str | None = None) -> Episode:
        """Return the stored episode; see ``Client.episode``."""
        return self._thread.run(self._client.episode(episode_id))

    def connect(self) -> SyncClient:
        """Open the connection; see ``Client.connect``."""
        self._thread.run(self._client.connect())
        return self

    def close(self) -> None:
        """Close the connection. Idempotent."""
        if self._thread.running:
            self._thread.run(self._client.close())
            self._thread.stop()

    def __enter__(self) -> SyncClient:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def connect(url: str, **options: Any) -> SyncClient:
    """Return a connected session for code without an event loop; ``options`` are Client's.

    Close it, or use it in a ``with`` block. Raises ConnectionLost and BadAddress.
    """
    client = SyncClient(url, **options)
    try:
        return client.connect()
    except BaseException:
        client.close()
        raise


def observation_of(data: Mapping[str, Any]) -> Observation:
    """Return the observation in an answer; fields that only a newer server knows are dropped."""
    fields = {k: v for k, v in data["observation"].items() if k in Observation.model_fields}
    return Observation(**{**fields, "done": data["done"], "reward": data["reward"] or 0.0})


def _refusal(data: Mapping[str, Any]) -> ServerError:
    message, code = str(data.get("message", "refused without a reason")), str(data.get("code", ""))
    if data.get("errors"):
        first = data["errors"][0]
        message = f"{message}: {'.'.join(map(str, first.get('loc', ())))}: {first.get('msg', '')}"
    if code == "CAPACITY_REACHED":
        return ServerFull(message, code)
    return (ServerInfrastructureError if message.startswith("infrastructure:") else ServerError)(message, code)


def _with_scheme(url: str, schemes: Mapping[str, str]) -> str:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        good = parts.scheme in ("http", "https", "ws", "wss") and bool(parts.hostname) and (parts.port or 0) >= 0
    except ValueError:
        good = False
    if not good:
        raise BadAddress(f"not a server's address: {url!r}; give one like http://127.0.0.1:8000")
    return urlunsplit((schemes.get(parts.scheme, parts.scheme), parts.netloc, parts.path.rstrip("/"), "", ""))
