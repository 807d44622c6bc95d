"""Generators of mistakes by rules: each rule takes a kind of syntax node and yields what can be wrong there."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from ....errors import NotApplicable
from ...base import Candidate, TestPolicy
from ...python.source import Module
from ...statements.styles import StyleChoice
from .family import BugGenerator, Site
from .places.module_code import ModuleCode

if TYPE_CHECKING:
    from ....environments.snapshots import Snapshot

Rule = Callable[[ModuleCode, Any], Iterator[Site]]
"""Yields the mistakes of one node."""
Rules = Mapping[type[ast.AST], Sequence[Rule]]
"""The rules for each type of node."""


@dataclass(frozen=True)
class RuleKnobs:
    """Which mistakes are made, and what the workspace shows of the tests."""

    kind: str = "all"
    """The only kind of mistake to make; ``all`` takes each kind in turn."""
    tests: TestPolicy = "hidden"
    """Failing tests: ``hidden`` takes them out of the workspace, ``visible`` leaves them, ``half`` every second one."""
    max_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Largest share of all tests that may run the changed code."""
    style: StyleChoice = "seeded"
    """Who writes the statement: a user (``issue``), a maintainer (``instruction``), in a word (``terse``), or drawn."""


class RuleGenerator(BugGenerator):
    """Proposes what its rules find: a mistake of each kind, then a second of each, in seed order."""

    rules: ClassVar[Rules]
    needs: ClassVar[str]
    """What a package must have, for the message about one that has nothing of it."""

    def sites(self, module: Module, lines: Collection[int], knobs: RuleKnobs) -> Iterator[Site]:
        """Yield what the rules find in the module, each mistake once."""
        if not lines:
            return
        code, proposed = ModuleCode(module, lines), set()
        for node in code.nodes():
            for rule in self.rules.get(type(node), ()):
                for site in rule(code, node):
                    change = site.mutant.start, site.mutant.end, site.mutant.text
                    if knobs.kind in ("all", site.mutant.operator) and change not in proposed:
                        proposed.add(change)
                        yield site

    def kind_of(self, site: Site) -> str:
        """Return the name of the rule's kind."""
        return site.mutant.operator

    def candidates(self, snapshot: Snapshot, seed: int, knobs: RuleKnobs) -> Iterator[Candidate]:
        """Yield one candidate per mistake, in seed order. Raises NotApplicable for a package without any place."""
        nothing = True
        for candidate in super().candidates(snapshot, seed, knobs):
            nothing = False
            yield candidate
        if nothing:
            raise NotApplicable(
                f"{self.name} finds nothing to change: no {self.needs} is run by at most {knobs.max_share:.0%} of the "
                "tests; take another source, or raise max_share"
            )
