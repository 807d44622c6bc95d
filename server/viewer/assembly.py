"""The viewer's page: one HTML document with its style, its script and, in a file, its data."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...html_pages import inline, page_template

if TYPE_CHECKING:
    import jinja2

ASSETS = Path(__file__).parent / "assets"
STYLES = ("theme.css", "plain.css", "app.css", "episode.css")
SCRIPTS = (
    "texts.js",
    "marks.js",
    "search.js",
    "list.js",
    "rows.js",
    "episode.js",
    "verdict.js",
    "page.js",
    "compare.js",
    "fork.js",
    "training.js",
    "main.js",
)
"""Scripts of the application after the library and the source of its data, in this order."""


def packed(value: Any) -> str:
    """Return a JSON value as one line of the data in a page: compressed, in the URL-safe alphabet of base64."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(zlib.compress(text.encode("utf-8", "replace"), 6)).decode().rstrip("=")


def file_page(
    title: str, lines: Iterable[str], filters: Mapping[str, Callable[..., Any]], plain: Mapping[str, Any]
) -> str:
    """Return a page that needs nothing else: ``lines`` are packed, the index first, then one line for each episode.

    ``plain`` are the values, and ``filters`` the functions, of the part that is shown without scripts.
    """
    return _render(title, "file", "\n".join(lines), filters, plain)


def live_page(title: str) -> str:
    """Return a page that loads its data from the server that it comes from."""
    return _render(title, "live", "", {}, {})


def _render(
    title: str, source: str, data: str, filters: Mapping[str, Callable[..., Any]], plain: Mapping[str, Any]
) -> str:
    style, style_hash = inline(*(ASSETS / name for name in STYLES))
    names = ("vendor/preact.js", f"source_{source}.js", *SCRIPTS)
    script, script_hash = inline(*(ASSETS / name for name in names))
    values = {"title": title, "live": source == "live", "data": data, "style": style, "script": script}
    hashes = {"style_hash": style_hash, "script_hash": script_hash}
    return _template(tuple(filters.items())).render(**values, **hashes, **plain)


@cache
def _template(filters: tuple[tuple[str, Callable[..., Any]], ...]) -> jinja2.Template:
    return page_template(ASSETS, **dict(filters))
