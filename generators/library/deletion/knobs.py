"""The knobs that all deletion generators share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from ....errors import GeneratorError
from ....registry import did_you_mean

_CHOICES = {"mode": ["stub", "remove"], "docs": ["redact", "keep"], "tests": ["hidden", "visible", "half"]}
_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True)
class Knobs:
    """``mode``: ``stub`` leaves the definition without its body, ``remove`` takes it away with every name for it.

    ``min_lines`` and ``max_lines`` bound the code that goes, without docstrings and comments. ``docs``: ``redact``
    drops examples and, in ``remove``, what documents say of it; ``keep`` leaves them. ``tests``: hidden tests leave the
    workspace, visible ones stay, ``half`` keeps every second one. ``keep_helpers`` leaves private helpers and imports
    that only the deleted code used (easier). ``max_share``: the largest share of all tests that may touch it.
    """

    mode: str = "stub"
    min_lines: int = 5
    max_lines: int = 150
    docs: str = "redact"
    tests: str = "hidden"
    keep_helpers: bool = False
    max_share: float = 0.5

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Self:
        """Typed knobs from ``name=value`` pairs. Raises GeneratorError, naming the nearest knob."""
        known: dict[str, Any] = {item.name: type(item.default) for item in fields(cls)}
        values: dict[str, Any] = {}
        for name, value in given.items():
            if name not in known:
                raise GeneratorError(did_you_mean("knob", name, known))
            try:
                values[name] = _FLAGS[str(value).lower()] if known[name] is bool else known[name](value)
            except (ValueError, KeyError):
                raise GeneratorError(f"knob {name}={value!r} is no {known[name].__name__}") from None
        knobs = cls(**values)
        for name, allowed in _CHOICES.items():
            if getattr(knobs, name) not in allowed:
                raise GeneratorError(f"knob {name}={getattr(knobs, name)!r}: choose one of {', '.join(allowed)}")
        return knobs
