"""The generator ``write_tests``: the tests of one function or class are gone, and the agent writes them again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from ....errors import NotApplicable
from ....models import GeneratorRef, InterfaceItem
from ...base import Candidate, HiddenTests, StatementContext, WrittenTests
from ...python.hidden_tests import names_subject, test_file
from ...python.source import Definition, Module, signature
from ...python.tested_code import TestedCode, in_seed_order
from ...statements.behaviours import behaviour_lines, bullets
from .versions import right_versions, wrong_versions

if TYPE_CHECKING:
    from ....environments.snapshots import Snapshot

_PROPOSED = 1.5
"""Mistakes that are proposed for each one that a task has."""


@dataclass(frozen=True)
class Knobs:
    """What tests are written for, and how many mistakes they must notice."""

    subject: Literal["function", "class", "all"] = "all"
    """Whether the tests of a ``function``, of a ``class`` or of either are removed."""
    mistakes: Annotated[int, Field(ge=1, le=40)] = 10
    """Most wrong versions of the source that the tests are run on."""
    min_mistakes: Annotated[int, Field(ge=1)] = 4
    """Fewest wrong versions of a task."""
    least_share: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of the wrong versions that the tests must notice; the removed tests notice all of them."""
    min_lines: Annotated[int, Field(ge=1)] = 5
    """Fewest lines of the function or class, with its documentation."""
    max_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Largest share of all tests that may leave the workspace."""
    topics: bool = False
    """Whether the statement lists what the removed tests were about."""


@dataclass(frozen=True)
class WritingStatement:
    """The request for tests, and how they are graded."""

    kind: str
    name: str
    path: str
    signature: str
    share: float
    topics: bool

    def render(self, context: StatementContext) -> str:
        """Return the subject, the file to write and the rules of grading."""
        percent = f"{self.share:.0%}"
        paragraphs = [
            f"# Write tests for `{self.name}`",
            f"In this code base, the {context.package} package, the tests of the {self.kind} `{self.name}` were "
            f"removed. The {self.kind} itself works and is in `{self.path}`:\n\n```python\n{self.signature}\n```",
            f"Write its tests in the new file `{context.test_file}`, for pytest.",
        ]
        behaviours = behaviour_lines(context.failing) if self.topics else []
        if behaviours:
            paragraphs.append("## What the removed tests were about\n\n" + bullets(behaviours))
        rules = [
            "Your tests run on the source as it is, and on the same code with other names of local variables, another "
            "layout and statements that never run. Every test has to pass there, in any order; a skipped test does "
            "not pass, and neither does one that takes more than a few seconds.",
            f"Then they run on versions of the {self.kind} with one mistake each. On at least {percent} of these "
            "versions, at least one of your tests has to fail.",
            "So test what calls return, raise and change. A test that looks at the text of the source fails on right "
            "versions.",
        ]
        return "\n\n".join([*paragraphs, "## How your tests are graded\n\n" + bullets(rules)]) + "\n"


class TestWriting:
    """Remove the tests of one function or class and ask for tests that notice mistakes in it."""

    __test__ = False

    name = "write_tests"
    version = "2"
    knobs = Knobs

    def candidates(self, snapshot: Snapshot, seed: int, knobs: Knobs) -> Iterator[Candidate]:
        """Yield one candidate per function or class that tests name and run. Raises NotApplicable for unittest."""
        if snapshot.verifier.kind != "pytest":
            raise NotApplicable("write_tests needs a suite that pytest runs; take another source")
        code = TestedCode(snapshot)
        pool = (
            (module, item)
            for module in code.tree.modules()
            for item in module.definitions()
            if knobs.subject in ("all", item.kind) and not item.name.startswith("_")
        )
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=asdict(knobs))
        for module, item in in_seed_order(pool, seed, self.name, key=lambda pair: (pair[0].path, *pair[1].span)):
            candidate = _proposed(code, module, item, reference, knobs)
            if candidate is not None:
                yield candidate


def _proposed(
    code: TestedCode, module: Module, item: Definition, reference: GeneratorRef, knobs: Knobs
) -> Candidate | None:
    """Return the candidate for a definition, None where it has no tests of its own or too few mistakes fit it."""
    lines = range(module.source.count(b"\n", 0, item.span[0]) + 1, module.source.count(b"\n", 0, item.span[1]) + 2)
    if len(lines) < knobs.min_lines or [other.name for other in module.definitions()].count(item.name) > 1:
        return None
    entity = f"{module.path}::{item.name}"
    tests = [
        test
        for test in code.tests_of(module.path, lambda key: key == entity or key.startswith(f"{entity}."))
        if code.tree.is_test(test_file(test)) and names_subject(code.tree, test, item.name)
    ]
    if not code.decides(tests, knobs.max_share):
        return None
    copied = _file_with_most(tests)
    by_line = code.tests_of_lines(module.path)
    retained = {test for test in tests if test_file(test) == copied}
    covered = {line for line in lines if not retained.isdisjoint(by_line.get(line, ()))}
    try:
        right = right_versions(module.path, module.source, lines, reference.seed)
        wrong = wrong_versions(
            module.path, module.source, lines, covered, reference.seed, round(_PROPOSED * knobs.mistakes)
        )
    except ValueError:  # a module that cannot be written in another way
        return None
    if len(wrong) < knobs.min_mistakes:
        return None
    name = f"{code.tree.dotted_name(module.path)}.{item.name}"
    return Candidate(
        entity=entity,
        generator=reference,
        exercise={},
        hidden_tests=HiddenTests([]),
        statement=WritingStatement(
            item.kind, name, module.path, signature(module, item), knobs.least_share, knobs.topics
        ),
        subject=item.name,
        interface=[InterfaceItem(name=name, kind=item.kind, signature=signature(module, item))],
        features={"removed_tests": len(tests), "subject_lines": len(lines)},
        deliverable=WrittenTests(
            right=right,
            wrong=wrong,
            oracle=tests,
            copied=copied,
            least=knobs.min_mistakes,
            most=knobs.mistakes,
            least_share=knobs.least_share,
            stem=item.name.lower(),
        ),
    )


def _file_with_most(tests: list[str]) -> str:
    files = [test_file(test) for test in tests]
    return max(sorted(set(files)), key=files.count)
