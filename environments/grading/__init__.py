"""Grading: only an agent's source changes travel, into a fresh sandbox with pristine tests, by a channel we own."""

from __future__ import annotations

from ...errors import GraderError
from .collect import changes_of, collect, diff_digest, matches
from .in_process import grade, ungradable, unplayable

__all__ = ["GraderError", "changes_of", "collect", "diff_digest", "grade", "matches", "ungradable", "unplayable"]
