"""The application and how it is served: OpenEnv's routes over our sessions, plus read-only routes."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import JSONResponse
from openenv.core.env_server.exceptions import SessionCapacityError
from openenv.core.env_server.types import ServerMode

from ..environments import openenv as wire
from ..environments.tasks.task_set import Tasks, TaskSet
from ..errors import InfrastructureError, SessionError, TaskSetError, UnknownName
from ..models import DEFAULT_ENVIRONMENT, Task
from .guard import MAX_BODY, Guard
from .listening import listen as listen
from .listening import why_not
from .routes.rest import add_rest_routes
from .sessions import HTTP_IDLE_S, Archive, SessionServer, find_episode
from .sources import row_of, sessions_of, tasks_of, tools_of

log = logging.getLogger(__name__)

PING_INTERVAL_S = 20.0
PING_TIMEOUT_S = 900.0
"""A client that computes for minutes without answering pings is alive; a vanished host is found by TCP keepalive."""
SHUTDOWN_S = 30
PAGE = 500


def create_app(
    tasks: Tasks | None = None,
    *,
    environment: str = DEFAULT_ENVIRONMENT,
    backend: str = "auto",
    faults: str = "",
    knobs: Mapping[str, Any] | None = None,
    make_session: Callable[[], wire.Session] | None = None,
    max_sessions: int | None = None,
    mode: str | None = None,
    http_idle_s: float = HTTP_IDLE_S,
    max_body: int = MAX_BODY,
) -> FastAPI:
    """The ASGI application.

    ``tasks`` are what ``environment`` plays (none: ``reset`` says how to make some); ``backend`` is the sandbox;
    ``faults`` go into every episode (see ``environments.faults``); ``knobs`` are those of the environment;
    ``make_session`` replaces the sessions; ``max_sessions`` defaults to MAX_CONCURRENT_ENVS, else 64; ``mode`` to
    OPENENV_MODE, else ``simulation``. Raises UnknownName, and ValueError for a value that makes no sense.
    """
    played = tasks if tasks is not None else TaskSet([])
    archive = Archive()
    session = make_session or sessions_of(environment, played, backend=backend, faults=faults, knobs=knobs)
    shown = make_session or sessions_of(environment, played, backend=backend, keep=False, knobs=knobs)
    listed = tools_of(environment, knobs)

    def make(admit: Callable[[], None] | None = None) -> wire.EtudeEnvironment:
        return wire.EtudeEnvironment(played, session, tools=listed, archive=archive.add, admit=admit)

    server = SessionServer(make, max_sessions=max_sessions or sessions_from_environment(), http_idle_s=http_idle_s)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await server.start()
        yield
        await server.stop()

    app = FastAPI(title="Etude", description=wire.DESCRIPTION, version="1.0.0", lifespan=lifespan)
    app.state.sessions = server
    app.add_middleware(Guard, max_body=max_body)
    _add_errors(app)
    _add_routes(app, played, functools.partial(row_of, make_session=shown), server, archive)
    mode = mode or os.environ.get("OPENENV_MODE", ServerMode.SIMULATION.value)
    server.register_routes(app, mode=mode)
    if mode == ServerMode.SIMULATION.value:  # the other mode serves tools, not episodes
        add_rest_routes(app, server)
    if tasks is not None and not len(tasks):
        log.warning("%s", wire.NO_TASKS)
    return app


def sessions_from_environment() -> int:
    """MAX_CONCURRENT_ENVS, else 64. Raises ValueError."""
    text = os.environ.get("MAX_CONCURRENT_ENVS", "64")
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"MAX_CONCURRENT_ENVS is {text!r}: give a number of sessions, 1 or more")
    return int(text)


def app_from_environment() -> FastAPI:
    """For ``uvicorn etude.server.app:app``: ETUDE_TASKS names the task set, ETUDE_ENV the environment, ETUDE_FAULTS the
    faults in it, ETUDE_SANDBOX the sandbox.
    """
    environment = os.environ.get("ETUDE_ENV", DEFAULT_ENVIRONMENT)
    tasks = load_tasks(os.environ.get("ETUDE_TASKS", ""), environment)
    return create_app(tasks, environment=environment, faults=os.environ.get("ETUDE_FAULTS", ""))


def load_tasks(
    folder: str | Path, environment: str = DEFAULT_ENVIRONMENT, knobs: Mapping[str, Any] | None = None
) -> Tasks:
    """The task set in ``folder``; none for an empty name, or its own. Raises TaskSetError, UnknownName, ValueError."""
    return tasks_of(environment, folder, knobs)


def _add_errors(app: FastAPI) -> None:
    """What OpenEnv's plain HTTP routes let through, as answers."""

    def answer(status: int) -> Callable[[Request, Exception], Response]:
        return lambda request, error: JSONResponse({"detail": str(error)}, status)

    app.add_exception_handler(SessionError, answer(409))
    app.add_exception_handler(InfrastructureError, answer(503))
    app.add_exception_handler(SessionCapacityError, answer(503))


def _add_routes(
    app: FastAPI,
    tasks: Tasks,
    row: Callable[[Task], Awaitable[dict[str, Any]]],
    server: SessionServer,
    archive: Archive,
) -> None:
    @app.get("/tasks", tags=["Tasks"], summary="Public rows of the task set")
    async def list_tasks(
        split: str | None = None, offset: int = Query(0, ge=0), limit: int = Query(PAGE, ge=1, le=PAGE)
    ) -> Response:
        total, places = _page(tasks, split, offset, limit)
        listed = [task.public().model_dump(mode="json") async for task in _one_by_one(tasks, places)]
        return JSONResponse({"total": total, "tasks": listed})

    @app.get("/rows", tags=["Tasks"], summary="The same tasks as rows for /seed_session")
    async def list_rows(
        split: str | None = None, offset: int = Query(0, ge=0), limit: int = Query(PAGE, ge=1, le=PAGE)
    ) -> Response:
        total, places = _page(tasks, split, offset, limit)
        rows = [await row(task) async for task in _one_by_one(tasks, places)]
        return JSONResponse({"total": total, "rows": rows})

    @app.get("/tasks/{task_id:path}", tags=["Tasks"], summary="One task's public row")
    async def get_task(task_id: str) -> dict[str, Any]:
        try:
            return tasks.by_id(task_id).public().model_dump(mode="json")
        except UnknownName as error:
            raise HTTPException(404, str(error)) from None

    @app.get("/episodes/{episode_id:path}", tags=["Episodes"], summary="An episode, for the holder of its token")
    async def get_episode(episode_id: str, request: Request) -> Response:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        row = find_episode(server, archive, episode_id, token.strip()) if scheme.lower() == "bearer" else None
        if row is None:
            advice = "no episode with this id and token: send the session's token, from its state, as a Bearer header"
            raise HTTPException(401, advice, {"WWW-Authenticate": "Bearer"})
        return Response(row, media_type="application/json", headers={"Cache-Control": "no-store"})


def _page(tasks: Tasks, split: str | None, offset: int, limit: int) -> tuple[int, list[tuple[str, int]]]:
    """How many tasks are listed, in all splits or in one, and the places of some. Raises HTTPException."""
    splits = tasks.list_splits()
    if split is not None and split not in splits:
        raise HTTPException(404, f"unknown split {split!r}. There are: {', '.join(splits) or 'none'}")
    places = [(name, index) for name in ([split] if split else splits) for index in range(tasks.size(name))]
    return len(places), places[offset : offset + limit]


async def _one_by_one(tasks: Tasks, places: Sequence[tuple[str, int]]) -> AsyncIterator[Task]:
    """Whoever plays meanwhile waits for one task at most: some are made when they are asked for."""
    for place in places:
        yield tasks.get_task(*place)
        await asyncio.sleep(0)


# --- Serving ----------------------------------------------------------------------------------------------------


def uvicorn_server(
    app: FastAPI, *, ping_interval_s: float = PING_INTERVAL_S, ping_timeout_s: float = PING_TIMEOUT_S
) -> uvicorn.Server:
    """A server with our limits; ``run(sockets=[listen(...)])`` starts it."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        ws_max_size=MAX_BODY,
        ws_ping_interval=ping_interval_s,
        ws_ping_timeout=ping_timeout_s,
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    return uvicorn.Server(config)


def serve(
    tasks_dir: str | Path | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    backend: str = "auto",
    *,
    environment: str | None = None,
    faults: str | None = None,
    knobs: Mapping[str, Any] | None = None,
    max_sessions: int | None = None,
    mode: str | None = None,
    ready: Callable[[str], None] | None = None,
) -> int:
    """Serve until SIGINT or SIGTERM, then end every session. Returns the exit code; says why on stderr when not 0.

    ``tasks_dir`` defaults to ETUDE_TASKS, ``environment`` to ETUDE_ENV, else ``coding``, ``faults`` to ETUDE_FAULTS;
    ``knobs`` are the environment's; port 0 takes a free one; ``ready`` is called with the address.
    """
    try:
        listening = listen(host, port)
    except OSError as error:
        return _complain(why_not(error, host, port))
    with listening:
        try:
            name = environment or os.environ.get("ETUDE_ENV") or DEFAULT_ENVIRONMENT
            folder = tasks_dir if tasks_dir is not None else os.environ.get("ETUDE_TASKS", "")
            app = create_app(
                load_tasks(folder, name, knobs),
                environment=name,
                backend=backend,
                faults=os.environ.get("ETUDE_FAULTS", "") if faults is None else faults,
                knobs=knobs,
                max_sessions=max_sessions,
                mode=mode,
            )
        except (TaskSetError, UnknownName, OSError, ValueError) as error:
            return _complain(str(error))
        name, bound = listening.getsockname()[:2]
        address = f"http://[{name}]:{bound}" if ":" in name else f"http://{name}:{bound}"
        if ready is not None:
            ready(address)
        else:
            print(f"serving {address}", flush=True)
        server = uvicorn_server(app)
        _spare_collections()
        with _signals_stop(server):
            server.run(sockets=[listening])
    return 0


def _spare_collections() -> None:
    """What is loaded by now stays, and turns make few cycles: without this, collections take a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@contextmanager
def _signals_stop(server: uvicorn.Server) -> Iterator[None]:
    """uvicorn raises the signal that stopped it once more at the end: here that is no death, but a normal return."""

    def stop(*_: object) -> None:
        server.should_exit = True

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _complain(reason: str) -> int:
    print(f"error: {reason}", file=sys.stderr)
    return 1


def main() -> None:
    """The container's command: ETUDE_TASKS, ETUDE_SANDBOX, HOST and PORT say what and where."""
    port = os.environ.get("PORT", "8000")
    if not port.isdigit():
        sys.exit(_complain(f"PORT is {port!r}: give a number"))
    sys.exit(serve(None, os.environ.get("HOST", "127.0.0.1"), int(port)))
