"""Routes for operators: whether the server lives, whether it takes episodes, and its metrics."""

from __future__ import annotations

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse

from ...environments.tasks.task_set import Tasks
from ..metrics import CONTENT_TYPE, Metrics
from ..preparation import Preparation
from ..sessions import SessionServer


def add_operations_routes(
    app: FastAPI, tasks: Tasks, server: SessionServer, metrics: Metrics, preparation: Preparation
) -> None:
    """Add ``/healthz``, ``/readyz`` and ``/metrics``."""

    @app.get("/healthz", tags=["Server"], summary="Answer while the process runs")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get(
        "/readyz",
        tags=["Server"],
        summary="Answer 200 while new episodes can start",
        responses={503: {"description": "No tasks, tasks being prepared, every session in use, or stopping"}},
    )
    async def readyz() -> Response:
        number = sum(tasks.size(split) for split in tasks.list_splits())
        reason = server.why_not_ready() or preparation.reason or ("" if number else "no tasks")
        body = {
            "ready": not reason,
            "reason": reason,
            "tasks": number,
            "sessions": server.active,
            "limit": server.max_concurrent_envs,
        }
        return JSONResponse(body, 503 if reason else 200)

    @app.get("/metrics", tags=["Server"], summary="Return metrics in Prometheus' text format")
    async def prometheus() -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE)
