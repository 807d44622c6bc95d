"""The base of the mutation generators: which mistakes tests decide about, and how one becomes a Candidate."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ....models import GeneratorRef
from ...base import Candidate, Files, HiddenTests, TestPolicy
from ...python.mutants import Mutant
from ...python.source import Module
from ...python.tested_code import TestedCode, in_seed_order, in_turn
from ...statements.styles import StyleChoice
from .bug_report import BugReport

if TYPE_CHECKING:
    from ....environments.snapshots import Snapshot


class BugKnobs(Protocol):
    """The knobs that the base reads; each generator's own ``Knobs`` are a dataclass that has them."""

    @property
    def tests(self) -> TestPolicy:
        """Return what the workspace shows of the failing tests."""

    @property
    def max_share(self) -> float:
        """Return the largest share of all tests that may run the changed code."""

    @property
    def style(self) -> StyleChoice:
        """Return the style of the report."""


@dataclass(frozen=True)
class Site:
    """A mistake and its place."""

    path: str  # the file
    mutant: Mutant  # the file with the mistake in it
    lines: tuple[int, ...]  # lines of the original, 1-based, whose tests run the changed code

    @property
    def order_key(self) -> tuple[str, int, bytes]:
        """Return what the sites of one package are sorted by before the seed shuffles them."""
        return self.path, self.mutant.start, self.mutant.text


class BugGenerator:
    """Proposes one candidate per mistake, in seed order. Subclasses define which mistakes a module can get."""

    name: ClassVar[str]
    version: ClassVar[str]
    knobs: ClassVar[type[Any]]

    def sites(self, module: Module, lines: Collection[int], knobs: Any) -> Iterator[Site]:
        """Yield every mistake that the generator could put into the module; ``lines`` are those that tests run."""
        raise NotImplementedError

    def in_order(self, pool: Iterable[Site], seed: int) -> Iterable[Site]:
        """Return the sites in the order in which they are proposed, drawn from the seed."""
        return other_lines_first(in_seed_order(pool, seed, self.name, key=lambda site: site.order_key), self.kind_of)

    def kind_of(self, site: Site) -> str:
        """Return the kind of a mistake; kinds are proposed in turn."""
        return ""

    def candidates(self, snapshot: Snapshot, seed: int, knobs: Any) -> Iterator[Candidate]:
        """Yield one candidate per mistake in code that tests run, in seed order."""
        code = TestedCode(snapshot)
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=asdict(knobs))
        for site in self.in_order(self.decided(code, knobs), seed):
            if site.mutant.changes_code():
                yield candidate_of({site.path: site.mutant.source}, affected(code, [site]), reference, knobs)

    def decided(self, code: TestedCode, knobs: Any) -> Iterator[Site]:
        """Yield the sites that enough, but not too many, tests run."""
        for module in code.tree.modules():
            decides: dict[tuple[int, ...], bool] = {}
            for site in self.sites(module, code.tests_of_lines(module.path), knobs):
                if site.lines not in decides:
                    decides[site.lines] = code.decides(affected(code, [site]), knobs.max_share)
                if decides[site.lines]:
                    yield site


def other_lines_first(sites: Iterable[Site], kind_of: Callable[[Site], str]) -> list[Site]:
    """Return the sites, of each kind in turn, with a second mistake on a line after those on other lines.

    Two mistakes on a line are often the same exercise: the same tests show them, with the same symptom.
    """
    waiting: dict[str, list[Site]] = {}
    for site in sites:
        waiting.setdefault(kind_of(site), []).append(site)
    lines: set[tuple[str, tuple[int, ...]]] = set()
    first: dict[str, list[Site]] = {name: [] for name in waiting}
    later: dict[str, list[Site]] = {name: [] for name in waiting}
    for name, site in in_turn([(name, site) for site in group] for name, group in waiting.items()):
        place = (site.path, site.lines)
        (later if place in lines else first)[name].append(site)
        lines.add(place)
    return [*in_turn(first.values()), *in_turn(later.values())]


def affected(code: TestedCode, sites: Iterable[Site]) -> list[str]:
    """Return the stable tests, in suite order, that run any of the sites."""
    tests_of = [tests for site in sites for line in site.lines if (tests := code.tests_of_lines(site.path).get(line))]
    if len(tests_of) == 1:
        return tests_of[0]
    every = set().union(*tests_of)
    return [test for test in code.baseline.passed if test in every] if every else []


def candidate_of(
    exercise: Mapping[str, bytes],
    tests: list[str],
    reference: GeneratorRef,
    knobs: BugKnobs,
    *,
    mistakes: int = 1,
    probes: Mapping[str, Files] | None = None,
) -> Candidate:
    """Return the candidate whose workspace has the files of ``exercise``, and whose report is about ``tests``.

    ``mistakes`` is how many places are wrong.
    """
    path = min(exercise)
    # A task's id is public: it must not name the place.
    digest = hashlib.sha256(b"".join(exercise[name] for name in sorted(exercise))).hexdigest()[:12]
    return Candidate(
        entity=f"{path}::{digest}",
        generator=reference,
        exercise=dict(exercise),
        hidden_tests=HiddenTests(tests, knobs.tests),
        statement=BugReport(knobs.tests, knobs.style, reference.seed, digest, mistakes),
        observe_calls=True,
        documented=False,
        features={"tests_touching": len(tests)},
        probes=probes or {},
    )
