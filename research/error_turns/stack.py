"""Experiment B: the question of experiment A, asked through the real stack.

    python research/error_turns/stack.py --seeds 5 --out DIR [--arms a,b] [--updates N] [--bases DIR] [--jobs N]
    python research/error_turns/stack.py --out DIR --report

The real trainer learns on drills of the family ``verbs``, level 1. One ``etude serve`` serves all runs.
The small bases ``strong`` and ``weak`` are made in DIR/bases, unless --bases names their folder. The pairs of arms with
replay-DPO are made in DIR/pairs, and each run's metrics are in DIR/runs. Runs, result file and report are as in
mechanism.py.
"""

from __future__ import annotations

import sys

from etude.research.error_turns.driver import Experiment
from etude.research.error_turns.real_stack.arm_trainer import ARMS
from etude.research.error_turns.real_stack.command import RATES, Stack, command
from etude.research.error_turns.real_stack.measures import CONTRASTS, MEASURES, checks
from etude.research.error_turns.worlds.drill_world import DRILLS

RUN = (
    "distill grpo_dense dense_distill grpo_sparse sparse_distill wrong_hint null_hint grpo_penalty raw_error "
    "sft_resample good_turn gated live replay sparse_distill_replay weak_distill weak_dense_distill weak_live "
    "ema_05 ema_001 trust_region grpo_dense_10x"
).split()
"""Arms, in the order of PREREGISTERED_STACK.md."""
STACK = Stack(DRILLS, Experiment(ARMS, CONTRASTS, checks, MEASURES, RATES), RUN)

if __name__ == "__main__":
    sys.exit(command(STACK, __doc__))
