"""The viewer at ``/view``: episodes of this server, running and ended, for holders of their sessions' tokens.

The page itself holds no episode. A token opens what ``GET /episodes/...`` opens with it: no grade, no seed, and nothing
of the task but its statement.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse

from ...environments.runs.reader import Stored
from ...environments.wire_values import LeftBehind
from ...models import Episode
from ..sessions import Archive, SessionServer
from ..store import GradedStore
from ..viewer.assembly import live_page
from ..viewer.details import detail_of
from ..viewer.page import EPISODE_CHARACTERS, index_of
from ..viewer.rows import Origin, row_of

TOKENS_HEADER = "x-session-tokens"
MAX_TOKENS = 32
"""Tokens of one request."""
MAX_ROWS = 4096
"""Rows that are remembered."""
WAITING = "No episodes for these tokens. A session's token is in its state; an episode appears here while it runs."
Left = LeftBehind | dict[str, Any] | Callable[[], dict[str, Any]]
"""An ended episode, a running one, or one that is read from the store."""
HOW = "The client that played this episode continues it, with its session's token:"


class TokenShelf:
    """Episodes of the sessions whose tokens a request holds."""

    def __init__(self, server: SessionServer, archive: Archive, store: GradedStore | None) -> None:
        self._server, self._archive, self._store = server, archive, store
        self._rows: OrderedDict[str, dict[str, Any]] = OrderedDict()

    async def episodes(self, tokens: list[str]) -> dict[str, Left]:
        """Return ended and running episodes by their ids in the viewer, which say nothing of the tokens."""
        episodes: dict[str, Left] = {}
        for token in tokens:
            for episode_id in [] if self._store is None else await asyncio.to_thread(self._store.ids_of, token):
                episodes[_name(episode_id, token)] = partial(self._read, episode_id, token)
            for episode_id, ended in self._archive.of_token(token).items():
                episodes[_name(episode_id, token)] = ended
            running = self._server.running_episode(token)
            if running is not None:
                episodes[_name(running["episode_id"], token)] = running
        return episodes

    def _read(self, episode_id: str, token: str) -> dict[str, Any]:
        """Return an episode of the store. Raises HTTPException when it was deleted in the meantime."""
        content = None if self._store is None else self._store.find(episode_id, token)
        if content is None:
            raise HTTPException(404, "this episode was deleted from the store")
        return dict(json.loads(content))

    def rows(self, episodes: dict[str, Left]) -> list[dict[str, Any]]:
        """Return the rows of episodes; those of ended ones are made once."""
        rows = []
        for number, (name, episode) in enumerate(episodes.items()):
            row = self._rows.get(name)
            if row is None or row["running"]:
                row = row_of(_stored(episode), Origin(0, number))
                self._rows[name] = row
                if len(self._rows) > MAX_ROWS:
                    self._rows.popitem(last=False)
            rows.append({**row, "id": name, "number": number})
        return rows


def add_view_routes(app: FastAPI, server: SessionServer, archive: Archive, store: GradedStore | None = None) -> None:
    """Add ``GET /view`` and the data that its page loads."""
    shelf = TokenShelf(server, archive, store)

    async def show() -> HTMLResponse:
        return HTMLResponse(await asyncio.to_thread(live_page, "Etude"), headers={"Cache-Control": "no-store"})

    async def index(request: Request, after: str = "") -> Response:
        rows = await asyncio.to_thread(shelf.rows, await shelf.episodes(_tokens(request)))
        digest = hashlib.sha256(repr([(row["id"], row["turns"], row["end"], row["value"]) for row in rows]).encode())
        cursor = digest.hexdigest()[:16]
        if cursor == after:
            return _private({"cursor": cursor, "rows": []})
        more = {"all": True, "tokens": True, "waiting": WAITING, "fork_why": HOW}
        return _private(index_of(["this server"], rows, [], cursor=cursor, **more))

    async def episode(request: Request, name: str) -> Response:
        stored = (await shelf.episodes(_tokens(request))).get(name)
        if stored is None:
            raise HTTPException(401, "no episode with this id and these tokens", {"Cache-Control": "no-store"})
        return _private(await asyncio.to_thread(lambda: detail_of(_stored(stored), room=EPISODE_CHARACTERS)))

    for path in ("/view", "/view/"):
        app.get(path, include_in_schema=path == "/view")(show)
    app.get("/view/data/index")(index)
    app.get("/view/data/episodes/{name}")(episode)


def _tokens(request: Request) -> list[str]:
    return list(dict.fromkeys(request.headers.get(TOKENS_HEADER, "").split()))[:MAX_TOKENS]


def _name(episode_id: str, token: str) -> str:
    return hashlib.sha256(f"{token} {episode_id}".encode("utf-8", "replace")).hexdigest()[:16]


def _stored(episode: Left) -> Stored:
    if isinstance(episode, LeftBehind):
        served = episode.served()
    else:
        served = episode if isinstance(episode, dict) else episode()
    return Stored(Episode.model_validate(served), agent="session", sample=0, settings={})


def _private(body: Any) -> JSONResponse:
    return JSONResponse(body, headers={"Cache-Control": "no-store"})
