"""Template hints: one file per hint, each a function of the error and of what the agent could see.

A template returns ``None`` for an error that it has nothing to say to. Hints use the transcript up to the error, the
tools' schemas and ``files`` alone, so they cannot hold what only a task's secret parts say. They are true before the
turn (site ``erring``) and after it (``recovery``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Protocol

from ....models import ErrorTurn, Hint
from ....registry import Registry
from ...transcript.past_turns import PastTurn


class Template(Protocol):
    """What a registered name stands for."""

    def __call__(
        self,
        error: ErrorTurn,
        turns: Sequence[PastTurn],
        tools: Sequence[Mapping[str, Any]],
        files: Sequence[str],
        /,
    ) -> Hint | None: ...


_KINDS = (
    "tool_not_found malformed_call invalid_args file_not_found edit_failed command_not_found timeout traceback "
    "output_limit nonzero_exit transport_error injected_fault budget"
).split()
_BEHAVIOURS = "repeat reread sleep pages effort no_call wordy silent false_claim".split()
HINTS = Registry(
    "hint", "etude.hints", {name: f".hints.write.templates.{name}:hint" for name in [*_KINDS, *_BEHAVIOURS, "again"]}
)


def hints_for(
    error: ErrorTurn,
    turns: Sequence[PastTurn],
    tools: Sequence[Mapping[str, Any]] = (),
    files: Sequence[str] = (),
) -> list[Hint]:
    """The hints that fit an error, the one for its kind first; for an injected one, what helps against faults first.

    ``files`` are paths of the workspace that the agent may see. The same arguments give the same hints.
    """
    made = [hint for template in _templates() if (hint := template(error, turns, tools, files)) is not None]
    first = "injected_fault" if error.injected else error.kind
    return sorted(made, key=lambda hint: hint.template != first)


@cache
def _templates() -> tuple[Template, ...]:
    """Every registered template: those for kinds, for behaviours, then those of third parties by name."""
    own = [*_KINDS, *_BEHAVIOURS, "again"]
    return tuple(HINTS.load(name) for name in [*own, *(name for name in HINTS.names() if name not in own)])


__all__ = ["HINTS", "Template", "hints_for"]
