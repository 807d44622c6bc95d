"""Base of the study of effort: the base of the demo, pretrained further on ``dialogues``.

    python research/effort/base.py --out DIR

It starts from ``recipes/drill_base``, which copies ids and values, and learns levels, the family ``choose``, repeated
calls and demonstrations. A base made from nothing on such dialogues alone did not copy ids after 1,450 steps.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from etude.research.effort.dialogues import LEVELS, dialogues
from etude.trainers.chat.chat_policy import TemplateChat, never_samples
from etude.trainers.recipe.recipe import Sizes
from etude.trainers.tiny_models.dialogues import encode
from etude.trainers.tiny_models.pretrain import pretrain

START = Path(__file__).parents[2] / "recipes" / "drill_base"
TEMPLATE = {"enable_thinking": False}
"""Arguments of the chat template, as for the base of the demo."""
RATE = 6e-4
ROUNDS = ((150, LEVELS), (350, LEVELS))
"""Steps and dialogues of each round, which has a warm-up and a cosine; its number is the seed of its dialogues."""


def make(folder: Path, first: int = 0) -> None:
    """Pretrain the base of the demo further, and save every round to ``folder``/N; start with round ``first``."""
    for number in range(first, len(ROUNDS)):
        start = folder / str(number - 1) if number else START
        losses = pretrain_round(start, folder / str(number), number)
        for end in range(25, len(losses) + 1, 25):
            print(f"round {number}, steps to {end}: {sum(losses[end - 25 : end]) / 25:.4f} nats a token", flush=True)


def pretrain_round(start: Path, folder: Path, number: int) -> list[float]:
    """Pretrain the weights in ``start`` for one round, save them to ``folder``, and return the losses."""
    (steps, mix), began = ROUNDS[number], time.monotonic()
    sizes = Sizes(copying=0, reading=0, steps=steps, learning_rate=RATE)
    tokenizer = AutoTokenizer.from_pretrained(START)
    model: Any = AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32)
    chat = TemplateChat(tokenizer, never_samples, arguments=TEMPLATE)
    rows = [encode(row, chat, tokenizer) for row in dialogues(steps * sizes.batch, number, mix)]

    def progress(phase: str, step: int, steps: int) -> None:
        if step % 25 == 0:
            print(f"{phase}: step {step} of {steps}, {time.monotonic() - began:.0f} s", flush=True)

    losses = pretrain(model, [], rows, sizes, seed=number, progress=progress)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return losses


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="Folder of the rounds, 0 and 1.")
    parser.add_argument("--first", type=int, default=0, help="First round; earlier ones are in the folder.")
    options = parser.parse_args()
    make(options.out, options.first)
