"""The list of episodes in a browser: filters, keys, deep links, and 10,000 rows."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pytest
from helpers.browser import opened
from helpers.viewer_runs import long_list, written

from etude.server.viewer import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROW = ".window .row"
PAINTED = """() => {
    window.painted = [];
    document.addEventListener("keydown", (event) => requestAnimationFrame(() => {
        setTimeout(() => window.painted.push(performance.now() - event.timeStamp));
    }), true);
}"""
"""Records how many milliseconds each key waits for the frame after it."""


def tasks(page: Page) -> list[str]:
    page.wait_for_selector(ROW)
    return [text.split(" sample")[0] for text in page.locator(f"{ROW} .c-task").all_inner_texts()]


def options(page: Page, name: str) -> list[str]:
    return page.locator(f"select[name={name}] option").all_inner_texts()


def test_filters_offer_every_run_agent_kind_and_finding(page: Page, report_file: str, drills: Path) -> None:
    page.goto(report_file)
    page.wait_for_selector(ROW)
    assert str(drills) in options(page, "run")
    assert {"stumbler", "oracle", "noop", "openai:small", "small"} <= set(options(page, "agent"))
    assert {"tool_not_found", "malformed_call", "file_not_found"} <= set(options(page, "kind"))
    assert {"reads_hidden_tests", "edits_tests"} <= set(options(page, "finding"))
    assert options(page, "generator") == ["all", "drill"]


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", 7),
        ("reward=full", 4),
        ("reward=less", 3),
        ("kind=file_not_found", 1),
        ("kind=none", 4),
        ("finding=confirmed", 1),
        ("finding=reads_hidden_tests", 1),
        ("generator=drill", 6),
        ("agent=small", 1),
        ("run=1", 1),
        ("q=ORACLE+choose", 1),
        ("q=answer()", 1),
        ("reward=less&agent=noop", 2),
        ("q=nothing-like-this", 0),
    ],
)
def test_list_shows_the_episodes_that_a_deep_link_filters(page: Page, report_file: str, query: str, shown: int) -> None:
    page.goto(f"{report_file}#/?{query}")
    page.wait_for_selector("#filters output")
    assert page.locator(ROW).count() == shown
    assert page.locator("#filters output").inner_text() == f"{shown} of 7 shown"


def test_list_writes_its_filters_into_the_address(page: Page, report_file: str) -> None:
    page.goto(report_file)
    page.select_option("select[name=kind]", "file_not_found")
    page.fill("#search", "marked")
    page.wait_for_function("() => location.hash === '#/?kind=file_not_found&q=marked'")
    assert tasks(page) == ["task-marked"]
    page.click("text=clear")
    assert page.locator(ROW).count() == 7


def test_list_is_sorted_by_a_column_when_its_head_is_clicked(page: Page, report_file: str) -> None:
    page.goto(report_file)
    page.click(".row.head >> text=turns")
    turns = [int(text) for text in page.locator(f"{ROW} .c-turns").all_inner_texts()]
    assert turns == sorted(turns) and len(set(turns)) > 2
    page.click(".row.head >> text=turns")
    assert [int(text) for text in page.locator(f"{ROW} .c-turns").all_inner_texts()] == turns[::-1]


def test_keys_move_search_open_and_return(page: Page, report_file: str) -> None:
    page.goto(report_file)
    page.wait_for_selector(ROW)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    assert page.locator(f"{ROW}.chosen").get_attribute("data-place") == "1"
    page.keyboard.press("G")
    assert page.locator(f"{ROW}.chosen").get_attribute("data-place") == "6"
    page.keyboard.press("g")
    page.keyboard.press("/")
    page.keyboard.type("marked")
    assert tasks(page) == ["task-marked"]
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    page.wait_for_selector("main.episode .turns")
    page.keyboard.press("u")
    page.wait_for_selector(ROW)
    assert page.locator("#search").input_value() == "marked"
    page.keyboard.press("?")
    assert "next finding" in page.locator(".help").inner_text()


def test_theme_follows_the_system_until_it_is_switched(browser: Browser, report_file: str) -> None:
    with opened(browser, color_scheme="dark") as page:
        page.goto(report_file)
        page.wait_for_selector(ROW)
        colour = "getComputedStyle(document.body).backgroundColor"
        dark = page.evaluate(colour)
        page.keyboard.press("t")
        page.wait_for_function(f"() => {colour} !== '{dark}'")
        page.keyboard.press("t")
        page.wait_for_function(f"() => {colour} === '{dark}'")


def test_fast_keys_are_shown_in_the_address_when_they_pause(page: Page, report_file: str) -> None:
    page.goto(report_file)
    page.wait_for_selector(ROW)
    page.evaluate("""() => {
        const write = history.replaceState.bind(history);
        window.writes = 0;
        history.replaceState = (...values) => { window.writes += 1; write(...values); };
    }""")
    keys = """(keys) => keys.forEach((key) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key })))"""
    page.evaluate(keys.replace("{ key }", "{ key, bubbles: true }"), ["j"] * 40 + ["k"] * 2)
    page.wait_for_function("() => location.hash === '#/?row=4'")
    assert page.evaluate("window.writes") < 5
    assert page.locator(f"{ROW}.chosen").get_attribute("data-place") == "4"


def test_address_of_the_list_is_complete_when_a_row_is_clicked_at_once(page: Page, report_file: str) -> None:
    page.goto(report_file)
    page.wait_for_selector(ROW)
    page.keyboard.press("/")
    page.keyboard.type("marked")
    page.click(ROW)
    page.wait_for_selector("main.episode .turns")
    page.go_back()
    page.wait_for_selector(ROW)
    assert page.url.endswith("#/?q=marked") and tasks(page) == ["task-marked"]


@pytest.fixture(scope="module")
def long_report(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = written(tmp_path_factory.mktemp("long"), *long_list(10_000))
    write_report([folder], folder / "report.html")
    return (folder / "report.html").as_uri()


@pytest.mark.slow
def test_ten_thousand_episodes_are_a_window_of_rows_and_each_opens(browser: Browser, long_report: str) -> None:
    with opened(browser) as page:
        page.goto(long_report)
        page.wait_for_selector(ROW, timeout=60_000)
        assert page.locator("#filters output").inner_text() == "10,000 of 10,000 shown"
        assert page.locator(ROW).count() < 100
        page.keyboard.press("G")
        last = page.locator(f"{ROW}.chosen .c-no")
        assert last.inner_text() == "9999"
        page.keyboard.press("Enter")
        page.wait_for_selector("#turn-3")
        assert page.locator("h2").first.inner_text().endswith("__task-9999")
        page.keyboard.press("u")
        page.fill("#search", "package-5__")
        page.wait_for_function("() => document.querySelector('#filters output').textContent.startsWith('104 of')")


@pytest.mark.slow
def test_typing_in_ten_thousand_episodes_narrows_and_widens_the_list(browser: Browser, long_report: str) -> None:
    shown = "() => document.querySelector('#filters output').textContent.startsWith('{} of')"
    unsolved = [number for number in range(10_000) if number % 97 == 5 and number % 4]
    with opened(browser) as page:
        page.goto(f"{long_report}#/?sort=task-down&reward=less")
        page.wait_for_selector(ROW, timeout=60_000)
        page.keyboard.press("/")
        page.keyboard.type("package-5__ task-3")
        page.wait_for_function(shown.format(sum(str(number).startswith("3") for number in unsolved)))
        assert page.locator("#search").input_value() == "package-5__ task-3"
        for _ in " task-3":
            page.keyboard.press("Backspace")
        page.wait_for_function(shown.format(len(unsolved)))
        names = sorted((f"package-5__task-{number}" for number in unsolved), reverse=True)
        assert tasks(page) == names[: len(tasks(page))]
        page.wait_for_function("() => !document.querySelector('main[aria-busy=true]')")


@pytest.mark.slow
def test_keys_in_ten_thousand_episodes_are_painted_without_a_lag(browser: Browser, long_report: str) -> None:
    with opened(browser) as page:
        page.goto(long_report)
        page.wait_for_selector(ROW, timeout=60_000)
        page.evaluate(PAINTED)
        page.locator("#search").press_sequentially("package-5__ file_not_found", delay=80)
        page.wait_for_function("() => document.querySelector('#filters output').textContent.startsWith('35 of')")
        assert median(page.evaluate("window.painted")) < 100


@pytest.mark.parametrize("address", ["", "#/e/1.0", "#/c/0.0/0.2"])
def test_phone_page_is_not_wider_than_the_phone(browser: Browser, report_file: str, address: str) -> None:
    with opened(browser, viewport={"width": 390, "height": 844}) as page:
        page.goto(report_file + address)
        page.wait_for_selector(f"{ROW}, .turns, .pairs")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
