"""The OpenAPI document: the routes that FastAPI has, described by the table of operations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from ..workers.request_head import COOKIE
from .operation import JSON, Operation
from .operations import EXTRA_MODELS, OPERATIONS, TAGS

_SCHEMAS, _RESPONSES, _HEADERS = (f"#/components/{kind}/" for kind in ("schemas", "responses", "headers"))
REFUSALS = {
    400: ("NotHttp", "The request is not valid HTTP, or its body is not JSON.", "There was an error parsing the body"),
    401: ("NoKey", "The server has a key, and the request does not carry it.", "this server needs its API key"),
    403: ("OtherSite", "A page of another site sent the request.", "pages of other sites may not use this server"),
    408: ("Late", "The body did not arrive in time.", "the request body did not arrive within 120 seconds"),
    410: ("SessionGone", "The process of the session has ended (`--workers`, `--replica`).", "reset in a new session"),
    413: ("TooLong", "The body has too many bytes or JSON values.", "the request body is over 16777216 bytes"),
    421: (
        "OtherPlace",
        "The request is for another host name, or for a session of the replica in `X-Etude-Replica`.",
        "this server is not called 'x'",
    ),
    429: ("TooOften", "The client asks too often, or has all its sessions open (`Retry-After`).", "try again in 0.1 s"),
    500: ("Failed", "An unforeseen failure; the log has its cause.", "internal error"),
}
"""Answers that every operation may give: status code, name, when, example."""
_SECURITY = {
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The server's key, if it has one."},
    "bearerKey": {"type": "http", "scheme": "bearer", "description": "The same key; not for `/episodes/...`."},
    "token": {"type": "http", "scheme": "bearer", "description": "Token of a session, from its `state`."},
}
_COOKIE = {
    "name": COOKIE,
    "in": "cookie",
    "required": False,
    "description": "Cookie of a session, from `/seed_session` or any later answer.",
    "schema": {"type": "string"},
}
_TOKENS = {
    "name": "X-Session-Tokens",
    "in": "header",
    "required": False,
    "description": "Tokens of sessions, with spaces between them; at most 32 are read.",
    "schema": {"type": "string"},
}


def describe(app: FastAPI, *, locked: bool) -> None:
    """Let an application answer ``/openapi.json`` with ``document``; ``locked``: it needs a key."""
    app.openapi = cache(lambda: document(app, locked=locked))  # type: ignore[method-assign]


def document(app: FastAPI, *, locked: bool) -> dict[str, Any]:
    """Return the OpenAPI document of an application's routes. A route that is not in the table stays as it is."""
    built = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        tags=[{"name": name, "description": text} for name, text in TAGS.items()],
    )
    references, schemas = _schemas()
    components = built.setdefault("components", {})
    components["schemas"] = {**components.get("schemas", {}), **schemas}
    components["securitySchemes"] = _SECURITY
    components["headers"] = {
        "RequestId": {"description": "Name of the request in the server's log.", "schema": {"type": "string"}},
        "RetryAfter": {"description": "Seconds after which to try again.", "schema": {"type": "integer", "minimum": 1}},
    }
    components["responses"] = {name: _refusal(code, text, shown) for code, (name, text, shown) in REFUSALS.items()}
    for path, methods in built["paths"].items():
        for method, described in methods.items():
            operation = OPERATIONS.get(f"{method.upper()} {path}")
            if operation is not None:
                methods[method] = _described(path, described, operation, references, locked=locked)
    components["schemas"] = _used(built, components["schemas"])
    return built


@cache
def _schemas() -> tuple[dict[Any, str], dict[str, Any]]:
    """Return the name of each model's schema, and the schemas: those of answers as they are written."""
    requests = [row.body for row in OPERATIONS.values() if isinstance(row.body, type)]
    shapes = [answer.shape for row in OPERATIONS.values() for answer in row.answers.values()]
    answers = [*EXTRA_MODELS, *(shape for shape in shapes if isinstance(shape, type))]
    modes: list[Any] = [(model, "validation") for model in dict.fromkeys([*requests, *answers])]
    references, schemas = models_json_schema(modes, ref_template=_SCHEMAS + "{model}")
    names = {model: reference["$ref"] for (model, _), reference in references.items()}
    return names, schemas["$defs"]


def _described(
    path: str, fastapis: Mapping[str, Any], row: Operation, references: Mapping[Any, str], *, locked: bool
) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": row.name,
        "tags": [row.tag],
        "summary": row.summary,
        **({"description": row.description} if row.description else {}),
        "parameters": _parameters(path, fastapis, row),
        "responses": {},
        "security": _needed(row, locked),
    }
    if row.body is not None:
        content = {
            "schema": _schema(row.body, references),
            "examples": {name: {"value": value} for name, value in row.bodies.items()},
        }
        described["requestBody"] = {"required": row.body_required, "content": {JSON: content}}
    refusals = {code: {"$ref": _RESPONSES + name} for code, (name, _, _) in REFUSALS.items()}
    if row.probe:
        del refusals[401], refusals[429]
    answers: dict[int, Any] = dict(refusals)
    for code, answer in row.answers.items():
        content = {}
        for media_type in answer.media_types:
            is_json = media_type == JSON
            content[media_type] = {"schema": _schema(answer.shape, references) if is_json else {"type": "string"}}
            if answer.example is not None and (is_json or answer.shape is None):
                content[media_type]["example"] = answer.example
        headers = {"X-Request-Id": {"$ref": _HEADERS + "RequestId"}}
        headers |= {"Retry-After": {"$ref": _HEADERS + "RetryAfter"}} if code == 503 and not row.probe else {}
        answers[code] = {"description": answer.description, "headers": headers, "content": content}
    described["responses"] = {str(code): answers[code] for code in sorted(answers)}
    return described


def _parameters(path: str, fastapis: Mapping[str, Any], row: Operation) -> list[dict[str, Any]]:
    listed = list(fastapis.get("parameters", []))
    named = {parameter["name"] for parameter in listed}
    for name in re.findall(r"{(\w+)}", path):
        if name not in named:  # the route reads it from the request
            listed.append({"name": name, "in": "path", "required": True, "schema": {"type": "string"}})
    listed = [{**parameter, "example": row.parameters[parameter["name"]]} for parameter in listed]
    return listed + [_COOKIE] * row.cookie + [_TOKENS] * row.tokens


def _needed(row: Operation, locked: bool) -> list[dict[str, list[str]]]:
    if row.probe:
        return []
    if row.token:
        return [{"token": [], "key": []}] if locked else [{"token": []}]
    return [{"key": []}, {"bearerKey": []}] if locked else []


def _schema(shape: Any, references: Mapping[Any, str]) -> dict[str, Any]:
    return {"$ref": references[shape]} if isinstance(shape, type) else dict(shape)


def _refusal(code: int, description: str, detail: str) -> dict[str, Any]:
    headers = {"X-Request-Id": {"$ref": _HEADERS + "RequestId"}}
    headers |= {"Retry-After": {"$ref": _HEADERS + "RetryAfter"}} if code == 429 else {}
    content: dict[str, Any] = {JSON: {"schema": {"$ref": _SCHEMAS + "Refusal"}, "example": {"detail": detail}}}
    if code == 400:
        content["text/plain"] = {"schema": {"type": "string"}, "example": "Invalid HTTP request received."}
    return {"description": description, "headers": headers, "content": content}


def _used(built: Mapping[str, Any], schemas: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schemas that the paths and the responses refer to, themselves or through others."""
    waiting: list[Any] = [built["paths"], built["components"]["responses"]]
    used: dict[str, Any] = {}
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            name = str(value.get("$ref", "")).removeprefix(_SCHEMAS)
            if name in schemas and name not in used:
                used[name] = schemas[name]
                waiting.append(schemas[name])
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return {name: used[name] for name in sorted(used)}
