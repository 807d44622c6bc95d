"""The knobs that all deletion generators share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from ...base import TestPolicy
from ...statements.styles import StyleChoice

Mode = Literal["stub", "remove"]


@dataclass(frozen=True)
class CutKnobs:
    """What is deleted, and what the workspace still says about it."""

    mode: Mode = "stub"
    """``stub`` leaves the definition without its body, ``remove`` deletes it with every name that refers to it."""
    min_lines: Annotated[int, Field(ge=0)] = 5
    """Fewest lines of deleted code, without docstrings and comments."""
    max_lines: Annotated[int, Field(ge=1)] = 150
    """Most lines of deleted code, without docstrings and comments."""
    docs: Literal["redact", "keep"] = "redact"
    """``redact`` drops examples and, in mode ``remove``, what documents say about the name; ``keep`` leaves them."""
    tests: TestPolicy = "hidden"
    """Failing tests: ``hidden`` takes them out of the workspace, ``visible`` leaves them, ``half`` every second one."""
    keep_helpers: bool = False
    """Leave private helpers and imports that only the deleted code used, which makes the task easier."""
    max_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Largest share of all tests that may run the deleted code."""

    @property
    def shows_examples(self) -> bool:
        """Return whether the statement shows calls of failing tests; nothing is gained where the tests are shown."""
        return self.tests != "visible"

    @property
    def redacts(self) -> bool:
        """Return whether documents and docstrings lose their examples."""
        return self.docs == "redact"


@dataclass(frozen=True)
class Knobs(CutKnobs):
    """The knobs of deletions of one definition, whose statement has several styles."""

    style: StyleChoice = "seeded"
    """Who writes the statement: a user (``issue``), a maintainer (``instruction``), in a word (``terse``), or drawn."""
