"""An application whose every HTTP answer is compared with its OpenAPI document."""

from __future__ import annotations

import re
from typing import Any

UNDOCUMENTED = ("/openapi.json", "/docs", "/docs/oauth2-redirect", "/redoc")
"""Paths that serve the document itself."""


class Documented:
    """ASGI application around another. ``missing`` holds answers that its document does not know, and its failures."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.state = app.state
        self.missing: set[str] = set()
        self.paths: dict[str, dict[str, Any]] = app.openapi()["paths"]
        names = sorted(self.paths, key=lambda path: ("{" in path, path == "/{tool}", path))
        self._patterns = [(name, re.compile(re.sub(r"\{(\w+)\}", self._part, name))) for name in names]

    @staticmethod
    def _part(match: re.Match[str]) -> str:
        return ".*" if match[1] in ("task_id", "episode_id") else "[^/]+"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def watched(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = {name.lower(): value for name, value in message.get("headers", [])}
                self._compare(scope, message["status"], headers.get(b"content-type", b"").decode().partition(";")[0])
            await send(message)

        await self.app(scope, receive, watched)

    def _compare(self, scope: Any, status: int, media_type: str) -> None:
        path = scope["path"] if scope["path"] in ("/", *self.paths) else scope["path"].rstrip("/")
        answer = f"{scope['method']} {scope['path']}: {status} {media_type}"
        if status >= 500 and status != 503:
            self.missing.add(answer)
        if scope["path"] in UNDOCUMENTED:
            return
        methods = [self.paths[name] for name, pattern in self._patterns if pattern.fullmatch(path)]
        operations = [found[scope["method"].lower()] for found in methods if scope["method"].lower() in found]
        if not operations and status in (401, 403, 404, 405, 421, 429):
            return
        # With the cookie of a running session any path is the name of a tool.
        cookies = dict(scope["headers"]).get(b"cookie", b"")
        possible = operations[:1]
        if b"etude_session=" in cookies and scope["method"] == "POST":
            possible.append(self.paths["/{tool}"]["post"])
        if not any(self._knows(operation, status, media_type) for operation in possible):
            self.missing.add(answer)

    def _knows(self, operation: dict[str, Any], status: int, media_type: str) -> bool:
        response = operation["responses"].get(str(status))
        if response is None:
            return False
        if "$ref" in response:
            response = self.app.openapi()["components"]["responses"][response["$ref"].rpartition("/")[2]]
        return media_type in response["content"]
