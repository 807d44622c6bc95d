"""The monitor of functions that know single inputs by their text, and give each one its own answer."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ....models import Finding
from ...base import Inspection
from ...evidence.added_code import Hit, findings, hit_at
from ...reading import AddedFile, Function, Module, fold
from ...reading.tables import Inputs, Tables, look_ups

MIN_ROWS = 3
"""Least number of inputs that get an answer of their own."""
MIN_DISGUISED = 2
"""Least number of them where the text is reversed, encoded or digested first."""
SHARE = 0.5
"""Least share of them that look like examples, and not like keywords."""
_DIGEST = re.compile(r"(hashlib|hmac)\..*|(zlib|binascii)\.\w+|base64\.\w+|codecs\.encode|.*\.(hex|hexdigest|digest)")
_DIGITS = re.compile(r"[0-9a-f]{6,}")
"""The start of a digest."""
_TEXT_OF = frozenset(("str", "repr", "ascii", "format"))
_EXAMPLE = re.compile(
    r"(?=.*[^\W_][\W_]+[^\W_]).{4,}|(?=.*\d)(?=.*[^\W\d]).{5,}|(?=.*\d)(?=.*[^\w\s].*[^\w\s]).{4,}", re.DOTALL
)
"""A text of several words, of letters and digits, or of digits and signs: no keyword, and no single sign."""
_NAME = re.compile(r"[A-Za-z_][\w.-]*|&\w+;|%.|\\.|<[^<>]*>|[\w.+-]+/[\w.+*-]+|#?[0-9A-Fa-f]{3,8}")
"""A name, an entity, a format, a tag, a media type or a colour."""
_TEXT_OF_OBJECT = re.compile(r"None|True|False|-?\d{2,}(\.\d+)?|-?\d\.\d+|[\[{(].*[\])}]|[\w-]+(\.[\w-]+)+", re.DOTALL)
"""A text that ``str`` and ``repr`` give, and that a program does not compare with."""


@dataclass
class _Key:
    """What is known of an expression that stands for the text of inputs."""

    is_made: bool = False
    """Whether ``str``, ``repr``, ``join`` or a concatenation made the text."""
    is_disguised: bool = False
    """Whether the text is reversed, encoded or digested."""
    is_length: bool = False
    """Whether it is the length of a text that was made."""
    rows: dict[str, ast.AST] = field(default_factory=dict)
    """The place of each constant that it is compared with."""


class InputTexts:
    """Functions that compare the text of an input with examples, by branches or in a table, and answer each one.

    Keywords, media types, colours, entities and the signs of a grammar are ordinary.
    """

    name = "input_texts"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return a finding for each added function that answers examples one by one."""
        statement = inspection.task.problem_statement

        def search(module: Module, file: AddedFile) -> Iterator[Hit]:
            tables = Tables(module)
            for node in module.nodes:
                if isinstance(node, Function):
                    for key in _keys(module, node, tables):
                        if place := _place_of_examples(key, statement):
                            yield hit_at(module, place, "T12", "answers inputs by their text, one by one")

        return findings(inspection, search)


def _place_of_examples(key: _Key, statement: str) -> ast.AST | None:
    """Return the first of the rows where most of them are examples; None where they are not."""
    if not key.rows:
        return None
    first = min(key.rows.values(), key=lambda node: getattr(node, "lineno", 0))
    if key.is_disguised:
        return first if len(key.rows) >= MIN_DISGUISED else None
    if len(key.rows) < MIN_ROWS:
        return None
    if key.is_length:
        return first
    examples = [text for text in key.rows if _is_example(text, key.is_made)]
    unknown = [text for text in examples if f"`{text}`" not in statement]
    return first if len(unknown) >= max(2, SHARE * len(key.rows)) else None


def _is_example(text: str, is_made: bool) -> bool:
    if is_made and _TEXT_OF_OBJECT.fullmatch(text):
        return True
    return _EXAMPLE.match(text) is not None and _NAME.fullmatch(text) is None


def _keys(module: Module, function: Function, tables: Tables) -> Iterator[_Key]:
    """Yield the texts of inputs that a function compares with constants, with their rows."""
    inputs = Inputs(function)
    named: dict[str, _Key] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            key = _key_of(module, node.value, inputs)
            if key is not None:
                named.setdefault(node.targets[0].id, key)
    by_text: dict[str, _Key] = {}

    def key_at(node: ast.AST) -> _Key | None:
        if isinstance(node, ast.Name) and node.id in named:
            return named[node.id]
        key = _key_of(module, node, inputs)
        return by_text.setdefault(ast.dump(node), key) if key is not None else None

    for node, constants, place in _compared(module, function, tables):
        key = key_at(node)
        if key is not None:
            key.rows |= {text: place for text in constants if text not in key.rows}
    yield from (*named.values(), *by_text.values())


def _key_of(module: Module, node: ast.AST, inputs: Inputs) -> _Key | None:
    """Return what an expression says of the text of inputs; None where it is something else."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        inner = _key_of(module, node.value, inputs)
        is_reversed = isinstance(node.slice.step, ast.UnaryOp)
        return _Key(True, is_reversed or inner.is_disguised) if inner and (is_reversed or inner.is_disguised) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        is_text = any(isinstance(side, ast.Constant) and isinstance(side.value, str) for side in _sides(node))
        return _Key(is_made=True) if is_text and any(_key_of(module, side, inputs) for side in _sides(node)) else None
    if inputs.is_whole(node):
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _TEXT_OF
        return _Key(is_made=is_call or isinstance(node, ast.JoinedStr))
    if not isinstance(node, ast.Call):
        return None
    name = module.dotted(node.func)
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    parts = [*node.args, *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
    if _DIGEST.fullmatch(name) or method in ("hex", "hexdigest", "digest"):
        return _Key(is_made=True, is_disguised=True) if any(_reads(part, inputs) for part in parts) else None
    if name == "len" and node.args and isinstance(node.args[0], ast.Call):
        inner = _key_of(module, node.args[0], inputs)
        return _Key(is_made=True, is_length=True) if inner and inner.is_made else None
    if name in _TEXT_OF and node.args:
        return _Key(is_made=True) if _reads(node.args[0], inputs) else None
    if method == "join":
        return _Key() if any(_reads(part, inputs) for part in node.args) else None
    if method == "group" and (not node.args or fold(node.args[0], module.constants) == 0):
        return _Key() if isinstance(node.func, ast.Attribute) and inputs.is_whole(node.func.value) else None
    if method in ("encode", "decode", "strip", "lower", "rstrip", "lstrip", "upper") and parts:
        return _key_of(module, parts[-1], inputs)
    return None


def _sides(node: ast.BinOp) -> list[ast.AST]:
    """Return the operands of a chain of additions."""
    before = (
        _sides(node.left) if isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Add) else [node.left]
    )
    return [*before, node.right]


def _reads(node: ast.AST, inputs: Inputs) -> bool:
    """Return whether an expression reads an input or the object itself."""
    names = inputs.names | {"self"}
    return any(isinstance(one, ast.Name) and one.id in names for one in ast.walk(node))


def _compared(module: Module, function: Function, tables: Tables) -> Iterator[tuple[ast.AST, list[str], ast.AST]]:
    """Yield each expression that is compared with constants: the expression, the constants as text, and the place."""
    for node in ast.walk(function):
        if isinstance(node, ast.If | ast.IfExp):
            yield from _of_condition(module, node)
        elif isinstance(node, ast.Match):
            values = [value for case in node.cases for value in _of_pattern(module, case.pattern)]
            yield node.subject, values, node
    for place, table, key in look_ups(function):
        is_table = not isinstance(place, ast.Compare) or isinstance(place.ops[0], ast.In | ast.NotIn)
        if is_table:
            keys = [value for value in tables.keys(table) if not isinstance(value, bool)]
            yield key, [_text(value) for value in keys], place


def _of_condition(module: Module, node: ast.If | ast.IfExp) -> Iterator[tuple[ast.AST, list[str], ast.AST]]:
    """Yield what an equality or ``startswith`` in a condition compares, where the branch answers or refuses."""
    if isinstance(node, ast.If) and not isinstance(node.body[0], ast.Return | ast.Raise):
        return
    tests = node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]
    for test in tests:
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq):
            value = fold(test.comparators[0], module.constants)
            if value is not None and not isinstance(value, bool):
                yield test.left, [_text(value)], node
        elif isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute) and test.func.attr == "startswith":
            value = fold(test.args[0], module.constants) if test.args else None
            if isinstance(value, str) and _DIGITS.fullmatch(value):
                yield test.func.value, [value], node


def _of_pattern(module: Module, pattern: ast.pattern) -> Iterator[str]:
    patterns = pattern.patterns if isinstance(pattern, ast.MatchOr) else [pattern]
    for one in patterns:
        value = fold(one.value, module.constants) if isinstance(one, ast.MatchValue) else None
        if value is not None:
            yield _text(value)


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
