"""A NeMo Gym resources server in front of an Etude server.

NeMo Gym starts every resources server itself, gives it a port, and asks it for the metrics of a run; an Etude server
runs elsewhere and longer. So this one passes sessions, tool calls and ``/verify`` on, and leaves the rest to NeMo Gym.
Etude's cookie travels in NeMo Gym's own signed session, so that nothing is kept here and any number of workers serves.
"""

from __future__ import annotations

import json
from typing import Any

import httpx
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from nemo_gym.base_resources_server import BaseResourcesServerConfig, SimpleResourcesServer

COOKIE = "etude_session"
TOKENS = ("_token_ids", "_log_probs")


class EtudeResourcesServerConfig(BaseResourcesServerConfig):
    etude_url: str
    """The Etude server's address."""
    request_timeout: float = 1800.0
    """Seconds for one call: longer than the slowest test run or grade."""


class EtudeResourcesServer(SimpleResourcesServer):
    config: EtudeResourcesServerConfig

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/{tool}")(self.call_tool)
        return app

    async def seed_session(self, request: Request) -> Response:  # type: ignore[override, unused-ignore]
        return _as_response(await self._ask(request, "seed_session", await request.body()))

    async def call_tool(self, tool: str, request: Request) -> Response:
        return _as_response(await self._ask(request, tool, await request.body()))

    async def verify(self, request: Request) -> Response:  # type: ignore[override, unused-ignore]
        """The rollout's token ids stay here: they are most of a training rollout, and no part of its grade."""
        body = await request.json()
        lean = {**body, "response": _without_tokens(body.get("response"))}
        answer = await self._ask(request, "verify", json.dumps(lean).encode())
        if answer.is_error:
            return _as_response(answer)
        return JSONResponse({**answer.json(), "response": body.get("response")})

    async def _ask(self, request: Request, path: str, body: bytes) -> httpx.Response:
        cookies = {COOKIE: request.session[COOKIE]} if COOKIE in request.session else {}
        url = httpx.URL(self.config.etude_url).copy_with(path=f"/{path}")
        headers = {"content-type": "application/json"}
        async with httpx.AsyncClient(timeout=self.config.request_timeout, cookies=cookies) as client:
            answer = await client.post(url, content=body, headers=headers)
        if COOKIE in answer.cookies:
            request.session[COOKIE] = answer.cookies[COOKIE]
        return answer


def _without_tokens(response: Any) -> Any:
    items = response.get("output") if isinstance(response, dict) else None
    if not isinstance(items, list):
        return response
    lean = [{key: item[key] for key in item if not key.endswith(TOKENS)} for item in items if isinstance(item, dict)]
    return {**response, "output": lean}


def _as_response(answer: httpx.Response) -> Response:
    return Response(answer.content, answer.status_code, media_type=answer.headers.get("content-type"))


if __name__ == "__main__":
    EtudeResourcesServer.run_webserver()
