"""Ladder of the channels: what distillation and replay add to reinforcement learning on the verified reward.

    python research/error_turns/ladder.py --out DIR [--seeds N] [--updates N] [--arms a,b] [--jobs N]
    python research/error_turns/ladder.py --out DIR --report

| rung | arm | channels |
|---|---|---|
| A0 | base | none: the base is evaluated (``ceiling``: with the right hint) |
| A1 | grpo_sparse | RLVR |
| A2 | sparse_tenth | RLVR + 0.1 x distillation at error turns |
| A3 | sparse_replay | RLVR + replay |
| A3 control | sparse_chosen | RLVR + replay's cross-entropy on chosen turns, without the preference |
| A4 | sparse_tenth_replay | all three |

World, measures and result file are those of experiment B (``stack.py``). The base is the one in ``recipes/drill_base``,
and the learning rate is the one that experiment B's tuning chose for these channels, so nothing is made or tuned first.
The pairs are made once, in DIR/pairs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import etude
from etude.research.error_turns.driver import Experiment
from etude.research.error_turns.real_stack.arm_trainer import ARMS
from etude.research.error_turns.real_stack.command import Stack, command
from etude.research.error_turns.real_stack.measures import MEASURES
from etude.research.error_turns.summary import Contrast
from etude.research.error_turns.worlds.drill_world import DRILLS

RUNGS = ["grpo_sparse", "sparse_tenth", "sparse_replay", "sparse_chosen", "sparse_tenth_replay"]
RATE = 3e-4
BASE = Path(etude.__file__).parent / "recipes" / "drill_base"
CONTRASTS = tuple(
    Contrast(f"{name}{measure[0]}", one, other, measure, direction, 0.0)
    for name, one, other in (
        ("L1", "grpo_sparse", "base"),
        ("L2", "sparse_tenth", "grpo_sparse"),
        ("L3", "sparse_replay", "grpo_sparse"),
        ("L4", "sparse_tenth_replay", "sparse_tenth"),
        ("L5", "sparse_replay", "sparse_chosen"),
    )
    for measure, direction in (("final", "below"), ("solved", "above"))
)
LADDER = Stack(DRILLS, Experiment(ARMS, CONTRASTS, lambda arms: {}, MEASURES, (RATE,)), RUNGS, {"strong": BASE})

if __name__ == "__main__":
    sys.exit(command(LADDER, __doc__))
