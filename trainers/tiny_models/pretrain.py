"""A base from nothing: a tokenizer and a model from the dialogues of one file, kept in a folder."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import RecipeError
from ..chat.chat_policy import TemplateChat
from ..recipe.recipe import Sizes
from ..run.records import Progress
from .dialogues import Dialogue, encode, read_dialogues, with_roles
from .model import make_model
from .tokenizer import make_tokenizer, text_of

MADE = "made.json"
SHORT = 2
"""So many times ``batch`` dialogues make one step while they are short."""
_TEXTS = 500


@dataclass(frozen=True)
class Base:
    """What was made. ``losses``: nats a token of the assistant's, at each step."""

    model: Any
    tokenizer: Any
    losses: list[float]


async def _never(ids: Sequence[int], room: int) -> Any:
    raise AssertionError("dialogues are read, not sampled")


def make_base(path: Path, sizes: Sizes, folder: Path, *, seed: int = 0, progress: Progress | None = None) -> Base:
    """Train on the dialogues of ``path`` and save model and tokenizer to ``folder``. Raises RecipeError."""
    rows = read_dialogues(path)
    tokenizer = make_tokenizer(
        [text_of(with_roles(row), row.get("tools") or []) for row in rows[:_TEXTS]], sizes.vocabulary
    )
    chat = TemplateChat(tokenizer, _never, arguments={"enable_thinking": False})
    bare = rows[: sizes.reading * SHORT * sizes.batch]
    short = [encode({**row, "tools": []}, chat, tokenizer) for row in bare]
    whole = [encode(row, chat, tokenizer) for row in rows[-sizes.steps * sizes.batch :]]
    model = make_model(sizes, tokenizer, seed).to("cuda" if torch.cuda.is_available() else "cpu")
    losses = pretrain(model, short, whole, sizes, seed=seed, progress=progress)
    _save(model, tokenizer, losses, sizes, seed, folder)
    return Base(model, tokenizer, losses)


def is_made(folder: Path, sizes: Sizes, seed: int) -> bool:
    """Whether ``folder`` holds the base of these sizes and seed."""
    try:
        return bool(json.loads((folder / MADE).read_text())["made"] == _key(sizes, seed))
    except (OSError, ValueError, KeyError):
        return False


def pretrain(
    model: Any,
    short: Sequence[Dialogue],
    whole: Sequence[Dialogue],
    sizes: Sizes,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[float]:
    """``copying`` steps, ``reading`` steps on dialogues without their tools, then ``steps`` on whole ones.

    Returns the loss of each step. AdamW with warm-up, then a cosine over all.
    """
    steps = sizes.copying + sizes.reading + sizes.steps
    optimizer = torch.optim.AdamW(model.parameters(), lr=sizes.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    warm = max(steps // 20, 1)
    after = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(steps - warm, 1), sizes.learning_rate / 20)
    before = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / warm, total_iters=warm)
    rate = torch.optim.lr_scheduler.SequentialLR(optimizer, [before, after], [warm])
    size = SHORT * sizes.batch
    batches = [
        *_batches(_repeated(model.config.vocab_size, sizes.copying * size, seed), size, sizes.copying, seed),
        *_batches(short, size, sizes.reading, seed),
        *_batches(whole, sizes.batch, sizes.steps, seed),
    ]
    losses = []
    model.train()
    for step, batch in enumerate(batches):
        if progress:
            progress("pretraining", step, steps)
        loss = _loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()
        losses.append(float(loss.detach()))
    model.eval()
    return losses


def _repeated(vocabulary: int, number: int, seed: int) -> list[Dialogue]:
    """Random ids, said twice: nothing but copying lowers the loss of the second time, and hints are read by copying."""
    chance = random.Random(f"repeated {seed}")
    lengths = [chance.randrange(10, 50) for _ in range(number)]
    drawn = [[chance.randrange(vocabulary) for _ in range(length)] for length in lengths]
    return [Dialogue(ids * 2, [0] * len(ids) + [1] * len(ids)) for ids in drawn]


def _batches(dialogues: Sequence[Dialogue], size: int, number: int, seed: int) -> list[list[Dialogue]]:
    """``number`` of them: all dialogues once, those of like length together, in an order by the seed; then anew."""
    if number and not dialogues:
        raise RecipeError("there are no dialogues to learn from")
    generator = torch.Generator().manual_seed(seed)
    ordered = sorted(dialogues, key=lambda dialogue: len(dialogue.ids))
    pools = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    found: list[list[Dialogue]] = []
    while len(found) < number:
        found += [pools[index] for index in torch.randperm(len(pools), generator=generator).tolist()]
    return found[:number]


def _loss(model: Any, batch: Sequence[Dialogue]) -> Tensor:
    """Nats a token of what the assistant wrote. Causal attention never sees the padding on the right."""
    width = max(len(each.ids) for each in batch)
    where = model.device
    ids = torch.tensor([each.ids + [0] * (width - len(each.ids)) for each in batch], device=where)
    said = torch.tensor([each.said + [0] * (width - len(each.ids)) for each in batch], device=where)[:, 1:].bool()
    hidden = model.model(input_ids=ids).last_hidden_state[:, :-1][said]
    return torch.nn.functional.cross_entropy(model.lm_head(hidden).float(), ids[:, 1:][said])


def _save(model: Any, tokenizer: Any, losses: list[float], sizes: Sizes, seed: int, folder: Path) -> None:
    """Whole, or not at all."""
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    model.save_pretrained(part)
    tokenizer.save_pretrained(part)
    (part / MADE).write_text(json.dumps({"made": _key(sizes, seed), "losses": losses}))
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)


def _key(sizes: Sizes, seed: int) -> dict[str, Any]:
    return {**sizes.model_dump(mode="json"), "seed": seed}
