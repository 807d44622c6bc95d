"""Experiment (B): the question of (A) through the real stack.

    python benchmarks/error_turns/stack.py --seeds 5 --out DIR [--arms a,b] [--updates N] [--bases DIR] [--jobs N]
    python benchmarks/error_turns/stack.py --out DIR --report

Drills of the family ``verbs``, level 1, served by ``etude serve`` (one process for all runs of a command), and the real
trainer on small bases that ``trainers.small`` makes in DIR/bases, unless --bases says where they are: DIR/strong and
DIR/weak. What arms with replay-DPO learn from is made in DIR/pairs. Runs, result file and report are as in
mechanism.py; each run's metrics are in DIR/runs.
"""

from __future__ import annotations

import sys

from etude.benchmarks.error_turns.drill_world import DRILLS
from etude.benchmarks.error_turns.driver import Experiment
from etude.benchmarks.error_turns.stack_arms import ARMS
from etude.benchmarks.error_turns.stack_command import Stack, command
from etude.benchmarks.error_turns.stack_summary import CONTRASTS, MEASURES, checks

STACK = Stack(DRILLS, Experiment(ARMS, CONTRASTS, checks, MEASURES))

if __name__ == "__main__":
    sys.exit(command(STACK, __doc__))
