"""Experiment C: the question of experiment A on a coding environment.

    python research/error_turns/coding.py --seeds 5 --out DIR [--arms a,b] [--updates N] [--bases DIR] [--jobs N]
    python research/error_turns/coding.py --out DIR --report
    python research/error_turns/coding.py --out DIR --make-bases

The tasks are repairs of tiny modules (``worlds/repairs.py``), written to DIR/tasks and served by ``etude serve``: every
episode has a sandbox and is graded by its tests. An error is a first turn that errs (mostly an edit in a folder that
lacks the module) or does not edit, and ``solved`` is pass@1. Everything else is as in stack.py.
"""

from __future__ import annotations

import sys

from etude.research.error_turns.driver import Experiment
from etude.research.error_turns.real_stack.arm_trainer import ARMS
from etude.research.error_turns.real_stack.command import Stack, command
from etude.research.error_turns.real_stack.measures import PLACE, checks, measures
from etude.research.error_turns.summary import Contrast
from etude.research.error_turns.worlds.repair_world import REPAIRS

RUN = (
    "distill grpo_sparse sparse_distill wrong_hint grpo_dense dense_distill raw_error grpo_penalty sft_resample "
    "good_turn sparse_distill_replay replay gated null_hint"
).split()
"""Arms, in the order of PREREGISTERED_CODING.md. The contrasts are registered in PREREGISTERED_CODING_2.md, those named
W in PREREGISTERED_BALANCE.md, and those named X in PREREGISTERED_PLACE.md."""
RATES = (3e-4,)
"""Learning rate that the tuning of experiment B chose for every arm that learned; nothing is tuned here."""
MEASURES = measures("new_words")
"""``new_words``: modules and functions that no run trains on."""
CONTRASTS = (
    Contrast("P1", "sparse_distill", "grpo_sparse", "solved", "above", 0.0),
    Contrast("P2", "dense_distill", "grpo_dense", "area", "below", 0.0),
    Contrast("P3", "distill", "base", "solved", "above", 0.30),
    Contrast("P4", "distill", "wrong_hint", "final", "below", -0.30),
    Contrast("P5", "sparse_distill", "grpo_sparse", "new_words_solved", "above", 0.0),
    Contrast("S1", "distill", "grpo_sparse", "solved", "above", 0.0),
    Contrast("S2", "distill", "grpo_dense", "solved", "above", 0.0),
    Contrast("S3", "sparse_distill", "distill", "solved", "above", 0.0),
    Contrast("S4", "distill", "base", "new_words_solved", "above", 0.20),
    Contrast("S5", "distill", "raw_error", "final", "below", -0.10),
    Contrast("S6", "distill", "grpo_penalty", "area", "below", 0.0),
    Contrast("S7", "distill", "sft_resample", "area", "below", 0.0),
    Contrast("S8", "distill", "good_turn", "area", "below", 0.0),
    Contrast("S9", "sparse_distill_replay", "sparse_distill", "solved", "above", 0.0),
    Contrast("W1", "sparse_tenth", "sparse_distill", "solved", "above", 0.0),
    Contrast("W2", "sparse_tenth", "grpo_sparse", "area", "below", -0.10),
    Contrast("W3", "dense_tenth", "grpo_dense", "area", "below", 0.0),
    Contrast("W4", "dense_tenth", "grpo_dense", "solved", "within", 0.05),
    *PLACE,
    Contrast("X3", "good_due", "base", "solved", "above", 0.20),
)
STACK = Stack(REPAIRS, Experiment(ARMS, CONTRASTS, checks, MEASURES, RATES), RUN)

if __name__ == "__main__":
    sys.exit(command(STACK, __doc__))
