"""Stage "sft": which episodes are learned from, which of their turns, and the ids. Imports no torch.

Rejection sampling: solved episodes alone. Their error turns are read, not learned; the recoveries behind them are.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import RecipeError
from ...models import Episode
from ..chat.chat_policy import ChatError, TemplateChat
from ..recipe.recipe import Recipe
from ..replay.prefixes import as_message

ReadEpisodes = Callable[[Path], Iterable[Episode]]
"""The valid episodes of a run's folder."""
NOT_LEARNED = -100


@dataclass(frozen=True)
class Solved:
    """What is learned from, of ``valid`` episodes that were read. ``left``: how many were not taken, by reason."""

    episodes: list[Episode]
    valid: int
    left: Counter[str] = field(default_factory=Counter)

    @property
    def turns(self) -> int:
        """That are learned."""
        return sum(len(episode.turns) for episode in self.episodes) - self.masked

    @property
    def masked(self) -> int:
        """Turns that are read alone."""
        return sum(len(masked(episode)) for episode in self.episodes)


@dataclass(frozen=True)
class Rows:
    """Episodes as ids: ``labels`` are the ids where the policy is to write them, and -100 elsewhere."""

    rows: list[dict[str, list[int]]]
    left: Counter[str]

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps, so that a run goes on with what it began with."""
        return {"sha256": hashlib.sha256(json.dumps(self.rows).encode()).hexdigest()}

    def load_state_dict(self, kept: dict[str, Any]) -> None:
        """Raises RecipeError for rows of other episodes."""
        if kept != self.state_dict():
            raise RecipeError("episodes: they have changed since the run was interrupted: choose another out")


def select(recipe: Recipe, read: ReadEpisodes | None) -> Solved | None:
    """The solved episodes of a recipe's runs; None unless its stage is "sft". Raises RecipeError when none is left."""
    if recipe.stage != "sft":
        return None
    if read is None:
        raise RecipeError('stage = "sft" needs episodes: `etude train` reads them')
    least, most = recipe.sft.reward, recipe.sft.per_task
    episodes = [episode for run in recipe.episodes for episode in read(Path(run))]
    tasks: dict[str, list[Episode]] = {}
    left: Counter[str] = Counter()
    for episode in episodes:
        if reason := _unfit(episode, least):
            left[reason] += 1
        else:
            tasks.setdefault(episode.task_id, []).append(episode)
    found = []
    for task, solved in tasks.items():
        chance = random.Random(f"sft {recipe.seed} {task}")
        found += solved if not most or len(solved) <= most else chance.sample(solved, most)
    left["more than sft.per_task"] += sum(map(len, tasks.values())) - len(found)
    if not found:
        raise RecipeError(_none_left(len(episodes), left, least))
    return Solved(found, len(episodes), +left)


def plan(recipe: Recipe, processes: int, solved: Solved) -> dict[str, Any]:
    """What follows from a recipe and its episodes. Raises RecipeError for micro-batches that do not fit."""
    batch, micro = recipe.sft.batch, recipe.train.micro * processes
    if batch % micro:
        raise RecipeError(
            f"sft.batch = {batch} episodes do not divide into micro-batches of {recipe.train.micro} on {processes} "
            "processes: set train.micro to a divisor of it"
        )
    return {
        "recipe": recipe.model_dump(mode="json"),
        "processes": processes,
        "gradient_accumulation": batch // micro,
        "episodes": len(solved.episodes),
        "episodes_read": solved.valid,
        "episodes_left_out": dict(solved.left),
        "tasks": len({episode.task_id for episode in solved.episodes}),
        "turns_learned": solved.turns,
        "turns_masked": solved.masked,
        "epochs": round(recipe.train.steps * batch / len(solved.episodes), 2),
    }


def masked(episode: Episode) -> set[int]:
    """Turns that erred by themselves: what an injected fault struck, or a connection that broke, was a right call."""
    own = {error.turn for error in episode.error_turns if error.site == "erring" and not error.injected}
    return {turn for turn in own if turn < len(episode.turns)}


def encode(episodes: Sequence[Episode], chat: TemplateChat, *, system: str, max_ids: int) -> Rows:
    """As rollouts have them, turn by turn; never cut. Raises RecipeError when none is left."""
    rows, left = [], Counter[str]()
    for episode in episodes:
        try:
            row = _row(episode, chat, system)
        except ChatError:
            left["the template cannot write a turn of them"] += 1
            continue
        if len(row["input_ids"]) > max_ids:
            left[f"longer than generation.max_ids = {max_ids} ids"] += 1
        else:
            rows.append(row)
    if not rows:
        raise RecipeError(f"none of {len(episodes)} solved episodes can be learned from: {_counted(left)}")
    return Rows(rows, left)


def _row(episode: Episode, chat: TemplateChat, system: str) -> dict[str, list[int]]:
    messages = [{"role": "system", "content": system}] if system else []
    written = chat.prompt([*messages, {"role": "user", "content": episode.prompt}], episode.tools)
    ids, labels, unlearned = list(written.ids), [NOT_LEARNED] * len(written.ids), masked(episode)
    for number, turn in enumerate(episode.turns):
        learned = number not in unlearned
        message = as_message(turn.action, number)
        sampled = chat.turn(message, written.ids[written.generation :], exact=learned)
        ids += sampled
        labels += sampled if learned else [NOT_LEARNED] * len(sampled)
        if number + 1 < len(episode.turns):
            answers = [answer.model_dump(exclude_none=True) for answer in turn.messages]
            written = chat.reply(sampled, answers)
            ids += written.ids
            labels += [NOT_LEARNED] * len(written.ids)
    return {"input_ids": ids, "labels": labels}


def _unfit(episode: Episode, least: float) -> str:
    """Why an episode teaches nothing; '' when it does."""
    if episode.reward is None or not episode.reward.valid or episode.reward.value < least:
        return "not solved"
    if any(finding.severity == "confirmed" for finding in episode.findings):
        return "a confirmed finding"
    return "" if len(masked(episode)) < len(episode.turns) else "no turn to learn"


def _none_left(valid: int, left: Counter[str], least: float) -> str:
    solved = valid - left["not solved"]
    if not solved:
        return f"0 of {valid} episodes are solved (a reward of {least:g} or more): play more, or lower sft.reward"
    return f"0 of {solved} solved episodes can be learned from: {_counted(left)}"


def _counted(left: Counter[str]) -> str:
    return ", ".join(f"{number} {reason}" for reason, number in left.items() if number and reason != "not solved")
