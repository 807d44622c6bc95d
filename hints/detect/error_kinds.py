"""The decision table: how a call went, to what kind of error that is."""

from __future__ import annotations

from ...models import ErrorKind
from ..transcript.past_turns import PastCall
from ..transcript.status_line import was_cut
from ..transcript.tool_roles import role
from ..transcript.tracebacks import ends_with_traceback

_CODES: dict[str, ErrorKind] = {
    "tool_not_found": "tool_not_found",
    "invalid_args": "invalid_args",
    "malformed_call": "malformed_call",
    "file_not_found": "file_not_found",
    "edit_failed": "edit_failed",
    "command_not_found": "command_not_found",
    "nonzero_exit": "nonzero_exit",
    "traceback": "traceback",
    "timeout": "timeout",
    "output_limit": "output_limit",
    "transport_error": "transport_error",
    "injected_fault": "injected_fault",
    "budget": "budget",
}
"""Codes of ``error CODE: ...``; any other (``io_error``, for one) is ``nonzero_exit``."""


def error_kind(call: PastCall) -> ErrorKind | None:
    """What kind of error a call was; ``None`` when it was none.

    ===================  ============================================================================
    status               kind
    ===================  ============================================================================
    ``error CODE: ...``  CODE when that is a kind, else ``nonzero_exit``; ``nonzero_exit`` is told as ``exit 1``
    ``timeout Ns``       ``timeout``
    ``exit N``           ``command_not_found`` for a shell's 127; ``traceback`` when the output of a shell or an
                         interpreter ends with one; none when a tool that runs tests reports 1 (failing tests are what
                         was asked for); else ``nonzero_exit``, whatever the command was: also a search without a
                         match
    ``ok``               ``output_limit`` when the environment cut the result, else none
    no result            ``malformed_call`` when the call could not be read, else none
    any other            none (``not run: episode ended``)
    ===================  ============================================================================
    """
    status = call.status
    if status.word == "error":
        told = _CODES.get(status.code, "nonzero_exit")
        return (_exit(call, 1) or told) if status.code == "nonzero_exit" else told
    if status.word == "timeout":
        return "timeout"
    if status.word == "exit" and status.exit_code:
        kind = _exit(call, status.exit_code)
        if kind is not None:
            return kind
    if status.word in ("ok", "exit"):
        return "output_limit" if status.code == "output_limit" or was_cut(call.body) else None
    return "malformed_call" if status.word == "none" and call.problem else None


def worked(call: PastCall) -> bool:
    """Whether the call did what it was asked, cut short or not."""
    return call.status.word in ("ok", "exit") and error_kind(call) in (None, "output_limit")


def _exit(call: PastCall, code: int) -> ErrorKind | None:
    kind = role(call.name, call.arguments)
    if kind == "tests" and code == 1:
        return None
    if kind == "shell" and code == 127:
        return "command_not_found"
    if kind in ("shell", "code") and ends_with_traceback(call.body):
        return "traceback"
    return "nonzero_exit"
