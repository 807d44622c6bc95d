"""A training run in the viewer: curves by channel, and from a point of a curve to the episodes of its step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from helpers.viewer_runs import marked_row, written

from etude.server.viewer import write_report

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page


def training() -> dict[str, Any]:
    points = [[step, step / 10] for step in range(1, 11)]
    chart = {
        "title": "reward",
        "share": True,
        "limit": 0.8,
        "missing": 0,
        "series": [{"name": "mean", "points": points}],
    }
    section = {"name": "episodes", "title": "Episodes", "about": "What happened.", "charts": [chart], "constant": []}
    return {
        "run": 0,
        "name": "runs/x",
        "state": ["done", "Done: 10 of 10 steps."],
        "totals": [["steps", "10"]],
        "warnings": ["a warning"],
        "steps": list(range(1, 11)),
        "sections": [section, {**section, "name": "rlvr", "title": "Channel 1: RLVR"}],
    }


def test_click_on_a_curve_leads_to_the_episodes_of_the_step(page: Page, tmp_path: Path) -> None:
    rows = [marked_row(task_id=f"task-{step}", settings={"step": step}) for step in range(1, 11)]
    run = written(tmp_path / "run", *rows)
    write_report([run], tmp_path / "report.html", training=[training()])
    page.goto((tmp_path / "report.html").as_uri())
    page.click("text=curves")
    assert page.locator(".chart svg >> text=limit 0.8").count() == 2
    assert page.locator(".chart svg >> text=step").count() == 2
    assert page.locator(".channel").all_inner_texts() == ["Episodes", "Channel 1: RLVR"]
    box = page.locator(".chart svg").first.bounding_box()
    assert box is not None
    left, right = 48 / 360, 1 - 8 / 360  # the axis within the picture
    page.mouse.click(box["x"] + box["width"] * (left + (right - left) * 6 / 9), box["y"] + box["height"] / 2)
    page.wait_for_selector("text=Episodes of step 7")
    assert page.locator(".step bdi").all_inner_texts() == ["task-7"]
    assert page.locator(".few th").all_inner_texts() == ["no.", "task", "reward", "turns", "turn by turn", "errors"]
    page.keyboard.press("j")
    page.wait_for_selector("text=Episodes of step 8")
    page.click(".step >> text=task-8")
    page.wait_for_selector("main.episode .turns")
    page.click("text=step 8")
    page.wait_for_selector("text=Episodes of step 8")
