"""The bases of a world, made by ``trainers.small`` from its dialogues; and a chat with hints, for its ceiling."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import AutoModelForCausalLM
from transformers.utils import logging

from etude.research.error_turns.small_world import bases
from etude.research.error_turns.small_world.bases import UnfitBase
from etude.research.error_turns.worlds.world import World
from etude.trainers.rollouts.rollout import Written
from etude.trainers.tiny_models.pretrain import is_made, make_base

SEED = 0


def base(world: World, name: str, folder: Path) -> Path:
    """Return where the base is; it is made there unless it is there."""
    found, wanted = folder / name, world.sizes(name)
    if not is_made(found, wanted, SEED):
        folder.mkdir(parents=True, exist_ok=True)
        rows = folder / f"{name}.jsonl"
        with rows.open("w", encoding="utf-8") as file:
            for row in world.dialogues(wanted):
                file.write(json.dumps(row) + "\n")
        make_base(rows, wanted, found, seed=SEED, progress=functools.partial(told, name))
    return found


def told(name: str, what: str, step: int, of: int) -> None:
    if step % 100 == 0:
        print(f"base {name}: {what}, step {step} of {of}", file=sys.stderr, flush=True)


def digest(path: Path) -> str:
    logging.disable_progress_bar()
    return bases.digest(AutoModelForCausalLM.from_pretrained(path))


def check(world: World, name: str, plain: float, with_hint: float) -> None:
    """Raises UnfitBase for one that does not do what the experiment takes for granted."""
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
    """A chat whose first turn has a hint before it, by the user's words; every other turn is as it was."""

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
