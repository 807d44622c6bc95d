"""A raw action: what it says and asks for (read as the annotator reads it), and how many tokens the model wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..hints.transcript.parsing import MAX_CALLS as MAX_CALLS
from ..hints.transcript.parsing import Call as Call
from ..hints.transcript.parsing import ParsedTurn as ParsedTurn
from ..hints.transcript.parsing import parse_turn as parse_turn

_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)


def model_tokens(action: Mapping[str, Any]) -> int:
    """Tokens that the model wrote for this action: ``usage.completion_tokens`` when given, else characters / 4."""
    usage = action.get("usage")
    given = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    parts = {name: action[name] for name in ("text", "content", "tool_calls", "tool", "arguments") if action.get(name)}
    try:
        return -(-len(_ENCODER.encode(parts)) // 4)
    except (ValueError, RecursionError):
        return 0
