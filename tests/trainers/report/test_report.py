"""Report of a training run: which charts it has, where points lie, what the page shows, what is refused."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import tomllib
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from etude.cli import app as cli
from etude.errors import TrainingRunError
from etude.trainers.recipe.load import parse
from etude.trainers.report import drawing
from etude.trainers.report.curves import Section, sections
from etude.trainers.report.drawing import Series, picture, round_numbers, short, smoothed, thinned
from etude.trainers.report.page import recipe_toml, render, solved_interval, write_report
from etude.trainers.report.run_files import Run, read_run

TABLE: dict[str, Any] = {
    "model": {"make": "drill"},
    "environment": {"serve": "drill", "knobs": {"families": ["choose"], "a b": {"c": True}}, "system": 'say "x"\n<b>'},
    "train": {"steps": 4, "prompts": 2, "group": 4, "micro": 4},
}
EVALUATION = {"episodes": 9, "valid": 8, "solved": 0.25, "error_turn_rate": 0.5, "reward": 0.3}
RESULT = {"steps": 4, "stopped": "", "interrupted": False, "after": {**EVALUATION, "solved": 0.75}, "warnings": ["so"]}


def resolved(**changed: Any) -> dict[str, Any]:
    return parse({**TABLE, **changed}).model_dump(mode="json")


def rows(steps: int = 4) -> list[dict[str, Any]]:
    return [
        {
            "step": step,
            "loss": 1 / step,
            "reward": 0.1 * step,
            "episodes/solved": 0.25,
            "groups/flat": 0.5,
            "groups/unsolved": step % 2,
            "distillation/chosen": 10.0,
            "distillation/tokens": 20.0,
            "distillation/sites": 5.0,
            "distillation/sites_helped": 4.0,
            "distillation/divergence": 4.0 * step,
            "distillation/teacher_tokens": 1000.0 * step,
            "distillation/left_out/too_long": step,
            "replay/accuracy": 1 - 0.1 * (step % 3),
            "episodes/hack_rate": 0.01 * (step % 3),
            "teacher_drift": 0.01 * step,
            "seconds/step": 5.0,
            "seconds/playing": 2.0 + 0.1 * step,
        }
        for step in range(1, steps + 1)
    ]


def run(steps: int = 4, **changed: Any) -> Run:
    return Run("runs/x", resolved(**changed), rows(steps))


def section(run: Run, name: str) -> Section:
    (matching,) = [one for one in sections(run) if one.name == name]
    return matching


def titles(shown: Section) -> set[str]:
    return {chart.title for chart in shown.charts} | {title for title, _ in shown.constant}


def words(page: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", page.partition("<body>")[2])).split())


class PageNames(HTMLParser):
    """Names of a page's tags and attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


# --- charts ------------------------------------------------------------------------------------------------------


def test_channel_of_weight_0_has_no_section() -> None:
    every = {"rlvr": 1.0, "distillation": {"start": 0.0, "end": 1.0}, "replay": 0.5}
    names = {"rlvr", "distillation", "replay"}
    shown = run(channels=every, replay={"pairs": "p.jsonl"})
    assert names <= {one.name for one in sections(shown)}
    assert {one.name for one in sections(run(channels={"distillation": 1.0, "rlvr": 0.0}))} & names == {"distillation"}


def test_section_of_a_channel_has_its_charts() -> None:
    made = run(channels={"distillation": 1.0})
    expected = {"divergence per token", "sites", "sites that the hint helped", "error turns left out"}
    assert expected <= titles(section(made, "distillation"))
    assert {"groups"} <= titles(section(made, "rlvr"))
    assert titles(section(made, "safety")) == {"hack rate", "drift of the teacher"}
    assert titles(section(made, "cost")) == {"seconds per step", "forward tokens of distillation"}


def test_chart_values_are_computed_from_sums() -> None:
    made = run(channels={"distillation": 1.0})
    strips = {
        chart.title: chart.picture.strips for name in ("distillation", "cost") for chart in section(made, name).charts
    }
    assert strips["divergence per token"][1].lines == ["step 2", "nats 0.4"]
    assert strips["error turns left out"][2].lines == ["step 3", "too long 3"]
    assert strips["seconds per step"][0].lines == ["step 1", "playing 2.1", "learning 2.9"]
    assert strips["forward tokens of distillation"][0].lines == ["step 1", "teacher 1000"]
    assert ("sites that the hint helped", "0.8") in section(made, "distillation").constant


def test_constant_metric_is_shown_as_text() -> None:
    assert section(run(), "episodes").constant == [("solved episodes", "0.25")]
    assert "Unchanged: solved episodes 0.25" in words(render(run()))


def test_constant_metric_shows_how_often_it_was_measured() -> None:
    made = run()
    for row in made.rows:
        row["loss"] = 1.0
        del row["teacher_drift"]
    made.rows[2]["loss"], made.rows[3]["teacher_drift"] = math.nan, 0.02
    assert section(made, "optimizer").constant == [("total loss", "1, at 3 of 4 steps, not finite at 1 step")]
    assert section(made, "safety").constant == [("drift of the teacher", "0.02, at 1 of 4 steps, limit 0.1")]


def test_loss_that_was_never_finite_is_shown() -> None:
    made = run(1)
    made.rows[0]["loss"] = math.inf
    assert section(made, "optimizer").constant == [("total loss", "not finite at 1 step")]


def test_seconds_of_a_step_without_playing_are_learning() -> None:
    """Every second step learns from the same batch of episodes."""
    made = run()
    for row in made.rows[1::2]:
        del row["seconds/playing"]
    strips = {chart.title: chart.picture.strips for chart in section(made, "cost").charts}
    assert [strip.lines for strip in strips["seconds per step"]][:2] == [
        ["step 1", "playing 2.1", "learning 2.9"],
        ["step 2", "learning 5"],
    ]


def test_rare_reasons_share_a_curve() -> None:
    made = run(channels={"distillation": 1.0})
    for row in made.rows:
        row.update({f"distillation/left_out/reason_{n}": row["step"] * n for n in range(1, 7)})
    (chart,) = [one for one in section(made, "distillation").charts if one.title == "error turns left out"]
    names = [curve.name for curve in chart.picture.curves]
    assert names == ["reason 6", "reason 5", "reason 4", "reason 3", "other reasons"]
    assert chart.picture.strips[0].lines[-1] == "other reasons 4"  # reasons 2 and 1, too long


def test_limit_is_drawn_when_it_lies_within_the_axis() -> None:
    charts = {chart.title: chart for chart in section(run(), "safety").charts}
    assert charts["hack rate"].limit == "limit 0.2"
    assert charts["hack rate"].picture.limit == pytest.approx(drawing.TOP + 0.8 * (drawing.HEIGHT - 28))
    assert (charts["drift of the teacher"].limit, charts["drift of the teacher"].picture.limit) == ("limit 0.1", None)


def test_dollars_are_shown_when_an_hour_has_a_price() -> None:
    for price, shown in ((0.0, False), (2.0, True)):
        made = run(safety={"dollars_per_hour": price})
        for row in made.rows:
            row["cost/usd"] = row["step"] * price
        assert ("dollars" in titles(section(made, "safety"))) == shown


def test_steps_with_a_loss_that_is_not_finite_are_counted() -> None:
    made = run()
    made.rows[2]["loss"] = math.nan
    (chart,) = section(made, "optimizer").charts
    assert (chart.missing, len(chart.picture.strips)) == (1, 3)
    assert "not finite at 1 step" in words(render(made))


def test_stage_sft_has_no_channels() -> None:
    table = {**TABLE, "stage": "sft", "episodes": "runs/x", "environment": {}, "train": {"steps": 4}}
    recipe = parse(table).model_dump(mode="json")
    made = Run("runs/x", recipe, [{"step": n, "loss": 1 / n, "mean_token_accuracy": 0.1 * n} for n in range(1, 5)])
    assert [one.name for one in sections(made)] == ["optimizer"]
    assert titles(section(made, "optimizer")) == {"total loss", "accuracy of tokens"}
    assert "episodes" not in re.findall(r"<dt>(.*?)</dt>", render(made))


# --- geometry ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("low", "high"), [(100.1, 100.10000000000001), (0.0, 5e-324), (-5e-324, 5e-324)])
def test_picture_draws_values_that_hardly_differ(low: float, high: float) -> None:
    assert picture([Series("x", [(1, low), (2, high)])]).curves


def test_points_lie_at_their_values() -> None:
    drawn = picture([Series("x", [(1, 0.0), (2, 1.0), (3, 0.5)])], share=True)
    right, floor = drawing.WIDTH - drawing.RIGHT, drawing.HEIGHT - drawing.BOTTOM
    middle = ((drawing.LEFT + right) / 2, (drawing.TOP + floor) / 2)
    assert (
        drawn.curves[0].line == f"M{drawing.LEFT}.0 {floor}.0L{middle[0]:.1f} {drawing.TOP}.0L{right}.0 {middle[1]:.1f}"
    )
    assert [text for _, text in drawn.columns] == ["1", "2", "3"]
    assert [text for _, text in drawn.rows] == ["0", "0.25", "0.5", "0.75", "1"]


def test_smoothed_values_are_means_of_neighbours() -> None:
    points = [(float(n), float(n * n)) for n in range(5)]
    assert smoothed(points, 0) == points
    assert [value for _, value in smoothed(points, 1)] == pytest.approx([0.5, 5 / 3, 14 / 3, 29 / 3, 12.5])


def test_smoothing_of_a_curve_does_not_depend_on_other_curves() -> None:
    sparse = Series("sparse", [(10.0 * n, float(n)) for n in range(1, 25)])
    dense = Series("dense", [(float(n), 24.0 * (n % 2)) for n in range(1, 241)])
    alone, beside = picture([Series("x", [(1.0, 1.0)]), sparse]), picture([dense, sparse])
    first = [drawn.curves[1].line.removeprefix("M").partition("L")[0].split() for drawn in (alone, beside)]
    assert first[0] == first[1]


def test_long_run_is_thinned_to_means() -> None:
    points = [(float(n), float(n)) for n in range(1, 1001)]
    means = thinned(points)
    assert len(means) == drawing.MAX_POINTS and means[0] == (3.0, 3.0)
    strips = picture([Series("x", points)]).strips
    assert len(strips) == drawing.MAX_POINTS and strips[0].lines == ["step 1 to 5, mean", "x 3"]
    assert sum(strip.width for strip in strips) == pytest.approx(drawing.WIDTH - drawing.LEFT - drawing.RIGHT)


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (1, 6), (-0.3, 0.2), (5.8, 6.14), (1e-6, 3e-6), (0, 52_000), (-9, -8)]
)
def test_ticks_are_distinct_and_the_axis_contains_the_values(low: float, high: float) -> None:
    drawn = picture([Series("x", [(1, low), (2, high)])])
    assert 2 <= len(drawn.rows) <= 8
    assert all(drawing.TOP - 0.01 <= y <= drawing.HEIGHT - drawing.BOTTOM + 0.01 for y, _ in drawn.rows)
    heights = [float(y) for y in re.findall(r" ([\d.]+)", drawn.curves[0].line)]
    assert all(drawing.TOP <= y <= drawing.HEIGHT - drawing.BOTTOM for y in heights)
    assert len({text for _, text in drawn.rows}) == len(drawn.rows)


def test_ticks_are_round_and_short() -> None:
    assert round_numbers(0, 1, 4) == [0, 0.5, 1.0]
    assert [short(value) for value in (0.0, 0.25, 5000, 20_000, 1.5e6, 2e9)] == ["0", "0.25", "5k", "20k", "1.5M", "2G"]


# --- page --------------------------------------------------------------------------------------------------------


def test_every_chart_is_well_formed_and_shows_exact_values() -> None:
    made = run(channels={"distillation": 1.0})
    page = render(made)
    pictures = [ElementTree.fromstring(text) for text in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]
    assert len(pictures) == sum(len(one.charts) for one in sections(made)) > 6
    texts = [["".join(text.itertext()) for text in group.iter("text")] for group in pictures[0].iter("g")]
    assert ["step 3", "reward 0.3"] in texts


def test_page_shows_evaluations_with_intervals() -> None:
    page = render(Run("runs/x", resolved(), rows(), RESULT, EVALUATION))
    assert "before 25.0 % 7.1 to 59.1 % 8 (1 not valid) 0.3 50.0 %" in words(page)
    assert "after 75.0 % 40.9 to 92.9 % 8" in words(page)
    assert "Done: 4 of 4 steps." in words(page) and "Warnings so" in words(page)


@pytest.mark.parametrize(
    ("solved", "trials", "low", "high"),
    [(0, 8, 0.0, 0.3244), (5, 10, 0.2366, 0.7634), (8, 8, 0.6756, 1.0), (0, 0, 0.0, 1.0), (81, 263, 0.2553, 0.3662)],
)
def test_solved_interval_is_wilsons(solved: int, trials: int, low: float, high: float) -> None:
    assert solved_interval(solved, trials) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"stopped": "stopped at step 4: loss is nan"}, "Ended by the kill switch: stopped at step 4: loss is nan."),
        ({"interrupted": True}, "Interrupted at step 4 of 4. Run the same command again to resume."),
        ({"interrupted": True, "steps": 2}, "Running: 4 of 4 steps when this page was written."),
    ],
)
def test_page_states_why_the_run_is_not_further(changed: dict[str, Any], sentence: str) -> None:
    assert sentence in words(render(Run("runs/x", resolved(), rows(), {**RESULT, **changed}, None)))


def test_page_of_a_running_run_has_group_counts_and_warnings() -> None:
    made = run(3)
    text = words(render(made))
    assert "flat groups 3 of 6 unsolved groups 4 of 6" in text
    assert "pass@4 was 0 on 4 of 6 groups; use easier tasks, or a larger group" in text


@pytest.mark.parametrize("stage", [{}, {"stage": "sft", "episodes": ["runs/x"], "train": {"steps": 4}}])
def test_recipe_toml_is_the_same_recipe(stage: dict[str, Any]) -> None:
    recipe = resolved(**stage)
    shown = tomllib.loads(recipe_toml(recipe))
    assert parse(shown).model_dump(mode="json") == recipe


def test_page_has_the_recipe() -> None:
    recipe = resolved()
    (pre,) = re.findall(r"<pre>(.*?)</pre>", render(run()), re.DOTALL)
    assert unescape(pre) == recipe_toml(recipe)


def test_page_has_no_scripts_and_no_requests() -> None:
    made = Run("<script>alert(1)</script>", resolved(), [{**row, "<img src=x>": 1.0} for row in rows()])
    page = render(made)
    names = PageNames(page)
    assert {"script", "img", "link", "iframe", "object", "form"} & names.tags == set()
    assert not [name for name in names.attributes if name in ("src", "href", "style") or name.startswith("on")]
    assert "default-src 'none'; style-src 'sha256-" in page and "script-src" not in page
    assert "&lt;script&gt;" in page


def test_page_is_the_same_for_the_same_run() -> None:
    assert render(run()) == render(run())


# --- files of the run --------------------------------------------------------------------------------------------


def write_run(folder: Path, **files: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "recipe.json").write_text(json.dumps(resolved()))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows()) + '{"step": 5, "lo')
    for name, value in files.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    return folder


def test_write_report_replaces_the_page_atomically(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", result=RESULT, before=EVALUATION)
    stored_run = read_run(folder)
    assert (stored_run.step, stored_run.ended, stored_run.before) == (4, RESULT, EVALUATION)
    (folder / "report.html").write_text("old")
    written = write_report(folder)
    assert (folder / "report.html").read_text() == render(stored_run)
    assert (written.out, written.steps, written.size) == (
        str(folder / "report.html"),
        4,
        len(render(stored_run).encode()),
    )
    assert not list(folder.glob("*.part"))


def test_write_report_refuses_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(TrainingRunError, match=".* holds no training run; `etude train` makes one"):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()


def without(*keys: str, **changed: Any) -> str:
    """Return a resolved recipe as JSON, without a key or with other values."""
    table: dict[str, Any] = resolved()
    inner: dict[str, Any] = table
    for key in keys[:-1]:
        inner = inner[key]
    for key in keys[-1:]:
        del inner[key]
    return json.dumps({**table, **changed})


LINE = '{"step": 1, "loss": 1.0}\n'


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("metrics.jsonl", LINE + '{"step": 2, "lo\n' + LINE, "metrics.jsonl:2 is not JSON; remove the line"),
        ("metrics.jsonl", LINE + '{"step": 2, "lo\n', "metrics.jsonl:2 is not JSON; remove the line"),
        ("metrics.jsonl", LINE + "\n" + LINE, "metrics.jsonl:2 is not JSON; remove the line"),
        ("metrics.jsonl", "\xff\n" + LINE, "metrics.jsonl:1 is not JSON; remove the line"),
        ("metrics.jsonl", LINE + "[1]\n" + LINE, "metrics.jsonl:2 is not a table of numbers; remove the line"),
        ("metrics.jsonl", LINE + "3", "metrics.jsonl:2 is not a table of numbers; remove the line"),
        ("metrics.jsonl", '{"step": 1, "loss": "x"}\n', "metrics.jsonl:1 is not a table of numbers; remove the line"),
        ("metrics.jsonl", '{"step": 1, "loss": 1e308}\n', "metrics.jsonl:1 is not a table of numbers; remove the line"),
        ("metrics.jsonl", '{"step": -1, "loss": 1}\n', "metrics.jsonl:1 has no valid step; remove the line"),
        ("metrics.jsonl", LINE + '{"loss": 1.0}\n', "metrics.jsonl:2 has no valid step; remove the line"),
        ("metrics.jsonl", "", "metrics.jsonl has no line, but the run made 4 steps; restore what `etude train`"),
        ("metrics.jsonl", None, "metrics.jsonl has no line, but the run made 4 steps; restore what `etude train`"),
        ("recipe.json", None, "has metrics.jsonl, but no recipe.json; restore what `etude train` wrote there"),
        ("recipe.json", "", "recipe.json is damaged (Expecting value"),
        ("recipe.json", without()[:40], "recipe.json is damaged (Unterminated string"),
        ("recipe.json", "[]", "recipe.json is damaged (not a table); restore what `etude train` wrote there"),
        ("recipe.json", "null", "recipe.json is damaged (not a table)"),
        ("recipe.json", without("train"), "recipe.json is damaged (train: Field required)"),
        ("recipe.json", without("channels", "rlvr", "end"), "damaged (channels.rlvr.end: Field required)"),
        ("recipe.json", without(safety=3), "recipe.json is damaged (safety: Input should be a valid dictionary)"),
        ("result.json", "{", "result.json is damaged (Expecting property name"),
        ("result.json", "[]", "result.json is damaged (not a table); remove the file"),
        (
            "result.json",
            '{"steps": "4"}',
            "result.json is damaged (steps: Input should be a valid integer); remove the file",
        ),
        (
            "result.json",
            json.dumps({**RESULT, "after": 3}),
            "result.json is damaged (after: not a table); remove the file",
        ),
        ("before.json", "[]", "before.json is damaged (not a table); remove the file"),
        ("before.json", json.dumps({**EVALUATION, "solved": 7}), "before.json is damaged (solved: Input should be"),
    ],
)
def test_damaged_file_is_reported_in_one_line(
    name: str, text: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_run(tmp_path / "run", result=RESULT, before=EVALUATION)
    (folder / name).unlink()
    if text is not None:
        (folder / name).write_text(text, encoding="latin-1")
    assert cli.main(["report", str(folder), "--out", str(tmp_path / "page.html")]) == 1
    (shown,) = capsys.readouterr().err.splitlines()
    assert shown.startswith("error: ") and message in shown
    assert not (tmp_path / "page.html").exists()


def test_page_exists_before_the_first_step(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    (folder / "metrics.jsonl").write_text("")
    (folder / "before.json").write_text("null")
    assert write_report(folder).steps == 0
    assert "Running: 0 of 4 steps" in words((folder / "report.html").read_text())


def test_page_leaves_out_values_that_are_not_finite(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    infinite = {"step": 5, "loss": math.inf, "groups/flat": -math.inf, "distillation/left_out/too_long": math.nan}
    (folder / "recipe.json").write_text(json.dumps(resolved(channels={"distillation": 1.0})))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*rows(), infinite]))
    assert write_report(folder).steps == 5


def test_command_writes_the_page_without_torch(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    code = (
        "import sys\nfrom etude.cli.app import main\n"
        f"code = main(['report', {str(folder)!r}, '--out', {str(tmp_path / 'page.html')!r}, '--json'])\n"
        "print(code, [name for name in ('torch', 'transformers', 'trl') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    shown, _, last = done.stdout.strip().rpartition("\n")
    assert last == "0 []"
    assert json.loads(shown)["steps"] == 4
    assert (tmp_path / "page.html").read_text() == render(read_run(folder))


def test_command_writes_the_page_into_the_folder_of_the_run(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", result=RESULT, before=EVALUATION)
    assert cli.main(["report", str(folder)]) == 0
    assert (folder / "report.html").read_text() == render(read_run(folder))


def test_command_reports_episodes_when_the_folder_has_no_training_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["report", str(tmp_path), "--out", str(tmp_path / "page.html")]) == 1
    assert "episodes" in capsys.readouterr().err
