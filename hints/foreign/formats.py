"""Readers of transcripts with calls in fields (OpenAI's and our own) and in ``<tool_call>`` tags (Hermes)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..transcript import hermes
from ..transcript.parsing import parse_turn, read_arguments, read_call, text_of
from .drafts import DraftCall, DraftTurn, attach_result, draft_call, failure_flag
from .result_objects import parse_object

_BETWEEN_RESULTS = re.compile(r"\s*</tool_response>\s*<tool_response>\s*")


def read_openai(messages: Sequence[Mapping[str, Any]], *, strict: bool = False) -> list[DraftTurn]:
    """Return turns whose calls are in ``tool_calls`` (or the older ``function_call``), with results matched by id.

    ``strict`` is that of ``parse_turn``: in our own transcripts too many calls and duplicate ids are malformed.
    """
    turns: list[DraftTurn] = []
    for message in messages:
        role = message.get("role")
        if role == "assistant":
            parsed = parse_turn(_with_tool_calls(message), len(turns), strict=strict)
            turns.append(DraftTurn(parsed.text, [draft_call(call) for call in parsed.calls]))
        elif turns and role in ("tool", "function"):
            call_id, name = message.get("tool_call_id"), message.get("name")
            attach_result(
                turns,
                call_id if isinstance(call_id, str) else "",
                name if isinstance(name, str) else "",
                text_of(message.get("content")),
                failure_flag(message),
            )
        elif turns and role == "user":
            turns[-1].notes.append(text_of(message.get("content")))
    return turns


def _with_tool_calls(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the message with its ``function_call``, if it has one, as the only entry of ``tool_calls``."""
    old = message.get("function_call")
    return {**message, "tool_calls": [old]} if isinstance(old, Mapping) and not message.get("tool_calls") else message


def read_hermes(messages: Sequence[Mapping[str, Any]]) -> list[DraftTurn]:
    """Return turns whose calls are in tags; results come in the order of the calls, one or several in a message."""
    turns: list[DraftTurn] = []
    results: list[tuple[str, bool | None]] = []
    for message in messages:
        text, role = text_of(message.get("content")), message.get("role")
        if role == "assistant":
            _attach_in_order(turns, results)
            text = text_of(message.get("text")) or text
            tagged = enumerate(hermes.tagged_calls(text))
            calls = [_hermes_call(call, f"call_{len(turns)}_{index}") for index, call in tagged]
            turns.append(DraftTurn(text, calls))
            results = []
        elif turns and role in ("tool", "user"):
            contents = _tagged_results(text, len(turns[-1].calls))
            if contents or role == "tool":
                results.extend((content, failure_flag(message)) for content in contents or [text])
            else:
                turns[-1].notes.append(text)
    _attach_in_order(turns, results)
    return turns


def _hermes_call(call: hermes.TaggedCall, fallback_id: str) -> DraftCall:
    value = call.value
    if call.broken or isinstance(value, str):
        text = value if isinstance(value, str) else call.text
        _, problem = read_arguments(text.strip() or "(nothing)")
        problem = problem.replace("arguments are not", "the call is not")
        problem = problem or "malformed_call: the call is not valid JSON"
        return DraftCall(fallback_id, hermes.name_in(text), problem=problem)
    if isinstance(value, Mapping) and "arguments" not in value and isinstance(value.get("parameters"), Mapping):
        value = {**value, "arguments": value["parameters"]}
    draft = draft_call(read_call(value, fallback_id))
    draft.untyped = "values" if call.is_function else ""
    return draft


def _attach_in_order(turns: Sequence[DraftTurn], results: Sequence[tuple[str, bool | None]]) -> None:
    """Give results to the last turn's calls; when there are as many as readable calls, only these were answered."""
    if not turns or not results:
        return
    calls = turns[-1].calls
    readable = [call for call in calls if not call.problem]
    targets = readable if len(results) == len(readable) < len(calls) else calls
    for number, (content, failed) in enumerate(results):
        name, inner = _named_result(content)
        if number < len(targets):
            targets[number].content, targets[number].failed = inner, failed
        else:
            attach_result(turns, "", name, inner, failed)


def _named_result(content: str) -> tuple[str, str]:
    """Return tool name and content of ``{"name": ..., "content": ...}``, as Hermes was trained to read results."""
    table = parse_object(content)
    if table is None or "content" not in table or set(table) - {"name", "content", "tool_call_id"}:
        return "", content
    return str(table.get("name") or ""), text_of(table["content"])


def _tagged_results(text: str, calls: int) -> list[str]:
    """Return the results in a message, at most one for each call, because a result may hold the tags itself."""
    inner = text.strip()
    if not inner.startswith("<tool_response>"):
        return []
    inner = inner.removeprefix("<tool_response>").removesuffix("</tool_response>").strip("\n")
    return _BETWEEN_RESULTS.split(inner, maxsplit=max(calls - 1, 0)) if calls > 1 else [inner]
