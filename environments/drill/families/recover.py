"""Recover from a stated fault: a call is refused unforeseeably, and the text of the refusal says what to do."""

from __future__ import annotations

from typing import Any

from ....errors import StatedFault
from ...tool_protocol import parameters_schema
from ..exercise import Deal, Drill, DrillTool, State, Steps, checked_id, id_tool, text_argument
from ..words import READING, Attribute, Noun

FAULTS = ("expired", "busy", "moved", "region")


def make(deal: Deal) -> Drill:
    """Get past one to three stated faults, by level, one after the other."""
    noun, _ = deal.nouns(2)
    attribute = deal.attributes(1)[0]
    thing_id, faults = deal.id_of(noun), deal.shuffled(FAULTS)[: (deal.level + 1) // 2]
    name = f"{deal.one(READING)}_{noun.word}_{attribute.word.replace(' ', '_')}"
    tools = [_reader(deal, noun, attribute, name, faults), _renew(deal), _region(deal, noun)]
    if "moved" in faults:
        others = [fault for fault in faults if fault != "moved"]
        tools.append(_reader(deal, noun, attribute, _new_name(name), others))
    token = deal.code("token", "old")
    return Drill(
        statement=f"What is the {attribute.word} of the {noun.word} {thing_id}? Your token is {token}. "
        f"Submit the {attribute.word} exactly as it is reported.",
        tools=deal.shuffled(tools),
        answer=deal.value(attribute, noun.prefix, thing_id),
        solution=lambda: _solution(deal, noun, name, faults, thing_id),
        features={"faults": len(faults)},
    )


def _new_name(name: str) -> str:
    return f"{name}_v2"


def _solution(deal: Deal, noun: Noun, name: str, faults: list[str], thing_id: str) -> Steps:
    """Return calls that meet each fault once, in order, and do what it says."""
    arguments: dict[str, Any] = {f"{noun.word}_id": thing_id, "token": deal.code("token", "old")}
    steps: Steps = [(name, dict(arguments))]
    for fault in faults:
        if fault == "expired":
            steps.append(("renew_token", {"token": arguments["token"]}))
            arguments["token"] = deal.code("token", "new")
        elif fault == "busy":
            arguments["ticket"] = deal.code("ticket")
        elif fault == "region":
            steps.append((f"find_{noun.word}_region", {f"{noun.word}_id": thing_id}))
            arguments["region"] = _region_of(deal, thing_id)
        else:
            name = _new_name(name)
        steps.append((name, dict(arguments)))
    return steps


def _region_of(deal: Deal, thing_id: str) -> str:
    return deal.code("region", thing_id)[:4]


def _reader(deal: Deal, noun: Noun, attribute: Attribute, name: str, faults: list[str]) -> DrillTool:
    argument = f"{noun.word}_id"
    names = (argument, "token", "ticket", "region")
    parameters = parameters_schema({name: {"type": "string"} for name in names}, (argument, "token"))

    def run(state: State, arguments: dict[str, str]) -> str:
        thing_id = checked_id(name, argument, noun, arguments[argument])
        for fault in faults:
            _check_fault(deal, noun, name, fault, thing_id, arguments)
        return deal.value(attribute, noun.prefix, thing_id)

    return DrillTool(name, f"The {attribute.word} of a {noun.word}.", parameters, run)


def _check_fault(deal: Deal, noun: Noun, name: str, fault: str, thing_id: str, arguments: dict[str, str]) -> None:
    """Raise StatedFault unless the call did what the fault asks for."""
    if fault == "expired" and arguments["token"] != deal.code("token", "new"):
        raise StatedFault("permission_denied", f"token {arguments['token'][:40]} is not valid: call renew_token", fault)
    if fault == "busy" and arguments.get("ticket") != deal.code("ticket"):
        ticket = deal.code("ticket")
        raise StatedFault("transport_error", f"{name} is busy: call it again with ticket {ticket}", fault)
    if fault == "region" and arguments.get("region") != _region_of(deal, thing_id):
        finder = f"find_{noun.word}_region tells it"  # prose: ok
        raise StatedFault("invalid_args", f"{name} now needs the region of the {noun.word}: {finder}", fault)
    if fault == "moved":
        raise StatedFault("tool_not_found", f"{name} is out of service: call {_new_name(name)} instead", fault)


def _renew(deal: Deal) -> DrillTool:
    new, about = deal.code("token", "new"), "A new token for an old one."
    return DrillTool("renew_token", about, text_argument("token"), lambda state, arguments: new)


def _region(deal: Deal, noun: Noun) -> DrillTool:
    name, description = f"find_{noun.word}_region", f"The region of a {noun.word}."
    return id_tool(name, description, noun, lambda thing_id: _region_of(deal, thing_id))
