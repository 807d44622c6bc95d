"""Which curves a run has, by channel, and from which metrics. A channel without a weight has none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..run.metrics_summary import LEFT_OUT, a_token, left_out, number, used_channels
from .drawing import Picture, Series, exact, picture
from .stored import Run

Row = Mapping[str, Any]
Read = Callable[[Row], float | None]
_REASONS = 4
"""Reasons with a curve of their own; the others share one."""


@dataclass(frozen=True)
class Plot:
    """A chart as it is defined: curves by name. ``share``: its axis goes from 0 to 1. ``limit``: a key of [safety]."""

    title: str
    curves: Mapping[str, Read]
    share: bool = False
    limit: str = ""


@dataclass(frozen=True)
class Chart:
    """A chart as it is shown. ``lost``: steps at which a value was no number. ``limit``: the recipe's, as text."""

    title: str
    picture: Picture
    lost: int
    limit: str = ""


@dataclass
class Section:
    """``steady``: what never changed, as (title, what it was)."""

    name: str
    title: str
    about: str
    charts: list[Chart] = field(default_factory=list)
    steady: list[tuple[str, str]] = field(default_factory=list)


def sections(run: Run) -> list[Section]:
    """The episodes, the channels that have a weight, the optimizer, safety, cost; what has no metrics is left out."""
    recipe, rows = run.recipe, run.rows
    used = used_channels(recipe)
    found = [
        _section(Section("episodes", "Episodes", "What the policy did while it learned."), _EPISODES, run),
        *(_section(Section(name, *_ABOUT[name]), _PLOTS[name](rows), run) for name in _ABOUT if name in used),
        _section(Section("optimizer", "Optimizer", "What is minimised, and how."), _OPTIMIZER, run),
        _section(Section("safety", "Safety", "What the kill-switch watches."), _safety(recipe), run),
        _section(Section("cost", "Cost", "Of each step, as the first process measured it."), _cost(), run),
    ]
    return [section for section in found if section.charts or section.steady]


def _section(section: Section, plots: Sequence[Plot], run: Run) -> Section:
    for plot in plots:
        read = [(name, [(row["step"], value(row)) for row in run.rows]) for name, value in plot.curves.items()]
        series = [Series(name, [(step, v) for step, v in points if v is not None]) for name, points in read]
        series = [each for each in series if each.points]
        limit, lost = float(run.recipe["safety"].get(plot.limit) or 0), _lost(run.rows, plot.title)
        said = f"limit {exact(limit)}" if limit else ""
        if all(len({value for _, value in each.points}) == 1 for each in series):
            section.steady += [(plot.title, text) for text in _steady(series, len(run.rows), lost, said)]
        else:
            drawn = picture(series, share=plot.share, limit=limit or None)
            section.charts.append(Chart(plot.title, drawn, lost, said))
    return section


def _steady(series: Sequence[Series], steps: int, lost: int, said: str) -> list[str]:
    """Curves that never changed, as one text; none without any. ``steps`` are all, at ``lost`` there is no number."""
    texts = [f"{each.name} {exact(each.points[-1][1])}" for each in series]
    texts = [exact(series[0].points[-1][1])] if len(series) == 1 else texts
    measured = {step for each in series for step, _ in each.points}
    if 0 < len(measured) < steps:
        texts.append(f"at {len(measured)} of {steps} steps")
    if lost:
        texts.append(f"no number at {lost} step{'s' if lost != 1 else ''}")
    return [", ".join([*texts, *([said] if said else [])])] if texts else []


_STOPS = {
    "total loss": "loss",
    "gradient norm": "grad_norm",
    "KL to the base on good turns": "kl_good_turns",
    "drift of the teacher": "teacher_drift",
}


def _lost(rows: Sequence[Row], title: str) -> int:
    """Steps at which what can stop a run was no number; other metrics leave such values out themselves."""
    name = _STOPS.get(title, "")
    return sum(name in row and number(row[name]) is None for row in rows)


def _metric(name: str) -> Read:
    return lambda row: number(row.get(name))


def _a_token(name: str) -> Read:
    return lambda row: a_token(row, name)


def _plot(title: str, share: bool = False, limit: str = "", /, **metrics: str) -> Plot:
    """Curves by the metrics' names; underscores in a curve's name are spaces."""
    return Plot(title, {name.replace("_", " "): _metric(metric) for name, metric in metrics.items()}, share, limit)


def _helped(row: Row) -> float | None:
    sites, helped = number(row.get("distillation/sites")), number(row.get("distillation/sites_helped"))
    return helped / sites if sites and helped is not None else None


def _not_valid(row: Row) -> float | None:
    valid = number(row.get("episodes/valid"))
    return None if valid is None else 1 - valid


_EPISODES = [
    _plot("reward", reward="reward"),
    _plot("solved episodes", True, solved="episodes/solved"),
    _plot("error turns", True, of_all_turns="episodes/error_turn_rate"),
    Plot("lost episodes", {"cut off": _metric("episodes/truncated"), "not valid": _not_valid}, share=True),
    _plot("ids of an episode's turns", mean="completions/mean_length", longest="completions/max_length"),
]
_RLVR = [
    _plot("groups", True, flat="groups/flat", unsolved="groups/unsolved"),
    _plot("entropy", nats="entropy"),
    _plot("KL to the first weights", k3="kl", k1="kl_k1"),
    _plot("clipped ratios", share="clip_ratio/region_mean", cispo="cispo_clip_ratio"),
    _plot("reward's deviation in a group", reward="reward_std"),
]
_REPLAY = [
    _plot("replay loss", loss="replay/loss"),
    _plot("accuracy on pairs", True, accuracy="replay/accuracy"),
    _plot("margin", margin="replay/margin"),
    _plot("log-probability a token", chosen="replay/chosen_logp", rejected="replay/rejected_logp"),
]
_OPTIMIZER = [
    _plot("total loss", loss="loss"),
    _plot("gradient norm", norm="grad_norm"),
    _plot(
        "gradient norm of each channel",
        RLVR="gradient/rlvr",
        distillation="gradient/distillation",
        replay="gradient/replay",
    ),
    _plot("learning rate", rate="learning_rate"),
    _plot("accuracy of tokens", True, accuracy="mean_token_accuracy"),
]
_SAFETY = [
    _plot("KL to the base on good turns", False, "kl_to_base", nats_a_token="kl_good_turns"),
    _plot("hack rate", True, "hack_rate", of_episodes="episodes/hack_rate"),
    _plot("drift of the teacher", False, "teacher_drift", nats_a_token="teacher_drift"),
]


def _safety(recipe: Mapping[str, Any]) -> list[Plot]:
    """Dollars only where an hour has a price."""
    dollars = [_plot("dollars", False, "dollars", usd="cost/usd")] if recipe["safety"]["dollars_per_hour"] else []
    return [*_SAFETY, *dollars, _plot("hours", False, "hours", hours="cost/hours")]


def _distillation(rows: Sequence[Row]) -> list[Plot]:
    return [
        _plot("distillation loss", loss="distillation/loss"),
        Plot("divergence a token", {"nats": _a_token("distillation/divergence")}),
        Plot("teacher gain a token", {"nats": _a_token("distillation/teacher_gain")}),
        _plot("sites", chosen="distillation/chosen"),
        Plot("sites that the hint helped", {"helped": _helped}, share=True),
        Plot("error turns left out", _reasons(rows)),
    ]


def _reasons(rows: Sequence[Row]) -> dict[str, Read]:
    """A step that chose sites and names no reason has 0 of it."""
    names = [name for name, _ in left_out(rows).most_common()]
    alone = names[: _REASONS if len(names) > _REASONS + 1 else len(names)]
    rest = names[len(alone) :]
    return {**{name: _left_out([name]) for name in alone}, **({"other reasons": _left_out(rest)} if rest else {})}


def _left_out(names: Sequence[str]) -> Read:
    keys = [LEFT_OUT + name.replace(" ", "_") for name in names]
    return lambda row: sum(number(row.get(key)) or 0.0 for key in keys) if "distillation/chosen" in row else None


def _cost() -> list[Plot]:
    def learning(row: Row) -> float | None:
        """All of a step that plays nothing, but learns from a batch once more."""
        whole = number(row.get("seconds/step"))
        return None if whole is None else whole - (number(row.get("seconds/playing")) or 0.0)

    return [
        Plot("seconds a step", {"playing": _metric("seconds/playing"), "learning": learning}),
        _plot(
            "forward tokens of distillation",
            teacher="distillation/teacher_tokens",
            student="distillation/student_tokens",
        ),
        _plot("tokens of all episodes so far", tokens="num_tokens"),
    ]


_ABOUT = {
    "rlvr": (
        "Channel 1: RLVR",
        "Groups whose rewards are all equal are flat and teach nothing; unsolved: pass@k is 0.",
    ),
    "distillation": (
        "Channel 2: distillation at error turns",
        "The policy with a hint teaches the policy without it. Teacher gain: how much less likely the failed turn "
        "becomes with the hint, in nats a token.",
    ),
    "replay": ("Channel 3: replay-DPO", "Preferences on turns that external teachers would have played otherwise."),
}
_PLOTS: dict[str, Callable[[Sequence[Row]], list[Plot]]] = {
    "rlvr": lambda rows: _RLVR,
    "distillation": _distillation,
    "replay": lambda rows: _REPLAY,
}
