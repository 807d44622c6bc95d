"""A base from nothing: a tokenizer and a model from the dialogues of one file, kept in a folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..chat import TemplateChat
from ..recipe import Sizes
from .dialogues import Dialogue, encode, read_dialogues, with_roles
from .model import make_model
from .tokenizer import make_tokenizer, text_of

Progress = Callable[[str, int, int], None]
MADE = "made.json"
OTHERS = 0.1
"""The weight of what the assistant did not write: reading it teaches to copy."""
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
    read = [encode(row, chat, tokenizer) for row in rows]
    model = make_model(sizes, tokenizer, seed)
    losses = pretrain(model, read, sizes, seed=seed, progress=progress)
    _save(model, tokenizer, losses, sizes, seed, folder)
    return Base(model, tokenizer, losses)


def is_made(folder: Path, sizes: Sizes, seed: int) -> bool:
    """Whether ``folder`` holds the base of these sizes and seed."""
    try:
        return bool(json.loads((folder / MADE).read_text())["made"] == _key(sizes, seed))
    except (OSError, ValueError, KeyError):
        return False


def pretrain(
    model: Any, dialogues: Sequence[Dialogue], sizes: Sizes, *, seed: int = 0, progress: Progress | None = None
) -> list[float]:
    """AdamW, warm-up and cosine; dialogues of like length share a batch. Returns the loss of each step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=sizes.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    warm = max(sizes.steps // 20, 1)
    after = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(sizes.steps - warm, 1), sizes.learning_rate / 20)
    before = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / warm, total_iters=warm)
    rate = torch.optim.lr_scheduler.SequentialLR(optimizer, [before, after], [warm])
    losses = []
    model.train()
    for step, batch in enumerate(_batches(dialogues, sizes, seed)):
        if progress:
            progress("pretraining", step, sizes.steps)
        loss, said = _loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()
        losses.append(said)
    model.eval()
    return losses


def _batches(dialogues: Sequence[Dialogue], sizes: Sizes, seed: int) -> list[list[Dialogue]]:
    """One for each step, drawn by the seed."""
    generator = torch.Generator().manual_seed(seed)
    ordered = sorted(dialogues, key=lambda dialogue: len(dialogue.ids))
    pools = [ordered[start : start + sizes.batch] for start in range(0, len(ordered), sizes.batch)]
    drawn = torch.randint(len(pools), (sizes.steps,), generator=generator).tolist()
    return [pools[index] for index in drawn]


def _loss(model: Any, batch: Sequence[Dialogue]) -> tuple[Tensor, float]:
    """Of the step, and the mean over what the assistant wrote."""
    width = max(len(each.ids) for each in batch)
    ids = torch.tensor([each.ids + [0] * (width - len(each.ids)) for each in batch])
    there = torch.tensor([[1] * len(each.ids) + [0] * (width - len(each.ids)) for each in batch])
    said = torch.tensor([each.said + [0] * (width - len(each.ids)) for each in batch])[:, 1:]
    logits = model(input_ids=ids, attention_mask=there).logits[:, :-1]
    each = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    weights = (said + OTHERS * (there[:, 1:] - said)).flatten()
    own = float((each.detach() * said.flatten()).sum() / said.sum())
    return (each * weights).sum() / weights.sum(), own


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
