"""A tiny base model from nothing: tokenizer, random weights and pretraining on one file of dialogues, in a folder."""

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
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen3Config

from ...errors import RecipeError
from ..chat.chat_policy import TemplateChat, never_samples
from ..recipe.recipe import Sizes
from ..run.records import Progress
from .dialogues import Dialogue, encode, read_dialogues, with_roles
from .tokenizer import dialogue_text, make_tokenizer

CONTEXT = 32_768
"""Positions of the model; they take no memory, since they are rotations."""
MARKER = "made.json"
"""File that marks a complete base and holds its sizes, seed and losses."""
SHORT = 2
"""Factor on ``batch`` for the steps on short dialogues."""
_TOKENIZER_TEXTS = 500


@dataclass(frozen=True)
class Base:
    """A base model; ``losses`` has the loss of each step in nats per assistant token."""

    model: Any
    tokenizer: Any
    losses: list[float]


def make_base(
    path: Path,
    sizes: Sizes,
    folder: Path,
    *,
    seed: int = 0,
    start: Path | None = None,
    progress: Progress | None = None,
) -> Base:
    """Train on the dialogues of ``path``, and save model and tokenizer to ``folder``. Raises RecipeError.

    start: folder of a base that is trained further; ``sizes`` has its width, layers and heads. None for random weights
    and a new tokenizer.
    """
    rows = read_dialogues(path)
    if start is None:
        texts = [dialogue_text(with_roles(row), row.get("tools") or []) for row in rows[:_TOKENIZER_TEXTS]]
        tokenizer = make_tokenizer(texts, sizes.vocabulary, joined_words=sizes.joined_words)
    else:
        tokenizer = AutoTokenizer.from_pretrained(start)
    chat = TemplateChat(tokenizer, never_samples, arguments={"enable_thinking": False})
    first_rows = rows[: sizes.reading * SHORT * sizes.batch]
    short = [encode({**row, "tools": []}, chat, tokenizer) for row in first_rows]
    whole = [encode(row, chat, tokenizer) for row in rows[-sizes.steps * sizes.batch :]]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model: Any
    if start is None:
        model = make_model(sizes, tokenizer, seed).to(device)
    else:
        model = AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32)
        model.to(device)
    losses = pretrain(model, short, whole, sizes, seed=seed, progress=progress)
    _save(model, tokenizer, losses, sizes, seed, folder)
    return Base(model, tokenizer, losses)


def is_made(folder: Path, sizes: Sizes, seed: int) -> bool:
    """Return whether ``folder`` holds the complete base of these sizes and seed."""
    try:
        return bool(json.loads((folder / MARKER).read_text())["made"] == _key(sizes, seed))
    except (OSError, ValueError, KeyError):
        return False


def make_model(sizes: Sizes, tokenizer: Any, seed: int) -> Any:
    """Return a Qwen3-style model with random weights from the seed, in float32 on the CPU.

    Embeddings are tied; there are at most half as many key heads as query heads.
    """
    torch.manual_seed(seed)
    key_heads = next(number for number in range(max(sizes.heads // 2, 1), 0, -1) if sizes.heads % number == 0)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=sizes.hidden,
        intermediate_size=2 * sizes.hidden,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        num_key_value_heads=key_heads,
        head_dim=sizes.hidden // sizes.heads,
        max_position_embeddings=CONTEXT,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32)


def pretrain(
    model: Any,
    short: Sequence[Dialogue],
    whole: Sequence[Dialogue],
    sizes: Sizes,
    *,
    seed: int = 0,
    progress: Progress | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> list[float]:
    """Train ``copying`` steps, ``reading`` steps on dialogues without tools, then ``steps`` on whole dialogues.

    The optimizer is AdamW at the learning rate of ``sizes``, unless another is given. Its rate has a warm-up, then a
    cosine over all steps that ends at a twentieth of the rate of ``sizes``. Return the loss of each step.
    """
    steps = sizes.copying + sizes.reading + sizes.steps
    if optimizer is None:
        optimizer = torch.optim.AdamW(model.parameters(), lr=sizes.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    warm = max(steps // 20, 1)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(steps - warm, 1), sizes.learning_rate / 20)
    warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / warm, total_iters=warm)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm_up, cosine], [warm])
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
        loss = dialogue_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
    model.eval()
    return losses


def _repeated(vocabulary: int, number: int, seed: int) -> list[Dialogue]:
    """Return random ids repeated twice; only copying lowers the loss of the second half, and hints need copying."""
    rng = random.Random(f"repeated {seed}")
    lengths = [rng.randrange(10, 50) for _ in range(number)]
    sequences = [[rng.randrange(vocabulary) for _ in range(length)] for length in lengths]
    return [Dialogue(ids * 2, [0] * len(ids) + [1] * len(ids)) for ids in sequences]


def _batches(dialogues: Sequence[Dialogue], size: int, number: int, seed: int) -> list[list[Dialogue]]:
    """Return ``number`` batches of dialogues of similar length; the seed orders them, and all are used in turn."""
    if number and not dialogues:
        raise RecipeError("the file has no dialogues to learn from; write more rows to it")
    generator = torch.Generator().manual_seed(seed)
    ordered = sorted(dialogues, key=lambda dialogue: len(dialogue.ids))
    pools = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    batches: list[list[Dialogue]] = []
    while len(batches) < number:
        batches += [pools[index] for index in torch.randperm(len(pools), generator=generator).tolist()]
    return batches[:number]


def dialogue_loss(model: Any, batch: Sequence[Dialogue]) -> Tensor:
    """Return nats per assistant token. Causal attention never sees the padding on the right."""
    width = max(len(dialogue.ids) for dialogue in batch)

    def padded(row: list[int]) -> list[int]:
        return row + [0] * (width - len(row))

    ids = torch.tensor([padded(dialogue.ids) for dialogue in batch], device=model.device)
    targets = torch.tensor([padded(dialogue.targets) for dialogue in batch], device=model.device)[:, 1:].bool()
    hidden = model.model(input_ids=ids).last_hidden_state[:, :-1][targets]
    return torch.nn.functional.cross_entropy(model.lm_head(hidden).float(), ids[:, 1:][targets])


def _save(model: Any, tokenizer: Any, losses: list[float], sizes: Sizes, seed: int, folder: Path) -> None:
    """Save the base atomically: the folder gets its name when it is complete."""
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    model.save_pretrained(part)
    tokenizer.save_pretrained(part)
    (part / MARKER).write_text(json.dumps({"made": _key(sizes, seed), "losses": losses}))
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)


def _key(sizes: Sizes, seed: int) -> dict[str, Any]:
    return {**sizes.model_dump(mode="json"), "seed": seed}
