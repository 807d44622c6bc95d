"""A NeMo Gym resources server that forwards to an Etude server.

NeMo Gym starts every resources server itself, gives it a port, and asks it for the metrics of a run; an Etude server
runs elsewhere and longer. So this one forwards sessions, tool calls and ``/verify``, and leaves the rest to NeMo Gym.
Etude's cookie travels in NeMo Gym's signed session: this server has no state, and any number of workers can serve.

NeMo Gym's agents post a call's arguments to ``/NAME``, for any name that the model wrote. Requests of NeMo Gym itself
contain a row; every other request is a call, even under the name of a route. It is forwarded with its name in the body.
The Etude server checks that the row is the session's.
"""

from __future__ import annotations

import json
from typing import Any

import httpx
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from nemo_gym.base_resources_server import (
    AggregateMetricsRequest,
    BaseResourcesServerConfig,
    SimpleResourcesServer,
)

COOKIE = "etude_session"
TOKENS = ("_token_ids", "_log_probs")
ROW, ROLLOUT, METRICS = "responses_create_params", "response", "verify_responses"


class EtudeResourcesServerConfig(BaseResourcesServerConfig):
    """Configuration of the resources server."""

    etude_url: str
    """Address of the Etude server."""
    request_timeout: float = 1800.0
    """Seconds for one call: longer than the slowest test run or grade."""


class EtudeResourcesServer(SimpleResourcesServer):
    """Resources server that forwards sessions, calls and grades."""

    config: EtudeResourcesServerConfig

    def setup_webserver(self) -> FastAPI:
        """Return NeMo Gym's application with a route for calls of any name."""
        app = super().setup_webserver()
        app.post("/{tool:path}")(self.call_tool)
        return app

    async def seed_session(self, request: Request) -> Response:  # type: ignore[override, unused-ignore]
        """Start a session, or forward a call that is named like this route."""
        if await _is_call(request, ROW):
            return await self.call_tool("seed_session", request)
        return _as_response(await self._ask(request, "POST", "/seed_session", await request.body()))

    async def call_tool(self, tool: str, request: Request) -> Response:
        """Forward a call with its name in the body."""
        arguments = (await request.body()).decode("utf-8", "replace") or "{}"
        call = json.dumps({"name": tool, "arguments": arguments}).encode()
        return _as_response(await self._ask(request, "PATCH", "/session", call))

    async def verify(self, request: Request) -> Response:  # type: ignore[override, unused-ignore]
        """Grade a session, without forwarding the rollout's token ids: they are large, and the grade ignores them."""
        if await _is_call(request, ROW, ROLLOUT):
            return await self.call_tool("verify", request)
        body = await request.json()
        slim = {**body, ROLLOUT: _without_tokens(body[ROLLOUT])}
        answer = await self._ask(request, "POST", "/verify", json.dumps(slim).encode())
        if answer.is_error:
            return _as_response(answer)
        return JSONResponse({**answer.json(), ROLLOUT: body[ROLLOUT]})

    async def aggregate_metrics(self, request: Request) -> Any:  # type: ignore[override, unused-ignore]
        """Aggregate the metrics of a run, or forward a call that is named like this route."""
        if COOKIE in request.session or await _is_call(request, METRICS):
            return await self.call_tool("aggregate_metrics", request)
        return await super().aggregate_metrics(AggregateMetricsRequest.model_validate(await request.json()))

    async def _ask(self, request: Request, method: str, path: str, body: bytes) -> httpx.Response:
        cookies = {COOKIE: request.session[COOKIE]} if COOKIE in request.session else {}
        url = httpx.URL(self.config.etude_url).copy_with(path=path)
        headers = {"content-type": "application/json"}
        async with httpx.AsyncClient(timeout=self.config.request_timeout, cookies=cookies) as client:
            answer = await client.request(method, url, content=body, headers=headers)
        if COOKIE in answer.cookies:
            request.session[COOKIE] = answer.cookies[COOKIE]
        return answer


async def _is_call(request: Request, *fields: str) -> bool:
    """Return whether a request is a call: its body lacks a field that NeMo Gym itself always sends."""
    try:
        body = await request.json()
    except ValueError:
        return True
    return not (isinstance(body, dict) and all(field in body for field in fields))


def _without_tokens(response: Any) -> Any:
    items = response.get("output") if isinstance(response, dict) else None
    if not isinstance(items, list):
        return response
    slim = [{key: item[key] for key in item if not key.endswith(TOKENS)} for item in items if isinstance(item, dict)]
    return {**response, "output": slim}


def _as_response(answer: httpx.Response) -> Response:
    return Response(answer.content, answer.status_code, media_type=answer.headers.get("content-type"))


if __name__ == "__main__":
    EtudeResourcesServer.run_webserver()
