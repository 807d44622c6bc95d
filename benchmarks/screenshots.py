"""Look at a report in a browser: four screenshots, light and dark, at the width of a desk and of a phone.

    pip install playwright; apt-get install -y chromium
    python benchmarks/screenshots.py runs/demo/report.html shots/ --at e13

The page is opened from its file, with the network off: a page that asks for anything fails this script, and so does an
error of its script or text wider than the screen.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

SIZES = {"desktop": (1280, 1600), "phone": (390, 1400)}
THEMES = ("light", "dark")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--at", default="", help="the id of what stands at the top, such as e3 or e3-t7")
    parser.add_argument("--open", default="", help="a turn that is opened, such as e3-t7")
    parser.add_argument("--whole", action="store_true", help="the whole page, however long")
    parser.add_argument("--browser", default="/usr/bin/chromium")
    given = parser.parse_args()
    from playwright.sync_api import sync_playwright

    given.out.mkdir(parents=True, exist_ok=True)
    wrong = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=given.browser, args=["--no-sandbox"])
        for size, (width, height) in SIZES.items():
            for theme in THEMES:
                context = browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme=theme, offline=True
                )
                page = context.new_page()
                page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
                page.on("pageerror", lambda error: wrong.append(str(error)))
                page.on("request", lambda r: wrong.append(r.url) if not r.url.startswith("file:") else None)
                page.goto(given.page.resolve().as_uri() + (f"#{given.at}" if given.at else ""))
                if given.open:
                    page.locator(f"#{given.open} > details > summary").click()
                wide = page.evaluate("document.documentElement.scrollWidth")
                if wide > width:
                    wrong.append(f"{size}: the page is {wide} pixels wide on a screen of {width}")
                file = given.out / f"{size}-{theme}.png"
                page.screenshot(path=str(file), full_page=given.whole)
                print(file)
                context.close()
        browser.close()
    for each in dict.fromkeys(wrong):
        print(f"error: {each}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
