"""Stage "sft": which episodes are learned from, which of their turns, and their ids. Imports no torch.

This is rejection sampling: only solved episodes are learned from. Their error turns are read but not learned; the
recoveries after them are learned.
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

from ...errors import ChatError, RecipeError
from ...models import Episode
from ..chat.chat_policy import TemplateChat
from ..recipe.recipe import Recipe
from ..replay.turns.prefixes import as_message, own_error_turns

ReadEpisodes = Callable[[Path], Iterable[Episode]]
"""Return the valid episodes in a run's folder."""
NOT_LEARNED = -100
"""Label of an id that is read but not learned."""


@dataclass(frozen=True)
class Solved:
    """Episodes to learn from; ``valid`` episodes were read, ``skipped`` counts those not taken, by reason."""

    episodes: list[Episode]
    valid: int
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def turns(self) -> int:
        """Return the number of turns that are learned."""
        return sum(len(episode.turns) for episode in self.episodes) - self.masked

    @property
    def masked(self) -> int:
        """Return the number of turns that are only read."""
        return sum(len(masked(episode)) for episode in self.episodes)


@dataclass(frozen=True)
class Rows:
    """Episodes as ids; ``labels`` equal the ids that the policy is to write, and are -100 elsewhere.

    ``skipped`` counts the episodes that became no row, by reason.
    """

    rows: list[dict[str, list[int]]]
    skipped: Counter[str]

    def state_dict(self) -> dict[str, Any]:
        """Return the fingerprint that a checkpoint stores, so that a run resumes with the same episodes."""
        return {"sha256": hashlib.sha256(json.dumps(self.rows).encode()).hexdigest()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raise RecipeError when the stored fingerprint is that of other episodes."""
        if state != self.state_dict():
            raise RecipeError("episodes: they have changed since the run was interrupted; choose another out")


def select(recipe: Recipe, read: ReadEpisodes | None) -> Solved | None:
    """Return the solved episodes of a recipe's runs, or None unless its stage is "sft".

    Raises RecipeError when no episode can be learned from.
    """
    if recipe.stage != "sft":
        return None
    if read is None:
        raise RecipeError('stage = "sft" needs a reader of episodes; start it with `etude train`')
    least, most = recipe.sft.reward, recipe.sft.per_task
    episodes = [episode for run in recipe.episodes for episode in read(Path(run))]
    tasks: dict[str, list[Episode]] = {}
    skipped: Counter[str] = Counter()
    for episode in episodes:
        if reason := _unfit(episode, least):
            skipped[reason] += 1
        else:
            tasks.setdefault(episode.task_id, []).append(episode)
    chosen = []
    for task, solved in tasks.items():
        rng = random.Random(f"sft {recipe.seed} {task}")
        chosen += solved if not most or len(solved) <= most else rng.sample(solved, most)
    skipped["more than sft.per_task"] += sum(map(len, tasks.values())) - len(chosen)
    if not chosen:
        raise RecipeError(_no_episodes(len(episodes), skipped, least))
    return Solved(chosen, len(episodes), +skipped)


def plan(recipe: Recipe, processes: int, solved: Solved) -> dict[str, Any]:
    """Return the sizes that follow from a recipe and its episodes. Raises RecipeError when micro-batches do not fit."""
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
        "episodes_left_out": dict(solved.skipped),
        "tasks": len({episode.task_id for episode in solved.episodes}),
        "turns_learned": solved.turns,
        "turns_masked": solved.masked,
        "epochs": round(recipe.train.steps * batch / len(solved.episodes), 2),
    }


def masked(episode: Episode) -> set[int]:
    """Return the turns in which the agent itself erred: a call that an injected fault broke was a right call."""
    return {turn for turn in own_error_turns(episode) if turn < len(episode.turns)}


def encode(episodes: Sequence[Episode], chat: TemplateChat, *, system: str, max_ids: int) -> Rows:
    """Encode episodes turn by turn, as rollouts have them; none is cut. Raises RecipeError when no row results."""
    rows, skipped = [], Counter[str]()
    for episode in episodes:
        try:
            row = _row(episode, chat, system)
        except ChatError:
            skipped["the template cannot write a turn of them"] += 1
            continue
        if len(row["input_ids"]) > max_ids:
            skipped[f"longer than generation.max_ids = {max_ids} ids"] += 1
        else:
            rows.append(row)
    if not rows:
        raise RecipeError(f"0 of {len(episodes)} solved episodes can be learned from: {_reasons(skipped)}")
    return Rows(rows, skipped)


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
    """Return why an episode is not learned from; '' when it is."""
    if episode.reward is None or not episode.reward.valid or episode.reward.value < least:
        return "not solved"
    if any(finding.severity == "confirmed" for finding in episode.findings):
        return "a confirmed finding"
    return "" if len(masked(episode)) < len(episode.turns) else "no turn to learn"


def _no_episodes(valid: int, skipped: Counter[str], least: float) -> str:
    solved = valid - skipped["not solved"]
    if not solved:
        return f"0 of {valid} episodes are solved (a reward of {least:g} or more); play more, or lower sft.reward"
    return f"0 of {solved} solved episodes can be learned from: {_reasons(skipped)}"


def _reasons(skipped: Counter[str]) -> str:
    return ", ".join(f"{number} {reason}" for reason, number in skipped.items() if number and reason != "not solved")
