"""The local page server of ``etude view``: the viewer over runs on this machine's disk, also while they are played.

It listens on 127.0.0.1 alone, answers only requests that name that host (so that no other site's page reaches it by a
DNS trick), and wants a header that no other site's page can send.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import zlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.middleware.trustedhost import TrustedHostMiddleware

from ...environments.hint_trials.forks import ForkSettings
from ...environments.runs.reader import Progress, no_progress
from ...errors import EtudeError, ReportError, RunError
from .assembly import live_page
from .details import detail_of
from .fork_jobs import ForkJobs, ForkWish
from .page import EPISODE_CHARACTERS, index_of
from .run_folders import RunFolders
from .task_texts import solutions, workspaces

HEADER = "x-etude-view"
"""Header of the page's own requests; a page of another site cannot send it without a permission that is never given."""
NO_FORKS = "To continue from here in this page, start `etude view` with --agent; or run:"
Training = Callable[[], Sequence[Mapping[str, Any]]]
"""Returns the curves of the training runs among the shown runs."""


@dataclass(frozen=True)
class SiteSettings:
    """What ``etude view`` shows."""

    runs: Sequence[Path]
    tasks: Path | None = None
    """Folder of the task set, for diffs."""
    forks: ForkSettings | None = None
    """Who continues episodes; None: forks are commands."""
    training: Training = tuple
    reveal: bool = True
    """Whether hidden tests and reference solutions are shown."""
    progress: Progress = no_progress
    """Reports the first reading of the runs."""


class Shelf:
    """The runs with their episodes and forks, as the page asks for them."""

    def __init__(self, settings: SiteSettings) -> None:
        forks = settings.forks
        extra = [] if forks is None or forks.out in settings.runs else [forks.out]
        self.folders = RunFolders([*settings.runs, *extra])
        self.settings = settings
        self.jobs: ForkJobs | None = None
        self._lock = threading.Lock()
        self._bases = workspaces(settings.tasks) if settings.tasks else None
        self._solutions = solutions(settings.tasks) if settings.tasks and settings.reveal else None
        problems = self.folders.refresh(settings.progress)
        if problems and not self.folders.rows:
            raise RunError(problems[0])

    def index(self, after: str) -> dict[str, Any]:
        """Return what is new since the cursor ``after``; everything when it is empty."""
        with self._lock:
            problem = "; ".join(self.folders.refresh())
            rows = self.folders.rows
            training = self.settings.training()
            stamp = f"{sum(len(item['steps']) for item in training)}.{self.jobs.version if self.jobs else 0}"
            cursor = f"{len(rows)}-{stamp}-{zlib.crc32(problem.encode())}"
            if cursor == after:
                return {"cursor": cursor, "rows": []}
            first = after.partition("-")[0]
            new = rows[int(first) if first.isdecimal() else 0 :]
            names = [str(run.path) for run in self.folders.runs]
            ids = {row["episode"]: row["id"] for row in rows if row["fork"]}
            forks = self.settings.forks
            return index_of(
                names,
                new,
                training,
                cursor=cursor,
                problem=problem,
                reveal=self.settings.reveal,
                fork=None if forks is None else {"agent": forks.agent, "where": forks.url or ""},
                fork_why=NO_FORKS,
                jobs=self.jobs.shown(ids) if self.jobs else [],
            )

    def detail(self, name: str) -> dict[str, Any] | None:
        """Return an episode as the page shows it; None when there is none. Raises SnapshotError."""
        stored = self.folders.find(name)
        if stored is None:
            return None
        task_id = stored.episode.task_id
        base = self._bases(task_id) if self._bases else None
        solved = self._solutions
        solution = (lambda: solved(task_id)) if solved else None
        return detail_of(stored, base=base, solution=solution, room=EPISODE_CHARACTERS * 2, reveal=self.settings.reveal)


def create_site(settings: SiteSettings) -> FastAPI:
    """Return the application. Raises RunError for a run that cannot be read, TaskSetError, and errors of the agent."""
    if settings.forks is not None:
        settings.forks.check()
    shelf = Shelf(settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if settings.forks is not None:
            shelf.jobs = ForkJobs(settings.forks)
        yield
        if shelf.jobs is not None:
            await shelf.jobs.stop()

    app = FastAPI(title="Etude viewer", lifespan=lifespan, openapi_url=None)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    page = live_page(f"Etude: {', '.join(str(run) for run in settings.runs)}")

    @app.get("/")
    def show() -> HTMLResponse:
        return HTMLResponse(page, headers={"Cache-Control": "no-store"})

    @app.get("/favicon.ico")
    def icon() -> Response:
        return Response(status_code=204)

    @app.get("/data/index")
    def index(request: Request, after: str = "") -> Response:
        _check(request)
        return JSONResponse(shelf.index(after))

    @app.get("/data/episodes/{name}")
    def episode(request: Request, name: str) -> Response:
        _check(request)
        try:
            detail = shelf.detail(name)
        except EtudeError as error:
            raise HTTPException(409, str(error)) from None
        if detail is None:
            raise HTTPException(404, f"there is no episode {name[:40]!r} here; reload the page")
        return JSONResponse(detail)

    @app.post("/data/forks", status_code=202)
    async def fork(request: Request, wish: ForkWish) -> dict[str, bool]:
        _check(request)
        stored = await asyncio.to_thread(shelf.folders.find, wish.episode)
        if shelf.jobs is None or stored is None:
            raise HTTPException(409, "this page cannot continue episodes; start `etude view` with --agent")
        try:
            shelf.jobs.start(wish, stored)
        except EtudeError as error:
            raise HTTPException(409, str(error)) from None
        return {"started": True}

    return app


def _check(request: Request) -> None:
    """Raise HTTPException for a request that the page did not send."""
    if HEADER not in request.headers:
        raise HTTPException(403, f"send the header {HEADER}: 1; pages of other sites may not read runs")


def serve_site(app: FastAPI, port: int, ready: Callable[[str], None]) -> None:
    """Serve the viewer until interrupted. ``ready`` is called with its address. Raises ReportError."""
    import uvicorn

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            advice = "choose another with --port (0: any free)"
            raise ReportError(f"cannot listen on port {port}: {error.strerror}; {advice}") from error
        listener.listen(64)
        ready(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2)
        try:
            uvicorn.Server(config).run(sockets=[listener])
        except KeyboardInterrupt:
            pass
