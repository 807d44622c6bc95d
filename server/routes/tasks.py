"""Read-only routes: an index of the server, the public rows of its tasks, and episodes for holders of their token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import JSONResponse

from ...environments.tasks.task_set import Tasks
from ...errors import UnknownName
from ...models import Task
from ..sessions import Archive, SessionServer
from ..store import GradedStore
from ..workers.placement import check_place

PAGE = 500
"""Largest number of rows in one answer."""
Offset = Annotated[int, Query(ge=0)]
Limit = Annotated[int, Query(ge=1, le=PAGE)]
INDEX: dict[str, Any] = {
    "name": "etude",
    "about": "Practice tasks for coding agents, served over OpenEnv.",
    "play": {
        "WS /ws": "OpenEnv: reset, step and state; `etude.connect(URL)` or any OpenEnv client plays it",
        "WS /mcp": "OpenEnv: list_tools and call_tool",
        "POST /mcp?task_id=TASK_ID": "MCP over streamable HTTP: `initialize` starts an episode",
        "POST /seed_session, /TOOL, /verify": "REST session: start an episode from a row, call a tool, grade",
    },
    "read": {
        "GET /tasks": "public rows of the tasks; ?split=, ?offset=, ?limit=",
        "GET /tasks/TASK_ID": "one public row",
        "GET /rows": "the tasks as rows for /seed_session",
        "GET /episodes/EPISODE_ID": "one episode, for the holder of its session's token",
        "GET /view": "the viewer, for people: the episodes of the session tokens that they enter",
        "GET /health": "whether the server runs",
        "GET /readyz": "whether it takes new episodes, and why not",
        "GET /metrics": "counts in Prometheus' text format",
        "GET /docs": "every route with its parameters",
    },
}
"""Answer of ``GET /``, without the number of tasks."""


def add_read_only_routes(
    app: FastAPI,
    tasks: Tasks,
    row_of: Callable[[Task], Awaitable[dict[str, Any]]],
    server: SessionServer,
    archive: Archive,
    store: GradedStore | None = None,
) -> None:
    """Add the routes to the application. ``row_of`` makes a task's row for ``/seed_session``."""

    @app.get("/", tags=["Server"], summary="Name the endpoints of this server")
    async def index() -> dict[str, Any]:
        return {**INDEX, "tasks": {split: tasks.size(split) for split in tasks.list_splits()}}

    @app.get("/tasks", tags=["Tasks"], summary="List the public rows of the tasks")
    async def list_tasks(split: str | None = None, offset: Offset = 0, limit: Limit = PAGE) -> Response:
        total, places = _page(tasks, split, offset, limit)
        listed = [task.public().model_dump(mode="json") async for task in _one_by_one(tasks, places)]
        return JSONResponse({"total": total, "tasks": listed})

    @app.get("/rows", tags=["Tasks"], summary="List the same tasks as rows for /seed_session")
    async def list_rows(split: str | None = None, offset: Offset = 0, limit: Limit = PAGE) -> Response:
        total, places = _page(tasks, split, offset, limit)
        rows = [await row_of(task) async for task in _one_by_one(tasks, places)]
        return JSONResponse({"total": total, "rows": rows})

    @app.get("/tasks/{task_id:path}", tags=["Tasks"], summary="Return one task's public row")
    async def get_task(task_id: str) -> dict[str, Any]:
        try:
            return tasks.by_id(task_id).public().model_dump(mode="json")
        except UnknownName as error:
            raise HTTPException(404, str(error)) from None

    @app.get("/episodes/{episode_id:path}", tags=["Episodes"], summary="Return an episode to the holder of its token")
    async def get_episode(episode_id: str, request: Request) -> Response:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        bearer = token.strip() if scheme.lower() == "bearer" else ""
        row = await server.find_episode(archive, store, episode_id, bearer) if bearer else None
        if row is None:
            check_place(bearer, server.place)
            advice = "no episode with this id and token: send the session's token, from its state, as a Bearer header"
            raise HTTPException(401, advice, {"WWW-Authenticate": "Bearer"})
        return Response(row, media_type="application/json", headers={"Cache-Control": "no-store"})


def _page(tasks: Tasks, split: str | None, offset: int, limit: int) -> tuple[int, list[tuple[str, int]]]:
    """Return the number of tasks in one split (None: in all), and the places of those on the page.

    Raises HTTPException for an unknown split.
    """
    splits = tasks.list_splits()
    if split is not None and split not in splits:
        raise HTTPException(404, f"unknown split {split!r}. There are: {', '.join(splits) or 'none'}")
    places = [(name, index) for name in ([split] if split else splits) for index in range(tasks.size(name))]
    return len(places), places[offset : offset + limit]


async def _one_by_one(tasks: Tasks, places: Sequence[tuple[str, int]]) -> AsyncIterator[Task]:
    """Yield the tasks; between two of them other requests run, since some environments make a task on demand."""
    for place in places:
        yield tasks.get_task(*place)
        await asyncio.sleep(0)
