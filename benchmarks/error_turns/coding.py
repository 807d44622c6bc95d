"""Experiment (C): the question of (A) on a coding environment.

    python benchmarks/error_turns/coding.py --seeds 5 --out DIR [--arms a,b] [--updates N] [--bases DIR] [--jobs N]
    python benchmarks/error_turns/coding.py --out DIR --report
    python benchmarks/error_turns/coding.py --out DIR --make-bases

Repairs of tiny modules (``repairs``), written to DIR/tasks and served by ``etude serve``: every episode has a sandbox
and is graded by its tests. All else is as in stack.py; an error is a first turn that errs (mostly: an edit in a folder
where the module is not) or does not edit, and ``solved`` is pass@1.
"""

from __future__ import annotations

import sys

from etude.benchmarks.error_turns import summary
from etude.benchmarks.error_turns.driver import Experiment
from etude.benchmarks.error_turns.repair_world import REPAIRS
from etude.benchmarks.error_turns.stack_arms import ARMS
from etude.benchmarks.error_turns.stack_command import Stack, command
from etude.benchmarks.error_turns.stack_summary import checks, last
from etude.benchmarks.error_turns.summary import Measure

RUN = (
    "grpo_sparse grpo_dense grpo_penalty distill sparse_distill dense_distill wrong_hint null_hint raw_error "
    "sft_resample good_turn gated replay sparse_distill_replay"
).split()
MEASURES: dict[str, Measure] = {
    **summary.MEASURES,
    "first": last("train", "first"),
    "turns": last("train", "turns"),
    "solved": last("train", "solved"),
    "new_words": last("eval", "missed"),
    "new_words_turns": last("eval", "turns"),
    "new_words_solved": last("eval", "solved"),
}
"""``new_words``: modules and functions that no run trains on."""
STACK = Stack(REPAIRS, Experiment(ARMS, (), checks, MEASURES), RUN)

if __name__ == "__main__":
    sys.exit(command(STACK, __doc__))
