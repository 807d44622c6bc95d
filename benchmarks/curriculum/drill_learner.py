"""A small network that learns to choose tools by playing drills, with and without a curriculum.

The network sees the words of a question, and of each tool's name and description; it scores every tool and draws one.
What is left is written by rules: the id of the thing is the argument, the results are the answer. It starts from random
weights and learns from the rewards of real drill sessions alone: REINFORCE with the mean reward of a task's episodes as
its baseline (R. Williams, "Simple Statistical Gradient-Following Algorithms", 1992; Shao et al., "DeepSeekMath", 2024,
for the baseline by group).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from etude.environments.drill.session import DrillSession
from etude.environments.drill.tasks import LEVELS, DrillTasks, Name
from etude.environments.rng import hashed_number, stream
from etude.environments.tasks.static_features import task_features
from etude.generators.curriculum.band import MEDIUM
from etude.generators.curriculum.item_response import Plays
from etude.generators.curriculum.ladder import Setting
from etude.generators.curriculum.plan import make_plan
from etude.generators.curriculum.play_log import PlayLog

FAMILIES = ("verbs", "choose")
"""Drills that are solved by choosing a tool for each question: several questions, or more and more distractors."""
GROUP = 8
"""Episodes of each task."""
TASKS = 8
"""Tasks of each update."""
UPDATES = 4
"""Updates of each round; a curriculum plans once for a round."""
BUCKETS, SIZE = 4096, 24
_QUESTION = re.compile(r"what is (.+?) ([A-Z]{3}-\d+)", re.IGNORECASE)


class ToolChooser(torch.nn.Module):
    """Scores of tools for a question: a bilinear form of two bags of words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.EmbeddingBag(BUCKETS, SIZE, mode="mean")
        self.form = torch.nn.Linear(SIZE, SIZE)

    def forward(self, question: str, tools: Sequence[Mapping[str, Any]]) -> torch.Tensor:
        """Return the log-probability of each tool, of shape (tools,)."""
        texts = [f"{tool['name']} {tool['description']}" for tool in tools]
        bags = [torch.tensor(_buckets(text)) for text in texts]
        offsets = torch.tensor([0, *(len(bag) for bag in bags[:-1])]).cumsum(0)
        scores = self.words(torch.cat(bags), offsets) @ self.form(self.words(torch.tensor([_buckets(question)]))[0])
        return torch.log_softmax(scores, dim=0)


def _buckets(text: str) -> list[int]:
    return [hashed_number(word) % BUCKETS for word in re.findall(r"[a-z]+", text.lower())]


@dataclass(frozen=True)
class Round:
    """One round of training."""

    solve_rate: float
    """Share of solved episodes."""
    mean_level: float
    """Mean level of its tasks."""


@dataclass(frozen=True)
class Training:
    """A training run and what it led to."""

    rounds: Sequence[Round]
    """Rounds in their order."""
    solved: Mapping[int, float]
    """Share of new drills solved at each level, after training."""


def settings() -> list[Setting]:
    """Return a setting for each family and level."""
    return [
        Setting("drill", {"family": family, "level": level}, level, {"family": family})
        for family in FAMILIES
        for level in LEVELS
    ]


async def episode(chooser: ToolChooser, session: DrillSession, task_id: str) -> tuple[float, torch.Tensor]:
    """Play one drill; return its reward and the log-probability of the choices that were drawn."""
    first = await session.reset(task_id=task_id)
    tools = [tool["function"] for tool in first.tools or [] if tool["function"]["name"] != "submit"]
    results, total = [], torch.zeros(())
    for question, thing in _QUESTION.findall((first.prompt or "").partition("\n")[0]):
        scores = chooser(question, tools)
        drawn = int(torch.multinomial(scores.detach().exp(), 1))
        total = total + scores[drawn]
        argument = next(iter(tools[drawn]["parameters"]["properties"]))
        observed = await session.step({"tool": tools[drawn]["name"], "arguments": {argument: thing}})
        results.append(observed.messages[-1].content.partition("\n")[2])
    last = await session.step({"tool": "submit", "arguments": {"answer": "; ".join(results)}})
    return last.reward, total


async def _update(
    chooser: ToolChooser, optimizer: torch.optim.Optimizer, session: DrillSession, tasks: Sequence[str]
) -> dict[str, int]:
    """Play each task GROUP times, make one step, and return how often each was solved."""
    losses, solved = [], {}
    for task_id in tasks:
        played = [await episode(chooser, session, task_id) for _ in range(GROUP)]
        mean = sum(reward for reward, _ in played) / GROUP
        losses += [-(reward - mean) * logp for reward, logp in played]
        solved[task_id] = sum(reward == 1.0 for reward, _ in played)
    optimizer.zero_grad()
    (torch.stack(losses).mean()).backward()
    optimizer.step()
    return solved


async def _train(rounds: int, seed: int, adapt: bool, rate: float) -> Training:
    torch.manual_seed(seed)
    tasks = DrillTasks(FAMILIES)
    session, chooser, draw = DrillSession(tasks), ToolChooser(), stream(seed, "drills")
    optimizer = torch.optim.Adam(chooser.parameters(), lr=rate)
    log, history, every = PlayLog([], [], {}), [], settings()
    for number in range(rounds):
        requested = [draw.choice(every) for _ in range(TASKS * UPDATES)]
        if adapt and number:
            plan = make_plan({"drill": every}, log, MEDIUM, TASKS * UPDATES, seed + number)
            requested = [request.setting for request in plan.requests for _ in range(request.count)]
            draw.shuffle(requested)
        names = [_new_drill(setting, draw.randrange(10**8)).task_id for setting in requested]
        solved: dict[str, int] = {}
        for start in range(0, len(names), TASKS):
            solved |= await _update(chooser, optimizer, session, names[start : start + TASKS])
        log.runs.append(f"round-{number}")
        log.plays.extend(Plays(number, name, GROUP, count) for name, count in solved.items())
        log.features.update((name, task_features(tasks.by_id(name))) for name in solved)
        level = sum(setting.knobs["level"] for setting in requested) / len(requested)
        history.append(Round(sum(solved.values()) / (GROUP * len(solved)), level))
    result = Training(history, {level: await _solved(chooser, session, level) for level in LEVELS})
    await session.close()
    return result


def train(rounds: int, seed: int, *, adapt: bool, rate: float = 0.02) -> Training:
    """Train a new network: on the levels that the curriculum chooses, or on all alike; the same number of episodes."""
    return asyncio.run(_train(rounds, seed, adapt, rate))


async def _solved(chooser: ToolChooser, session: DrillSession, level: int, number: int = 50) -> float:
    """Return the share of new drills of a level that one episode each solves."""
    names = [Name(family, 10**9 + 10 * index, level).task_id for family in FAMILIES for index in range(number)]
    with torch.no_grad():
        rewards = [(await episode(chooser, session, name))[0] for name in names]
    return sum(reward == 1.0 for reward in rewards) / len(rewards)


def _new_drill(setting: Setting, number: int) -> Name:
    """Return a drill of the setting; numbers that end in 9 belong to the other split, whose words differ."""
    return Name(setting.knobs["family"], number * 10 + number % 9, setting.knobs["level"])
