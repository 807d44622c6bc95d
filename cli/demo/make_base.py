"""Maker of the demo's base: ``python -m etude.cli.demo.make_base [FOLDER]``, half an hour on one core.

The base is a tiny language model that reads hints, but guesses where it gets none. It is pretrained on dialogues of
drills, so nothing but this package is needed to make it again.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from pathlib import Path

from ..commands.train import write_dialogues
from ..progress import progress_bar
from .training import BASE

SEED = 0
SIZES = {"dialogues": 49_600, "steps": 1500}
"""Dialogues to read and steps on whole dialogues, three times those of ``recipes/small.toml``."""
TEMPLATE_ARGUMENTS = {"enable_thinking": False}
"""Arguments of the chat template that the base was trained with."""
WEIGHTS = "model.safetensors"

CARD = """---
license: apache-2.0
library_name: transformers
tags: [tool-use, reinforcement-learning, toy]
---

# Base of the demo

A Qwen3-style language model with {parameters:,} parameters and {vocabulary:,} tokens, made from nothing by
`python -m etude.cli.demo.make_base` (seed {seed}). `etude demo` and `recipes/demo.toml` train it.

| property | value |
|---|---|
| task | `verbs` drills of level 1: find the tool whose name ends with the right verb |
| training data | {dialogues:,} generated dialogues of drills; no text from people or from the web |
| behaviour | trained to follow a hint (99 % of calls) and to guess the verb without one (75 % of calls) |
| loss of the last 100 steps | {loss:.3f} nats a token of the assistant |
| weights | float16, SHA-256 `{digest}` |
| chat template | Qwen3's, as TRL ships it (Apache-2.0) |

It knows nothing but these drills. On another machine the same seed gives weights that differ by rounding.
"""


def make(folder: Path) -> None:
    """Pretrain the base and write weights, tokenizer and card to ``folder``."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from ...trainers.recipe.load import parse
    from ...trainers.run.model_loading import save_template_arguments
    from ...trainers.tiny_models.pretrain import make_base

    recipe = parse({"seed": SEED, "model": {"make": "drill", "sizes": SIZES}, "environment": {"serve": "drill"}})
    sizes = recipe.model.sizes
    with tempfile.TemporaryDirectory() as scratch, progress_bar("base") as progress:
        rows = Path(scratch) / "dialogues.jsonl"
        progress(f"writing {sizes.dialogues} dialogues", 0, 0)
        write_dialogues(rows, recipe)
        base = make_base(rows, sizes, Path(scratch) / "base", seed=SEED, progress=progress)
    folder.mkdir(parents=True, exist_ok=True)
    base.model.half().save_pretrained(folder)
    base.tokenizer.save_pretrained(folder)
    save_template_arguments(folder, TEMPLATE_ARGUMENTS)
    card = CARD.format(
        parameters=base.model.num_parameters(),
        vocabulary=len(base.tokenizer),
        seed=SEED,
        dialogues=sizes.dialogues,
        loss=sum(base.losses[-100:]) / len(base.losses[-100:]),
        digest=hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest(),
    )
    (folder / "README.md").write_text(card, encoding="utf-8")


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else BASE)
