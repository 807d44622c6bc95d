"""That tool's schema in one line, and the argument at fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ....models import ErrorTurn, Hint
from ...transcript.past_turns import PastTurn
from ...transcript.tool_schemas import argument_problem, parameters_of
from . import schema
from .kit import call_of
from .kit import hint as made


def hint(
    error: ErrorTurn, turns: Sequence[PastTurn], tools: Sequence[Mapping[str, Any]], files: Sequence[str]
) -> Hint | None:
    """What the schema itself says is wrong; otherwise what the environment answered, as when the schema has changed."""
    if error.kind != "invalid_args":
        return None
    call, rule = call_of(error, turns), None if error.injected else parameters_of(tools).get(error.tool)
    wrong = (
        argument_problem(error.tool, rule, call.arguments)
        if rule is not None and call is not None and not call.problem
        else ""
    )
    answer = error.message if call is None or not call.status.message else call.status.message
    said = (wrong or answer).strip()[:170].rstrip(".")
    if rule is None:
        return made("invalid_args", f"Check the arguments of {error.tool[:60] or 'the call'}: {said}.")
    end = "" if said.endswith("?") else "."
    line = schema.one_line(error.tool, rule)
    return made("invalid_args", f"{said}{end}", f"Call {line}." if len(line) < 300 else f"Call {line[:200]}...")
