"""Transcripts by hand: calls and what they answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from etude.hints.transcript.past_turns import PastCall
from etude.hints.transcript.status_line import read_status

Make = Callable[..., PastCall]


@pytest.fixture
def call() -> Make:
    """Makes a call and its result from the tool's name, its arguments and the tool message, status line first."""

    def made(name: str, arguments: dict[str, Any], content: str = "ok", *, call_id: str = "c") -> PastCall:
        status = read_status(content)
        problem = f"{status.code}: {status.message}" if status.code == "malformed_call" else ""
        return PastCall(call_id, name, status, {} if problem else arguments, problem, content.partition("\n")[2])

    return made
