"""The local page server of ``etude view``: live rows, forks, and whom it answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from helpers.browser import opened
from helpers.light_server import serving
from helpers.viewer_runs import TASKS, marked_row, written

from etude.environments.hint_trials.forks import ForkSettings
from etude.environments.runs.writer import FILE_NAME
from etude.errors import LLMError, RunError, UnknownName
from etude.server.viewer.site import HEADER, SiteSettings, create_site

if TYPE_CHECKING:
    from playwright.sync_api import Browser

OWN = {HEADER: "1"}


def index(url: str, after: str = "") -> dict[str, Any]:
    answer = httpx.get(f"{url}/data/index", params={"after": after}, headers=OWN)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_index_holds_what_is_new_since_its_cursor(tmp_path: Path) -> None:
    run = written(tmp_path, marked_row())
    with serving(create_site(SiteSettings([run]))) as site:
        first = index(site.url)
        assert [row["id"] for row in first["rows"]] == ["0.0"]
        assert index(site.url, first["cursor"]) == {"cursor": first["cursor"], "rows": []}
        line = json.dumps(marked_row(episode_id="second"))
        with (run / FILE_NAME).open("a") as file:
            file.write(line[:100])
            file.flush()
            assert index(site.url, first["cursor"])["rows"] == []
            file.write(line[100:] + "\n")
        assert [row["id"] for row in index(site.url, first["cursor"])["rows"]] == ["0.1"]


def test_episode_shows_hidden_tests_on_this_machine_alone_when_they_may_be_revealed(marked: Path) -> None:
    for reveal in (True, False):
        with serving(create_site(SiteSettings([marked], reveal=reveal))) as site:
            text = httpx.get(f"{site.url}/data/episodes/0.0", headers=OWN).text
        assert ("tests/test_secret.py::test_x" in text) is reveal


@pytest.mark.parametrize("name", ["0.1", "1.0", "0.-1", "x", "0", "..%2F..", "0.0.0"])
def test_episode_that_is_not_there_is_not_found(marked: Path, name: str) -> None:
    with serving(create_site(SiteSettings([marked]))) as site:
        assert httpx.get(f"{site.url}/data/episodes/{name}", headers=OWN).status_code == 404


def test_requests_of_other_sites_are_refused(marked: Path) -> None:
    with serving(create_site(SiteSettings([marked]))) as site:
        for path in ("/data/index", "/data/episodes/0.0"):
            assert httpx.get(site.url + path).status_code == 403
            assert httpx.get(site.url + path, headers={**OWN, "Host": "attacker.example"}).status_code == 400
        wish = {"episode": "0.0", "turn": 0, "hints": [""]}
        assert httpx.post(f"{site.url}/data/forks", json=wish).status_code == 403
        assert "access-control-allow-origin" not in httpx.get(f"{site.url}/data/index", headers=OWN).headers


def test_problem_of_a_run_is_shown_and_the_others_stay(marked: Path, tmp_path: Path) -> None:
    run = written(tmp_path / "run", marked_row())
    with serving(create_site(SiteSettings([marked, run]))) as site:
        first = index(site.url)
        (run / FILE_NAME).write_text("")
        after = index(site.url, first["cursor"])
        assert "became shorter" in after["problem"] and after["rows"] == []


def test_damaged_line_is_named_and_hides_no_episode(marked: Path, tmp_path: Path) -> None:
    run = written(tmp_path / "run", marked_row())
    good = json.dumps(marked_row(episode_id="later"))
    with (run / FILE_NAME).open("a") as file:
        file.write(f"\n{good[:500]}{good}\n[]\n{good}\n")
    with serving(create_site(SiteSettings([run, marked]))) as site:
        first = index(site.url)
        assert [row["id"] for row in first["rows"]] == ["0.0", "0.1", "1.0"]
        reason = "line 3 and 1 more are not episodes and are not shown; remove them, or play the run again"
        assert first["problem"] == f"{run / FILE_NAME}: {reason}"
        assert index(site.url, first["cursor"])["rows"] == []
        assert httpx.get(f"{site.url}/data/episodes/0.1", headers=OWN).json()["prompt"] == marked_row()["prompt"]


def test_site_does_not_start_without_any_episode_in_a_damaged_run(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("hello\n")
    with pytest.raises(RunError, match="line 1 is not an episode"):
        create_site(SiteSettings([tmp_path]))


@pytest.mark.parametrize(
    ("agent", "error"), [("oracle", RunError), ("nosiy", UnknownName), ("openai:", LLMError), ("stumbler", RunError)]
)
def test_site_does_not_start_with_an_agent_that_cannot_continue(
    marked: Path, tmp_path: Path, agent: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        create_site(SiteSettings([marked], forks=ForkSettings(agent, tmp_path / "forks")))


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        ({"episode": "0.0", "turn": 99, "hints": [""]}, "the episode has the turns"),
        ({"episode": "0.99", "turn": 0, "hints": [""]}, "cannot continue"),
        ({"episode": "0.0", "turn": 0, "hints": ["x" * 9000]}, "the hint has 9000 characters"),
    ],
)
def test_fork_that_cannot_be_made_is_refused_with_its_reason(
    drills: Path, tmp_path: Path, wish: dict[str, Any], reason: str
) -> None:
    forks = ForkSettings("noisy", tmp_path / "forks", TASKS)
    with serving(create_site(SiteSettings([drills], forks=forks))) as site:
        answer = httpx.post(f"{site.url}/data/forks", json=wish, headers=OWN)
    assert answer.status_code == 409 and reason in answer.json()["detail"]


def test_new_episode_appears_in_the_open_page(browser: Browser, tmp_path: Path) -> None:
    run = written(tmp_path, marked_row())
    with serving(create_site(SiteSettings([run]))) as site, opened(browser) as page:
        page.goto(site.url)
        page.wait_for_selector(".window .row")
        with (run / FILE_NAME).open("a") as file:
            file.write(json.dumps(marked_row(task_id="task-new")) + "\n")
        page.wait_for_selector(".window .row >> text=task-new")
        assert page.locator(".live").inner_text() == "live"


def test_page_of_an_empty_run_says_how_to_fill_it(browser: Browser, tmp_path: Path) -> None:
    with serving(create_site(SiteSettings([tmp_path]))) as site, opened(browser) as page:
        page.goto(site.url)
        assert f"etude run --out '{tmp_path}'" in page.locator(".empty").inner_text()
        written(tmp_path, marked_row())
        page.wait_for_selector(".window .row >> text=task-marked")


def test_page_with_a_damaged_line_stays_live_and_names_it(browser: Browser, tmp_path: Path) -> None:
    run = written(tmp_path, marked_row())
    with serving(create_site(SiteSettings([run]))) as site, opened(browser) as page:
        page.goto(site.url)
        page.wait_for_selector(".window .row")
        with (run / FILE_NAME).open("a") as file:
            file.write("{\n" + json.dumps(marked_row(task_id="task-new")) + "\n")
        page.wait_for_selector(".window .row >> text=task-new")
        assert "line 2 is not an episode" in page.locator(".banner").inner_text()
        assert page.locator(".live").inner_text() == "live"


def test_page_says_that_its_server_is_gone_and_keeps_its_episodes(browser: Browser, marked: Path) -> None:
    context = browser.new_context()
    page = context.new_page()
    with serving(create_site(SiteSettings([marked]))) as site:
        page.goto(site.url)
        page.wait_for_selector(".window .row")
    page.wait_for_selector(".live.bad")
    assert page.locator(".live").inner_text() == "not connected"
    assert page.locator(".window .row").count() == 1
    context.close()


def test_message_of_a_megabyte_is_cut_and_its_size_is_named(browser: Browser, tmp_path: Path) -> None:
    row = marked_row()
    row["turns"][0]["messages"][0]["content"] = "ok\n" + "0123456789\n" * 100_000
    run = written(tmp_path, row)
    with serving(create_site(SiteSettings([run]))) as site, opened(browser) as page:
        page.goto(f"{site.url}/#/e/0.0/t/0")
        page.wait_for_selector("#turn-0 .cut")
        assert "characters left out" in page.locator("#turn-0 .cut").first.inner_text()
        page.wait_for_selector("#turn-3")


def test_both_continuations_of_a_fork_are_compared(browser: Browser, drills: Path, tmp_path: Path) -> None:
    run = shutil.copytree(drills, tmp_path / "run")
    forks = ForkSettings("noisy:0,1", run / "forks", TASKS)  # solves with the hint, never without
    with serving(create_site(SiteSettings([run], forks=forks))) as site, opened(browser) as page:
        page.goto(f"{site.url}/#/e/0.0/t/1")
        page.wait_for_selector("#turn-1.current")
        page.keyboard.press("f")
        page.click(".fork button >> text=both")
        page.click("text=compare both")
        page.wait_for_selector(".pairs .divides")
        rewards = page.locator(".pair.heads .score").all_inner_texts()
        hints = ["with the hint" in text for text in page.locator(".pair.heads .side").all_inner_texts()]
    rows = [json.loads(line) for line in (run / "forks" / FILE_NAME).read_text().splitlines()]
    assert (rewards, hints) == (["1", "0"], [True, False])
    assert [row["reward"]["value"] for row in rows] == [1.0, 0.0]
    assert [row["fork"]["turn"] for row in rows] == [1, 1]
