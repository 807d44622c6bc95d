"""Base of the studies of effort and of continual learning, pretrained on ``dialogues``.

    python research/effort/base.py --out DIR

A Qwen3-style model with 3 layers, a width of 128 and thinking on. It takes about 20 minutes on one core.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch

from etude.research.effort.dialogues import dialogues
from etude.trainers.chat.chat_policy import TemplateChat, never_samples
from etude.trainers.recipe.recipe import Sizes
from etude.trainers.tiny_models.dialogues import encode, with_roles
from etude.trainers.tiny_models.pretrain import SHORT, make_model, pretrain
from etude.trainers.tiny_models.tokenizer import dialogue_text, make_tokenizer

SIZES = Sizes(copying=400, reading=650, steps=400)
SEED = 0
TOKENIZER_TEXTS = 500


def make(folder: Path, sizes: Sizes = SIZES) -> None:
    """Pretrain the base and save model and tokenizer to ``folder``."""
    short_rows, whole_rows = sizes.reading * SHORT * sizes.batch, sizes.steps * sizes.batch
    rows = list(dialogues(short_rows + whole_rows, SEED))
    texts = [dialogue_text(with_roles(row), row["tools"]) for row in rows[-TOKENIZER_TEXTS:]]
    tokenizer = make_tokenizer(texts, sizes.vocabulary)
    chat = TemplateChat(tokenizer, never_samples)
    short = [encode({**row, "tools": []}, chat, tokenizer) for row in rows[:short_rows]]
    whole = [encode(row, chat, tokenizer) for row in rows[short_rows:]]
    start = time.monotonic()

    def progress(phase: str, step: int, steps: int) -> None:
        if step % 50 == 0:
            print(f"{phase}: step {step} of {steps}, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)

    model = make_model(sizes, tokenizer, SEED)
    losses = pretrain(model, short, whole, sizes, seed=SEED, progress=progress)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    print(f"loss of the last 50 steps: {sum(losses[-50:]) / 50:.4f} nats a token of the assistant")


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    make(parser.parse_args().out)
