"""Find the verb: tools are named thing first, and which of six verbs reads values is each drill's own convention."""

from __future__ import annotations

from ..exercise import Deal, Drill, DrillTool
from ..words import CHANGING, READING, Attribute, Noun
from .choose import changer, reader


def make(deal: Deal) -> Drill:
    """``level`` values of different things are asked for, one after the other. Beside each reading tool stands one that
    changes the same thing; one more reads what nobody asked for. A drill's reading tools share their verb, as one API's
    do, and so do those that change."""
    things = list(zip(deal.nouns(deal.level + 1), deal.attributes(deal.level + 1), strict=True))
    verb, changing = deal.one(READING), deal.one(CHANGING)
    *asked, other = [(noun, attribute, deal.id_of(noun)) for noun, attribute in things]
    wanted = [_reads(deal, verb, noun, attribute) for noun, attribute, _ in asked]
    harmful = [_changes(deal, changing, noun, attribute) for noun, attribute, _ in asked]
    return Drill(
        statement=_statement(asked),
        tools=deal.shuffled([*wanted, *harmful, _reads(deal, verb, *other[:2])]),
        answer="; ".join(deal.value(attribute, noun.prefix, name) for noun, attribute, name in asked),
        solution=lambda: [
            (tool.name, {f"{noun.word}_id": name}) for tool, (noun, _, name) in zip(wanted, asked, strict=True)
        ],
        features={"values": len(asked)},
    )


def _statement(asked: list[tuple[Noun, Attribute, str]]) -> str:
    (noun, attribute, name), *more = asked
    what = [f"the {attribute.word} of the {noun.word} {name}" for noun, attribute, name in asked]
    if not more:
        return f"What is {what[0]}? Change nothing. Submit the {attribute.word} exactly as it is reported."
    return (
        f"What is {', and what is '.join(what)}? Change nothing. Submit these values exactly as they are reported, "
        "in this order, with '; ' between them."
    )


def _reads(deal: Deal, verb: str, noun: Noun, attribute: Attribute) -> DrillTool:
    return reader(deal, noun, attribute, _name(verb, noun, attribute))


def _changes(deal: Deal, verb: str, noun: Noun, attribute: Attribute) -> DrillTool:
    return changer(deal, noun, attribute, verb, _name(verb, noun, attribute))


def _name(verb: str, noun: Noun, attribute: Attribute) -> str:
    return f"{noun.word}_{attribute.word.replace(' ', '_')}_{verb}"
