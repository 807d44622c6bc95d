"""The generator ``perf_regression``: a function that does more work than it did, measured in counted operations."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from ....errors import NotApplicable
from ....models import GeneratorRef, InterfaceItem
from ...base import Candidate, HiddenTests, StatementContext
from ...python.hidden_tests import test_file
from ...python.source import Module, SyntaxSpans, compile_error, parse_or_empty
from ...python.tested_code import TestedCode, in_seed_order
from ...statements.behaviours import bullets
from .hidden_tests import new_test_path
from .speed.slowdowns import Function, Kind, Slowdown, slowdowns
from .speed.workloads import LIMITS, PLACE, SIZES, Workload, workload

if TYPE_CHECKING:
    from ....environments.snapshots import Snapshot


@dataclass(frozen=True)
class Knobs:
    """Which work is added."""

    kind: Literal["lookup", "early exit", "cache", "all"] = "all"
    """``lookup`` scans a list, ``early exit`` reads on after the answer is known, ``cache`` computes again."""
    max_share: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Largest share of all tests that may run the changed line."""


_EXPECTED: dict[Kind, str] = {
    "lookup": "The work has to grow in proportion to the number of elements, as it did before.",
    "early exit": "The work must not depend on the elements after the one that decides about the result, as it did "
    "not before. In the calls below, the first elements decide.",
    "cache": "Calls with arguments that were given before must not repeat the work, as they did not before.",
}


@dataclass(frozen=True)
class SlowFunction:
    """What a user notices: a function is slow on large inputs."""

    workload: Workload
    test_path: str

    def render(self, context: StatementContext) -> str:
        """Return the symptom, the growth that is expected, and how operations are counted."""
        work, limit = self.workload, LIMITS[self.workload.kind]
        name = f"{work.module}.{work.name}"
        cached = work.kind == "cache"
        failing = [test for test in work.tests(self.test_path) if test in context.failing]
        numbers = [work.tests(self.test_path).index(test) for test in failing]
        measured = [
            f"`{work.calls[number]}`" + (f": {context.messages[test]}" if test in context.messages else "")
            for number, test in zip(numbers, failing, strict=True)
        ]
        what = "the number of calls" if cached else f"the number of `{PLACE}`"
        sizes = f"{SIZES[0]} and {SIZES[1]}"
        paragraphs = [
            f"# `{name}` is slow {'when it is called often' if cached else 'on large inputs'}",
            f"A recent change to this code base, the {context.package} package, made `{name}` slower. No result is "
            f"wrong. {_EXPECTED[work.kind]}",
            "## Measured\n\nOperations are counted, not seconds: executed lines of Python code, and comparisons and "
            f"hashes of elements. With {what} at {sizes}, the second count may be at most {limit} times the first. "
            f"It is more for\n\n{bullets(measured)}",
            "Find the cause and remove it, in the function or in what it calls. All results have to stay as they are, "
            "and the tests of the package have to pass. Code that takes away or replaces Python's trace function "
            "fails.",
        ]
        return "\n\n".join(paragraphs) + "\n"


class PerfRegression:
    """Make a function scan, compute again or read on (same results) and ask for its former growth."""

    name = "perf_regression"
    version = "1"
    knobs = Knobs

    def candidates(self, snapshot: Snapshot, seed: int, knobs: Knobs) -> Iterator[Candidate]:
        """Yield candidates in seed order. Raises NotApplicable for code without anything to slow down."""
        code = TestedCode(snapshot)
        places = [place for module in code.tree.modules() for place in _places(code, module, knobs)]
        if not places:
            raise NotApplicable(f"{snapshot.name} {snapshot.version} has no tested function that could be slowed down")
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=asdict(knobs))
        for place in in_seed_order(places, seed, self.name, key=lambda place: (place.path, place.slowdown.source)):
            yield _candidate(snapshot, code, reference, place)


@dataclass(frozen=True)
class _Place:
    path: str
    slowdown: Slowdown
    workload: Workload
    affected: Sequence[str]


def _places(code: TestedCode, module: Module, knobs: Knobs) -> Iterator[_Place]:
    """Yield the slowdowns of a module that calls in its tests, or a plain call, may show."""
    spans = SyntaxSpans(module.source)
    functions = [node for node in parse_or_empty(module.source).body if isinstance(node, Function)]
    tests_of_lines = code.tests_of_lines(module.path)
    for function in functions:
        for slowdown in slowdowns(spans, function):
            if knobs.kind not in (slowdown.kind, "all") or compile_error(module.path, slowdown.source):
                continue
            body = range(function.lineno, (function.end_lineno or function.lineno) + 1)
            if slowdown.kind == "cache":
                touching = {test for line in body for test in tests_of_lines.get(line, [])}
            else:
                touching = set(tests_of_lines.get(slowdown.line, []))
            affected = [test for test in code.baseline.passed if test in touching]
            entry = _entry(functions, function)
            if entry is None or (entry is not function and slowdown.kind == "cache"):
                continue  # the caller has work of its own in each call
            if not code.decides(affected, knobs.max_share):
                continue
            files = sorted({test_file(test) for test in affected})
            sources = [code.tree.python_files[path] for path in files if path in code.tree.python_files]
            work = workload(code.tree.dotted_name(module.path), entry, slowdown.kind, sources)
            if work is not None:
                yield _Place(module.path, slowdown, work, affected)


def _entry(functions: Sequence[Function], function: Function) -> Function | None:
    """Return the function itself when it is public, else a public one that calls it by name."""
    if not function.name.startswith("_"):
        return function
    callers = (other for other in functions if not other.name.startswith("_") and _names(other, function.name))
    return next(callers, None)


def _names(function: Function, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(function))


def _candidate(snapshot: Snapshot, code: TestedCode, reference: GeneratorRef, place: _Place) -> Candidate:
    work = place.workload
    test_path = new_test_path(snapshot, code.tree, f"growth_of_{work.name}")
    return Candidate(
        entity=f"{place.path}::{hashlib.sha256(place.slowdown.source).hexdigest()[:12]}",
        generator=reference,
        exercise={place.path: place.slowdown.source},
        hidden_tests=HiddenTests([*work.tests(test_path), *place.affected], added={test_path: work.test_source()}),
        statement=SlowFunction(work, test_path),
        subject=work.name,
        interface=[InterfaceItem(name=f"{work.module}.{work.name}", kind="function")],
        features={"kind": place.slowdown.kind, "calls": len(work.calls), "tests_touching": len(place.affected)},
    )
