"""The generator ``reproduce_bug``: the source has a mistake, and the agent writes the test that shows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from ....environments.rng import stream
from ....errors import NotApplicable
from ....models import GeneratorRef
from ... import GENERATORS
from ...base import Candidate, Files, StatementContext, WrittenTests
from ...python.source_tree import SourceTree
from ...python.variants import variant
from ...statements.behaviours import behaviour_lines, bullets, interface_lines
from .versions import RIGHT_VARIANTS, changed_lines, functions_of

if TYPE_CHECKING:
    from ....environments.snapshots import Snapshot

MAX_OBSERVED = 3
"""Most failures that a report quotes."""


@dataclass(frozen=True)
class Knobs:
    """Which bugs have to be reproduced, and how much the report says."""

    bugs: str = "bug_operator"
    """The generator whose bugs are used, with its default knobs."""
    observed: bool = True
    """Whether the report quotes what was observed: exceptions and failed comparisons."""


@dataclass(frozen=True)
class IssueReport:
    """A report of a bug, and the request for a test that shows it."""

    observed: bool

    def render(self, context: StatementContext) -> str:
        """Return what misbehaves, what was observed, and how the test is graded."""
        paragraphs = [
            f"# Reproduce a bug in {context.package}",
            "Since a recent change to this code base, the package named above, some calls give wrong results, or raise "
            "where they should not. The documentation still describes the right behaviour. Nothing has to be "
            f"corrected: write a test that shows the bug, in the new file `{context.test_file}`, for pytest.",
        ]
        behaviours = behaviour_lines(context.failing)
        if behaviours:
            paragraphs.append("## What is wrong\n\nThese uses do not work any more:\n\n" + bullets(behaviours))
        quotes = dict.fromkeys(text for test in context.failing if (text := context.messages.get(test, "")))
        if quotes and self.observed:
            lines = bullets(f"``{' '.join(text.split())}``" for text in list(quotes)[:MAX_OBSERVED])
            paragraphs.append("## What was observed\n\nUses of the package ended like this:\n\n" + lines)
        names = interface_lines(context.interface)
        if names:
            paragraphs.append("## Interface\n\nThese uses need:\n\n" + "\n".join(names))
        rules = [
            "Your file runs on the source as it is now: at least one test has to fail, by an assertion or by an "
            "exception of the package. Errors of syntax and of imports do not count.",
            "It runs on the corrected source: every test has to pass within a few seconds, and none may be skipped.",
            "Both versions are also written in another way, with other names of local variables, another layout and "
            "statements that never run. The results have to be the same, and in any order of the tests.",
        ]
        return "\n\n".join([*paragraphs, "## How your test is graded\n\n" + bullets(rules)]) + "\n"


class BugReproduction:
    """Put a bug into tested code, report it, and ask for a test that fails until it is corrected."""

    name = "reproduce_bug"
    version = "2"
    knobs = Knobs

    def candidates(self, snapshot: Snapshot, seed: int, knobs: Knobs) -> Iterator[Candidate]:
        """Yield one candidate per bug of the other generator, in its order. Raises NotApplicable for unittest."""
        if snapshot.verifier.kind != "pytest":
            raise NotApplicable("reproduce_bug needs a suite that pytest runs; take another source")
        maker = GENERATORS.load(knobs.bugs)()
        tree = SourceTree.of(snapshot)
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=asdict(knobs))
        for bug in maker.candidates(snapshot, seed, maker.knobs()):
            sources = {path: content for path, content in bug.exercise.items() if tree.is_source(path)}
            if bug.blocked or bug.deliverable or not sources or None in sources.values():
                continue
            try:
                right, wrong = _versions(tree, sources, seed)
            except ValueError:  # a module that cannot be written in another way
                continue
            yield replace(
                bug,
                generator=reference,
                statement=IssueReport(knobs.observed),
                probes={},
                deliverable=WrittenTests(right=right, wrong=wrong, least=len(wrong), most=len(wrong), stem="report"),
            )


def _versions(tree: SourceTree, sources: Files, seed: int) -> tuple[list[Files], list[Files]]:
    """Return right and wrong versions of the files of a bug. Raises ValueError for a module without variants."""
    corrected = {path: tree.read(path) for path in sources}
    right: list[Files] = [dict(corrected)]
    wrong: list[Files] = [dict(sources)]
    for number in range(RIGHT_VARIANTS):
        for contents, versions, other in ((corrected, right, sources), (sources, wrong, corrected)):
            files: Files = {}
            for path, content in contents.items():
                assert content is not None and other[path] is not None, "bugs do not add or delete files"
                lines = functions_of(content, changed_lines(other[path] or b"", content))
                draw = stream(seed, f"version {path} {number}", len(versions))
                # The first variant holds the other version's statements, so that their text says nothing.
                files[path] = variant(path, content, lines, draw, None if number else other[path])
            versions.append(files)
    return right, wrong
