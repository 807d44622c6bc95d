"""Grading: only an agent's source changes travel, into a fresh sandbox with pristine tests, over a channel we own.

Reading order: ``submission`` (what comes in, what goes out, the registry of verifiers), ``in_process`` and ``answer``
(the built-in verifiers), ``collect`` (which changes are graded), ``components`` (from a test run to a reward).
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
