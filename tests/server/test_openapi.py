"""The OpenAPI document: valid, complete, and with examples that fit its schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.routing import APIRoute
from helpers.documented import UNDOCUMENTED
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from etude.server.openapi.operations import OPERATIONS


@pytest.fixture(scope="module")
def document(light: Any) -> dict[str, Any]:
    return dict(light.light_app(mode="simulation").openapi())


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


@pytest.mark.parametrize(("mode", "key"), [("simulation", "k" * 32), ("production", "")])
def test_document_is_valid_openapi(light: Any, mode: str, key: str) -> None:
    validate(light.light_app(mode=mode, api_key=key).openapi())


def test_document_has_every_route_and_the_table_no_other(light: Any, document: dict[str, Any]) -> None:
    app = light.light_app(mode="simulation")
    routes = {
        f"{method} {route.path_format}"
        for route in app.routes
        if isinstance(route, APIRoute) and route.path_format not in ("/web/", "/view/")
        for method in route.methods
    }
    listed = {name for name, _ in operations(document)}
    assert routes == listed == set(OPERATIONS)
    plain = {route.path for route in app.routes if not isinstance(route, APIRoute)}
    assert plain - set(UNDOCUMENTED) == {"/ws", "/mcp", "/{tool:path}"}, "sockets, and /{tool} before the other routes"


def test_every_operation_has_an_id_a_known_tag_a_summary_and_the_refusals(document: dict[str, Any]) -> None:
    tags = {tag["name"] for tag in document["tags"] if tag["description"]}
    names = [operation["operationId"] for _, operation in operations(document)]
    assert len({*names}) == len(names) and all(name.isidentifier() for name in names)
    for name, operation in operations(document):
        assert operation["summary"] and len(operation["tags"]) == 1 and operation["tags"][0] in tags, name
        is_probe = name in ("GET /health", "GET /healthz", "GET /readyz")
        expected = {"400", "403", "408", "413", "421", "500"} | (set() if is_probe else {"401", "429"})
        assert expected <= operation["responses"].keys(), name
        assert any(code.startswith("2") for code in operation["responses"]), name


def test_every_body_parameter_and_answer_has_an_example_that_fits_its_schema(document: dict[str, Any]) -> None:
    def check(where: str, value: Any, schema: dict[str, Any]) -> None:
        errors = list(Draft202012Validator({**schema, "components": document["components"]}).iter_errors(value))
        assert not errors, f"{where}: {errors[0].message}"

    def check_content(where: str, content: dict[str, Any]) -> None:
        for media_type, described in content.items():
            values = [example["value"] for example in described.get("examples", {}).values()]
            values += [described["example"]] if "example" in described else []
            for value in values:
                check(where, value, described["schema"])
            needed = media_type == "application/json" and "additionalProperties" not in described["schema"]
            assert values or not needed, f"{where} has no example"

    for name, operation in operations(document):
        for parameter in operation["parameters"]:
            if parameter["in"] in ("path", "query"):
                check(f"{name} {parameter['name']}", parameter["example"], parameter["schema"])
        check_content(name, operation.get("requestBody", {}).get("content", {}))
        for code, answer in operation["responses"].items():
            if "$ref" in answer:
                answer = document["components"]["responses"][answer["$ref"].rpartition("/")[2]]
            check_content(f"{name} {code}", answer["content"])


def test_document_asks_for_the_key_only_where_the_server_does(light: Any, document: dict[str, Any]) -> None:
    locked = light.light_app(api_key="k" * 32).openapi()
    needed = {name: operation["security"] for name, operation in operations(locked)}
    assert needed["GET /tasks"] == [{"key": []}, {"bearerKey": []}]
    assert needed["GET /episodes/{episode_id}"] == [{"token": [], "key": []}]
    assert {name for name, security in needed.items() if not security} == {"GET /health", "GET /healthz", "GET /readyz"}
    free = {name: operation["security"] for name, operation in operations(document)}
    assert {name for name, security in free.items() if security} == {"GET /episodes/{episode_id}"}


def test_helper_notices_an_answer_that_the_document_does_not_know(light: Any) -> None:
    import httpx

    app = light.light_app()
    del app.openapi()["paths"]["/tasks"]["get"]["responses"]["404"]
    with pytest.raises(AssertionError, match="GET /tasks: 404 application/json"), light.serving(app) as served:
        httpx.get(f"{served.url}/tasks?split=dev")
