"""What the recipe of TRL takes from its reader: a tiny model, and arguments.

The import also replaces the sampler of TRL's GRPOTrainer by a script that solves its drills, and gives it a tokenizer.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import trl
from helpers.model_factory import on_cpu, qwen
from helpers.stock_trainer import Scripted, solved, through
from helpers.tokenizer_factory import tokenizer

WORDS = tokenizer("qwen3-no-thinking")
WORDS.pad_token = "<|endoftext|>"
model = qwen(len(WORDS))
args = trl.GRPOConfig(
    **on_cpu(Path(tempfile.mkdtemp(dir="."))),
    max_steps=1,
    num_generations=4,
    per_device_train_batch_size=4,
    max_completion_length=4096,
    save_strategy="no",
    disable_tqdm=True,
    chat_template_kwargs={"enable_thinking": False},
)


class Solving(Scripted):
    """TRL's trainer whose samples all solve their drill."""

    def __init__(self, *positional: Any, **options: Any) -> None:
        super().__init__(*positional, processing_class=WORDS, **options)
        self.turn = lambda task_id, place, number: solved(task_id, number, through)


trl.GRPOTrainer = Solving
