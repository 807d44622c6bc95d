"""The generator ``bug_masking``: two mistakes, of which one hides the other."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from ....errors import NotApplicable
from ....models import GeneratorRef
from ...base import Candidate, TestPolicy
from ...python.source import Module, compile_error
from ...python.tested_code import TestedCode
from ...statements.styles import StyleChoice
from .bug_arithmetic import ArithmeticBug
from .bug_call import CallBug
from .bug_control_flow import ControlFlowBug
from .bug_removed_statement import RemovedStatementBug
from .family import BugGenerator, Site, affected, candidate_of
from .rules import RuleKnobs

if TYPE_CHECKING:
    from ....environments.snapshots import Snapshot

_MAKERS = (ArithmeticBug, CallBug, ControlFlowBug, RemovedStatementBug)
_HIDING = {"swapped", "dropped", "call", "rebinding", "assignment", "operator", "range", "dropped_return", "sibling"}
"""Kinds of mistakes that fail nearly every test which runs them."""


@dataclass(frozen=True)
class Knobs:
    """How far apart the mistakes are, and what the workspace shows of the tests."""

    min_distance: Annotated[int, Field(ge=1)] = 2
    """Fewest lines from the first mistake to the second."""
    tests: TestPolicy = "hidden"
    """Failing tests: ``hidden`` takes them out of the workspace, ``visible`` leaves them, ``half`` every second one."""
    max_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Largest share of all tests that may run the first mistake."""
    style: StyleChoice = "seeded"
    """Who writes the statement: a user (``issue``), a maintainer (``instruction``), in a word (``terse``), or drawn."""


class MaskingBug(BugGenerator):
    """Put two mistakes into tested code: all tests of the second run the first, so it shows only after that is fixed.

    Correcting only one of them must score 0: both partial corrections are tried as trivial solutions.
    """

    name = "bug_masking"
    version = "4"
    knobs = Knobs

    def sites(self, module: Module, lines: Collection[int], knobs: Knobs) -> Iterator[Site]:
        """Yield the mistakes of other generators."""
        for maker in _MAKERS:
            yield from maker().sites(module, lines, RuleKnobs())

    def kind_of(self, site: Site) -> str:
        """Return the name of the rule's kind."""
        return site.mutant.operator

    def candidates(self, snapshot: Snapshot, seed: int, knobs: Knobs) -> Iterator[Candidate]:
        """Yield one candidate per pair, in seed order. Raises NotApplicable for a package without any pair."""
        code = TestedCode(snapshot)
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=asdict(knobs))
        sites = list(self.in_order(self.decided(code, knobs), seed))
        used: set[Site] = set()
        for first in sites:
            if first.mutant.operator in _HIDING and first not in used and first.mutant.changes_code():
                second = _hidden_by(code, first, sites, used, knobs)
                if second is not None:
                    used |= {first, second}
                    yield _candidate(code, first, second, reference, knobs)
        if not used:
            raise NotApplicable(f"{self.name} finds no two mistakes that the same tests run; take another source")


def _hidden_by(code: TestedCode, first: Site, sites: list[Site], used: set[Site], knobs: Knobs) -> Site | None:
    """Return the next mistake further down whose tests all run the first one; None when there is none."""
    tests = set(affected(code, [first]))
    end = first.mutant.original.count(b"\n", 0, first.mutant.end) + 1
    for second in sites:
        if second.path != first.path or second in used or min(second.lines) < end + knobs.min_distance:
            continue
        if second.mutant.start <= first.mutant.end or not tests.issuperset(affected(code, [second])):
            continue
        if second.mutant.changes_code() and not compile_error(first.path, _both(first, second)):
            return second
    return None


def _both(first: Site, second: Site) -> bytes:
    """Return the source with both mistakes."""
    source = second.mutant.source
    return source[: first.mutant.start] + first.mutant.text + source[first.mutant.end :]


def _candidate(code: TestedCode, first: Site, second: Site, reference: GeneratorRef, knobs: Knobs) -> Candidate:
    path = first.path
    return candidate_of(
        {path: _both(first, second)},
        affected(code, [first]),
        reference,
        knobs,
        mistakes=2,
        probes={
            "only the first mistake corrected": {path: second.mutant.source},
            "only the second mistake corrected": {path: first.mutant.source},
        },
    )
