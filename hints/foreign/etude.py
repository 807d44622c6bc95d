"""Our own: raw actions in any shape that the wire accepts, and tool messages that begin with a status line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import openai
from .drafts import DraftTurn


def read(messages: Sequence[Mapping[str, Any]]) -> list[DraftTurn]:
    """As the environment read the actions: too many calls and duplicate ids are malformed."""
    return openai.read(messages, strict=True)
