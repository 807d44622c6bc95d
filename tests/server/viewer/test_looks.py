"""What a reader sees in a browser: contrast of all texts, what the Tab key reaches, and long timelines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.browser import opened
from helpers.viewer_runs import EVIDENCE, marked_row, written

from etude.server.viewer import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SHOWN = ".window .row, .turns, .pairs, .charts"
CONTRASTS = """() => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const rgba = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
        return [red, green, blue, alpha / 255];
    };
    const behind = (element) => {
        for (let one = element; one; one = one.parentElement) {
            const colour = rgba(getComputedStyle(one).backgroundColor);
            if (colour[3] > 0.99) return colour;
        }
        return [255, 255, 255, 1];
    };
    const luminance = (colour) => {
        const [red, green, blue] = colour.slice(0, 3).map((part) => part / 255)
            .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const worst = {};
    const walker = document.createTreeWalker(document.getElementById("app"), NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
        const style = getComputedStyle(element);
        const ink = rgba(element instanceof SVGElement ? style.fill : style.color);
        const [one, other] = [luminance(ink), luminance(behind(element))].sort((a, b) => b - a);
        const ratio = (one + 0.05) / (other + 0.05);
        const name = `${element.tagName}.${element.getAttribute("class") || ""} in ${element.parentElement.className}`;
        if (!(worst[name] <= ratio)) worst[name] = ratio;
    }
    return worst;
}"""
"""Returns the contrast ratio of each kind of text to the colour behind it, as WCAG 2.2 computes it."""
UNREACHABLE = """() => [...document.querySelectorAll("[role=button], button, input, select, a")]
    .filter((element) => element.tabIndex < 0 && !element.matches(".mark, .row, :disabled"))
    .map((element) => element.outerHTML.slice(0, 100))"""
"""Returns the controls that Tab does not reach: marks have the keys e, E and n, rows have j and k."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_the_contrast_of_wcag_aa(browser: Browser, report_file: str, scheme: Any) -> None:
    with opened(browser, color_scheme=scheme) as page:
        for address in ("", "#/e/1.0/f/0", "#/c/0.0/0.2"):
            page.goto(report_file + address)
            page.wait_for_selector(SHOWN)
            if address.startswith("#/e"):
                page.wait_for_selector("mark")
                page.keyboard.press("f")
            else:
                page.keyboard.press("?")
                page.wait_for_selector(".help")
            contrasts = page.evaluate(CONTRASTS)
            page.keyboard.press("Escape")
            assert len(contrasts) > 10
            assert {name: ratio for name, ratio in contrasts.items() if ratio < 4.5} == {}


def test_every_control_is_reached_by_the_tab_key(page: Page, report_file: str) -> None:
    for address in ("", "#/e/1.0/f/0", "#/c/0.0/0.2"):
        page.goto(report_file + address)
        page.wait_for_selector(SHOWN)
        assert page.evaluate(UNREACHABLE) == []


def test_turn_with_the_focus_is_opened_by_enter(page: Page, report_file: str) -> None:
    page.goto(f"{report_file}#/e/1.0")
    page.wait_for_selector("#turn-3")
    page.locator("#turn-3 .summary").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#turn-3.current .body")
    assert page.locator("#turn-0 .body").count() == 0


def test_verdict_says_what_went_wrong_and_leads_there(page: Page, tmp_path: Path) -> None:
    lost = marked_row(end="budget")
    lost["error_turns"][0] |= {"recovered": False, "turns_to_recover": None}
    cause = "infrastructure: no space left on device"
    void = marked_row(cause=cause, reward={"value": 0.0, "valid": False, "components": {}}, grade=None)
    write_report([written(tmp_path / "run", lost, void)], tmp_path / "report.html")
    page.goto(f"{(tmp_path / 'report.html').as_uri()}#/e/0.0")
    verdict = page.locator(".verdict")
    words = " ".join(verdict.inner_text().split())
    assert words.startswith("Not solved fail_to_pass 0, 1 test not passed the budget was spent")
    assert "confirmed reads_hidden_tests at turn 2" in words and "file_not_found at turn 1, not recovered" in words
    verdict.locator("text=reads_hidden_tests").click()
    assert page.locator("#turn-2 mark").first.inner_text() == EVIDENCE
    page.keyboard.press("]")
    page.wait_for_selector(".verdict >> text=Not valid")
    assert cause in verdict.inner_text()


@pytest.mark.parametrize("width", [1280, 390])
def test_long_timeline_shows_its_findings_and_the_current_turn(browser: Browser, tmp_path: Path, width: int) -> None:
    row = marked_row()
    row["turns"] = row["turns"][:3] + row["turns"][:1] * 120
    write_report([written(tmp_path / "run", row)], tmp_path / "report.html")
    with opened(browser, viewport={"width": width, "height": 844}) as page:
        page.goto(f"{(tmp_path / 'report.html').as_uri()}#/e/0.0/t/2")
        page.wait_for_selector("#turn-2.current")
        assert page.locator(".mark.finding").first.inner_text() == "\u25b2"
        now, turn = (page.locator(f".timeline {part}").bounding_box() for part in (".now", ".mark.turn >> nth=2"))
        assert now and turn and now["x"] == pytest.approx(turn["x"], abs=1)
        head, lanes = (page.locator(part).bounding_box() for part in ("#turn-2 .summary", ".timeline"))
        assert head and lanes and head["y"] >= lanes["y"] + lanes["height"]
