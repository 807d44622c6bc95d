"""Fill a nested schema: facts in prose become one call whose every field is right."""

from __future__ import annotations

import json
from typing import Any

from ...tool_protocol import parameters_schema
from ..exercise import Deal, Drill, DrillTool, State, effect, text_argument
from ..words import NAMES, READING, Noun

_METHODS = ("courier", "pickup", "post", "drone")
_COLOURS = ("red", "green", "blue", "grey")
_CREATING = ("create", "register", "enter", "file")


def make(deal: Deal) -> Drill:
    """Turn facts in prose into one call with a nested schema of ``level`` items.

    From level 2 on there is a delivery, from level 4 on each item has options, one level deeper.
    """
    noun, other = deal.nouns(2)
    record = _record(deal)
    name = f"{deal.one(_CREATING)}_{noun.other if deal.level >= 3 else noun.word}_order"
    tools = [_creator(deal, noun, name, _schema(deal.level)), _reader(deal, other), _draft(deal, noun, name)]
    return Drill(
        statement=f"Create one {noun.word} order with these facts, and nothing else:\n{_prose(record)}\n"
        "Submit the receipt that the tool gives you.",
        tools=deal.shuffled(tools),
        answer=deal.code("receipt", canonical(record)),
        solution=lambda: [(name, record)],
        effects={"created 1": canonical(record)},
        features={"items": len(record["items"]), "depth": _depth(record)},
    )


def canonical(value: Any) -> str:
    """Return a text that is the same for the same JSON value, whatever the order of its keys."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _creator(deal: Deal, noun: Noun, name: str, parameters: dict[str, Any]) -> DrillTool:
    def run(state: State, arguments: dict[str, Any]) -> str:
        order = canonical(arguments)
        state["created"] = state.get("created", 0) + 1
        effect(state, f"created {state['created']}", order)
        return f"receipt {deal.code('receipt', order)}"

    return DrillTool(name, f"Makes one {noun.word} order and gives its receipt. It cannot be undone.", parameters, run)


def _reader(deal: Deal, noun: Noun) -> DrillTool:
    """Return a distractor."""
    name = f"{deal.one(READING)}_{noun.word}_note"
    about = f"Reads a note about a {noun.word}."
    return DrillTool(name, about, text_argument("query"), lambda state, arguments: "no notes")


def _draft(deal: Deal, noun: Noun, name: str) -> DrillTool:
    """Return a distractor that looks as if it did the work."""

    def run(state: State, arguments: dict[str, Any]) -> str:
        effect(state, "draft", arguments["title"])
        return "draft kept"

    about = f"Keeps a draft of a {noun.word} order by its title. Drafts have no receipt."
    return DrillTool(f"{name}_draft", about, text_argument("title"), run)


def _record(deal: Deal) -> dict[str, Any]:
    number = deal.rng.random
    street = f"{1 + int(number() * 200)} {deal.one(NAMES)} Street"
    record: dict[str, Any] = {
        "customer": {
            "name": f"{deal.one(NAMES)} {deal.one(NAMES)}",
            "address": {"street": street, "city": f"{deal.one(NAMES)}ton"},
        },
        "items": [],
    }
    for place in range(deal.level):
        item: dict[str, Any] = {"sku": deal.code("sku", place), "quantity": 1 + int(number() * 90)}
        if deal.level >= 4:
            item["options"] = {"colour": deal.one(_COLOURS), "gift": number() < 0.5}
        record["items"].append(item)
    if deal.level >= 2:
        day = f"20{30 + int(number() * 9)}-{1 + int(number() * 12):02}-{1 + int(number() * 28):02}"
        record["delivery"] = {"method": deal.one(_METHODS), "date": day}
    return record


def _prose(record: dict[str, Any]) -> str:
    customer = record["customer"]
    lines = [f"- The customer is {customer['name']}, {customer['address']['street']}, {customer['address']['city']}."]
    for item in record["items"]:
        options = item.get("options")
        wrapped = f", {options['colour']}, {'as a gift' if options['gift'] else 'not as a gift'}" if options else ""
        lines.append(f"- {item['quantity']} pieces of {item['sku']}{wrapped}.")
    if len(record["items"]) > 1:
        lines.append("- Keep the items in this order.")
    if "delivery" in record:
        lines.append(f"- Delivery by {record['delivery']['method']} on {record['delivery']['date']}.")
    return "\n".join(lines)


def _object(**properties: Any) -> dict[str, Any]:
    return parameters_schema(properties, list(properties))


def _schema(level: int) -> dict[str, Any]:
    text: dict[str, Any] = {"type": "string"}
    item = {"sku": text, "quantity": {"type": "integer", "minimum": 1}}
    if level >= 4:
        item["options"] = _object(colour={"type": "string", "enum": list(_COLOURS)}, gift={"type": "boolean"})
    parts: dict[str, Any] = {
        "customer": _object(name=text, address=_object(street=text, city=text)),
        "items": {"type": "array", "items": _object(**item)},
    }
    if level >= 2:
        method = {"type": "string", "enum": list(_METHODS)}
        parts["delivery"] = _object(method=method, date={"type": "string", "description": "YYYY-MM-DD"})
    return _object(**parts)


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=-1)
