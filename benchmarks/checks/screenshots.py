"""Screenshots of a report in a browser: light and dark, as wide as a desktop screen and as a phone.

    pip install playwright; apt-get install -y chromium
    python benchmarks/checks/screenshots.py runs/demo/report.html shots/ --at e13

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
    """Take the screenshots; return 1 when the page has a problem."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--at", default="", help="Scroll to this id, such as e3 or e3-t7.")
    parser.add_argument("--open", default="", help="Open this turn, such as e3-t7.")
    parser.add_argument("--whole", action="store_true", help="Take the whole page.")
    parser.add_argument("--browser", default="/usr/bin/chromium")
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    options.out.mkdir(parents=True, exist_ok=True)
    problems = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.browser, args=["--no-sandbox"])
        for size, (width, height) in SIZES.items():
            for theme in THEMES:
                context = browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme=theme, offline=True
                )
                page = context.new_page()
                page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
                page.on("pageerror", lambda error: problems.append(str(error)))
                page.on("request", lambda r: problems.append(r.url) if not r.url.startswith("file:") else None)
                page.goto(options.page.resolve().as_uri() + (f"#{options.at}" if options.at else ""))
                if options.open:
                    page.locator(f"#{options.open} > details > summary").click()
                page_width = page.evaluate("document.documentElement.scrollWidth")
                if page_width > width:
                    problems.append(f"{size}: the page is {page_width} pixels wide on a screen of {width}")
                file = options.out / f"{size}-{theme}.png"
                page.screenshot(path=str(file), full_page=options.whole)
                print(file)
                context.close()
        browser.close()
    for problem in dict.fromkeys(problems):
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
