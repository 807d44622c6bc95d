"""Guesses: bodies of one expression that one would try in place of a deleted function.

A record that one of them satisfies does not separate a solution from a guess: the argument itself, its text, or another
function of the same module or class that takes the same arguments. What the task's own solution uses itself is no
guess.
"""

from __future__ import annotations

import ast
import base64
from collections.abc import Iterator, Mapping, Sequence

from ....models import FileChange
from ...tasks.task_paths import source_files
from .answers import comparable_part, is_as, same_answer
from .check import Examination
from .recorded_calls import RecordedCalls
from .recorded_changes import answers_with_names
from .targets import definitions, is_generator, module_name

MOST_SIBLINGS = 6
"""Most other functions that are tried."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef


async def satisfying_guess(examination: Examination, recorded: RecordedCalls) -> str:
    """Return a guess that gives every recorded answer, '' when there is none.

    Only where one function is examined: several have to be guessed together. Raises SandboxError.
    """
    targets = examination.examined.targets
    if len(targets) != 1 or "#" in targets[0]:
        return ""
    task, trees = examination.task, examination.trees
    module, _, name = targets[0].partition(":")
    for path in source_files(task):
        pristine, solved = trees.pristine_tree / path, trees.solved_tree / path
        is_its_file = module_name(path, task.pytest.python_path) == module
        if not (is_its_file and pristine.is_file() and solved.is_file()):
            continue
        for expression, text in guesses(pristine.read_bytes(), solved.read_bytes(), name):
            changes = [FileChange(path=path, kind="file", content=base64.b64encode(text).decode())]
            if await _satisfies(examination, recorded, changes):
                return expression
    return ""


async def _satisfies(examination: Examination, recorded: RecordedCalls, changes: Sequence[FileChange]) -> bool:
    answers_given = await examination.answers(changes, recorded.sent(), recorded.opaque)
    answers_given = answers_with_names(answers_given, recorded.own_state)
    for number, calls in enumerate(recorded.tests.values()):
        got = answers_given.get(str(number), [])
        if len(got) != len(calls) or not all(map(same_answer, [call["answer"] for call in calls], got)):
            return False
    for target, calls in recorded.inputs.items():
        got = answers_given.get(f"input {target}", [])
        if len(got) != len(calls) or not all(map(is_as, [call["answer"] for call in calls], got)):
            return False
    for number, calls in enumerate(recorded.sequences):
        got = answers_given.get(f"sequence {number}", [])
        answers_seen = [comparable_part(call, one) for call, one in zip(calls, got, strict=False)]
        if len(got) != len(calls) or not all(map(is_as, [call["answer"] for call in calls], answers_seen)):
            return False
    return True


def guesses(pristine: bytes, solved: bytes, name: str) -> Iterator[tuple[str, bytes]]:
    """Yield expressions, each with the module's text in which it is the body of the function ``name``."""
    functions, written = definitions(ast.parse(pristine)), definitions(ast.parse(solved)).get(name)
    if written is None or name not in functions or is_generator(written):
        return
    used = {node.id for node in ast.walk(written) if isinstance(node, ast.Name)}
    used |= {node.attr for node in ast.walk(written) if isinstance(node, ast.Attribute)}
    for expression in _expressions(name, functions, used):
        tree = ast.parse(pristine)
        node = definitions(tree)[name]
        wrapper = ast.parse(
            f"{'async ' if isinstance(node, ast.AsyncFunctionDef) else ''}def _():\n    return {expression}"
        )
        node.body = wrapper.body[0].body  # type: ignore[attr-defined]
        yield expression, ast.unparse(ast.fix_missing_locations(tree)).encode() + b"\n"


def _expressions(name: str, functions: Mapping[str, _Function], used: set[str]) -> Iterator[str]:
    prefix, _, last = name.rpartition(".")
    receiver, names = _parameters(functions[name], bool(prefix))
    argument = names[0] if names else receiver
    if not argument:
        return
    yield argument
    yield from (f"{text}({argument})" for text in ("repr", "str") if text not in used)
    siblings = [
        other
        for other, node in functions.items()
        if other.rpartition(".")[0] == prefix
        and other != name
        and "#" not in other
        and other.rpartition(".")[2] not in used
        and not isinstance(node, ast.AsyncFunctionDef)
        and _takes(node, bool(prefix), len(names))
    ]
    caller = f"{receiver}." if receiver else ""
    for other in sorted(siblings, key=lambda other: _distance(functions[other], functions[name]))[:MOST_SIBLINGS]:
        if receiver or not prefix:
            yield f"{caller}{other.rpartition('.')[2]}({', '.join(names)})"


def _parameters(node: _Function, is_method: bool) -> tuple[str, list[str]]:
    """Return the name of the receiver ('' without one), and those of the positional parameters without a default."""
    names = [item.arg for item in [*node.args.posonlyargs, *node.args.args]]
    decorators = {ast.unparse(item) for item in node.decorator_list}
    receiver = names.pop(0) if is_method and names and "staticmethod" not in decorators else ""
    optional = len(node.args.defaults)
    return receiver, names[: len(names) - optional] if optional <= len(names) else []


def _takes(node: _Function, is_method: bool, count: int) -> bool:
    """Return whether a function can be called with ``count`` positional arguments."""
    receiver, needed = _parameters(node, is_method)
    most = len(node.args.posonlyargs) + len(node.args.args) - bool(receiver)
    properties = {"property", "cached_property", "functools.cached_property", "staticmethod", "classmethod"}
    if {ast.unparse(item) for item in node.decorator_list} & properties or (is_method and not receiver):
        return False
    return len(needed) <= count and (count <= most or node.args.vararg is not None)


def _distance(one: _Function, other: _Function) -> tuple[bool, int]:
    """Return how unlike two functions are: other parameters, and how far they are apart in the file."""
    return ast.dump(one.args) != ast.dump(other.args), abs(one.lineno - other.lineno)
