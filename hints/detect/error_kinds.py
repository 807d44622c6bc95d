"""The decision table from the status of a call to the kind of error that it is."""

from __future__ import annotations

from typing import get_args

from ...models import ErrorKind
from ..transcript.call_effects import command_of
from ..transcript.exit_answers import is_answer, is_denied_condition
from ..transcript.past_turns import PastCall
from ..transcript.status_line import was_cut
from ..transcript.tool_roles import role
from ..transcript.tracebacks import ends_with_traceback
from .behaviour.marks import BEHAVIOUR_KINDS

_CODES: dict[str, ErrorKind] = {kind: kind for kind in get_args(ErrorKind) if kind not in BEHAVIOUR_KINDS}
"""Codes of ``error CODE: ...``; any other code (such as ``io_error``) is ``nonzero_exit``."""


def error_kind(call: PastCall) -> ErrorKind | None:
    """Return the kind of error that a call was; ``None`` when it was not an error.

    ===================  ============================================================================
    status               kind
    ===================  ============================================================================
    ``error CODE: ...``  CODE when that is a kind, else ``nonzero_exit``; ``nonzero_exit`` is read as ``exit 1``
    ``timeout Ns``       ``timeout``
    ``exit N``           ``command_not_found`` for a shell's 127; ``traceback`` when the output of a shell or an
                         interpreter ends with one; none when a tool that runs tests reports 1 (failing tests are the
                         answer) and when 1 is the answer of a command (``grep`` without a match, ``diff``,
                         ``test``); else ``nonzero_exit``
    ``ok``               ``output_limit`` when the environment cut the result, else none
    no result            ``malformed_call`` when the call could not be read, else none
    any other            none (``not run: episode ended``)
    ===================  ============================================================================
    """
    status = call.status
    if status.word == "error":
        kind = _CODES.get(status.code, "nonzero_exit")
        return (_kind_of_exit(call, 1) or kind) if status.code == "nonzero_exit" else kind
    if status.word == "timeout":
        return "timeout"
    if status.word == "exit" and status.exit_code:
        exit_kind = _kind_of_exit(call, status.exit_code)
        if exit_kind is not None:
            return exit_kind
    if status.word in ("ok", "exit"):
        return "output_limit" if status.code == "output_limit" or was_cut(call.body) else None
    return "malformed_call" if status.word == "none" and call.problem else None


def worked(call: PastCall) -> bool:
    """Return whether the call did what it should, with its result cut or not; not when it found nothing at a path."""
    if call.status.exit_code == 1 and is_denied_condition(command_of(call)):
        return False
    return call.status.word in ("ok", "exit") and error_kind(call) in (None, "output_limit")


def _kind_of_exit(call: PastCall, code: int) -> ErrorKind | None:
    kind = role(call.name, call.arguments)
    if code == 1 and (kind == "tests" or (kind == "shell" and is_answer(command_of(call), call.body))):
        return None
    if kind == "shell" and code == 127:
        return "command_not_found"
    if kind in ("shell", "code") and ends_with_traceback(call.body):
        return "traceback"
    return "nonzero_exit"
