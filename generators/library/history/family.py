"""The base of the history generators: which changes are eligible, and how one becomes a Candidate."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import date
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from ....environments.snapshots.source.history import open_history
from ....errors import GeneratorError, Rejected
from ....models import GeneratorRef
from ...base import Candidate, Feature, HiddenTests, Rejection, TestPolicy
from ...python.source_tree import SOURCE_SUFFIXES, SourceTree
from ...python.tested_code import in_seed_order
from .message import Description, clean, describe, without_lines
from .own_tests import own_tests, test_sources
from .public_names import changed_names
from .repository import Change, Commit, Repository
from .reversal import Reversal, take_back
from .statement import HistoryStatement
from .usefulness import MIN_WORDS, telling_words, useless

if TYPE_CHECKING:
    from ....environments.snapshots import Snapshot

_CHANGELOG = re.compile(r"(?i)(^|/)(change|history|news|release|whatsnew|versions\.)[^/]*(/.*)?\.(rst|md|txt)$")
_NO_ENTRY = re.compile(r"(?i)^(version|unreleased|released|v?\d+(\.\d+)+|[=~^*+-]{3,}|#|\.\. |[\w/ ]+$)")
MAX_ENTRY_LINES = 12
"""Most lines of a changelog that a statement quotes."""
MIN_CODE_LINE = 16
"""Characters without spaces from which a line of code is recognized when a message quotes it."""


@dataclass(frozen=True)
class Knobs:
    """Which changes are taken back, and what the workspace shows of their tests."""

    since: str = ""
    """Take only changes committed on this day (YYYY-MM-DD) or later, against contamination; empty for no limit."""
    order: Literal["newest", "sampled"] = "newest"
    """``newest`` tries the latest changes first, ``sampled`` draws the order from the seed."""
    max_files: Annotated[int, Field(ge=1)] = 4
    """Most source files that a change may touch."""
    min_lines: Annotated[int, Field(ge=1)] = 2
    """Fewest lines that a change adds to and deletes from sources."""
    max_lines: Annotated[int, Field(ge=1)] = 200
    """Most lines that a change adds to and deletes from sources."""
    tests: TestPolicy = "hidden"
    """Failing tests: ``hidden`` takes them out of the workspace, ``visible`` leaves them, ``half`` every second one."""
    head: str = ""
    """Id of the newest commit to read; default: the commit of the source. A row records it."""

    def __post_init__(self) -> None:
        if self.since:
            try:
                date.fromisoformat(self.since)
            except ValueError:
                raise GeneratorError(f"knob since must be a day such as 2026-01-31, got {self.since!r}") from None


class HistoryGenerator:
    """Proposes one candidate per eligible change. Subclasses define what a change is."""

    name: ClassVar[str]
    version: ClassVar[str]
    knobs: ClassVar[type[Knobs]] = Knobs

    def changes(self, repository: Repository, knobs: Knobs) -> Iterator[tuple[Commit, str]]:
        """Yield commits that may be taken back, newest first, each with the text that describes it."""
        raise NotImplementedError

    def candidates(self, snapshot: Snapshot, seed: int, knobs: Knobs) -> Iterator[Candidate]:
        """Yield the candidates: newest first, or in seed order. Raises NotApplicable for a source without history."""
        source = snapshot.recipe.source.spec
        with open_history(snapshot.cache, snapshot.digest, source) as store:
            repository = Repository(store, knobs.head)
            recorded = {**asdict(knobs), "head": repository.head}
            reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=recorded)
            tree = SourceTree.of(snapshot)
            pool: Iterator[tuple[Commit, str]] = (
                (commit, text) for commit, text in self.changes(repository, knobs) if commit.date >= knobs.since
            )
            if knobs.order == "sampled":
                pool = iter(in_seed_order(pool, seed, self.name, key=lambda item: item[0].sha))
            for commit, text in pool:
                change = repository.change(commit.parents[0], commit.sha)
                if _is_eligible(tree, change, knobs):
                    proposal = _Proposal(repository, tree, commit, change, text)
                    yield proposal.candidate(reference, snapshot.baseline.passed, knobs)


def _sources(tree: SourceTree, change: Change) -> list[str]:
    """Return the sources of a change; the package may have been in another folder then."""
    folders = {root.rsplit("/", 1)[-1] for root in tree.roots}

    def belongs(path: str) -> bool:
        return tree.is_source(path) or bool(folders & set(path.split("/")))

    return [
        path for path in change.lines if path.endswith(SOURCE_SUFFIXES) and not tree.is_test(path) and belongs(path)
    ]


def _is_eligible(tree: SourceTree, change: Change, knobs: Knobs) -> bool:
    """Return whether a change touches tests, and neither too few nor too many lines and files of the package."""
    sources = _sources(tree, change)
    lines = sum(change.lines[path] for path in sources)
    has_tests = any(path.endswith(".py") and tree.is_test(path) for path in change.lines)
    return has_tests and 0 < len(sources) <= knobs.max_files and knobs.min_lines <= lines <= knobs.max_lines


@dataclass(frozen=True)
class _Proposal:
    """One change on its way to a Candidate."""

    repository: Repository
    tree: SourceTree
    commit: Commit
    change: Change
    text: str

    def candidate(self, reference: GeneratorRef, stable: list[str], knobs: Knobs) -> Candidate:
        """Return the Candidate, blocked where the change cannot be taken back or is not described."""
        blocked, reversal, tests = None, Reversal(), []
        description = describe(self.text, self.repository.people, self.tree.vocabulary)
        try:
            entries = "\n".join(self._changelog(Reversal()))
            if problem := useless(description.title, f"{description.body}\n{entries}"):
                raise Rejected("history_message", problem)
            tests = own_tests(self.repository, self.change, self.tree, stable)
            if not tests:
                raise Rejected("history_tests_gone", "no test that came with the change is stable in the snapshot")
            reversal = take_back(self.repository, self.change, self.tree)
            description = without_lines(description, self._code(reversal))
            if not description.title or len(telling_words(f"{description.text}\n{entries}")) < MIN_WORDS:
                raise Rejected("history_message", "the message quotes the code that is taken back")
        except Rejected as rejected:
            blocked = Rejection(rejected.reason, rejected.detail)
        names = changed_names(self.tree, reversal.exercise)
        statement = HistoryStatement(
            description, self._changelog(reversal), names, knobs.tests, test_sources(tests, self.tree)
        )
        return Candidate(
            entity=f"{self.commit.date}::{self.commit.sha[:12]}",
            generator=reference,
            exercise=reversal.exercise,
            hidden_tests=HiddenTests(tests, knobs.tests, reversal.tests, reversal.lost_names),
            statement=statement,
            documented=True,
            interface=[item.interface_item() for item in names if item.missing],
            features=self._features(reversal, description),
            blocked=blocked,
        )

    def _features(self, reversal: Reversal, description: Description) -> dict[str, Feature]:
        return {
            "date": self.commit.date,
            "commit_files": len(self.change.lines),
            "commit_lines": sum(self.change.lines.values()),
            "source_lines": sum(self.change.lines[path] for path in _sources(self.tree, self.change)),
            "message_words": len(description.text.split()),
            "test_files_rewritten": len(reversal.tests),
        }

    def _code(self, reversal: Reversal) -> set[str]:
        """Return the lines of code that the reversal removes, without spaces, heads of definitions left out."""
        lines: set[str] = set()
        for path, content in reversal.exercise.items():
            removed = Counter(_squeezed(self.tree.read(path))) - Counter(_squeezed(content or b""))
            lines |= {line for line in removed if len(line) >= MIN_CODE_LINE}
        return {line for line in lines if not line.startswith(("def", "class", "asyncdef", "#", '"""'))}

    def _changelog(self, reversal: Reversal) -> list[str]:
        """Return the entries that the change added to changelogs, without those that quote its code."""
        added: list[str] = []
        for path in self.change.lines:
            if _CHANGELOG.search(path) and not path.endswith(SOURCE_SUFFIXES):
                before, after = (self._lines(commit, path) for commit in (self.change.before, self.change.after))
                earlier = set(before)
                added += [line for line in after if line not in earlier and line and not _NO_ENTRY.search(line)]
        entries = Description("", clean("\n".join(added), self.repository.people, self.tree.vocabulary))
        text = without_lines(entries, self._code(reversal)).body
        return [line for line in text.splitlines() if re.search(r"[^\W\d]{3}", line)][:MAX_ENTRY_LINES]

    def _lines(self, commit: str, path: str) -> list[str]:
        content = self.repository.read(commit, path) or b""
        return [line.strip() for line in content.decode("utf-8", "replace").splitlines()]


def _squeezed(source: bytes) -> list[str]:
    return [re.sub(r"\s+", "", line) for line in source.decode("utf-8", "replace").splitlines()]
