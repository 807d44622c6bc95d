"""A log from rows of (tool, arguments, result, label): one call a turn, in any dialect."""

from __future__ import annotations

from typing import Any

from oddities import LOGS
from telling import Call, Step, hermes, openai, react

Row = tuple[Any, ...]
RESULTS = "dev"


def rows(name: str, dialect: str, tools: list[dict[str, Any]], *given: Row, results: str = RESULTS) -> None:
    """A row's fifth item are further fields of its tool message."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    labels = []
    for turn, (tool, arguments, content, kind, *more) in enumerate(given):
        step = Step("next", [Call(tool, arguments)])
        told = {"openai": openai, "hermes": hermes, "react": react}[dialect](turn, step, [content])
        told[-1].update(more[0] if more else {})
        messages += told
        if kind:
            labels.append([turn, 0, kind])
    messages.append({"role": "assistant", "content": "Final Answer: done" if dialect == "react" else "done"})
    LOGS.append(
        {
            "name": name,
            "dialect": dialect,
            "results": results,
            "tools": tools,
            "messages": messages,
            "turns": len(given) + 1,
            "labels": labels,
        }
    )
