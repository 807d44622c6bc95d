"""Test whether the learned chooser of hints beats a random one and the best single hint, through the whole stack.

    python -m etude.research.hint_chooser.worlds [--worlds strong,mild,none] [--drills N] [--fresh N] [--k K]
                                                 [--seeds N] [--json]

An agent errs in drills, in five kinds of error. Each error turn has its template hint and the four texts below, and
`measure_hints` logs K continuations with one of them drawn uniformly. `learn` takes the error turns of one half of the
drills; the held-out half says by the doubly robust estimate and by SNIPS what the learned choice would earn. Then the
choice is really played, on fresh drills of the split `eval`, against a random hint and against the single hint that the
training half calls best, each with the same luck.

The agent solves with probability 0.2, and follows a hint with a probability that depends on the error and on the hint,
so the true worth of a choice is known. Three worlds, fixed before they were run ("fits": the text made for that kind
of error):

    strong   the text that fits 0.8, other texts 0.1, the template 0.4
    mild     the text that fits 0.5, other texts 0.25, the template 0.4
    none     by text alone, whatever the error: fields 0.4, tools 0.3, plain 0.25, retry 0.2, the template 0.3

Exit code 0: in `strong` and `mild` the learned choice beats both others, with intervals above 0, on the held-out logs
and when played; in `none` the true worth of what it chose is at most LOSS below either.

The sizes are large enough for `mild`: its true gain over the best single hint is 0.06 to 0.08, and with 5600 held-out
choices (2000 drills, K 4) half of the DR interval is 0.036. With 300 drills it is 0.09, enough for `strong` only. The
whole test takes about 4 minutes of CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etude.environments.agents.calibrated import noisy
from etude.environments.agents.scripted import Script
from etude.environments.drill.tasks import DrillTasks
from etude.environments.hint_trials.fork_points import Place, every_place
from etude.environments.hint_trials.hint_candidates import Text, add_texts
from etude.environments.hint_trials.hint_policy import Policy, always, uniform
from etude.environments.hint_trials.measure import measure_hints
from etude.environments.runs.play import run_episodes
from etude.environments.runs.reader import stored_episodes
from etude.intervals import Interval
from etude.models import Hint, Task, Turn
from etude.research.hint_chooser.chooser import Chooser
from etude.research.hint_chooser.off_policy import Evaluation, Learned, greedy, learn
from etude.research.hint_chooser.trial_logs import read_choices

SOLVES, LOSS = 0.2, 0.02
WORDS = {
    "tools": "Look at the list of tools again and take a name from it, letter by letter.",
    "fields": "Look at the schema of the tool again and give exactly the arguments that it names.",
    "plain": "Write the arguments as one plain JSON object.",
    "retry": "Make the same call once more.",
}
TEXTS = [Text(Hint(text=words, template=name)) for name, words in WORDS.items()]
FITS = {
    "tool_not_found": "tools",
    "invalid_args": "fields",
    "malformed_call": "plain",
    "nonzero_exit": "retry",
    "transport_error": "retry",
}
WORLDS = ("strong", "mild", "none")


def follows(world: str, kind: str, arm: str) -> float:
    """Return the probability that the agent follows a hint; ``arm`` is a text's id, or a template's name."""
    if world == "none":
        return {"fields": 0.4, "plain": 0.25, "retry": 0.2}.get(arm, 0.3)
    fits, other = {"strong": (0.8, 0.1), "mild": (0.5, 0.25)}[world]
    return 0.4 if arm not in WORDS else fits if arm == FITS[kind] else other


class Window(DrillTasks):
    """The drills of a split, starting with number ``first``."""

    def __init__(self, split: str, first: int) -> None:
        super().__init__()
        self.split, self.first = split, first

    def __iter__(self) -> Iterator[Task]:
        return (self.get_task(self.split, index) for index in range(self.first, self.first + 10**6))


@dataclass(frozen=True)
class World:
    """The agent that continues episodes in a world: ``kinds`` says which error it makes, by task and turn."""

    name: str
    kinds: dict[tuple[str, int], str]

    def __call__(self, task: Task, *, past: Sequence[Turn], hint: str, seed: int) -> Script:
        arm = next((name for name, words in WORDS.items() if words == hint), "template")
        chance = follows(self.name, self.kinds[task.task_id, len(past)], arm)
        return noisy(task, f"{SOLVES},{chance}", past=past, hint=hint, seed=seed)

    def worth(self, places: Sequence[Place], policy: Policy) -> float:
        """Return the exact mean chance of success at these places."""
        total = 0.0
        for place in places:
            kind = self.kinds[place.stored.episode.task_id, place.turn]
            for arm, chance in policy(place.context(), tuple(place.hints())).items():
                followed = follows(self.name, kind, arm)
                total += chance * (followed + (1 - followed) * SOLVES)
        return total / len(places)


@dataclass(frozen=True)
class WorldResult:
    """The result of one world with one seed."""

    world: str
    seed: int
    learned: Learned
    worth: dict[str, float]
    """The true worth of each policy."""
    held_out: dict[str, Evaluation]
    """The estimates of each policy on held-out logs."""
    played: dict[str, float]
    """The success of each policy when played."""
    gain: dict[str, Interval]
    """What the learned choice earned more than each rival when played."""

    @property
    def is_as_expected(self) -> bool:
        """Return whether the world's expectation (see the module) holds."""
        if self.world == "none":
            return all(self.worth["learned"] > self.worth[rival] - LOSS for rival in self.gain)
        estimates = [self.held_out[rival].gain for rival in self.gain]
        return all(one is not None and one.low > 0 for one in [*estimates, *self.gain.values()])


async def episodes(split: str, seed: int, number: int, out: Path) -> Path:
    """Play drills that all begin with a mistake, with the faults that they state, and return the run's folder."""
    await run_episodes(Window(split, seed * 10**6), "noisy:1,0", out=out, limit=number)
    return out


def places_of(run: Path) -> list[Place]:
    stored = stored_episodes(run)
    add_texts(stored, TEXTS)
    return [place for place in every_place(stored) if place.is_reached]


async def tried(run: Path, world: str, choose: str | Chooser, k: int, out: Path) -> dict[str, tuple[float, float]]:
    """Return successes and trials with a hint at each error turn."""
    places = places_of(run)
    agent = World(world, {(place.stored.episode.task_id, place.turn): place.error.kind for place in places})
    report = await measure_hints(run, f"{world} world", k=k, out=out, choose=choose, texts=TEXTS, agent=agent)
    if not report.ok:
        raise SystemExit(f"trials were void: {report.causes}")
    sums: dict[str, tuple[float, float]] = {}
    for score in report.hints:
        successes, trials = sums.get(score.place, (0.0, 0.0))
        sums[score.place] = successes + score.trials.with_successes, trials + score.trials.with_trials
    return sums


def difference(learned: dict[str, tuple[float, float]], rival: dict[str, tuple[float, float]]) -> Interval:
    """Return the mean difference over error turns, paired; the error turns of one drill are one draw."""
    by_task: dict[str, list[float]] = {}
    for place, (successes, trials) in learned.items():
        rival_successes, rival_trials = rival[place]
        by_task.setdefault(place.split()[1], []).append(successes / trials - rival_successes / rival_trials)
    mean = sum(map(sum, by_task.values())) / len(learned)
    spread = math.sqrt(sum((sum(group) - mean * len(group)) ** 2 for group in by_task.values())) / len(learned)
    return Interval(mean, mean - 1.96 * spread, mean + 1.96 * spread)


async def compared(world: str, seed: int, logs: Path, fresh: Path, k: int, folder: Path) -> WorldResult:
    """Learn in a world from the error turns of ``logs``, and play what was learned in those of ``fresh``."""
    await tried(logs, world, "uniform", k, folder / "logs")
    learned = learn(read_choices([folder / "logs"]), seed=seed)
    best = learned.chooser.model_copy(update={"epsilon": 0.0, "temperature": 1e-9})
    choices: dict[str, tuple[str | Chooser, Policy]] = {
        "learned": (best, greedy(learned.chooser)),
        "random": ("uniform", uniform),
        "best single": (learned.best_single, always(learned.best_single)),
    }
    places = places_of(fresh)
    agent = World(world, {(place.stored.episode.task_id, place.turn): place.error.kind for place in places})
    sums = {name: await tried(fresh, world, choose, k, folder / name) for name, (choose, _) in choices.items()}
    totals = {name: [sum(column) for column in zip(*one.values(), strict=True)] for name, one in sums.items()}
    return WorldResult(
        world,
        seed,
        learned,
        worth={name: agent.worth(places, policy) for name, (_, policy) in choices.items()},
        held_out={name: learned.policies[name] for name in choices},
        played={name: successes / trials for name, (successes, trials) in totals.items()},
        gain={rival: difference(sums["learned"], sums[rival]) for rival in ("random", "best single")},
    )


def shown(interval: Interval | None) -> str:
    """Return an interval as text; '' for none."""
    return "" if interval is None else f"{interval.value:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"


def show(result: WorldResult) -> None:
    """Print a result as a table."""
    rows = result.learned.rows
    print(
        f"\n{result.world}, seed {result.seed}: learned from {rows['train']} choices, {rows['held_out']} held out; "
        f"best single: {result.learned.best_single}; {'as expected' if result.is_as_expected else 'NOT AS EXPECTED'}"
    )
    print(f"  {'':12} {'truth':>6} {'DR':>21} {'SNIPS':>21} {'played':>7}   learned more by: DR, played")
    for name, value in result.held_out.items():
        row = value.row()
        gain = f"{shown(value.gain)}   {shown(result.gain[name])}" if name in result.gain else ""
        cells = f"{result.worth[name]:6.3f} {row['dr']:>21} {row['snips']:>21} {result.played[name]:7.3f}"
        print(f"  {name:12} {cells}   {gain}".rstrip(), flush=True)


def plain(result: WorldResult) -> dict[str, Any]:
    """Return a result as plain values."""
    return {
        "world": result.world,
        "seed": result.seed,
        "as_expected": result.is_as_expected,
        "best_single": result.learned.best_single,
        **result.learned.rows,
        "worth": result.worth,
        "held_out": {name: value.row() for name, value in result.held_out.items()},
        "played": result.played,
        "gain": {name: {"value": gain.value, "low": gain.low, "high": gain.high} for name, gain in result.gain.items()},
    }


def main() -> int:
    """Run the worlds; return 0 when all are as expected."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--drills", type=int, default=2000)
    parser.add_argument("--fresh", type=int, default=600)
    parser.add_argument("--k", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results: list[WorldResult] = []
    for seed in range(options.seeds):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            logs = asyncio.run(episodes("train", seed, options.drills, folder / "train"))
            fresh = asyncio.run(episodes("eval", seed, options.fresh, folder / "eval"))
            for world in options.worlds.split(","):
                results.append(asyncio.run(compared(world, seed, logs, fresh, options.k, folder / world)))
                if not options.json:
                    show(results[-1])
    if options.json:
        print(json.dumps([plain(result) for result in results], indent=1))
    return 0 if all(result.is_as_expected for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
