"""Find the verb: tool names start with the thing, and which of six verbs reads values differs from drill to drill."""

from __future__ import annotations

from ..exercise import Deal, Drill, DrillTool
from ..words import CHANGING, READING, Attribute, Noun
from .choose import changer, reader


def make(deal: Deal) -> Drill:
    """Find the verb that reads values in this drill, and read ``level`` values with it.

    Beside each reading tool is one that changes the same thing; one more tool reads another value. The reading tools of
    a drill share their verb, as those of one API do, and so do the changing ones.
    """
    things = list(zip(deal.nouns(deal.level + 1), deal.attributes(deal.level + 1), strict=True))
    verb, changing = deal.one(READING), deal.one(CHANGING)
    *questions, other = [(noun, attribute, deal.id_of(noun)) for noun, attribute in things]
    right_tools = [_reads(deal, verb, noun, attribute) for noun, attribute, _ in questions]
    harmful = [_changes(deal, changing, noun, attribute) for noun, attribute, _ in questions]
    return Drill(
        statement=_statement(questions),
        tools=deal.shuffled([*right_tools, *harmful, _reads(deal, verb, *other[:2])]),
        answer="; ".join(deal.value(attribute, noun.prefix, name) for noun, attribute, name in questions),
        solution=lambda: [
            (tool.name, {f"{noun.word}_id": name}) for tool, (noun, _, name) in zip(right_tools, questions, strict=True)
        ],
        features={"values": len(questions)},
    )


def _statement(questions: list[tuple[Noun, Attribute, str]]) -> str:
    (noun, attribute, name), *more = questions
    what = [f"the {attribute.word} of the {noun.word} {name}" for noun, attribute, name in questions]
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
