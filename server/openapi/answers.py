"""Answers that several operations give."""

from __future__ import annotations

from . import bodies, examples
from .operation import JSON, TEXT, Answer

BAD_PLACE = Answer("No such split or index.", bodies.Refusal, {"detail": "Invalid task index"})
WRONG_NAME = Answer("Another environment's name.", bodies.Refusal, {"detail": "unknown environment 'other'"})
INVALID = Answer(
    "A part of the request is missing or has the wrong type.", bodies.InvalidRequest, {"detail": [examples.INVALID]}
)
NO_SPLIT = Answer("No such split.", bodies.Refusal, {"detail": "unknown split 'dev'. There are: train, test"})
NO_MCP = Answer("The session of `Mcp-Session-Id` has ended.", bodies.Refusal, {"detail": "initialize again"})
NO_SESSION = Answer(
    "No session has this cookie, it has ended, or the body cannot be played.",
    bodies.Refusal,
    {"detail": "no session: POST /seed_session first, and send the cookie of its answer along"},
)
AS_CALL = Answer(
    "No session has this cookie, or the body is not that of the host: while the session runs it was then played as a "
    "call of the model, and the answer is the tool's text.",
    bodies.Refusal,
    {"detail": "this session has ended: seed another"},
    (JSON, TEXT),
)
BROKEN = Answer(
    "The machine failed, so that the episode is void and has no score, or every session is in use (`Retry-After`).",
    bodies.Refusal,
    {"detail": "infrastructure: no space left on device"},
)
NOT_PLAYED = Answer(
    "The arguments cannot be played.",
    bodies.Refusal,
    {"detail": "reset: unknown argument 'task'. Did you mean 'task_id'?"},
)
TOOL_TEXT = Answer("The text of the tool's message.", None, "ok\nsubmitted", (TEXT,))
