"""Experiment (B): the question of (A) through the real stack.

    python research/error_turns/stack.py --seeds 5 --out DIR [--arms a,b] [--updates N] [--bases DIR] [--jobs N]
    python research/error_turns/stack.py --out DIR --report

Drills of the family ``verbs``, level 1, served by ``etude serve`` (one process for all runs of a command), and the real
trainer on small bases that ``trainers.small`` makes in DIR/bases, unless --bases says where they are: DIR/strong and
DIR/weak. What arms with replay-DPO learn from is made in DIR/pairs. Runs, result file and report are as in
mechanism.py; each run's metrics are in DIR/runs.
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
"""In the order of PREREGISTERED_STACK.md."""
STACK = Stack(DRILLS, Experiment(ARMS, CONTRASTS, checks, MEASURES, RATES), RUN)

if __name__ == "__main__":
    sys.exit(command(STACK, __doc__))
