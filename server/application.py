"""The ASGI application: OpenEnv's routes over Etude's sessions, the REST session, and read-only routes."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from openenv.core.env_server.types import ServerMode

from .. import __version__
from ..client import KEY_VARIABLE
from ..environments import openenv as wire
from ..environments.sandbox.registry import remove_leftovers
from ..environments.session import Session
from ..environments.tasks.task_set import Tasks, TaskSet
from ..errors import InfrastructureError, SessionError
from ..models import DEFAULT_ENVIRONMENT
from ..monitors.agentic import Judge
from .access import ANY, Access, HostNames, Rates, RateSettings, check_key, names_from_environment
from .admission import Admission, ClientBusy, ServerBusy, ServerLimits
from .connections import RECONNECT_S, Lines, reconnect_seconds
from .guard import MAX_BODY, Guard
from .metrics import Metrics
from .openapi import describe
from .preparation import Preparation, read_prepare
from .routes.mcp_clients import McpClients, add_mcp_routes
from .routes.operations import add_operations_routes
from .routes.rest import add_rest_routes
from .routes.tasks import add_read_only_routes
from .routes.view import add_view_routes
from .routes.web_page import add_web_page
from .sessions import HTTP_IDLE_S, Archive, SessionServer
from .sources import environment_in, row_of, sessions_of, tasks_of, tools_of
from .store import GradedStore, store_of
from .watched import WatchedEnvironment
from .workers.place import Place
from .workers.placement import Placement, WrongPlace

log = logging.getLogger(__name__)


def create_app(
    tasks: Tasks | None = None,
    *,
    environment: str = DEFAULT_ENVIRONMENT,
    backend: str = "auto",
    faults: str = "",
    knobs: Mapping[str, Any] | None = None,
    make_session: Callable[[], Session] | None = None,
    max_sessions: int | None = None,
    limits: ServerLimits | None = None,
    mode: str | None = None,
    http_idle_s: float = HTTP_IDLE_S,
    max_body: int = MAX_BODY,
    reconnect_s: float = RECONNECT_S,
    penalty: wire.PenaltySettings | None = None,
    api_key: str = "",
    hosts: Sequence[str] = (ANY,),
    rates: RateSettings | None = None,
    store: GradedStore | None = None,
    place: Place = Place(),
    prepare: int = 0,
) -> FastAPI:
    """Return the ASGI application. Raises UnknownName, FaultsError, and ValueError for a value that is out of range.

    tasks: what ``environment`` plays; without any, ``reset`` explains how to make some. backend: the sandbox.
    faults: faults in every episode (see ``environments.faults``). knobs: knobs of the environment. make_session: a
    factory that replaces the environment's sessions. max_sessions: default MAX_CONCURRENT_ENVS, else 64. limits:
    all limits (see ``admission``), instead of max_sessions. mode:
    ``simulation`` or ``production`` (tools only); default OPENENV_MODE, else ``simulation``. http_idle_s: seconds after
    which an unused session over plain HTTP ends. max_body: bytes of the largest request body or frame. reconnect_s:
    seconds that a session waits for a client whose socket was lost; 0: it ends at once. penalty: a model
    that may lower rewards; then LLMError is raised where it cannot be asked at all. api_key: key that every request
    needs (see ``access``); none by default. hosts: names that requests may be addressed to; default: any. rates: how
    often a client may ask; default: no limit. store: where graded episodes are written; it is closed with the
    application. place: this process among workers and replicas (see ``workers``). prepare: number of tasks whose
    workspaces are made before the server says that it is ready.
    """
    task_set = tasks if tasks is not None else TaskSet([])
    archive = Archive()
    session = make_session or sessions_of(
        environment, task_set, backend=backend, faults=faults, knobs=knobs, prefix=place.prefix
    )
    # Rows are public, so the sessions that make them keep nothing for forks and have no faults.
    row_session = make_session or sessions_of(environment, task_set, backend=backend, keep=False, knobs=knobs)
    tools = tools_of(environment, task_set, knobs)
    llm = None if penalty is None else penalty.open()
    judge, weight = (None, 0.0) if penalty is None or llm is None else (Judge(llm), penalty.weight)

    def make(admit: Callable[[], None] | None = None) -> wire.EtudeEnvironment:
        return WatchedEnvironment(
            task_set,
            session,
            tools=tools,
            archive=archive.add,
            admit=admit,
            judge=judge,
            judge_weight=weight,
            metrics=metrics,
            admission=admission,
            store=store,
            place=place,
        )

    metrics = Metrics(lambda: server.active)
    admission = Admission(limits or ServerLimits.read(sessions=max_sessions), metrics.refused)
    metrics.watch(admission)
    server = SessionServer(make, admission=admission, http_idle_s=http_idle_s, place=place)
    lines = Lines(reconnect_s)
    metrics.watch_lines(lambda: lines.waiting)
    preparation = Preparation(task_set, row_session, prepare)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await server.start()
        preparation.start()
        yield
        await preparation.stop()
        await lines.stop()
        await server.stop()
        await asyncio.to_thread(remove_leftovers)
        if llm is not None:
            await llm.close()
        if store is not None:
            store.close()

    app = FastAPI(title="Etude", description=wire.DESCRIPTION, version=__version__, lifespan=lifespan)
    app.state.sessions = server
    often = rates or RateSettings()
    requests, connections = Rates(often.requests), Rates(often.connections)
    app.add_middleware(McpClients, server=server)
    app.add_middleware(Guard, max_body=max_body, rates=requests, lines=lines)
    app.add_middleware(
        Access,
        key=check_key(api_key),
        refused=metrics.refused,
        hosts=HostNames(hosts),
        requests=requests,
        connections=connections,
    )
    if place.start:
        app.add_middleware(Placement, place=place)
    for error_type, status in ((SessionError, 409), (InfrastructureError, 503), (ServerBusy, 503), (ClientBusy, 429)):
        app.add_exception_handler(error_type, _answer_with(status))
    app.add_exception_handler(WrongPlace, lambda request, error: error.answer())
    add_read_only_routes(app, task_set, lambda task: row_of(task, row_session), server, archive, store)
    add_operations_routes(app, task_set, server, metrics, preparation)
    add_web_page(app, task_set)
    add_view_routes(app, server, archive, store)
    add_mcp_routes(app, server)
    mode = mode or os.environ.get("OPENENV_MODE", ServerMode.SIMULATION.value)
    server.register_routes(app, mode=mode)
    if mode == ServerMode.SIMULATION.value:  # the other mode serves tools, not episodes
        add_rest_routes(app, server)
    describe(app, locked=bool(api_key))
    if tasks is not None and not len(tasks):
        log.warning("%s", wire.NO_TASKS)
    return app


def app_from_environment() -> FastAPI:
    """Return the application for ``uvicorn etude.server.app:app``, configured by environment variables.

    ETUDE_TASKS: folder of the task set. ETUDE_ENV: environment, default: that of the tasks. ETUDE_FAULTS: faults.
    ETUDE_SANDBOX: sandbox. ETUDE_API_KEY: key that every request needs. ETUDE_STORE: store of graded episodes.
    ETUDE_ALLOWED_HOSTS: names that requests may be addressed to. ETUDE_RECONNECT: seconds that a session waits for its
    client. ETUDE_PREPARE: number of tasks to prepare. The limits have variables too (see ``admission`` and ``access``).
    """
    folder = os.environ.get("ETUDE_TASKS", "")
    environment = os.environ.get("ETUDE_ENV") or environment_in(folder)
    tasks = tasks_of(environment, folder)
    faults, api_key = os.environ.get("ETUDE_FAULTS", ""), os.environ.get(KEY_VARIABLE, "")
    store = store_of(os.environ.get("ETUDE_STORE", ""))
    hosts, rates = names_from_environment(), RateSettings.read()
    return create_app(
        tasks,
        environment=environment,
        faults=faults,
        api_key=api_key,
        hosts=hosts,
        rates=rates,
        store=store,
        reconnect_s=reconnect_seconds(),
        prepare=read_prepare(),
    )


def _answer_with(status: int) -> Callable[[Request, Exception], Response]:
    """Return a handler for errors that OpenEnv's plain HTTP routes do not catch."""

    def answer(request: Request, error: Exception) -> Response:
        headers = {"Retry-After": str(error.retry_after_s)} if isinstance(error, ServerBusy) else None
        return JSONResponse({"detail": str(error)}, status, headers)

    return answer
