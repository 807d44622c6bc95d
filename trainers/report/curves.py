"""Charts of a run: which curves they have, by channel, and from which metrics. A channel without a weight has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .drawing import Picture, Series, exact, picture
from .metrics_summary import LEFT_OUT, Row, left_out_counts, number, per_token, used_channels
from .run_files import Run

Read = Callable[[Row], float | None]
"""Reads a value from a row of metrics; None if the row has none."""
_MAX_REASONS = 4
"""Reasons with a separate curve; all others share one."""


@dataclass(frozen=True)
class Plot:
    """Definition of a chart."""

    title: str
    curves: Mapping[str, Read]
    """Values of each curve, by its name."""
    share: bool = False
    """Whether the axis goes from 0 to 1."""
    limit: str = ""
    """Key in [safety] of a limit that is drawn."""


@dataclass(frozen=True)
class Chart:
    """Chart as it is shown."""

    title: str
    picture: Picture
    missing: int
    """Steps at which a value was not finite."""
    limit: str = ""
    """The recipe's limit, as text."""
    series: Sequence[Series] = ()
    """Curves of the picture as numbers."""
    share: bool = False
    """Whether the axis goes from 0 to 1."""
    bound: float | None = None
    """The recipe's limit; None without one."""


@dataclass
class Section:
    """Section of the page."""

    name: str
    title: str
    about: str
    charts: list[Chart] = field(default_factory=list)
    constant: list[tuple[str, str]] = field(default_factory=list)
    """Charts whose values never changed, as (title, value)."""


def sections(run: Run) -> list[Section]:
    """Return the sections of a run: episodes, used channels, optimizer, safety, cost. Empty ones are left out."""
    recipe, rows = run.recipe, run.rows
    channels = [name for name in _CHANNELS if name in used_channels(recipe)]
    all_sections = [
        _section(Section("episodes", "Episodes", "What the policy did while it learned."), _EPISODES, run),
        *(_section(Section(name, *_CHANNELS[name]), _CHANNEL_PLOTS[name](rows), run) for name in channels),
        _section(Section("optimizer", "Optimizer", "What is minimised, and how."), _OPTIMIZER, run),
        _section(Section("safety", "Safety", "Metrics that the kill switch checks."), [*_safety(recipe)], run),
        _section(Section("cost", "Cost", "Cost of each step, as the first process measured it."), _COST, run),
    ]
    return [section for section in all_sections if section.charts or section.constant]


def _section(section: Section, plots: Sequence[Plot], run: Run) -> Section:
    for plot in plots:
        values = [(name, [(row["step"], read(row)) for row in run.rows]) for name, read in plot.curves.items()]
        all_series = [Series(name, [(step, v) for step, v in points if v is not None]) for name, points in values]
        series = [one for one in all_series if one.points]
        limit, missing = float(run.recipe["safety"].get(plot.limit) or 0), _missing(run.rows, plot.title)
        limit_text = f"limit {exact(limit)}" if limit else ""
        if all(len({value for _, value in one.points}) == 1 for one in series):
            if text := _constant_text(series, len(run.rows), missing, limit_text):
                section.constant.append((plot.title, text))
        else:
            drawn = picture(series, share=plot.share, limit=limit or None)
            chart = Chart(plot.title, drawn, missing, limit_text, series, plot.share, limit or None)
            section.charts.append(chart)
    return section


def _constant_text(series: Sequence[Series], steps: int, missing: int, limit: str) -> str:
    """Return curves that never changed as one text, '' without any.

    ``steps`` is the number of all steps, ``missing`` of those without a finite value.
    """
    texts = [f"{one.name} {exact(one.points[-1][1])}" for one in series]
    texts = [exact(series[0].points[-1][1])] if len(series) == 1 else texts
    measured = {step for one in series for step, _ in one.points}
    if 0 < len(measured) < steps:
        texts.append(f"at {len(measured)} of {steps} steps")
    if missing:
        texts.append(f"not finite at {missing} step{'s' if missing != 1 else ''}")
    return ", ".join([*texts, *([limit] if limit else [])]) if texts else ""


_STOPPING = {
    "total loss": "loss",
    "gradient norm": "grad_norm",
    "KL to the base on good turns": "kl_good_turns",
    "drift of the teacher": "teacher_drift",
}
"""Metrics that can stop a run, by the title of their chart."""


def _missing(rows: Sequence[Row], title: str) -> int:
    """Return the number of steps at which a metric that can stop a run was not finite."""
    name = _STOPPING.get(title, "")
    return sum(name in row and number(row[name]) is None for row in rows)


def _metric(name: str) -> Read:
    return lambda row: number(row.get(name))


def _per_token(name: str) -> Read:
    return lambda row: per_token(row, name)


def _plot(title: str, share: bool = False, limit: str = "", /, **metrics: str) -> Plot:
    """Return a plot of metrics by curve; underscores in the name of a curve become spaces."""
    return Plot(title, {name.replace("_", " "): _metric(metric) for name, metric in metrics.items()}, share, limit)


def _helped_share(row: Row) -> float | None:
    sites, helped = number(row.get("distillation/sites")), number(row.get("distillation/sites_helped"))
    return helped / sites if sites and helped is not None else None


def _invalid_share(row: Row) -> float | None:
    valid = number(row.get("episodes/valid"))
    return None if valid is None else 1 - valid


def _learning_seconds(row: Row) -> float | None:
    """Return the seconds of a step without playing; a step on an earlier batch of episodes plays nothing."""
    seconds = number(row.get("seconds/step"))
    return None if seconds is None else seconds - (number(row.get("seconds/playing")) or 0.0)


_EPISODES = [
    _plot("reward", reward="reward"),
    _plot("solved episodes", True, solved="episodes/solved"),
    _plot("error turns", True, of_all_turns="episodes/error_turn_rate"),
    Plot("episodes lost", {"cut off": _metric("episodes/truncated"), "not valid": _invalid_share}, share=True),
    _plot("sampled ids of an episode", mean="completions/mean_length", longest="completions/max_length"),
]
_RLVR = [
    _plot("groups", True, flat="groups/flat", unsolved="groups/unsolved"),
    _plot("entropy", nats="entropy"),
    _plot("KL to the first weights", k3="kl", k1="kl_k1"),
    _plot("clipped ratios", share="clip_ratio/region_mean", cispo="cispo_clip_ratio"),
    _plot("standard deviation of the reward in a group", reward="reward_std"),
]
_REPLAY = [
    _plot("replay loss", loss="replay/loss"),
    _plot("accuracy on pairs", True, accuracy="replay/accuracy"),
    _plot("margin", margin="replay/margin"),
    _plot("log-probability per token", chosen="replay/chosen_logp", rejected="replay/rejected_logp"),
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
    _plot("KL to the base on good turns", False, "kl_to_base", nats_per_token="kl_good_turns"),
    _plot("hack rate", True, "hack_rate", of_episodes="episodes/hack_rate"),
    _plot("suspect rate", True, "suspect_rate", of_episodes="episodes/suspect_rate"),
    _plot("drift of the teacher", False, "teacher_drift", nats_per_token="teacher_drift"),
]


def _safety(recipe: Mapping[str, Any]) -> Iterator[Plot]:
    """Yield the plots of safety; dollars only if an hour has a price."""
    yield from _SAFETY
    if recipe["safety"]["dollars_per_hour"]:
        yield _plot("dollars", False, "dollars", usd="cost/usd")
    yield _plot("hours", False, "hours", hours="cost/hours")


def _distillation(rows: Sequence[Row]) -> list[Plot]:
    return [
        _plot("distillation loss", loss="distillation/loss"),
        Plot("divergence per token", {"nats": _per_token("distillation/divergence")}),
        Plot("teacher gain per token", {"nats": _per_token("distillation/teacher_gain")}),
        _plot("sites", chosen="distillation/chosen"),
        Plot("sites that the hint helped", {"helped": _helped_share}, share=True),
        Plot("error turns left out", _reason_curves(rows)),
    ]


def _reason_curves(rows: Sequence[Row]) -> dict[str, Read]:
    """Return a curve for each frequent reason, and one for all others together."""
    names = [name for name, _ in left_out_counts(rows).most_common()]
    single = names[: _MAX_REASONS if len(names) > _MAX_REASONS + 1 else len(names)]
    others = names[len(single) :]
    curves = {name: _left_out([name]) for name in single}
    return {**curves, "other reasons": _left_out(others)} if others else curves


def _left_out(reasons: Sequence[str]) -> Read:
    """Return the number of error turns left out for these reasons; 0 for a step that chose sites and counts none."""
    keys = [LEFT_OUT + reason.replace(" ", "_") for reason in reasons]
    return lambda row: sum(number(row.get(key)) or 0.0 for key in keys) if "distillation/chosen" in row else None


_COST = [
    Plot("seconds per step", {"playing": _metric("seconds/playing"), "learning": _learning_seconds}),
    _plot(
        "forward tokens of distillation",
        teacher="distillation/teacher_tokens",
        student="distillation/student_tokens",
    ),
    _plot("tokens of all episodes so far", tokens="num_tokens"),
]
_CHANNELS = {
    "rlvr": (
        "Channel 1: RLVR",
        "Reinforcement learning on the verified reward. A group is flat if all its rewards are equal: it teaches "
        "nothing. A group is unsolved if none of its episodes is solved: its pass@k is 0.",
    ),
    "distillation": (
        "Channel 2: distillation at error turns",
        "The policy with a hint teaches the policy without it. The teacher gain is how much less likely the failed "
        "turn becomes with the hint, in nats per token.",
    ),
    "replay": ("Channel 3: replay-DPO", "Preferences on turns that external teachers would have played differently."),
}
"""Title and explanation of each channel's section."""
_CHANNEL_PLOTS: dict[str, Callable[[Sequence[Row]], list[Plot]]] = {
    "rlvr": lambda rows: _RLVR,
    "distillation": _distillation,
    "replay": lambda rows: _REPLAY,
}
