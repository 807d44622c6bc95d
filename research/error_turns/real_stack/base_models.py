"""Bases of a world, pretrained on its dialogues by ``trainers.tiny_models``, and the hinted chat of its ceiling."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from etude.research.error_turns.small_world import bases
from etude.research.error_turns.small_world.bases import UnfitBase
from etude.research.error_turns.worlds.world import World
from etude.trainers.rollouts.rollout import Written
from etude.trainers.tiny_models.pretrain import is_made, make_base

SEED = 0


def base(world: World, name: str, folder: Path) -> Path:
    """Return the folder of a base, which is made unless it is there."""
    path, sizes = folder / name, world.sizes(name)
    if not is_made(path, sizes, SEED):
        start = base(world, world.starts[name], folder) if name in world.starts else None
        folder.mkdir(parents=True, exist_ok=True)
        rows = folder / f"{name}.jsonl"
        with rows.open("w", encoding="utf-8") as file:
            for row in world.dialogues(sizes):
                file.write(json.dumps(row) + "\n")
        make_base(rows, sizes, path, seed=SEED, start=start, progress=functools.partial(print_progress, name))
    return path


def print_progress(name: str, phase: str, step: int, steps: int) -> None:
    """Print every hundredth step of the pretraining of a base."""
    if step % 100 == 0:
        print(f"base {name}: {phase}, step {step} of {steps}", file=sys.stderr, flush=True)


def digest(path: Path) -> str:
    """Return the digest of a base's weights."""
    logging.disable_progress_bar()
    return bases.digest(AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32))  # as runs load it


def check(world: World, name: str, plain: float, with_hint: float) -> None:
    """Raise UnfitBase for a base that errs more or less often than the experiment assumes, without or with a hint."""
    least, most = world.hinted[name]
    if plain < world.errs:
        raise UnfitBase(
            f"the base {name} errs in {plain:.3f} of its first turns without a hint, not in {world.errs} or more"
        )
    if not least <= with_hint <= most:
        raise UnfitBase(
            f"the base {name} errs in {with_hint:.3f} of its first turns with the right hint, not in {least} to {most}"
        )


class Hinted:
    """Chat that inserts a hint before the first turn; ``hints`` has its text by the user's message."""

    def __init__(self, chat: Any, hints: Mapping[str, str]) -> None:
        self._chat, self._hints = chat, hints

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chat, name)

    def prompt(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Written:
        written = self._chat.prompt(messages, tools)
        inserted = self._chat.hint(self._hints[str(messages[-1]["content"])], True)
        place = written.generation - inserted.back
        ids = [*written.ids[:place], *inserted.ids, *written.ids[place:]]
        return Written(ids, written.generation + len(inserted.ids))
