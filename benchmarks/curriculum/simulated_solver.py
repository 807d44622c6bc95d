"""A solver with a known skill that plays made-up tasks of the real generators' settings.

The solver passes a task with probability sigmoid(skill - difficulty), as the fitted model assumes, but its world is not
the one of the priors: the true weights are drawn around them, each generator is easier or harder than its features say,
and so is each task. The curriculum sees none of this, only which plays succeeded.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from etude.environments.rng import stream
from etude.environments.tasks.static_features import TaskFeatures
from etude.generators import GENERATORS
from etude.generators.curriculum.band import MEDIUM
from etude.generators.curriculum.item_response import Plays
from etude.generators.curriculum.ladder import Setting, ladder
from etude.generators.curriculum.plan import make_plan
from etude.generators.curriculum.play_log import PlayLog
from etude.generators.curriculum.priors import PRIORS, Vector, prior_of, vector

PLAYS = 4
"""Episodes of each task."""
NAMES = ("bug_operator", "bug_masking", "fd_function", "fd_class", "fd_feature", "fd_module", "history_revert")
"""Generators of the world: from one wrong operator to whole features."""


@dataclass
class World:
    """True difficulties, which nothing but the results of plays reveals."""

    seed: int
    """Seed of the true weights, the tasks and the plays."""
    _weights: dict[str, float] = field(default_factory=dict)

    def chance(self, skill: float, task: str, features: TaskFeatures) -> float:
        """Return the probability that the solver passes a task."""
        numbers: Vector = vector(features)
        explained = sum(value * self._weight(name) for name, value in numbers.items())
        return 1 / (1 + math.exp(explained + stream(self.seed, "residual", task).gauss(0, 0.7) - skill))

    def _weight(self, name: str) -> float:
        """Return a true weight: from the distribution that the prior assumes, and never below 0 for sizes and knobs."""
        if name not in self._weights:
            prior = prior_of(name)
            drawn = stream(self.seed, "weight", name).gauss(prior.mean, prior.sd)
            self._weights[name] = max(drawn, 0.0) if name in PRIORS and name != "all tasks" else drawn
        return self._weights[name]


@dataclass(frozen=True)
class Round:
    """One round: the skill, what was asked for, and how it went."""

    skill: float
    """Skill of the solver."""
    solve_rate: float
    """Share of solved plays."""
    mean_step: float
    """Mean step on the ladders, over the tasks."""
    large: float
    """Share of the tasks that are deletions of several definitions."""


def play_rounds(world: World, skills: Sequence[float], *, adapt: bool, count: int = 6) -> list[Round]:
    """Play one round for each skill and return the rounds; ``count`` tasks per generator and round.

    The first round asks for all settings alike. With ``adapt`` each later one follows the curriculum; without it, all
    rounds ask for what the curriculum asked for after the first.
    """
    ladders = {name: ladder(name, GENERATORS.load(name).knobs, {}) for name in NAMES}
    every = [setting for settings in ladders.values() for setting in settings]
    chance = stream(world.seed, "plays")
    requested = [chance.choice(every) for _ in range(count * len(NAMES))]
    log = PlayLog([], [], {})
    rounds: list[Round] = []
    for number, skill in enumerate(skills):
        if number == 1 or (number and adapt):
            plan = make_plan(ladders, log, MEDIUM, count, world.seed)
            requested = [request.setting for request in plan.requests for _ in range(request.count)]
        tasks = [(f"{number}-{place}", setting, made_up(setting, chance)) for place, setting in enumerate(requested)]
        log.runs.append(f"round-{number}")
        rounds.append(_play(world, skill, tasks, log, chance))
    return rounds


def _play(
    world: World,
    skill: float,
    tasks: Sequence[tuple[str, Setting, TaskFeatures]],
    log: PlayLog,
    chance: random.Random,
) -> Round:
    """Play the tasks of a round, add the plays to the log, and return how it went."""
    player = len(log.runs) - 1
    solved_plays = 0
    for task, _, features in tasks:
        rate = world.chance(skill, task, features)
        solved = sum(chance.random() < rate for _ in range(PLAYS))
        solved_plays += solved
        log.plays.append(Plays(player, task, PLAYS, solved))
        log.features[task] = features
    steps = [setting.step for _, setting, _ in tasks]
    large = sum(features.entities > 1 for _, _, features in tasks)
    return Round(skill, solved_plays / (PLAYS * len(tasks)), sum(steps) / len(steps), large / len(tasks))


def made_up(setting: Setting, chance: random.Random) -> TaskFeatures:
    """Return the features of a task as the setting's generator may make it."""
    knobs = setting.knobs
    fewest = int(knobs.get("min_lines", 1))
    most = min(int(knobs.get("max_lines", 3)), 8 * fewest)
    lines = round(math.exp(chance.uniform(math.log(fewest), math.log(max(most, fewest + 1)))))
    return TaskFeatures(
        environment="coding",
        generator=setting.generator,
        knobs=dict(knobs),
        lines=lines,
        files=int(knobs.get("min_files", 1)) + (chance.randint(0, 2) if lines > 60 else 0),
        hunks=1 + chance.randint(0, 2) + lines // 30,
        tests=1 + chance.randint(0, 12),
        entities=max(int(knobs.get("min_entities", 1)), lines // 15),
        closure=chance.randint(0, 20),
        fan_in=chance.randint(0, 4),
        words=chance.randint(60, 300),
    )


def growing_skill(rounds: int, low: float = 0.0, high: float = 5.0) -> list[float]:
    """Return a skill that grows from ``low`` to ``high`` as a learner's does: slowly, fast, slowly."""
    middle = (rounds - 1) / 2
    return [low + (high - low) / (1 + math.exp(-6 * (number - middle) / rounds)) for number in range(rounds)]
