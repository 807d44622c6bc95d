"""Hints: messages and tool schemas to ErrorTurns and their Hints. Pure functions of the transcript."""

from __future__ import annotations

from .annotate import annotate, transcript
from .decide import error_kind
from .dialects import read
from .status import Status, read_status
from .turns import PastCall, PastTurn

__all__ = ["PastCall", "PastTurn", "Status", "annotate", "error_kind", "read", "read_status", "transcript"]
