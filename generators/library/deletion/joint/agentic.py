"""The generator ``fd_agentic``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from .....models import GeneratorRef
from ....base import Candidate, HiddenTests, Rejection
from ....model_endpoint import AsksModel
from ....python.tested_code import TestedCode
from ..knobs import CutKnobs
from ..target import Target
from .clusters import TestedTargets
from .joint_statement import JointStatement
from .outline import outline
from .proposal import Deletion, propose, with_dependencies

if TYPE_CHECKING:
    from .....environments.snapshots import Snapshot

MAX_SPECIFICATION = 4000
"""Characters of the model's specification that a statement quotes."""

_INSTRUCTIONS = """\
You design programming exercises. You are shown the outline of a Python package and the names of its tests. Choose one
feature whose code can be deleted while the rest of the package still works and most tests still pass. Name the
functions, methods and classes that implement it; everything that only they need is deleted with them automatically.

Answer with one JSON object and nothing else:
{"title": "a few words", "specification": "what the feature does, for a reader who has to write it again: behaviour, \
edge cases and errors, in prose and without code", "delete": ["package.module.function", "package.module.Class.method"]}
"""


@dataclass(frozen=True)
class AgenticKnobs(CutKnobs):
    """The shared knobs, and how much the model may delete."""

    min_lines: Annotated[int, Field(ge=0)] = 10
    """Fewest lines of deleted code, without docstrings and comments."""
    max_lines: Annotated[int, Field(ge=1)] = 3000
    """Most lines of deleted code, without docstrings and comments."""
    outline_chars: Annotated[int, Field(ge=1000)] = 60_000
    """Most characters of the outline that the model reads."""
    questions: Annotated[int, Field(ge=1)] = 100
    """Most questions per package."""


class _Unusable(Exception):
    """Raised when an answer names nothing that can be deleted; the text says why."""


@dataclass(frozen=True)
class Answer:
    """What the model chose."""

    title: str
    """A few words."""
    specification: str
    """Prose about the feature."""
    names: list[str] = field(default_factory=list)
    """Dotted names to delete."""


class AgenticDeletion(AsksModel):
    """Delete a feature that a language model chooses and describes; needs an endpoint (``--llm``).

    The model sees the outline of the package and the names of the tests. What it names is deleted with all that only
    it needs, and validated like any other deletion. One candidate is one question.
    """

    name = "fd_agentic"
    version = "2"
    knobs = AgenticKnobs

    def candidates(self, snapshot: Snapshot, seed: int, knobs: AgenticKnobs) -> Iterator[Candidate]:
        """Yield one candidate per question; an answer that cannot be used gives a blocked one. Raises LLMError."""
        endpoint = self.required_endpoint()
        code = TestedCode(snapshot)
        tested = TestedTargets(code)
        recorded = {**asdict(knobs), "model": endpoint.model}
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=recorded)
        text = outline(tested, knobs.outline_chars, seed)
        previous: list[str] = []
        for number in range(1, knobs.questions + 1):
            reply = endpoint.ask(
                [
                    {"role": "system", "content": _INSTRUCTIONS},
                    {"role": "user", "content": _request(text, previous, number)},
                ]
            )
            try:
                answer = _read_answer(reply)
                previous.append(answer.title)
                deletion = _deletion(tested, answer, knobs)
            except _Unusable as problem:
                yield _blocked(reference, number, str(problem), knobs)
                continue
            yield propose(code, deletion, reference, knobs)


def _request(text: str, previous: list[str], number: int) -> str:
    """Return the user's message: the outline, and which features were chosen already."""
    chosen = "".join(f"\n- {title}" for title in previous)
    other = f"\n\nThese features were chosen already; choose another one:{chosen}" if previous else ""
    return f"{text}{other}\n\nThis is exercise {number}."


def _read_answer(reply: str) -> Answer:
    """Return the model's choice from its answer, with or without a code fence. Raises _Unusable."""
    match = re.search(r"\{.*\}", reply, re.DOTALL)
    try:
        value = json.loads(match.group()) if match else None
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise _Unusable(f"the answer is not a JSON object: {reply.strip()[:200]!r}")
    title, specification, names = value.get("title"), value.get("specification"), value.get("delete")
    if not isinstance(title, str) or not title.strip():
        raise _Unusable("the answer has no title")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise _Unusable("the answer names nothing to delete")
    prose = specification if isinstance(specification, str) else ""
    prose = re.sub(r"(?ms)^```.*?(^```|\Z)", "", prose).strip()[:MAX_SPECIFICATION]
    return Answer(" ".join(title.split())[:80], prose, names)


def _deletion(tested: TestedTargets, answer: Answer, knobs: AgenticKnobs) -> Deletion:
    """Return what the answer deletes, with all that only it needs. Raises _Unusable."""
    chosen: dict[str, Target] = {}
    for name in answer.names:
        targets = _named(tested, name)
        if not targets:
            raise _Unusable(f"no test runs a function, method or class called {name[:100]!r}")
        chosen |= {target.entity: target for target in targets}
    targets = with_dependencies(tested, list(chosen.values()))
    tests = tested.tests_running([target.entity for target in targets])
    lines = sum(tested.lines[target.entity] for target in targets)
    if not knobs.min_lines <= lines <= knobs.max_lines:
        raise _Unusable(f"the chosen feature has {lines} lines, not {knobs.min_lines} to {knobs.max_lines}")
    share = tests.bit_count() / len(tested.passed)
    if share > knobs.max_share:
        raise _Unusable(f"{share:.0%} of all tests run the chosen feature, more than {knobs.max_share:.0%}")
    return Deletion(
        name=answer.title,
        heading=f"Implement the feature “{answer.title}”",
        summary=f"the feature “{answer.title}” is missing.",
        targets=targets,
        tests=tested.names(tests),
        specification=answer.specification,
    )


def _named(tested: TestedTargets, name: str) -> list[Target]:
    """Return the tested definitions that ``name`` stands for: a function, a method, or all methods of a class."""
    required = name.strip("`() ").replace("::", ".").replace("/", ".")
    matches = []
    for target in tested.targets.values():
        dotted = f"{tested.code.tree.dotted_name(target.module.path)}.{target.name}"
        if dotted == required or (target.owner and dotted.rpartition(".")[0] == required):
            matches.append(target)
    return matches


def _blocked(reference: GeneratorRef, number: int, problem: str, knobs: AgenticKnobs) -> Candidate:
    """Return the candidate of an answer that cannot be used."""
    return Candidate(
        entity=f"answer::{number}",
        generator=reference,
        exercise={},
        hidden_tests=HiddenTests([], knobs.tests),
        statement=JointStatement("", "", knobs.tests, knobs.mode, [], [], []),
        blocked=Rejection("llm_answer", problem),
    )
