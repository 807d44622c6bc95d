"""The generator ``code_question``: a question about the code whose exact answer was observed."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from ....environments.rng import stream
from ....environments.snapshots.test_run.impact import entities
from ....models import GeneratorRef
from ...base import Candidate, ExactAnswer, HiddenTests, Question, StatementContext
from ...python.hidden_tests import test_file
from ...python.source import parse
from ...python.source_tree import SourceTree
from ...python.tested_code import TestedCode, in_seed_order
from .observed_calls import called_functions, new_calls, program
from .questions import MAX_NAMES, MIN_NAMES, FunctionsOfCall, FunctionsOfTest, Spans, TestsOfLine, ValueOfCall

if TYPE_CHECKING:
    from ....environments.snapshots import Snapshot

Kind = Literal["value_of_call", "functions_of_call", "functions_of_test", "tests_of_line"]
_KINDS: tuple[Kind, ...] = ("value_of_call", "functions_of_call", "functions_of_test", "tests_of_line")
_FORMS = {
    "value": "The answer is the value as a Python literal, as `repr` writes it. Spaces and the kind of quotes do not "
    "matter.",
    "names": "The answer is all of the names and no others, separated by commas. Their order and spaces do not matter.",
}

_FUNCTION, _TEST = "package.module.Class.method", "tests/test_module.py::TestClass::test_method"
"""How names are written."""


@dataclass(frozen=True)
class Knobs:
    """Which questions are posed."""

    kind: Literal["value_of_call", "functions_of_call", "functions_of_test", "tests_of_line", "all"] = "all"
    """What is asked for: the value of a call, the functions that a call or a test runs, or the tests of a line."""
    max_names: Annotated[int, Field(ge=MIN_NAMES, le=MAX_NAMES)] = MAX_NAMES
    """Most names that an answer by names of tests may have."""


@dataclass(frozen=True)
class QuestionStatement:
    """A question, what exactly is meant by it, and the form of its answer."""

    text: str
    """The question; ``{question}`` stands for the part that was observed."""
    form: Literal["value", "names"]
    example: str
    """How one name is written; '' for a value."""

    def render(self, context: StatementContext) -> str:
        """Return the question, the form of the answer, and that code may be run."""
        form = _FORMS[self.form] + (f" A name is written like `{self.example}`." if self.example else "")
        return (
            f"# A question about {context.package}\n\n{self.text.replace('{question}', context.question)}\n\n"
            f"{form}\n\nYou may run any code to find out, and change what you like in the workspace; the question is "
            "about the code as you received it. Hand in the answer with `submit`, as its argument `answer`.\n"
        )


class CodeQuestions:
    """Ask a question about the code whose exact answer comes from running it."""

    name = "code_question"
    version = "1"
    knobs = Knobs

    def candidates(self, snapshot: Snapshot, seed: int, knobs: Knobs) -> Iterator[Candidate]:
        """Yield one candidate per question, the kinds in turn, each kind in seed order."""
        code = TestedCode(snapshot)
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=asdict(knobs))
        makers: dict[Kind, Callable[[TestedCode, int, Knobs], Iterator[Asked]]] = {
            "value_of_call": _values,
            "functions_of_call": _functions_of_calls,
            "functions_of_test": _functions_of_tests,
            "tests_of_line": _tests_of_lines,
        }
        kinds = _KINDS if knobs.kind == "all" else (knobs.kind,)
        waiting = [(kind, makers[kind](code, seed, knobs)) for kind in kinds]
        while waiting:
            for kind, questions in list(waiting):
                posed = next(questions, None)
                if posed is None:
                    waiting.remove((kind, questions))
                    continue
                digest = hashlib.sha256(f"{kind} {posed.about}".encode()).hexdigest()[:12]
                yield Candidate(
                    entity=f"{kind}::{kind}_{digest}",
                    generator=reference,
                    exercise={},
                    hidden_tests=HiddenTests([]),
                    statement=posed.statement,
                    features={"question": kind},
                    deliverable=ExactAnswer(posed.question),
                )


@dataclass(frozen=True)
class Asked:
    """A question with its statement."""

    about: str
    question: Question
    statement: QuestionStatement


def _values(code: TestedCode, seed: int, knobs: Knobs) -> Iterator[Asked]:
    pool = in_seed_order(called_functions(code.tree), seed, "value_of_call", key=lambda item: item.dotted)
    for function in pool:
        if calls := new_calls(function, stream(seed, f"value_of_call {function.dotted}")):
            text = (
                "What does `{question}` return, when it is called in a new Python process in the workspace, with the "
                f"module `{function.module}` imported?"
            )
            question = ValueOfCall(program(function, calls), function.module)
            yield Asked(function.dotted, question, QuestionStatement(text, "value", ""))


def _functions_of_calls(code: TestedCode, seed: int, knobs: Knobs) -> Iterator[Asked]:
    pool = in_seed_order(called_functions(code.tree), seed, "functions_of_call", key=lambda item: item.dotted)
    spans = _spans(code.tree, "whole") if pool else {}
    for function in pool:
        if calls := new_calls(function, stream(seed, f"functions_of_call {function.dotted}")):
            text = (
                "Which functions and methods of the package run, directly or through others, during the call "
                "`{question}`, when it is the first call in a new Python process in the workspace, after the module "
                f"`{function.module}` was imported? The called function itself counts. A function inside another one "
                "counts as the outer one; lambdas and classes at the top level of a module do not count. Each is named "
                "after the module that defines it."
            )
            question = FunctionsOfCall(program(function, calls), function.module, spans, function.dotted)
            yield Asked(function.dotted, question, QuestionStatement(text, "names", _FUNCTION))


def _functions_of_tests(code: TestedCode, seed: int, knobs: Knobs) -> Iterator[Asked]:
    bodies, unclear = _spans(code.tree, "body"), _spans(code.tree, "one line")
    tests = [test for test in code.baseline.passed if code.tree.is_test(test_file(test)) and "[" not in test]
    sizes: dict[str, int] = {}
    at_import = set(code.baseline.at_import)
    for function, names in code.baseline.tests_of.items():
        if function not in at_import and not code.tree.is_test(test_file(function)):
            for test in names:
                sizes[test] = sizes.get(test, 0) + 1
    fitting = [test for test in tests if MIN_NAMES < sizes.get(test, 0) <= MAX_NAMES]
    for test in in_seed_order(fitting, seed, "functions_of_test", key=str):
        text = (
            f"Which functions and methods of the package run while the test `{test}` runs alone, its fixtures "
            "included? A function does not count when it already runs while pytest collects the test, because modules "
            "are imported then. A function inside another one counts as the outer one. Each one is named after the "
            "module that defines it."
        )
        yield Asked(test, FunctionsOfTest(test, bodies, unclear), QuestionStatement(text, "names", _FUNCTION))


def _tests_of_lines(code: TestedCode, seed: int, knobs: Knobs) -> Iterator[Asked]:
    places: dict[tuple[str, tuple[str, ...]], tuple[str, int, tuple[str, ...]]] = {}
    for module in code.tree.modules():
        lines = code.tests_of_lines(module.path)
        # Tools differ in what they report of the other lines of a statement.
        starts = {node.lineno for node in ast.walk(parse(module.source)) if isinstance(node, ast.stmt)}
        bodies = [body for versions in entities(module.source).values() for body in versions]
        for body in bodies:
            of_function = sorted({test.partition("[")[0] for line in body.lines for test in lines.get(line, ())})
            for line in body.lines:
                names = tuple(sorted({test.partition("[")[0] for test in lines.get(line, ())}))
                if line in starts and MIN_NAMES <= len(names) <= knobs.max_names and len(names) < len(of_function):
                    places.setdefault((module.path, names), (module.path, line, (", ".join(of_function),)))
    for path, line, guesses in in_seed_order(places.values(), seed, "tests_of_line", key=lambda item: item[:2]):
        source = code.tree.read(path).splitlines()[line - 1].decode("utf-8", "replace").strip()
        text = (
            f"Which tests of the code base run line {line} of `{path}`, when the whole suite runs in its usual order? "
            f"The line reads `{source}`. Only tests that pass count. Of a parametrised test, the name without the "
            "parameters counts once, whichever of its cases run the line."
        )
        question = TestsOfLine(path, line, guesses)
        yield Asked(f"{path}:{line}", question, QuestionStatement(text, "names", _TEST))


def _spans(tree: SourceTree, part: Literal["whole", "body", "one line"]) -> Spans:
    """Return the functions and methods by file, with their lines.

    ``whole`` has all of them, ``body`` those of bodies; a body on the line of ``def`` is ``one line`` instead.
    """
    result: dict[str, list[tuple[str, int, int]]] = {}
    for module in tree.modules():
        dotted = tree.dotted_name(module.path)
        starts = _starts(module.source) if part == "whole" else {}
        for name, bodies in entities(module.source).items():
            for body in bodies:
                if part != "whole" and body.on_def != (part == "one line"):
                    continue
                first, last = body.lines.start, body.lines.stop - 1
                places = [start for start, line in starts.get(last, ()) if line <= first]
                result.setdefault(module.path, []).append((f"{dotted}.{name}", min(places, default=first), last))
    return result


def _starts(source: bytes) -> dict[int, list[tuple[int, int]]]:
    """Return, by last line, the lines of the first decorator and of ``def`` of each function."""
    result: dict[int, list[tuple[int, int]]] = {}
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            result.setdefault(node.end_lineno or node.lineno, []).append((first, node.lineno))
    return result
