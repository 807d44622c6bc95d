"""Time of the viewer in Chromium: a report of many episodes is written, opened, scrolled, filtered and read.

    python benchmarks/viewer.py [--episodes 10000]

It needs Debian's package `chromium` and the package `playwright`. The episodes are those of the agent `stumbler` on
drills, repeated under other names. `benchmarks/checks/screenshots.py` takes pictures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from etude.environments.drill.tasks import DrillTasks
from etude.environments.runs.play import run_episodes
from etude.environments.runs.writer import FILE_NAME
from etude.server.viewer import write_report

PROGRAM = "/usr/bin/chromium"
ROW = ".window .row"
FRAMES = """async ([frames, step]) => {
  const box = document.querySelector(".scroller");
  const gaps = [];
  let last = performance.now();
  for (let frame = 0; frame < frames; frame += 1) {
    box.scrollTop = step * frame;
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    gaps.push(now - last);
    last = now;
  }
  return gaps;
}"""
WATCH = """() => {
  const frame = () => new Promise((done) => requestAnimationFrame(() => {
    const channel = new MessageChannel();  // its message comes after the frame is painted
    channel.port1.onmessage = done;
    channel.port2.postMessage(0);
  }));
  window.typed = [];
  const changed = new MutationObserver(async () => {
    const key = window.typed[window.typed.length - 1];
    await frame();
    if (key) key.result = performance.now() - key.at;
  });
  const all = { subtree: true, childList: true, characterData: true, attributes: true };
  changed.observe(document.querySelector("main"), all);
  document.addEventListener("keydown", async (event) => {
    const key = { at: event.timeStamp, shown: 0, result: 0 };
    window.typed.push(key);
    await frame();
    key.shown = performance.now() - key.at;
  }, true);
}"""
"""Records for each key when the page was painted after it, and when the list changed for the last time."""
QUERIES = ("stumbler-3 choose", "no such file", "chain", "error 5", "zzz")
PAUSES = (250, 60)
"""Milliseconds between two keys: long enough for every result, and as a fast typist."""


def many(folder: Path, number: int) -> Path:
    """Write a run of ``number`` episodes and return its folder."""
    tasks = DrillTasks(["choose", "chain"], level=2)
    asyncio.run(run_episodes(tasks, "stumbler", out=folder / "played", limit=2))
    rows = [json.loads(line) for line in (folder / "played" / FILE_NAME).read_text().splitlines()]
    with (folder / FILE_NAME).open("w") as file:
        for place in range(number):
            row = {**rows[place % len(rows)], "sample": place // len(rows), "agent": f"stumbler-{place % 7}"}
            file.write(json.dumps(row) + "\n")
    return folder


def milliseconds(action: Any, page: Page, until: str) -> float:
    """Return the time from an action until an expression holds in the page."""
    start = time.perf_counter()
    action()
    page.wait_for_function(f"() => {until}", polling="raf", timeout=120_000)
    return (time.perf_counter() - start) * 1000


def measure(browser: Browser, address: str, number: int) -> dict[str, float]:
    """Return the times of one page."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    shown = "document.querySelector('#filters output')?.textContent.startsWith"
    rows = f"document.querySelector('{ROW}') !== null"
    times = {"open until the first rows": milliseconds(lambda: page.goto(address), page, rows)}
    for what, pixels in (("wheel", 40), ("dragging the bar", 1200)):
        gaps = page.evaluate(FRAMES, [240, pixels])
        times |= {f"{what}, median frame": median(gaps), f"{what}, longest frame": max(gaps)}
    times["rows in the document"] = float(page.locator(".row").count())
    times |= typing(page)
    typed = f"{shown}('{(number + 6) // 7:,} of')"
    times["search until shown"] = milliseconds(lambda: page.fill("#search", "stumbler-0"), page, typed)
    times["last row"] = milliseconds(lambda: page.keyboard.press("Escape") or page.keyboard.press("G"), page, rows)
    page.locator(f"{ROW}.chosen").wait_for()
    opened = "document.querySelector('main.episode #turn-0') !== null"
    times["open an episode"] = milliseconds(lambda: page.keyboard.press("Enter"), page, opened)
    page.close()
    return times


def typing(page: Page) -> dict[str, float]:
    """Return how long keys in the search box take to be shown, and how long the list takes to follow."""
    page.evaluate(WATCH)
    times: dict[str, float] = {}
    for pause in PAUSES:
        page.evaluate("typed.length = 0")
        for query in QUERIES:
            page.fill("#search", "")
            page.wait_for_timeout(400)
            page.locator("#search").press_sequentially(query, delay=pause)
            page.wait_for_timeout(400)
        keys = [key["shown"] for key in page.evaluate("typed")]
        results = [key["result"] for key in page.evaluate("typed") if key["result"]]
        name = f"a key each {pause} ms"
        times |= {f"{name}, shown after, median": median(keys), f"{name}, shown after, longest": max(keys)}
        times |= {f"{name}, list after, median": median(results), f"{name}, list after, longest": max(results)}
    page.fill("#search", "")
    page.wait_for_timeout(400)
    return times


def main() -> None:
    """Print the sizes and times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        run = many(Path(name), arguments.episodes)
        start = time.perf_counter()
        written = write_report([run], Path(name) / "report.html")
        print(f"episodes {written.episodes:,}, {(run / FILE_NAME).stat().st_size / 1e6:.1f} MB of episodes.jsonl")
        print(f"report {written.size / 1e6:.1f} MB, written in {time.perf_counter() - start:.1f} s")
        address = (Path(name) / "report.html").as_uri()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox"])
            for what, value in measure(browser, address, arguments.episodes).items():
                print(f"{what}: {value:.0f}{'' if what.startswith('rows') else ' ms'}")
            browser.close()


if __name__ == "__main__":
    main()
