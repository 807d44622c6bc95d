"""Chromium for the tests of pages: one browser for a module of tests, and a page that fails with its script."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield a browser; skip the test where no Chromium is installed, and fail it where CI=true.

    No event loop can be run in this thread meanwhile.
    """
    program = shutil.which("chromium")
    if program is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("no browser; apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(browser: Browser, **options: Any) -> Iterator[Page]:
    """Yield a page whose errors, and whose requests to anything but its own server, fail the test at the end."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    page = context.new_page()
    page.set_default_timeout(15_000)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(f"error: {error}"))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: None if _is_local(request.url) else problems.append(f"request: {request.url}"))
    yield page
    context.close()
    assert not problems, problems


def _is_local(url: str) -> bool:
    return url.startswith(("file://", "http://127.0.0.1:"))
