"""The report of a training run: one HTML file that needs nothing else, and runs no script. Imports no torch."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import TrainingRunError
from ..recipe.recipe_checks import UNREAD
from ..run.metrics_summary import duration, groups_of, number, total, warnings_of
from .curves import sections
from .drawing import HEIGHT, WIDTH, exact
from .stored import Run, is_run, read_run

if TYPE_CHECKING:
    import jinja2

REPORT = "report.html"
_HERE = Path(__file__).parent
_Z = 1.959964
"""Of a normal distribution, 95 % lie within."""


@dataclass(frozen=True)
class Written:
    """The page's path, and what is on it."""

    out: str
    steps: int
    charts: int
    size: int


@dataclass(frozen=True)
class Measured:
    """An evaluation, before or after. ``low`` and ``high`` bound ``solved`` with 95 %."""

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
class Metric:
    """A metric over the run, as the table of all of them has it. Texts."""

    name: str
    first: str
    last: str
    mean: str
    least: str
    most: str


def write_report(folder: Path, out: Path | None = None) -> Written:
    """Write the page of the run in ``folder`` to ``out``, else to its report.html. Whoever reads it meanwhile sees the
    old one or the new one. Raises TrainingRunError.
    """
    page = folder / REPORT if out is None else out
    run = read_run(folder)
    data = render(run).encode(errors="replace")
    part = page.with_name(f"{page.name}.part")
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        part.replace(page)
    except OSError as error:
        raise TrainingRunError(f"cannot write {page}: {error.strerror}") from error
    return Written(str(page), run.step, sum(len(section.charts) for section in sections(run)), len(data))


def render(run: Run) -> str:
    """The page. The same run gives the same bytes."""
    from markupsafe import Markup

    style = (_HERE / "style.css").read_text(encoding="utf-8").strip()
    return _template().render(
        run=run,
        state=_state(run),
        totals=_totals(run),
        warnings=_warnings(run),
        measured=_measured(run),
        sections=sections(run),
        metrics=_metrics(run),
        recipe=toml(run.recipe),
        width=WIDTH,
        height=HEIGHT,
        style=Markup(style),
        style_hash=_hash(style),
    )


def _state(run: Run) -> tuple[str, str]:
    """A class and a sentence: how far the run is, and why it is not further."""
    steps, ended = run.recipe["train"]["steps"], run.ended
    if ended is None:
        return "under", f"Under way: {run.step} of {steps} steps when this page was written."
    if ended["stopped"]:
        return "stopped", f"The kill-switch ended it: {ended['stopped']}."
    if ended["interrupted"]:
        return "under", f"Interrupted at step {ended['steps']} of {steps}: the same command goes on there."
    return "done", f"Done: {ended['steps']} of {steps} steps."


def _totals(run: Run) -> list[tuple[str, str]]:
    train = run.recipe["train"]
    groups, flat, unsolved = groups_of(run.rows, train["prompts"])
    found = [("steps", f"{run.step:,}")]
    if groups:
        found += [("episodes", f"{groups * train['group']:,}")]
        found += [("flat groups", f"{flat:,} of {groups:,}"), ("unsolved groups", f"{unsolved:,} of {groups:,}")]
    if any("distillation/chosen" in row for row in run.rows):
        found.append(("sites", f"{total(run.rows, 'distillation/chosen'):,.0f}"))
    if seconds := total(run.rows, "seconds/step"):
        found.append(("training time", duration(seconds)))
    return found


def _warnings(run: Run) -> list[str]:
    """Those of the result hold what the metrics do not tell."""
    if run.ended is not None:
        return list(run.ended["warnings"])
    return warnings_of(run.rows, run.recipe)


def _measured(run: Run) -> list[Measured]:
    after = run.ended["after"] if run.ended else None
    found = []
    for when, each in (("before", run.before), ("after", after)):
        if each:
            solved = round(each["solved"] * each["valid"])
            low, high = wilson(solved, each["valid"])
            rates = each["reward"], each["error_turn_rate"]
            found.append(Measured(when, solved, each["valid"], each["episodes"], each["solved"], low, high, *rates))
    return found


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's score interval of a share, 95 %; from 0 to 1 without trials."""
    if not trials:
        return 0.0, 1.0
    share, z2 = successes / trials, _Z**2
    middle = (share + z2 / (2 * trials)) / (1 + z2 / trials)
    half = _Z / (1 + z2 / trials) * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def _metrics(run: Run) -> list[Metric]:
    found = []
    for name in sorted({name for row in run.rows for name in row} - {"step", "epoch"}):
        values = [value for row in run.rows if (value := number(row.get(name))) is not None]
        if values:
            shown = (values[0], values[-1], sum(values) / len(values), min(values), max(values))
            found.append(Metric(name, *map(exact, shown)))
    return found


def toml(recipe: Mapping[str, Any]) -> str:
    """A resolved recipe, as a recipe may be written; what is not set, or not read, is left out."""
    unread = UNREAD.get(recipe["stage"], ())
    recipe = {name: value for name, value in recipe.items() if name not in unread}
    plain = {name: value for name, value in recipe.items() if not isinstance(value, dict)}
    lines = [f"{name} = {_value(value)}" for name, value in plain.items() if value is not None]
    for name, table in recipe.items():
        if isinstance(table, dict):
            lines += ["", f"[{name}]"]
            read = {key: value for key, value in table.items() if f"{name}.{key}" not in unread}
            lines += [f"{key} = {_value(value)}" for key, value in read.items() if value is not None]
    return "\n".join(lines)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items() if each is not None)
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else json.dumps(name)


# --- The page ---------------------------------------------------------------------------------------------------


@cache
def _template() -> jinja2.Template:
    import jinja2  # here: a recipe can be checked where the extra is not installed

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(exact=exact, percent=lambda share: f"{100 * share:.1f}")
    return environment.get_template("page.html")


def _hash(text: str) -> str:
    """As a Content-Security-Policy names the one style that counts: no script does."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


__all__ = ["REPORT", "Run", "RunError", "Written", "is_run", "read_run", "render", "write_report"]
