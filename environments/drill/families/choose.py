"""Choose the tool: one of a shuffled list gives the answer, under another name than the question uses."""

from __future__ import annotations

from ..exercise import Deal, Drill, DrillTool, State, checked_id, effect, id_tool, text_argument
from ..words import CHANGING, READING, Attribute, Noun


def make(deal: Deal) -> Drill:
    """Choose the one right tool among ``2 + 2 * level`` distractors; from level 2 on it is named by synonyms."""
    noun, *other_nouns = deal.nouns(4)
    attribute, *other_attributes = deal.attributes(5)
    other_words = deal.level >= 2
    right_tool = _reader(deal, noun, attribute, other_words)
    tools = {right_tool.name: right_tool}
    pairs = [(noun, other) for other in other_attributes] + [(other, attribute) for other in other_nouns]
    harmful = [_changer(deal, noun, attribute, verb, other_words) for verb in CHANGING]
    distractors = [_reader(deal, *pair, other_words) for pair in deal.shuffled(pairs)]
    mixed = [tool for both in zip(distractors, harmful, strict=False) for tool in both] + distractors[len(harmful) :]
    for tool in mixed[: 2 + 2 * deal.level]:
        tools.setdefault(tool.name, tool)
    thing_id = deal.id_of(noun)
    argument = _argument(noun, other_words)
    return Drill(
        statement=f"What is the {attribute.word} of the {noun.word} {thing_id}? Change nothing. "
        f"Submit the {attribute.word} exactly as it is reported.",
        tools=deal.shuffled(list(tools.values())),
        answer=deal.value(attribute, noun.prefix, thing_id),
        solution=lambda: [(right_tool.name, {argument: thing_id})],
        features={"distractors": len(tools) - 1},
    )


def _argument(noun: Noun, other_words: bool) -> str:
    return f"{noun.other if other_words else noun.word}_id"


def _names(noun: Noun, attribute: Attribute, other_words: bool) -> tuple[str, str]:
    return (noun.other, attribute.other) if other_words else (noun.word, attribute.word)


def _reader(deal: Deal, noun: Noun, attribute: Attribute, other_words: bool) -> DrillTool:
    thing, what = _names(noun, attribute, other_words)
    return reader(deal, noun, attribute, f"{deal.one(READING)}_{thing}_{what.replace(' ', '_')}", other_words)


def _changer(deal: Deal, noun: Noun, attribute: Attribute, verb: str, other_words: bool) -> DrillTool:
    thing, what = _names(noun, attribute, other_words)
    return changer(deal, noun, attribute, verb, f"{verb}_{thing}_{what.replace(' ', '_')}", other_words)


def reader(deal: Deal, noun: Noun, attribute: Attribute, name: str, other_words: bool = False) -> DrillTool:
    """Return a tool called ``name`` that reads the attribute of one thing; ``other_words``: named by synonyms."""
    thing, what = _names(noun, attribute, other_words)
    description, argument = f"Tells the {what} of one {thing}.", _argument(noun, other_words)
    return id_tool(name, description, noun, lambda thing_id: deal.value(attribute, noun.prefix, thing_id), argument)


def changer(deal: Deal, noun: Noun, attribute: Attribute, verb: str, name: str, other_words: bool = False) -> DrillTool:
    """Return a tool called ``name`` that changes the thing, which spoils the episode."""
    thing, what = _names(noun, attribute, other_words)
    argument = _argument(noun, other_words)

    def run(state: State, arguments: dict[str, str]) -> str:
        thing_id = checked_id(name, argument, noun, arguments[argument])
        effect(state, f"{name} {thing_id}", "done")
        return f"done: {thing_id}"

    return DrillTool(name, f"{verb.capitalize()} the {what} of one {thing}.", text_argument(argument), run)
