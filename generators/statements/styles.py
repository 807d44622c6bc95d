"""Styles of statements: who writes, and how much. The seed chooses a style and one of several phrasings."""

from __future__ import annotations

import random
from typing import Literal, get_args

from ...environments.rng import stream

Style = Literal["issue", "instruction", "terse"]
"""A user's report, a maintainer's order, or one or two sentences."""
StyleChoice = Literal["seeded", "issue", "instruction", "terse"]
"""The knob: ``seeded`` draws one of the styles for each task."""


def drawn_style(choice: StyleChoice, seed: int, key: str) -> tuple[Style, random.Random]:
    """Return the style of the statement ``key``, and the stream that chooses its phrasings."""
    draw = stream(seed, "statement", key)
    style: Style = draw.choice(get_args(Style))
    return (style if choice == "seeded" else choice), draw
