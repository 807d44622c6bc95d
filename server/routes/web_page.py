"""The page for people at ``/web``, the address that a Hugging Face Space made by ``openenv push`` shows."""

from __future__ import annotations

from html import escape

from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from ...environments.tasks.task_set import Tasks
from .tasks import INDEX

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Etude</title>
<style>
body {{ font: 16px/1.5 sans-serif; max-width: 46em; margin: 2em auto; padding: 0 1em; }}
td {{ padding: 0.2em 1em 0.2em 0; vertical-align: top; }}
code {{ white-space: nowrap; }}
</style>
</head>
<body>
<h1>Etude</h1>
<p>{about}</p>
<p>{sizes}. Their public rows are at <a href="../tasks">/tasks</a>; every route is at <a href="../docs">/docs</a>.</p>
<table>
{routes}
</table>
</body>
</html>
"""


def add_web_page(app: FastAPI, tasks: Tasks) -> None:
    """Add ``GET /web`` and ``GET /web/``."""

    async def page() -> HTMLResponse:
        splits = [f"{tasks.size(split)} tasks in the split {split}" for split in tasks.list_splits()]
        routes = [
            f"<tr><td><code>{escape(route)}</code></td><td>{escape(text)}</td></tr>"
            for part in (INDEX["play"], INDEX["read"])
            for route, text in part.items()
        ]
        sizes = escape("; ".join(splits) or "No tasks")
        return HTMLResponse(_PAGE.format(about=escape(INDEX["about"]), sizes=sizes, routes="\n".join(routes)))

    for path in ("/web", "/web/"):
        app.get(path, include_in_schema=path == "/web")(page)
