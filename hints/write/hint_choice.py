"""Choice among the hints of an error turn: the extension point for what was measured or learned elsewhere."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Protocol, cast

from ...errors import UnknownName
from ...models import ErrorTurn, Hint
from ...registry import did_you_mean
from .templates import HINTS


class HintChoice(Protocol):
    """A rule that decides which hint of an error turn is used: the first one that it returns."""

    def __call__(self, error: ErrorTurn, errors: Sequence[ErrorTurn], /) -> list[Hint]:
        """Return the hints of ``error``, the chosen one first; ``errors`` are all error turns of its episode."""


def load_choice(name: str) -> HintChoice:
    """Return the choice of this name: a registered hint, which then comes first, or ``MODULE:FUNCTION``.

    Raises UnknownName for a hint that is not registered and for a function that cannot be imported.
    """
    if ":" in name:
        return cast(HintChoice, import_path(name))
    if name not in HINTS.names():
        raise UnknownName(f"{did_you_mean('hint', name, HINTS.names())}; or give MODULE:FUNCTION")

    def template_first(error: ErrorTurn, errors: Sequence[ErrorTurn], /) -> list[Hint]:
        return sorted(error.hints, key=lambda hint: hint.template != name)

    return template_first


def import_path(path: str) -> Any:
    """Return the object at ``MODULE:ATTRIBUTE``. Raises UnknownName when there is none."""
    module, _, attribute = path.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UnknownName(f"cannot import {path!r} ({error}); give MODULE:FUNCTION of an importable module") from None
