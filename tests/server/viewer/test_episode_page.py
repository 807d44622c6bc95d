"""One episode, a comparison and a fork in a browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from helpers.viewer_runs import EVIDENCE, HINT, marked_row, written

from etude.server.viewer import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Page

ATTACKS = ["<img src=x onerror=document.title='hacked'>", "</script><script>document.title='hacked'</script>"]
MARKUP = re.compile(r"innerHTML|outerHTML|insertAdjacent|document\.write|dangerously|eval\(|Function\(")


def test_timeline_has_a_lane_for_each_kind_of_mark(page: Page, report_file: str) -> None:
    page.goto(f"{report_file}#/e/1.0")
    page.wait_for_selector(".timeline")
    assert page.locator(".timeline .lane-name").all_inner_texts() == ["turns", "errors", "hints", "faults", "findings"]
    assert page.locator(".timeline .mark.turn").count() == 4
    for kind, place in (("error", "1"), ("hint", "1"), ("fault", "2")):
        assert page.locator(f".timeline .mark.{kind}").get_attribute("href") == f"#/e/1.0/t/{place}"
    assert page.locator(".timeline .mark.finding").get_attribute("href") == "#/e/1.0/f/0"


def test_lane_shows_how_far_the_teacher_is_at_the_turns_of_a_training_run(page: Page, tmp_path: Path) -> None:
    settings = {"step": 3, "divergence": {"1": 0.5, "2": 0.1, "99": 1.0, "x": 1.0, "0": "much"}}
    write_report([written(tmp_path / "run", marked_row(settings=settings))], tmp_path / "report.html")
    page.goto(f"{(tmp_path / 'report.html').as_uri()}#/e/0.0")
    page.wait_for_selector(".timeline")
    assert "teacher" in page.locator(".timeline .lane-name").all_inner_texts()
    bars = page.locator(".mark.teacher")
    assert [bar.get_attribute("href") for bar in bars.all()] == ["#/e/0.0/t/1", "#/e/0.0/t/2"]
    high, low = (bar.bounding_box() for bar in bars.all())
    assert high and low and high["height"] > 2 * low["height"]
    beside = page.locator("#turn-1 .beside").inner_text()
    assert "the teacher that read the hint is 0.5 nats a token away" in beside
    assert page.locator(".prompt >> text=divergence").count() == 0


def test_lane_shows_how_long_each_turn_took_where_one_took_a_second(page: Page, tmp_path: Path) -> None:
    row = marked_row()
    row["turns"][1]["seconds"] = 12.5
    write_report([written(tmp_path / "run", row)], tmp_path / "report.html")
    page.goto(f"{(tmp_path / 'report.html').as_uri()}#/e/0.0")
    bars = page.locator(".mark.time")
    assert bars.nth(1).get_attribute("title") == "turn 1: 12.5 s"
    low, high = (bars.nth(place).bounding_box() for place in (0, 1))
    assert low and high and high["height"] > 3 * low["height"]


def test_hint_stands_beside_its_error_turn(page: Page, report_file: str) -> None:
    page.goto(f"{report_file}#/e/1.0")
    beside = page.locator("#turn-1 .beside")
    assert beside.locator(".kind").inner_text() == "file_not_found"
    assert HINT in beside.locator(".hint").inner_text()
    left, right = (page.locator(f"#turn-1 {part}").bounding_box() for part in (".said", ".beside"))
    assert left and right and right["x"] >= left["x"] + left["width"] and right["y"] == pytest.approx(left["y"], abs=8)


def test_finding_leads_to_its_evidence_in_the_turn(page: Page, report_file: str) -> None:
    page.goto(f"{report_file}#/e/1.0")
    page.click(".findings >> text=reads_hidden_tests")
    mark = page.locator("#turn-2 mark")
    assert mark.first.inner_text() == EVIDENCE
    assert mark.first.is_visible() and page.url.endswith("#/e/1.0/f/0")


def test_finding_without_a_turn_leads_to_the_diff(page: Page, report_file: str) -> None:
    page.goto(f"{report_file}#/e/1.0/f/1")
    assert page.locator("#diff mark").inner_text() == "return 42"


def test_keys_step_through_error_turns_and_findings(page: Page, report_file: str) -> None:
    page.goto(f"{report_file}#/e/1.0")
    page.wait_for_selector("#turn-3")
    page.keyboard.press("e")
    page.wait_for_selector("#turn-1.current")
    page.keyboard.press("n")
    page.wait_for_selector("#turn-2.current mark")
    page.keyboard.press("j")
    page.wait_for_selector("#turn-3.current .body")
    page.keyboard.press("[")
    page.wait_for_selector("h2 >> text=noop")


def test_keys_within_an_episode_are_left_in_one_step_back(page: Page, report_file: str) -> None:
    page.goto(report_file)
    page.click(".window .row >> text=task-marked")
    page.wait_for_selector("#turn-3")
    for key in "jjken":
        page.keyboard.press(key)
    page.wait_for_function("() => location.hash === '#/e/1.0/f/0'")
    page.go_back()
    page.wait_for_selector(".window .row")


def test_marked_episode_is_compared_with_another_by_a_key(page: Page, report_file: str) -> None:
    page.goto(f"{report_file}#/e/0.0")
    page.wait_for_selector("#turn-1")
    page.keyboard.press("x")
    page.wait_for_selector("text=marked for comparison")
    page.keyboard.press("c")
    page.keyboard.press("]")
    page.keyboard.press("]")
    page.wait_for_selector("h2 >> text=oracle")
    page.keyboard.press("c")
    page.wait_for_selector(".compare .pairs")
    assert page.url.endswith("#/c/0.0/0.2")
    page.keyboard.press("s")
    page.wait_for_function("() => location.hash === '#/c/0.2/0.0'")


def test_all_turns_are_opened_and_closed_by_a_key(page: Page, report_file: str) -> None:
    page.goto(f"{report_file}#/e/1.0")
    page.wait_for_selector("#turn-1 .body")
    page.keyboard.press("a")
    page.wait_for_selector("#turn-0 .body")
    assert page.locator(".turn .body").count() == 4
    page.keyboard.press("a")
    page.wait_for_function("() => !document.querySelector('.turn .body')")


@pytest.mark.parametrize("address", ["t/99", "t/-1", "t/x", "f/9", "f/x", "z/1"])
def test_address_of_a_turn_or_finding_that_is_not_there_shows_the_episode(
    page: Page, report_file: str, address: str
) -> None:
    page.goto(f"{report_file}#/e/1.0/{address}")
    page.wait_for_selector("#turn-0.current")
    page.keyboard.press("j")
    page.wait_for_selector("#turn-1.current")


def test_episode_shows_the_numbers_of_its_turns_its_prompt_and_its_title(page: Page, report_file: str) -> None:
    page.goto(f"{report_file}#/e/1.0")
    page.wait_for_selector(".axis")
    assert page.locator(".axis span").all_inner_texts() == ["0", "2"]
    assert page.locator(".prompt .peek").first.inner_text() == "Make answer() return 42."
    assert page.title().startswith("Episode 0 of marked")
    lanes = page.locator(".timeline .lane-name")
    assert all(lane.get_attribute("title") for lane in lanes.all())


def test_injected_fault_is_named_in_its_turn(page: Page, report_file: str) -> None:
    page.goto(f"{report_file}#/e/1.0")
    assert page.locator("#turn-2 .summary .status").inner_text() == "injected garbled"


def test_report_says_how_many_hidden_tests_failed_and_not_which(page: Page, report_file: str) -> None:
    page.goto(f"{report_file}#/e/1.0")
    text = page.locator("#tests").inner_text()
    assert "fail_to_pass 1 not passed" in text and "secret" in text
    assert "test_secret" not in page.content()


def test_report_names_hidden_tests_when_it_may_reveal_them(marked: Path, page: Page, tmp_path: Path) -> None:
    write_report([marked], tmp_path / "report.html", reveal=True)
    page.goto(f"{(tmp_path / 'report.html').as_uri()}#/e/0.0")
    assert "tests/test_secret.py::test_x" in page.locator("#tests").inner_text()


def test_fork_is_a_command_in_a_file(page: Page, report_file: str, marked: Path) -> None:
    page.goto(f"{report_file}#/e/1.0/t/1")
    page.wait_for_selector("#turn-1.current")
    page.keyboard.press("f")
    with_hint, without = page.locator(".fork .command").inner_text().splitlines()
    start = f"etude fork '{marked}' --episode 0 --turn 1 --agent openai:MODEL"
    assert (with_hint, without) == (f"{start} --hint '{HINT}'", start)


def test_fork_without_a_hint_is_one_command(page: Page, report_file: str) -> None:
    page.goto(f"{report_file}#/e/1.0/t/3")
    page.wait_for_selector("#turn-3.current")
    page.keyboard.press("f")
    assert len(page.locator(".fork .command").inner_text().splitlines()) == 1
    page.fill(".fork textarea", "It's there.")
    assert page.locator(".fork .command").inner_text().splitlines()[0].endswith("""--hint 'It'\\''s there.'""")


def test_comparison_of_equal_turns_shows_them(page: Page, report_file: str) -> None:
    page.goto(f"{report_file}#/c/1.0/1.0")
    page.wait_for_selector(".pairs")
    assert page.locator(".shared").inner_text().strip() == "The two played the same 4 turns."
    assert page.locator(".pairs .pair").count() == 4


def test_comparison_says_where_the_shorter_episode_ended(page: Page, report_file: str) -> None:
    page.goto(f"{report_file}#/c/0.0/0.2")
    page.wait_for_selector(".pairs")
    assert page.locator(".cell .ended").all_inner_texts() == ["end: submit, reward 1"]


def test_comparison_begins_at_the_first_turn_that_differs(page: Page, tmp_path: Path) -> None:
    one, other = marked_row(), marked_row(episode_id="other")
    other["turns"][2]["action"]["text"] = "I take another way."
    run = written(tmp_path / "run", one, other)
    write_report([run], tmp_path / "report.html")
    page.goto(f"{(tmp_path / 'report.html').as_uri()}#/e/0.0")
    page.select_option(".siblings select", index=1)
    page.wait_for_selector(".pairs")
    assert "The first 2 turns are the same." in page.locator(".shared").inner_text()
    assert [re.sub(r"\s.*", "", text, flags=re.S) for text in page.locator(".pairs .cell").all_inner_texts()] == [
        "2",
        "2",
        "3",
        "3",
    ]
    assert "I take another way." in page.locator(".pair.divides .cell >> nth=1").inner_text()
    page.keyboard.press("a")
    assert page.locator(".pairs .pair").count() == 4


@pytest.mark.parametrize("attack", ATTACKS)
def test_text_of_an_agent_is_text_in_the_application(page: Page, tmp_path: Path, attack: str) -> None:
    row = marked_row(agent=attack, task_id=attack, prompt=attack, episode_id=attack)
    row["turns"][0]["action"] = {"text": attack, "tool_calls": [{"name": attack, "arguments": {attack: attack}}]}
    row["error_turns"][0]["hints"][0]["text"] = attack
    row["findings"][0]["exploit_id"] = row["findings"][0]["excerpt"] = attack
    write_report([written(tmp_path / "run", row)], tmp_path / "report.html")
    for address in ("", "#/e/0.0/t/0", "#/e/0.0/f/0", "#/c/0.0/0.0"):
        page.goto((tmp_path / "report.html").as_uri() + address)
        page.reload()
        page.wait_for_selector(".window .row, .turns, .shared")
        assert attack in page.locator(".app").inner_text()
        assert page.locator("#app img, #app script").count() == 0
        assert "hacked" not in page.title()


def test_scripts_of_the_application_never_write_markup(root: Path) -> None:
    scripts = sorted((root / "server" / "viewer" / "assets").glob("*.js"))
    assert len(scripts) > 10
    for script in scripts:
        assert not MARKUP.search(script.read_text()), script


def test_page_without_scripts_shows_the_episodes(report_file: str, browser: object) -> None:
    context = browser.new_context(java_script_enabled=False)  # type: ignore[attr-defined]
    page = context.new_page()
    page.goto(report_file)
    assert page.locator("article.episode").count() == 7
    assert HINT in (page.locator("#e7").text_content() or "")
    context.close()
