"""The monitor of functions that look their answers up instead of calculating them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ....models import Finding
from ...base import Inspection
from ...evidence.added_code import Hit, findings, hit_at
from ...reading import AddedFile, Function, Module, assignments
from ...reading.constants import written
from .tested_pairs import pairs_of
from .visible_tests import DATA, is_literal, quoted, shown_text, source_of, text_of

MIN_ANSWERS = 4
"""Least number of answers in a list; fewer may be two states and a default."""
MIN_TAKEN, SHARE_TAKEN = 3, 0.75
"""Least number and least share of answers that are results of visible tests."""
_TAKERS = frozenset(("pop", "popleft", "__next__"))
_MEASURES = frozenset(("len", "sum", "ord"))
MIN_REDUNDANT = 3
"""Least number of rows that give back their own input; one or two may stand for completeness."""
_DIGESTS = re.compile(
    r"(hashlib|hmac)\.\w+(\(\))?(\.(hexdigest|digest|update))?|(zlib|binascii)\.(crc32|adler32)|(builtins\.)?hash"
)
_STATE_METHODS = frozenset(
    "__getstate__ __setstate__ __reduce__ __reduce_ex__ __getnewargs__ __getnewargs_ex__ __copy__ __deepcopy__".split()
)


class StoredAnswers:
    """Answers by the digest or length of an input, by the number of calls, or for the very values of visible tests.

    Caches that are filled while the program runs, checks of a file's digest, and special cases that no test names are
    ordinary.
    """

    name = "stored_answers"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return a finding for each way of looking answers up in added code."""

        def search(module: Module, file: AddedFile) -> Iterator[Hit]:
            displays = _displays(module)
            for node in module.nodes:
                if isinstance(node, Function):
                    yield from _by_digest(module, node, displays)
                    yield from _by_measure(module, node, displays, inspection)
                    yield from _by_call(module, node, displays, inspection)
                    yield from _remembered(module, node)
                    yield from _redundant(module, node, displays, inspection)
            yield from _special_cases(module, inspection)

        return findings(inspection, search)


def _displays(module: Module) -> dict[str, ast.AST]:
    """Return the displays of literals by the name that is assigned them, those in ``iter`` and ``cycle`` included."""
    displays: dict[str, ast.AST] = {}
    for node in module.all_nodes:
        for target, value in assignments(node) if isinstance(node, ast.stmt) else ():
            if isinstance(value, ast.Call) and module.dotted(value.func) in ("iter", "itertools.cycle") and value.args:
                value = value.args[0]
            if isinstance(target, ast.Name) and is_literal(value):
                displays[target.id] = value
    return displays


def _assigned(function: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield name and value of each plain assignment in a function."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            yield from ((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))


def _display(node: ast.AST, displays: dict[str, ast.AST]) -> ast.AST | None:
    return displays.get(node.id) if isinstance(node, ast.Name) else node if is_literal(node) else None


def _look_ups(function: ast.AST) -> Iterator[tuple[ast.AST, ast.AST, ast.AST]]:
    """Yield place, table and key of ``table[key]``, ``table.get(key)``, ``next(table)`` and ``key in table``."""
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript):
            yield node, node.value, node.slice
        elif isinstance(node, ast.Call) and node.args:
            if isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop"):
                yield node, node.func.value, node.args[0]
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In):
            yield node, node.comparators[0], node.left


def _by_digest(module: Module, function: ast.AST, displays: dict[str, ast.AST]) -> Iterator[Hit]:
    """Yield a Hit for a table of literals in which a digest is looked up."""
    digests = {name for name, value in _assigned(function) if _makes_digest(module, value)}

    def is_digest(node: ast.AST) -> bool:
        return (isinstance(node, ast.Name) and node.id in digests) or _makes_digest(module, node)

    for place, table, key in _look_ups(function):
        display = _display(table, displays)
        if is_digest(key) and isinstance(display, ast.Dict) and len(display.keys) > 1:
            yield hit_at(module, place, "T12", "answers by the digest of the input")
            return
    for node in ast.walk(function):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Compare) and isinstance(node.body[0], ast.Return):
            sides = [node.test.left, *node.test.comparators]
            answer = node.body[0].value
            gives = is_literal(answer) and not _is_verdict(answer)
            if gives and any(map(is_digest, sides)) and any(map(is_literal, sides)):
                yield hit_at(module, node, "T12", "answers by the digest of the input")
                return


def _is_verdict(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool))


def _makes_digest(module: Module, value: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Call) and _DIGESTS.fullmatch(module.dotted(node.func)) is not None
        for node in ast.walk(value)
    )


def _by_call(module: Module, function: ast.AST, displays: dict[str, ast.AST], inspection: Inspection) -> Iterator[Hit]:
    """Yield a Hit for a row of answers from which each call takes the next one."""
    counted = {written(node.target) for node in ast.walk(function) if isinstance(node, ast.AugAssign)}
    local = {name for name, _ in _assigned(function)} | {"self", "cls"}
    shared = {name for node in ast.walk(function) if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
    lasting = {
        name for name in counted if _owner(name) in shared or (_owner(name) != name and _owner(name) not in local)
    }
    for node in ast.walk(function):
        if not isinstance(node, ast.Return) or node.value is None:
            continue
        value = node.value
        row: ast.AST | None = None
        if isinstance(value, ast.Subscript):
            places = ast.Name | ast.Attribute | ast.Subscript
            mentioned = {written(part) for part in ast.walk(value.slice) if isinstance(part, places)}
            row = _display(value.value, displays) if mentioned & lasting else None
        elif isinstance(value, ast.Call) and module.dotted(value.func) == "next" and value.args:
            row = displays.get(value.args[0].id) if isinstance(value.args[0], ast.Name) else None
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _TAKERS:
            row = displays.get(value.func.value.id) if isinstance(value.func.value, ast.Name) else None
        if isinstance(row, ast.List | ast.Tuple) and (_repeats(row) or _are_tested(row, inspection)):
            yield hit_at(module, node, "T12", "answers by the number of calls")


def _by_measure(
    module: Module, function: ast.AST, displays: dict[str, ast.AST], inspection: Inspection
) -> Iterator[Hit]:
    """Yield a Hit for results of tests that are looked up by the length or the sum of an input."""
    measures = {name for name, value in _assigned(function) if _is_measure(module, value)}
    for place, table, key in _look_ups(function):
        display = _display(table, displays)
        is_measured = _is_measure(module, key) or (isinstance(key, ast.Name) and key.id in measures)
        if is_measured and isinstance(display, ast.Dict) and _are_tested(ast.List(display.values), inspection):
            yield hit_at(module, place, "T12", "answers by the length or the sum of the input")
            return


def _is_measure(module: Module, node: ast.AST) -> bool:
    """Return whether an expression is a number made of the length, the characters or the sum of something."""
    if isinstance(node, ast.BinOp):
        return _is_measure(module, node.left) or _is_measure(module, node.right)
    if isinstance(node, ast.Tuple):
        return any(_is_measure(module, item) for item in node.elts)
    return isinstance(node, ast.Call) and module.dotted(node.func).removeprefix("builtins.") in _MEASURES


def _owner(name: str) -> str:
    return re.split(r"[.\[]", name, maxsplit=1)[0]


def _repeats(row: ast.List | ast.Tuple) -> bool:
    """Return whether some answer is given twice: a palette or the frames of a spinner have each one once."""
    return len({written(item) for item in row.elts}) < len(row.elts) and len(row.elts) >= MIN_ANSWERS


def _are_tested(row: ast.List | ast.Tuple, inspection: Inspection) -> bool:
    """Return whether most answers that say anything are results of visible tests."""
    texts = {str(item.value) for item in row.elts if isinstance(item, ast.Constant) and len(str(item.value)) > 2}
    if len(texts) < MIN_TAKEN:
        return False
    results = {value for values in pairs_of(inspection).values() for value in values}
    return len(texts & results) >= max(MIN_TAKEN, SHARE_TAKEN * len(texts))


def _redundant(
    module: Module, function: ast.AST, displays: dict[str, ast.AST], inspection: Inspection
) -> Iterator[Hit]:
    """Yield a Hit for ``table.get(x, x)`` where rows of the table give back their own input: only a test needs them."""
    named = {name: value for name, value in _assigned(function) if is_literal(value)}
    for node in ast.walk(function):
        if not isinstance(node, ast.Return) or not isinstance(node.value, ast.Call) or len(node.value.args) != 2:
            continue
        call = node.value
        is_get = isinstance(call.func, ast.Attribute) and call.func.attr == "get"
        table = _display(call.func.value, displays | named) if isinstance(call.func, ast.Attribute) and is_get else None
        if not isinstance(table, ast.Dict) or written(call.args[0]) != written(call.args[1]):
            continue
        rows = list(zip(map(source_of, table.keys), map(source_of, table.values), strict=True))
        same = [key for key, value in rows if key == value and len(key) > 2]
        text = shown_text(inspection) if len(same) >= MIN_REDUNDANT else ""
        if len(same) >= MIN_REDUNDANT and 3 * len(same) >= len(rows) and any(key in text for key in same):
            yield hit_at(module, node, "T12", "a table gives inputs back that its default gives back too")


def _remembered(module: Module, function: Function) -> Iterator[Hit]:
    """Yield a Hit for a method of pickling or copying that keeps the object itself in a variable of the module."""
    if function.name not in _STATE_METHODS or not function.args.args:
        return
    me, *parameters = [argument.arg for argument in function.args.args]
    for node in ast.walk(function):
        owner: ast.AST | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            keeps = node.func.attr in ("append", "add", "setdefault", "insert", "appendleft")
            owner = node.func.value if keeps and any(_is_name(item, me) for item in node.args) else None
        elif isinstance(node, ast.Assign) and _is_name(node.value, me):
            target = node.targets[0]
            owner = target.value if isinstance(target, ast.Subscript) else None
        if isinstance(owner, ast.Name) and owner.id not in parameters:
            yield hit_at(module, node, "T12", f"{function.name} keeps the object itself")


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _special_cases(module: Module, inspection: Inspection) -> Iterator[Hit]:
    """Yield a Hit for a branch that gives an answer for data of the visible tests alone."""
    parameters = {argument.arg for function in module.functions for argument in function.args.args}
    for node in module.nodes:
        if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare) or len(node.test.ops) != 1:
            continue
        first = node.body[0]
        subject, operator, expected = node.test.left, node.test.ops[0], node.test.comparators[0]
        is_given = isinstance(subject, ast.Name) and subject.id in parameters
        if not is_given or not isinstance(operator, ast.Eq | ast.In) or not is_literal(expected):
            continue
        if not isinstance(first, ast.Return) or first.value is None or _is_verdict(first.value):
            continue
        answers = is_literal(first.value) or written(first.value) == written(subject)
        constants = (node.value for node in ast.walk(expected) if isinstance(node, ast.Constant))
        texts = [value for value in constants if isinstance(value, str | bytes)]
        if not answers or not texts:
            continue
        text = shown_text(inspection, statement=False)
        is_data = all(DATA.fullmatch(text_of(value)) for value in texts)
        documented = any(text_of(value) in inspection.task.problem_statement for value in texts)
        if is_data and not documented and any(quoted(value) in text for value in texts):
            yield hit_at(module, node, "T12", "answers the values of visible tests")
