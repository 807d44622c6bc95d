"""What two wordings of a statement must share: blocks, quotations, code, names, numbers, listed behaviours, length."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from ...environments.grading.out_of_process.held_out.answered_inputs import documented_errors, promises_truth_value
from ...models import Task
from ..validation.checks.adequacy import squeeze
from .rewording_request import Refusal
from .statement_parts import Part, parts_of

MIN_SHARE, MAX_SHARE = 0.5, 1.5
"""Length of a new statement, as a share of the generated one."""
ALWAYS = 240
"""Characters that a new statement may have in addition, so that short ones have room too."""
FILLERS = frozenset("a an and are as at by for from in is it its of on or that the to was with".split())
"""Words of a listed behaviour that may go; all others stay, negations above all."""
MOST = 12
"""Most problems of one kind that the model is given at once."""
_CASES = re.compile(r" \(\d+ cases\)$")


def differences(task: Task, text: str) -> list[Refusal]:
    """Return why ``text`` does not state the same as the statement of a task; empty when it does."""
    before, after = parts_of(task.problem_statement), parts_of(text)
    refusals = [*_length(task.problem_statement, text), *_verbatim(before, after)]
    if missing := [*dict.fromkeys(_missing(task, text, before, after))][:MOST]:
        refusals.append(Refusal("dropped", f"it no longer states {_quoted(missing)}, spelled exactly so"))
    if new := [*dict.fromkeys(_new(task.problem_statement, after))][:MOST]:
        refusals.append(Refusal("invented", f"the statement lacks {_quoted(new)}; leave that out"))
    return refusals


def _length(before: str, after: str) -> Iterator[Refusal]:
    shortest, longest = int(len(before) * MIN_SHARE), int(len(before) * MAX_SHARE) + ALWAYS
    if not shortest <= len(after) <= longest:
        yield Refusal("length", f"it has {len(after)} characters; write {shortest} to {longest}")


def _verbatim(before: Sequence[Part], after: Sequence[Part]) -> Iterator[Refusal]:
    for kind, name in (("block", "fenced blocks"), ("quotation", "quotations")):
        required = [part.text for part in before if part.kind == kind]
        if required != [part.text for part in after if part.kind == kind]:
            yield Refusal("verbatim", f"its {name} are not those {len(required)} of the statement, in their order")


def _missing(task: Task, text: str, before: Sequence[Part], after: Sequence[Part]) -> Iterator[str]:
    """Yield what the new text no longer states."""
    squeezed, old = squeeze(text), squeeze(task.problem_statement)
    items = Counter(squeeze(part.text) for part in after if part.kind == "item")
    paragraphs = [_plain_words(part.text) for part in after]
    for part in before:
        if part.kind in ("block", "quotation"):
            continue
        # A number of cases says how often a test is repeated, which no solution depends on.
        plain = part if part.kind != "item" else Part("item", _CASES.sub("", part.text))
        facts = [*plain.code, *plain.technical_words]
        if part.kind == "item" and facts:
            yield from [] if {squeeze(part.text), squeeze(plain.text)} & items.keys() else [f"the item {part.text}"]
        elif part.kind == "item":
            required = _plain_words(plain.text) - FILLERS
            yield from [] if any(required <= words for words in paragraphs) else [f"the item {plain.text}"]
        else:
            yield from (fact for fact in facts if not _states(squeezed, fact))
    for item in task.interface:
        names = (item.name, item.signature)
        yield from (name for name in names if _states(old, name) and not _states(squeezed, name))
    new = task.model_copy(update={"problem_statement": text})
    yield from sorted(documented_errors(task) - documented_errors(new))
    if promises_truth_value(task) and not promises_truth_value(new):
        yield "that it returns True or False"


def _new(before: str, after: Sequence[Part]) -> Iterator[str]:
    """Yield code, names and numbers that the statement lacks."""
    known_text = squeeze(before)
    for part in after:
        if part.kind not in ("block", "quotation"):
            facts = [*part.code, *part.technical_words]
            yield from (fact for fact in facts if not _states(known_text, fact.removesuffix("()")))


def _states(squeezed: str, fact: str) -> bool:
    """Return whether a text states a fact as a whole: ``1`` is not stated by ``10``."""
    return re.search(rf"(?<!\w){re.escape(squeeze(fact))}(?!\w)", squeezed) is not None


def _plain_words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def _quoted(texts: Sequence[str]) -> str:
    return ", ".join(f"{text[:200]!r}" for text in texts)
