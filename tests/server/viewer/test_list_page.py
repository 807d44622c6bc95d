"""The list of episodes in a browser: filters, keys, deep links, and 10,000 rows."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pytest
from helpers.browser import opened
from helpers.viewer_runs import long_list, marked_row, written

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


def test_filters_offer_every_run_agent_kind_and_finding(
    page: Page, report_file: str, drills: Path, marked: Path
) -> None:
    page.goto(report_file)
    page.wait_for_selector(ROW)
    assert options(page, "run") == ["all", drills.name, marked.name]
    assert page.locator(".runs a").first.get_attribute("title") == str(drills)
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


def test_rows_of_several_runs_name_their_run_until_one_is_chosen(page: Page, report_file: str, marked: Path) -> None:
    page.goto(report_file)
    page.wait_for_selector(ROW)
    assert page.locator(f"{ROW} .c-run").last.inner_text() == marked.name
    page.select_option("select[name=run]", marked.name)
    page.wait_for_function("() => !document.querySelector('.c-run')")
    assert page.locator(ROW).count() == 1


def test_every_head_of_the_list_says_what_it_means(page: Page, report_file: str) -> None:
    page.goto(report_file)
    page.wait_for_selector(ROW)
    heads = page.locator(".row.head [role=columnheader]")
    assert heads.count() == 11 and all(head.get_attribute("title") for head in heads.all())
    page.keyboard.press("?")
    assert "lanes of an episode" in page.locator(".help").inner_text().lower()
    assert "a hint was written for the error" in page.locator(".help").inner_text()
    page.keyboard.press("Escape")
    assert page.locator(".help").count() == 0


def test_tokens_and_cost_of_the_asked_model_are_shown(page: Page, tmp_path: Path) -> None:
    usage = {"calls": 4, "prompt_tokens": 12_000, "completion_tokens": 345, "usd": 0.0567}
    rows = [marked_row(usage=usage), marked_row(usage={"prompt_tokens": "many", "completion_tokens": -1, "usd": True})]
    write_report([written(tmp_path / "run", *rows)], tmp_path / "report.html")
    page.goto((tmp_path / "report.html").as_uri())
    totals = page.locator(".totals div").all_inner_texts()
    assert {"tokens\n12,345", "cost\n$0.06"} <= set(totals)
    page.keyboard.press("Enter")
    assert "12,000 tokens read, 345 written, $0.06" in page.locator(".facts").inner_text()
    page.keyboard.press("]")
    page.wait_for_selector("h2 >> text=Episode 1")
    assert "tokens" not in page.locator(".facts").inner_text()


def test_list_returns_to_the_row_that_was_clicked(page: Page, tmp_path: Path) -> None:
    write_report([written(tmp_path / "run", *long_list(300))], tmp_path / "report.html")
    page.goto((tmp_path / "report.html").as_uri())
    page.wait_for_selector(ROW)
    page.locator(".scroller").evaluate("(box) => { box.scrollTop = 200 * 29; }")
    page.click(f"{ROW} >> text=__task-205")
    page.wait_for_selector("main.episode .turns")
    page.go_back()
    assert page.locator(f"{ROW}.chosen .c-no").inner_text() == "205"


@pytest.mark.parametrize("width", [720, 850, 1000, 1230])
def test_columns_of_the_list_fit_into_narrow_windows(browser: Browser, report_file: str, width: int) -> None:
    with opened(browser, viewport={"width": width, "height": 800}) as page:
        page.goto(report_file)
        page.wait_for_selector(ROW)
        head = page.locator(".row.head [role=columnheader]:visible").last.bounding_box()
        assert head and head["x"] + head["width"] <= width
        assert page.locator(f"{ROW} .c-findings").first.is_visible()
        assert page.locator(".scroller").evaluate("(box) => box.scrollWidth <= box.clientWidth")


def test_phone_shows_the_filters_when_they_are_asked_for(browser: Browser, report_file: str) -> None:
    with opened(browser, viewport={"width": 390, "height": 844}) as page:
        page.goto(f"{report_file}#/?kind=file_not_found")
        page.wait_for_selector(ROW)
        box = page.locator(ROW).first.bounding_box()
        assert box and box["y"] < 500
        assert page.locator("#search").is_visible() and not page.locator("select[name=kind]").is_visible()
        page.click("text=filters (1)")
        page.select_option("select[name=kind]", "")
        page.wait_for_function("() => document.querySelector('#filters output').textContent === '7 of 7 shown'")


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


@pytest.mark.parametrize("address", ["", "#/e/1.0", "#/c/0.0/1.1"])
def test_phone_page_is_not_wider_than_the_phone(browser: Browser, tmp_path: Path, address: str) -> None:
    name = "a-run-whose-name-is-longer-than-half-of-a-phone"
    rows = [marked_row(agent="x" * 80), marked_row(agent="y" * 80, episode_id="other")]
    runs = [written(tmp_path / folder / name, *rows) for folder in ("one", "two")]
    write_report(runs, tmp_path / "report.html")
    with opened(browser, viewport={"width": 390, "height": 844}) as page:
        page.goto((tmp_path / "report.html").as_uri() + address)
        page.wait_for_selector(f"{ROW}, .turns, .pairs")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
