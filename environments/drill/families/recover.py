"""Recover from a stated fault: a call is refused as nobody could foresee, and the text says what to do."""

from __future__ import annotations

from typing import Any

from ....errors import StatedFault
from ..exercise import Deal, Drill, DrillTool, State, Steps, checked_id, text_argument
from ..words import READING, Attribute, Noun

FAULTS = ("expired", "busy", "moved", "region")


def make(deal: Deal) -> Drill:
    """One fault at levels 1 and 2, two at 3 and 4, three at 5, one after the other."""
    noun, _ = deal.nouns(2)
    attribute = deal.attributes(1)[0]
    asked, faults = deal.id_of(noun), deal.shuffled(FAULTS)[: (deal.level + 1) // 2]
    name = f"{deal.one(READING)}_{noun.word}_{attribute.word.replace(' ', '_')}"
    tools = [_teller(deal, noun, attribute, name, faults), _renew(deal), _region(deal, noun)]
    if "moved" in faults:
        tools.append(_teller(deal, noun, attribute, _new_name(name), [each for each in faults if each != "moved"]))
    token = deal.code("token", "old")
    return Drill(
        statement=f"What is the {attribute.word} of the {noun.word} {asked}? Your token is {token}. "
        f"Submit the {attribute.word} exactly as it is reported.",
        tools=deal.shuffled(tools),
        answer=deal.value(attribute, noun.prefix, asked),
        solution=lambda: _solution(deal, noun, name, faults, asked),
        features={"faults": len(faults)},
    )


def _new_name(name: str) -> str:
    return f"{name}_v2"


def _solution(deal: Deal, noun: Noun, name: str, faults: list[str], asked: str) -> Steps:
    """Meets each fault once, in order, and does what it says."""
    given: dict[str, Any] = {f"{noun.word}_id": asked, "token": deal.code("token", "old")}
    steps: Steps = [(name, dict(given))]
    for fault in faults:
        if fault == "expired":
            steps.append(("renew_token", {"token": given["token"]}))
            given["token"] = deal.code("token", "new")
        elif fault == "busy":
            given["ticket"] = deal.code("ticket")
        elif fault == "region":
            steps.append((f"find_{noun.word}_region", {f"{noun.word}_id": asked}))
            given["region"] = _region_of(deal, asked)
        else:
            name = _new_name(name)
        steps.append((name, dict(given)))
    return steps


def _region_of(deal: Deal, asked: str) -> str:
    return deal.code("region", asked)[:4]


def _teller(deal: Deal, noun: Noun, attribute: Attribute, name: str, faults: list[str]) -> DrillTool:
    argument = f"{noun.word}_id"
    text = {"type": "string"}
    parameters = {
        "type": "object",
        "properties": {argument: text, "token": text, "ticket": text, "region": text},
        "required": [argument, "token"],
        "additionalProperties": False,
    }

    def run(state: State, arguments: dict[str, str]) -> str:
        asked = checked_id(name, argument, noun, arguments[argument])
        for fault in faults:
            _pass(deal, noun, name, fault, asked, arguments)
        return deal.value(attribute, noun.prefix, asked)

    return DrillTool(name, f"The {attribute.word} of a {noun.word}.", parameters, run)


def _pass(deal: Deal, noun: Noun, name: str, fault: str, asked: str, given: dict[str, str]) -> None:
    """Raises StatedFault unless the call did what the fault asks for."""
    if fault == "expired" and given["token"] != deal.code("token", "new"):
        raise StatedFault("permission_denied", f"token {given['token'][:40]} is not valid: call renew_token", fault)
    if fault == "busy" and given.get("ticket") != deal.code("ticket"):
        ticket = deal.code("ticket")
        raise StatedFault("transport_error", f"{name} is busy: call it again with ticket {ticket}", fault)
    if fault == "region" and given.get("region") != _region_of(deal, asked):
        finder = f"find_{noun.word}_region"
        raise StatedFault("invalid_args", f"{name} now needs the region of the {noun.word}: {finder} tells it", fault)
    if fault == "moved":
        raise StatedFault("tool_not_found", f"{name} is out of service: call {_new_name(name)} instead", fault)


def _renew(deal: Deal) -> DrillTool:
    new, about = deal.code("token", "new"), "A new token for an old one."
    return DrillTool("renew_token", about, text_argument("token"), lambda state, given: new)


def _region(deal: Deal, noun: Noun) -> DrillTool:
    name, argument = f"find_{noun.word}_region", f"{noun.word}_id"
    parameters = text_argument(argument)

    def run(state: State, given: dict[str, str]) -> str:
        return _region_of(deal, checked_id(name, argument, noun, given[argument]))

    return DrillTool(name, f"The region of a {noun.word}.", parameters, run)
