"""Grading: an agent's source changes, and nothing else, go into a fresh sandbox with pristine tests.

Reading order: ``submission`` (what is graded, what comes back, the registry of verifiers), ``in_process``, ``mutants``
and ``answer`` (the built-in verifiers), ``collect`` (which changes are graded), ``components`` (from a test run to a
reward), ``controls`` (copies of tests that have to fail), ``out_of_process`` (grading by answers to recorded calls).
"""

from __future__ import annotations

from ...errors import GraderError
from ..tasks.task_paths import matches
from .collect import changes_of, collect, diff_digest
from .submission import VERIFIERS, Submission, Verdict, grade, grade_submission

__all__ = [
    "VERIFIERS",
    "GraderError",
    "Submission",
    "Verdict",
    "changes_of",
    "collect",
    "diff_digest",
    "grade",
    "grade_submission",
    "matches",
]
