"""Hints: messages and tool schemas to ErrorTurns and their Hints. Pure functions of the transcript."""

from __future__ import annotations

from .detect.annotate import annotate, transcript
from .detect.error_kinds import error_kind
from .foreign import read
from .transcript.past_turns import PastCall, PastTurn
from .transcript.status_line import Status, read_status

__all__ = ["PastCall", "PastTurn", "Status", "annotate", "error_kind", "read", "read_status", "transcript"]
