"""HTML pages that need no other file: a template that escapes every value, with its style and script in the page."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jinja2
    from markupsafe import Markup


def page_template(folder: Path, **filters: Callable[..., Any]) -> jinja2.Template:
    """Return the template ``page.html`` of a folder, with these filters."""
    import jinja2  # here, because a report's settings can be checked without the extra that installs it

    # StrictUndefined: a field that a view lacks is a defect and must not become empty text.
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    return environment.get_template("page.html")


def inline(*files: Path) -> tuple[Markup, str]:
    """Return styles or scripts, one after the other, as they stand in a page, and the hash for its policy.

    The page's Content-Security-Policy forbids every other style and script.
    """
    from markupsafe import Markup

    text = "\n".join(file.read_text(encoding="utf-8").strip() for file in files)
    return Markup(text), "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
