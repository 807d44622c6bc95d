"""Screenshots of the viewer in a browser, to be looked at: every kind of page, light and dark, desktop and phone.

    pip install playwright; apt-get install -y chromium
    python benchmarks/checks/screenshots.py shots/                        # of runs that are made for it
    python benchmarks/checks/screenshots.py shots/ --page report.html --at e/0.3/t/5    # of a report, at an address

A page that asks for anything from elsewhere fails this script, and so does an error of its script or a page that is
wider than the screen.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from playwright.sync_api import Browser, Request, sync_playwright

from etude.benchmarks.checks.viewer_scenes import write_scenes
from etude.cli.commands.view import training_data
from etude.server.viewer import write_report
from etude.server.viewer.site import SiteSettings, create_site

DESKTOP, PHONE = (1280, 900), (390, 844)
SHOWN = ".window .row, .turns, .pairs, .charts, .empty"
LOCAL = ("file:", "http://127.0.0.1:")


@dataclass(frozen=True)
class Shot:
    """One picture."""

    name: str
    page: str
    """Name of the page in ``write_scenes``."""
    at: str = ""
    """Address in the page, without "#/"."""
    keys: Sequence[str] = ()
    """Keys that are pressed before the picture is taken."""
    size: tuple[int, int] = DESKTOP
    scheme: str = "light"
    whole: bool = False
    """Whether the whole page is taken, not the screen alone."""


KINDS = [
    Shot("list", "main"),
    Shot("episode", "main", "e/0.0", whole=True),
    Shot("finding", "main", "e/0.0/f/0"),
    Shot("comparison", "main", "c/2.0/2.1"),
    Shot("training", "main", "train/3?step=12", whole=True),
]
SHOTS = [
    Shot("empty", "empty"),
    Shot("many", "long"),
    *KINDS,
    *(Shot(f"{one.name}-dark", one.page, one.at, scheme="dark") for one in KINDS),
    *(Shot(f"{one.name}-phone", one.page, one.at, size=PHONE) for one in KINDS),
    Shot("fork", "main", "e/1.0/t/1", keys="f"),
    Shot("help", "main", keys="?"),
    Shot("odd-message", "odd", "e/0.0/t/0"),
    Shot("odd-500-turns", "odd", "e/0.1/t/250"),
    Shot("odd-text", "odd", "e/0.2/t/0"),
    Shot("odd-no-turns", "odd", "e/0.3"),
]


def take(browser: Browser, shot: Shot, url: str, out: Path) -> list[str]:
    """Write a picture and return what is wrong with its page."""
    width, height = shot.size
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=shot.scheme)
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))

    def check(request: Request) -> None:
        if not request.url.startswith(LOCAL):
            problems.append(f"the page asks for {request.url}")

    page.on("request", check)
    page.goto(f"{url}#/{shot.at}")
    page.wait_for_selector(SHOWN, timeout=60_000)
    for key in shot.keys:
        page.keyboard.press(key)
    page.wait_for_timeout(500)
    wide = page.evaluate("document.documentElement.scrollWidth")
    if wide > width:
        problems.append(f"the page is {wide} pixels wide on a screen of {width}")
    page.screenshot(path=out / f"{shot.name}.png", full_page=shot.whole)
    context.close()
    print(out / f"{shot.name}.png")
    return [f"{shot.name}: {problem}" for problem in problems]


@contextmanager
def served(run: Path) -> Iterator[str]:
    """Yield the address of ``etude view`` over a run."""
    config = uvicorn.Config(create_site(SiteSettings([run])), port=0, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join(5)


@contextmanager
def chromium(program: str) -> Iterator[Browser]:
    """Yield a browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


def of_made_runs(program: str, out: Path, episodes: int) -> list[str]:
    """Take all pictures of runs that are made for them, and return the problems."""
    problems = []
    with tempfile.TemporaryDirectory() as name:
        scenes = write_scenes(Path(name), episodes)
        urls = {}
        for scene in ("main", "long", "odd"):
            report = Path(name) / f"{scene}.html"
            write_report(scenes[scene], report, training=training_data(scenes[scene]), reveal=True)
            urls[scene] = report.as_uri()
        with served(scenes["empty"][0]) as urls["empty"], chromium(program) as browser:
            for shot in SHOTS:
                problems += take(browser, shot, urls[shot.page], out)
    return problems


def of_page(program: str, out: Path, page: Path, at: str) -> list[str]:
    """Take pictures of a report at an address, and return the problems."""
    problems = []
    with chromium(program) as browser:
        for name, size in (("desktop", DESKTOP), ("phone", PHONE)):
            for scheme in ("light", "dark"):
                shot = Shot(f"{name}-{scheme}", "", at, size=size, scheme=scheme)
                problems += take(browser, shot, page.resolve().as_uri(), out)
    return problems


def main() -> int:
    """Take the screenshots; return 1 when a page has a problem."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path, help="Folder of the pictures.")
    parser.add_argument("--page", type=Path, help="Take pictures of this report alone.")
    parser.add_argument("--at", default="", help="Address in the report, such as e/0.3/t/5.")
    parser.add_argument("--episodes", type=int, default=10_000, help="Episodes of the long list.")
    parser.add_argument("--browser", default="/usr/bin/chromium")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.page:
        problems = of_page(options.browser, options.out, options.page, options.at)
    else:
        problems = of_made_runs(options.browser, options.out, options.episodes)
    for problem in dict.fromkeys(problems):
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
