"""The generator ``doctest_repair``: examples of the documentation that fail, by a mistake in the code or in them."""

from __future__ import annotations

import ast
import functools
import hashlib
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from ....environments.rng import stream
from ....errors import NotApplicable
from ....models import GeneratorRef
from ...base import Candidate, HiddenTests, StatementContext, TestPolicy
from ...python.mutants import Mutant, possible_mutants
from ...python.source import Module, apply_edits
from ...python.tested_code import TestedCode, in_seed_order, in_turn
from ...statements.behaviours import behaviour_lines, bullets
from .examples import Examples, module_examples, stale_outputs
from .hidden_tests import examples_test, examples_tests, new_test_path

if TYPE_CHECKING:
    from ....environments.snapshots import Snapshot

Cause = Literal["code", "examples"]
_KINDS = ("comparison", "boolean", "arithmetic", "constant", "swapped arguments", "removed statement")
_MOST_STALE = 3


@dataclass(frozen=True)
class Knobs:
    """What is wrong, and what the workspace shows of other tests that notice it."""

    cause: Literal["code", "examples", "either"] = "either"
    """``code`` puts a mistake into a function, ``examples`` makes shown outputs stale, ``either`` takes turns."""
    tests: TestPolicy = "hidden"
    """Other tests that fail: ``hidden`` takes them out of the workspace, ``visible`` leaves them, ``half`` some."""
    max_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Largest share of all tests that may run the changed line."""


@dataclass(frozen=True)
class FailingExamples:
    """What the documentation's reader sees: which docstrings show outputs that the code does not give."""

    path: str  # the file
    module: str  # its dotted name
    test_file: str  # the hidden file that runs the examples
    cause: Cause

    def render(self, context: StatementContext) -> str:
        """Return which docstrings are concerned, which side is right, and what is checked."""
        example_tests = [test for test in context.failing if test.startswith(f"{self.test_file}::")]
        names = [match[1] for test in example_tests if (match := re.search(r"\[(.*)\]$", test, re.DOTALL))]
        listed = bullets(f"`{self.module}.{name}`" for name in names)
        command = f"python -m pytest --doctest-modules {self.path}"
        others = behaviour_lines([test for test in context.failing if test not in example_tests])
        paragraphs = [
            f"# Examples in `{self.module}` do not give what they show",
            f"In this code base, the {context.package} package, these docstrings of `{self.path}` have examples "
            f"(`>>>`) that fail when `doctest` runs them:\n\n{listed}",
            _CAUSES[self.cause],
            "## What is checked\n\n"
            "Each example of these docstrings must give the output that "
            f"{'it shows now' if self.cause == 'code' else 'the code gives'}: the file must still hold every one of "
            "them with the same input, and `doctest` runs them with the options `ELLIPSIS` and "
            "`NORMALIZE_WHITESPACE`. All tests of the package have to pass too. "
            f"`{command}` runs the examples of the file; others of its docstrings may need a setup that it lacks.",
        ]
        if others:
            paragraphs.append(f"These tests notice the mistake as well:\n\n{bullets(others)}")
        return "\n\n".join(paragraphs) + "\n"


_CAUSES = {
    "code": "The examples are right. A recent change put a mistake into the code of this module. Find it and correct "
    "it; do not change the examples.",
    "examples": "The code is right. The outputs that the examples show are of an earlier version. Correct the shown "
    "outputs, and leave the inputs and the code as they are.",
}


class DoctestRepair:
    """Make examples of docstrings fail, by a mistake in the code or by stale outputs, and ask for the repair."""

    name = "doctest_repair"
    version = "1"
    knobs = Knobs

    def candidates(self, snapshot: Snapshot, seed: int, knobs: Knobs) -> Iterator[Candidate]:
        """Yield candidates in seed order, first one per docstring. Raises NotApplicable without examples."""
        code = TestedCode(snapshot)
        modules = {module.path: module for module in code.tree.modules() if b">>>" in module.source}
        examples_of = {path: module_examples(module.source) for path, module in modules.items()}
        places = [(path, item) for path, examples in examples_of.items() for item in examples]
        if not places:
            raise NotApplicable(f"{snapshot.name} {snapshot.version} has no examples in its docstrings")
        order = in_seed_order(places, seed, self.name, key=lambda place: (place[0], place[1].name))
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=asdict(knobs))
        rows = [_proposals(code, modules[path], item, knobs, seed, number) for number, (path, item) in enumerate(order)]
        visited: set[bytes] = set()
        for cause, path, source in in_turn(rows):
            if source in visited:
                continue
            visited.add(source)
            yield _candidate(snapshot, code, examples_of[path], reference, knobs, (cause, path, source))


Proposal = tuple[Cause, str, bytes]


def _proposals(
    code: TestedCode, module: Module, examples: Examples, knobs: Knobs, seed: int, number: int
) -> Iterator[Proposal]:
    """Yield the changed files that may break a docstring's examples; with ``either`` every second one is stale."""
    by_code = _with_mistakes(code, module, examples, knobs, seed)
    by_text = _with_stale_outputs(module, examples, seed)
    if knobs.cause == "either":
        pair = (by_code, by_text) if number % 2 == 0 else (by_text, by_code)
        yield from in_turn(pair)
    else:
        yield from by_code if knobs.cause == "code" else by_text


def _with_stale_outputs(module: Module, examples: Examples, seed: int) -> Iterator[Proposal]:
    edits = stale_outputs(module.source, examples)
    if edits:
        draw = stream(seed, "stale outputs", f"{module.path}::{examples.name}")
        chosen = draw.sample(edits, min(len(edits), draw.randint(1, _MOST_STALE)))
        yield "examples", module.path, apply_edits(module.source, chosen)


def _with_mistakes(code: TestedCode, module: Module, examples: Examples, knobs: Knobs, seed: int) -> Iterator[Proposal]:
    """Yield the module with one mistake in the documented code.

    Mistakes that few inputs show, and those in lines that do not always run, come last.
    """
    start, end = examples.node.lineno, examples.node.end_lineno or examples.node.lineno

    def covers(key: str) -> bool:
        return key.partition("::")[2] == examples.name or key.partition("::")[2].startswith(f"{examples.name}.")

    if code.runs_at_import(module.path, covers):
        return
    tests_of_lines = code.tests_of_lines(module.path)
    pool = [
        mutant
        for mutant in _mutants(module.source)
        if mutant.operator in _KINDS
        and start <= mutant.line <= end
        and len(tests_of_lines.get(mutant.line, [])) <= knobs.max_share * len(code.baseline.passed)
    ]
    certain = _unconditional_lines(examples.node)
    mutants = in_seed_order(pool, seed, f"{module.path}::{examples.name}", key=_key)
    for mutant in sorted(mutants, key=lambda mutant: (_is_faint(mutant), mutant.line not in certain)):
        if mutant.changes_code():
            yield "code", module.path, mutant.source


@functools.lru_cache(maxsize=128)
def _mutants(source: bytes) -> list[Mutant]:
    """Return the mutants of a whole module, which are the same for all its docstrings."""
    return possible_mutants(source, range(1, source.count(b"\n") + 2))


def _is_faint(mutant: Mutant) -> bool:
    """Return whether few inputs may show the mistake, such as a comparison that differs on equal values alone."""
    text = mutant.text.strip()
    large = mutant.operator == "constant" and len(text) > 1 and text.isdigit()
    return large or text in (b"<", b"<=", b">", b">=") or mutant.operator in ("removed statement", "swapped arguments")


def _key(mutant: Mutant) -> tuple[int, int, bytes]:
    return mutant.start, mutant.end, mutant.text


def _unconditional_lines(node: ast.AST) -> set[int]:
    """Return the lines of a definition's statements that are not within a branch or a handler."""
    lines: set[int] = set()
    for item in ast.iter_child_nodes(node):
        if isinstance(item, ast.If | ast.While | ast.Try):
            continue
        if isinstance(item, ast.stmt) and not isinstance(item, ast.Raise | ast.For | ast.With | ast.ClassDef):
            last = item.end_lineno or item.lineno
            lines |= set(range(item.lineno, last + 1)) if not hasattr(item, "body") else {item.lineno}
        if isinstance(item, ast.For | ast.With | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            lines |= _unconditional_lines(item)
    return lines


def _candidate(
    snapshot: Snapshot,
    code: TestedCode,
    examples: list[Examples],
    reference: GeneratorRef,
    knobs: Knobs,
    proposal: Proposal,
) -> Candidate:
    cause, path, source = proposal
    module = code.tree.dotted_name(path)
    test_path = new_test_path(snapshot, code.tree, f"examples_of_{module.rpartition('.')[2]}")
    changed = _changed_lines(code.tree.read(path), source)
    tests_of_lines = code.tests_of_lines(path) if cause == "code" else {}
    touching = {test for line in changed for test in tests_of_lines.get(line, [])}
    affected = [test for test in code.baseline.passed if test in touching and not test.startswith(f"{path}::")]
    return Candidate(
        entity=f"{path}::{hashlib.sha256(source).hexdigest()[:12]}",  # a public id must not name the place
        generator=reference,
        exercise={path: source},
        hidden_tests=HiddenTests(
            [*examples_tests(test_path, examples), *affected],
            knobs.tests,
            added={test_path: examples_test(module, examples)},
        ),
        statement=FailingExamples(path, module, test_path, cause),
        features={"cause": cause, "examples": sum(item.checked for item in examples), "tests_touching": len(affected)},
    )


def _changed_lines(before: bytes, after: bytes) -> list[int]:
    """Return the numbers of the lines of ``before`` that ``after`` has otherwise, both with as many lines."""
    pairs = zip(before.split(b"\n"), after.split(b"\n"), strict=False)
    return [number for number, (old, new) in enumerate(pairs, 1) if old != new]
