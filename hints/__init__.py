"""Hints: messages and tool schemas to ErrorTurns (and, later, to Hints). Pure functions of the transcript."""

from __future__ import annotations

from .annotate import annotate, transcript
from .status import Status, read_status

__all__ = ["Status", "annotate", "read_status", "transcript"]
