"""Hint for arguments that do not fit the tool's schema."""

from __future__ import annotations

from ....models import Hint
from ...transcript.tool_schemas import argument_problem
from ..error_context import ErrorContext
from ..hint_text import listed, make_hint
from ..schema_text import signature

_LONG_SIGNATURE = 300


def hint(context: ErrorContext) -> Hint | None:
    """Say which argument is wrong, and name another tool that the arguments fit, or show the tool's schema."""
    error, call = context.error, context.call
    schema = None if error.injected else context.schemas.get(error.tool)
    problem = ""
    if schema is not None and call is not None and not call.problem:
        problem = argument_problem(error.tool, schema, call.arguments)
    answer = error.message if call is None or not call.status.message else call.status.message
    reason = (problem or answer).strip()[:170].rstrip(".")
    if schema is None:
        return make_hint("invalid_args", f"Check the arguments of {error.tool[:60] or 'the call'}: {reason}.")
    end = "" if reason.endswith("?") else "."
    own = signature(error.tool, schema)
    own = own if len(own) < _LONG_SIGNATURE else f"{own[:200]}..."
    fitting = context.tools_that_fit() if problem else []
    if not fitting:
        return make_hint("invalid_args", f"{reason}{end}", f"Call {own}.")
    other = signature(fitting[0], context.schemas[fitting[0]]) if len(fitting) == 1 else listed(fitting, 150)
    meant = f"These arguments fit {other}: check whether {error.tool[:60]} is the tool that you need."
    return make_hint("invalid_args", f"{reason}{end}", meant, f"If it is, call {own}.")
