"""Page of a training run's report: one HTML file that needs nothing else and runs no script."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import TrainingRunError
from ...html_pages import inline, page_template
from ...intervals import wilson
from ..recipe.recipe_checks import UNREAD
from .curves import sections
from .drawing import HEIGHT, WIDTH, exact
from .metrics_summary import duration, group_counts, numbers, run_warnings, total
from .run_files import Run, read_run, write_atomically

if TYPE_CHECKING:
    import jinja2

REPORT = "report.html"
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class WrittenReport:
    """Summary of a page that was written: its path, the run's steps, its charts and its size in bytes."""

    out: str
    steps: int
    charts: int
    size: int


@dataclass(frozen=True)
class EvaluationRow:
    """Row of the table of results. ``low`` and ``high`` bound the share of solved episodes with 95 %."""

    when: str
    solved: int
    valid: int
    episodes: int
    share: float
    low: float
    high: float
    reward: float
    error_turn_rate: float


@dataclass(frozen=True)
class MetricRow:
    """Row of the table of all metrics, as texts."""

    name: str
    first: str
    last: str
    mean: str
    least: str
    most: str


def write_report(folder: Path, out: Path | None = None) -> WrittenReport:
    """Write the page of the run in ``folder`` to ``out``, by default to its report.html, atomically.

    Raise TrainingRunError.
    """
    page = folder / REPORT if out is None else out
    run = read_run(folder)
    text = render(run)
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(page, text)
    except OSError as error:
        raise TrainingRunError(f"cannot write {page}: {error.strerror}; choose another --out") from error
    charts = sum(len(section.charts) for section in sections(run))
    return WrittenReport(str(page), run.step, charts, page.stat().st_size)


def render(run: Run) -> str:
    """Return the page as HTML. The same run gives the same text."""
    template = _template()
    style, style_hash = inline(_HERE / "style.css")
    return template.render(
        run=run,
        state=run_state(run),
        totals=run_totals(run),
        warnings=warnings_of(run),
        evaluations=list(_evaluation_rows(run)),
        sections=sections(run),
        metrics=list(_metric_rows(run)),
        recipe=recipe_toml(run.recipe),
        width=WIDTH,
        height=HEIGHT,
        style=style,
        style_hash=style_hash,
    )


def warnings_of(run: Run) -> list[str]:
    """Return what a user should know about a run."""
    return list(run.ended["warnings"]) if run.ended else run_warnings(run.rows, run.recipe)


def run_state(run: Run) -> tuple[str, str]:
    """Return a CSS class and a sentence: how far the run is, and why it is not further."""
    steps, ended = run.recipe["train"]["steps"], run.ended
    if ended is None:
        return "running", f"Running: {run.step} of {steps} steps when this page was written."
    if ended["stopped"]:
        return "stopped", f"Ended by the kill switch: {ended['stopped']}."
    if ended["interrupted"]:
        return "running", f"Interrupted at step {ended['steps']} of {steps}. Run the same command again to resume."
    return "done", f"Done: {ended['steps']} of {steps} steps."


def run_totals(run: Run) -> list[tuple[str, str]]:
    """Return the numbers at the top of the page, as (name, text)."""
    train = run.recipe["train"]
    groups, flat, unsolved = group_counts(run.rows, train["prompts"])
    totals = [("steps", f"{run.step:,}")]
    if groups:
        totals += [("episodes", f"{groups * train['group']:,}")]
        totals += [("flat groups", f"{flat:,} of {groups:,}"), ("unsolved groups", f"{unsolved:,} of {groups:,}")]
    if any("distillation/chosen" in row for row in run.rows):
        totals.append(("sites", f"{total(run.rows, 'distillation/chosen'):,.0f}"))
    if seconds := total(run.rows, "seconds/step"):
        totals.append(("training time", duration(seconds)))
    return totals


def _evaluation_rows(run: Run) -> Iterator[EvaluationRow]:
    after = run.ended["after"] if run.ended else None
    for when, evaluation in (("before", run.before), ("after", after)):
        if evaluation:
            share, valid = evaluation["solved"], evaluation["valid"]
            solved = round(share * valid)
            low, high = solved_interval(solved, valid)
            rates = evaluation["reward"], evaluation["error_turn_rate"]
            yield EvaluationRow(when, solved, valid, evaluation["episodes"], share, low, high, *rates)


def solved_interval(solved: int, episodes: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of the share of solved episodes; (0, 1) without episodes."""
    return wilson(solved / episodes, episodes) if episodes else (0.0, 1.0)


def _metric_rows(run: Run) -> Iterator[MetricRow]:
    for name in sorted({name for row in run.rows for name in row} - {"step", "epoch"}):
        if values := numbers(run.rows, name):
            shown = (values[0], values[-1], sum(values) / len(values), min(values), max(values))
            yield MetricRow(name, *map(exact, shown))


def recipe_toml(recipe: Mapping[str, Any]) -> str:
    """Return a resolved recipe as TOML that can be used as a recipe, without keys that are unset or not read."""
    unread = UNREAD.get(recipe["stage"], ())
    recipe = {name: value for name, value in recipe.items() if name not in unread}
    scalars = {name: value for name, value in recipe.items() if not isinstance(value, dict)}
    lines = [f"{name} = {_toml_value(value)}" for name, value in scalars.items() if value is not None]
    for name, table in recipe.items():
        if isinstance(table, dict):
            lines += ["", f"[{name}]"]
            read = {key: value for key, value in table.items() if f"{name}.{key}" not in unread}
            lines += [f"{key} = {_toml_value(value)}" for key, value in read.items() if value is not None]
    return "\n".join(lines)


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{_toml_key(k)} = {_toml_value(v)}" for k, v in value.items() if v is not None)
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else json.dumps(name)


@cache
def _template() -> jinja2.Template:
    return page_template(_HERE, exact=exact, percent=lambda share: f"{100 * share:.1f}")
