"""Guesses: wrong solutions whose functions return one simple expression.

The expressions are the argument itself, its text, and calls of other functions of the same module or class with the
same arguments. A record that a guess satisfies does not decide. An expression that the task's own solution uses is not
tried.
"""

from __future__ import annotations

import ast
import base64
from collections.abc import Iterator, Mapping, Sequence

from .....models import FileChange
from ....tasks.task_paths import source_files
from ..judging.examination import Examination
from ..recorded_calls import RecordedCalls
from ..targets import Function, definitions, is_generator, module_name
from .mutant_answers import different_calls

MOST_SIBLINGS = 6
"""Most other functions that are tried."""
MOST_GUESSES = 12
"""Most guesses for single functions."""
_NEGATED = "_opposite"


async def satisfying_guess(examination: Examination, recorded: RecordedCalls) -> str:
    """Return a guess that gives every recorded answer, '' when there is none.

    Where several functions are examined, each is guessed while the others are right, and all are guessed together.
    Raises SandboxError.
    """
    task, trees = examination.task, examination.trees
    called = {call["target"] for call in recorded.test_calls}
    targets = [target for target in examination.examined.targets if "#" not in target]
    others = [target for target in targets if target in called] if len(targets) > 1 else []
    tried: dict[str, list[FileChange]] = {}
    together: dict[str, dict[str, bytes]] = {}
    for path in source_files(task):
        pristine, solved = trees.pristine_tree / path, trees.solved_tree / path
        module = module_name(path, task.pytest.python_path)
        names = [target.partition(":")[2] for target in targets if target.partition(":")[0] == module]
        if not (module and names and pristine.is_file() and solved.is_file()):
            continue
        before, after = pristine.read_bytes(), solved.read_bytes()
        if len(targets) == 1:
            tried |= {text: [_change(path, content)] for text, content in guesses(before, after, names[0])}
        for name in names if others else []:
            for text, content in [*guesses(after, after, name)][:2] if f"{module}:{name}" in others else []:
                tried[f"{name}: {text}"] = [_change(path, content)]
        for kind, content in (guessed_together(before, names) if others else {}).items():
            together.setdefault(kind, {})[path] = content
    tried = dict(list(tried.items())[:MOST_GUESSES])
    tried |= {kind: [_change(path, text) for path, text in files.items()] for kind, files in together.items()}
    differences = await different_calls(examination, recorded, None, list(tried.values()))
    return next((expression for expression, different in zip(tried, differences, strict=True) if not different), "")


def _change(path: str, content: bytes) -> FileChange:
    return FileChange(path=path, kind="file", content=base64.b64encode(content).decode())


def guessed_together(pristine: bytes, names: Sequence[str]) -> dict[str, bytes]:
    """Return a module's text for each kind of guess, in which it is the body of all the functions ``names``."""
    texts: dict[str, bytes] = {}
    for kind in ("their argument", "the text of their argument", "None"):
        tree = ast.parse(pristine)
        functions = definitions(tree)
        for name in (name for name in names if name in functions and not name.endswith(".__init__")):
            receiver, parameters = _parameters(functions[name], "." in name)
            argument = [*parameters, receiver, "None"][0] or "None"
            text = {"None": "None", "their argument": argument}.get(kind, f"str({argument})")
            functions[name].body = [ast.Return(ast.parse(text, mode="eval").body)]
        texts[f"{kind}, of all"] = ast.unparse(ast.fix_missing_locations(tree)).encode() + b"\n"
    return texts


def negated(pristine: bytes, name: str) -> bytes:
    """Return a module's text in which a function returns ``not`` its result, b'' where it returns nothing."""
    tree = ast.parse(pristine)
    node = definitions(tree).get(name)
    if node is None or is_generator(node) or isinstance(node, ast.AsyncFunctionDef):
        return b""
    if isinstance(node.body[-1], ast.Raise | ast.Pass) or not any(
        isinstance(item, ast.Return) for item in ast.walk(node)
    ):
        return b""
    node.decorator_list.append(ast.Name(_NEGATED))
    is_head = [isinstance(item, ast.ImportFrom) and item.module == "__future__" for item in tree.body]
    place = len(is_head) - is_head[::-1].index(True) if any(is_head) else int(ast.get_docstring(tree) is not None)
    lines = [f"def {_NEGATED}(function):", "    return lambda *values, **named: not function(*values, **named)"]
    tree.body[place:place] = ast.parse("\n".join(lines)).body
    return ast.unparse(ast.fix_missing_locations(tree)).encode() + b"\n"


def guesses(pristine: bytes, solved: bytes, name: str) -> Iterator[tuple[str, bytes]]:
    """Yield expressions, each with the module's text in which it is the body of the function ``name``."""
    functions, written = definitions(ast.parse(pristine)), definitions(ast.parse(solved)).get(name)
    if written is None or name not in functions or is_generator(written):
        return
    used = {node.id for node in ast.walk(written) if isinstance(node, ast.Name)}
    used |= {node.attr for node in ast.walk(written) if isinstance(node, ast.Attribute)}
    solution_return = ast.dump(written.body[-1])
    for expression in _expressions(name, functions, used):
        if solution_return == ast.dump(ast.parse(f"return {expression}").body[0]):  # this is the solution itself
            continue
        tree = ast.parse(pristine)
        node = definitions(tree)[name]
        wrapper = ast.parse(
            f"{'async ' if isinstance(node, ast.AsyncFunctionDef) else ''}def _():\n    return {expression}"
        )
        node.body = wrapper.body[0].body  # type: ignore[attr-defined]
        yield expression, ast.unparse(ast.fix_missing_locations(tree)).encode() + b"\n"


def _expressions(name: str, functions: Mapping[str, Function], used: set[str]) -> Iterator[str]:
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


def _parameters(node: Function, is_method: bool) -> tuple[str, list[str]]:
    """Return the name of the receiver ('' without one), and those of the positional parameters without a default."""
    names = [item.arg for item in [*node.args.posonlyargs, *node.args.args]]
    decorators = {ast.unparse(item) for item in node.decorator_list}
    receiver = names.pop(0) if is_method and names and "staticmethod" not in decorators else ""
    optional = len(node.args.defaults)
    return receiver, names[: len(names) - optional] if optional <= len(names) else []


def _takes(node: Function, is_method: bool, count: int) -> bool:
    """Return whether a function can be called with ``count`` positional arguments."""
    receiver, needed = _parameters(node, is_method)
    most = len(node.args.posonlyargs) + len(node.args.args) - bool(receiver)
    properties = {"property", "cached_property", "functools.cached_property", "staticmethod", "classmethod"}
    if {ast.unparse(item) for item in node.decorator_list} & properties or (is_method and not receiver):
        return False
    return len(needed) <= count and (count <= most or node.args.vararg is not None)


def _distance(one: Function, other: Function) -> tuple[bool, int]:
    """Return how unlike two functions are: other parameters, and how far they are apart in the file."""
    return ast.dump(one.args) != ast.dump(other.args), abs(one.lineno - other.lineno)
