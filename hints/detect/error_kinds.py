"""The decision table from the status of a call to the kind of error that it is."""

from __future__ import annotations

import re
from typing import get_args

from ...models import ErrorKind
from ..transcript.call_effects import command_of
from ..transcript.past_turns import PastCall
from ..transcript.shell_commands import parse
from ..transcript.status_line import was_cut
from ..transcript.tool_roles import role
from ..transcript.tracebacks import ends_with_traceback
from .behaviour.marks import BEHAVIOUR_KINDS

_CODES: dict[str, ErrorKind] = {kind: kind for kind in get_args(ErrorKind) if kind not in BEHAVIOUR_KINDS}
"""Codes of ``error CODE: ...``; any other code (such as ``io_error``) is ``nonzero_exit``."""
_COUNTERS = frozenset("grep egrep fgrep zgrep rg ag".split())
_COUNTS = re.compile(r"-[a-zA-Z]*c[a-zA-Z]*|--count(?:-matches)?")
_ZERO = re.compile(r"(?:.*:)?0")


def error_kind(call: PastCall) -> ErrorKind | None:
    """Return the kind of error that a call was; ``None`` when it was not an error.

    ===================  ============================================================================
    status               kind
    ===================  ============================================================================
    ``error CODE: ...``  CODE when that is a kind, else ``nonzero_exit``; ``nonzero_exit`` is read as ``exit 1``
    ``timeout Ns``       ``timeout``
    ``exit N``           ``command_not_found`` for a shell's 127; ``traceback`` when the output of a shell or an
                         interpreter ends with one; none when a tool that runs tests reports 1 (failing tests are the
                         answer) and when a search that counts finds nothing; else ``nonzero_exit``, whatever the
                         command was: also a search without a match
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
    """Return whether the call did what it should, with its result cut or not."""
    return call.status.word in ("ok", "exit") and error_kind(call) in (None, "output_limit")


def _kind_of_exit(call: PastCall, code: int) -> ErrorKind | None:
    kind = role(call.name, call.arguments)
    if code == 1 and (kind == "tests" or (kind == "shell" and _counts_zero(call))):
        return None
    if kind == "shell" and code == 127:
        return "command_not_found"
    if kind in ("shell", "code") and ends_with_traceback(call.body):
        return "traceback"
    return "nonzero_exit"


def _counts_zero(call: PastCall) -> bool:
    """Return whether a search was to count matches and found none: exit code 1 is its answer, an error has another.

    The exit code is that of the last command, unless an earlier one may have ended the chain (``cd x && grep -c``);
    there the printed count decides.
    """
    parts = parse(command_of(call))
    if not parts or parts[-1].program not in _COUNTERS or not any(map(_COUNTS.fullmatch, parts[-1].words[1:])):
        return False
    if all(part.after in ("|", ";") for part in parts[1:]):
        return True
    return _ZERO.fullmatch(call.body.strip().rpartition("\n")[2]) is not None
