"""Labelled logs with each result as another harness would write it: the outcomes stay the same."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from etude.hints import annotate
from etude.hints.foreign import READERS, detect
from etude.hints.foreign.drafts import DraftCall, DraftTurn

BEHAVIOURS = {"wasteful", "style", "false_claim"}
LOGS = ("corpus", "blind_one", "blind_two")
Row = dict[str, Any]
Place = tuple[int, int]


def json_of(**table: Any) -> str:
    return json.dumps(table)


FAILED: list[Callable[[str], str]] = [
    *(
        lambda text, label=label: label + text
        for label in ("Error: ", "ERROR: ", "❌ ", "[ERROR] ", "tool_error: ", "**Error**: ", "Error executing tool: ")
    ),
    lambda text: f"Tool execution failed: {text}",
    lambda text: f"<tool_error>{text}</tool_error>",
    lambda text: json_of(error=text),
    lambda text: json_of(success=False, error=text),
    lambda text: json_of(isError=True, content=[{"type": "text", "text": text}]),
]
WORKED: list[Callable[[str], str]] = [
    *(lambda text, label=label: label + text for label in ("✅ ", "Success: ", "Done. ", "[OK] ")),
    lambda text: f"Tool executed successfully.\n{text}",
    lambda text: json_of(success=True, output=text),
    lambda text: json_of(result=text),
]
EITHER: list[Callable[[str], str]] = [
    *(lambda text, label=label: label + text for label in ("Observation: ", "Result: ", "\n\n", "  ")),
    lambda text: f"Here is the output of the tool:\n{text}",
    lambda text: f"Observation:\n{text}\n",
    lambda text: f"<tool_result>\n{text}\n</tool_result>",
    lambda text: f"```\n{text}\n```",
    lambda text: f"\x1b[31m{text}\x1b[0m",
    lambda text: text.replace("\n", "\r\n"),
    lambda text: json.dumps(text),
    lambda text: json.dumps([{"type": "text", "text": text}]),
    lambda text: f"{text.rstrip()}\n[took 0.3s]",
    lambda text: f"{text.rstrip()}\n<system-reminder>Keep going.</system-reminder>",
    lambda text: f"{text.rstrip()}.",
]


def test_an_outcome_stays_when_its_result_is_wrapped_in_another_way(root: Path) -> None:
    """Each plain result is rewritten in one way, drawn at random, all results of a log at once, five times."""
    rng, same, tried = random.Random(9), {"failed": 0, "worked": 0}, {"failed": 0, "worked": 0}
    for row in rows_of(root):
        labels = {(turn, index): kind for turn, index, kind in row["labels"]}
        turns = READERS[detect(row["messages"])](row["messages"])
        before = kinds(turns, row, {})
        places = [place for place, draft in drafts(turns) if is_plain(draft) and before.get(place) == labels.get(place)]
        for _ in range(5):
            rewriting = {place: rng.choice([*EITHER, *more(labels.get(place))]) for place in places}
            after = kinds(turns, row, rewriting)
            for place in places:
                side = "failed" if place in labels else "worked"
                tried[side] += 1
                same[side] += after.get(place) == labels.get(place)
    for side, count in tried.items():
        print(f"{side}: {same[side]} of {count} outcomes stay: {same[side] / count:.4f}")
    assert tried["failed"] > 1000 and tried["worked"] > 2000
    assert same["failed"] >= 0.85 * tried["failed"] and same["worked"] >= 0.985 * tried["worked"]


def rows_of(root: Path) -> list[Row]:
    folder = root / "tests" / "data" / "transcripts"
    rows = [json.loads(line) for name in LOGS for line in (folder / f"{name}.jsonl").read_text().splitlines()]
    return [row for row in rows if row["results"] != "status"]


def more(kind: str | None) -> list[Callable[[str], str]]:
    if kind == "output_limit":
        return []
    return FAILED if kind else WORKED


def drafts(turns: list[DraftTurn]) -> list[tuple[Place, DraftCall]]:
    return [((number, index), call) for number, turn in enumerate(turns) for index, call in enumerate(turn.calls)]


def is_plain(draft: DraftCall) -> bool:
    """Return whether a result is of words alone: no object, no markup, no report of an exit."""
    text = (draft.content or "").strip()
    structured = not text or text[0] in '{<"' or text.startswith("[{") or draft.failed is not None
    return not structured and "exit" not in text.lower() and "return" not in text.lower()


def kinds(turns: list[DraftTurn], row: Row, rewriting: dict[Place, Callable[[str], str]]) -> dict[Place, str]:
    """Return what the annotator reports for the log with calls in fields, after ``rewriting`` of results."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for number, turn in enumerate(turns):
        calls, results = [], []
        for index, call in enumerate(turn.calls):
            arguments = call.raw if call.problem and call.raw else json.dumps(call.arguments)
            call_id = f"{number}-{index}"
            calls.append({"id": call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}})
            if call.content is not None:
                content = rewriting.get((number, index), str)(call.content)
                flag = {} if call.failed is None else {"is_error": call.failed}
                results.append({"role": "tool", "tool_call_id": call_id, "content": content, **flag})
        messages += [{"role": "assistant", "content": "", **({"tool_calls": calls} if calls else {})}, *results]
    return {
        (error.turn, error.call_index): error.kind
        for error in annotate(messages, row["tools"], dialect="openai")
        if error.kind not in BEHAVIOURS and error.call_index is not None
    }
