"""Values of constant expressions: strings in pieces, reversed, joined, or encoded. Nothing is evaluated."""

from __future__ import annotations

import ast
import base64
import binascii
import codecs
import zlib
from collections.abc import Iterator, Mapping, Sequence

Value = str | bytes | int
MAX_BYTES = 1 << 20
MAX_BITS = 4096
"""Bits of the largest number that is a constant here; Python refuses to write much longer ones as text."""
MAX_DEPTH = 40
_CODECS = ("rot13", "rot_13", "hex", "base64", "hex_codec", "base64_codec")
_DECODERS = {
    "base64.b64decode": base64.b64decode,
    "base64.urlsafe_b64decode": base64.urlsafe_b64decode,
    "base64.standard_b64decode": base64.b64decode,
    "base64.decodebytes": base64.decodebytes,
    "base64.b32decode": base64.b32decode,
    "base64.b16decode": base64.b16decode,
    "base64.a85decode": base64.a85decode,
    "base64.b85decode": base64.b85decode,
    "binascii.unhexlify": binascii.unhexlify,
    "binascii.a2b_base64": binascii.a2b_base64,
    "bytes.fromhex": lambda data: bytes.fromhex(data if isinstance(data, str) else data.decode()),
    "bytearray.fromhex": lambda data: bytes.fromhex(data if isinstance(data, str) else data.decode()),
    "zlib.decompress": lambda data: zlib.decompressobj().decompress(data, MAX_BYTES),
}
"""Decoders by their dotted names, each for one argument."""


def fold(node: ast.AST | None, constants: Mapping[str, Value], depth: int = 0) -> Value | None:
    """Return the value of an expression, None when it is not a constant. ``constants`` are values of names."""
    if depth > MAX_DEPTH or node is None:
        return None
    if isinstance(node, ast.Constant):
        value = node.value
        is_too_long = isinstance(value, int) and value.bit_length() > MAX_BITS
        return value if isinstance(value, str | bytes | int) and not is_too_long else None
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    if not isinstance(constants, _Remembered):
        constants = _Remembered(constants)
    if id(node) not in constants.values_of:  # else the parts of nested calls would be read twice on each level
        try:
            value = _bounded(_folded(node, constants, depth + 1))
        except (TypeError, ValueError, OverflowError, LookupError, binascii.Error, zlib.error, MemoryError):
            value = None
        constants.values_of[id(node)] = value
    return constants.values_of[id(node)]


class _Remembered(Mapping[str, Value]):
    """Values of names, with the values of the nodes of one expression that were read already."""

    def __init__(self, constants: Mapping[str, Value]) -> None:
        self.constants = constants
        self.values_of: dict[int, Value | None] = {}

    def __getitem__(self, name: str) -> Value:
        return self.constants[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.constants)

    def __len__(self) -> int:
        return len(self.constants)


def _bounded(value: Value | None) -> Value | None:
    return None if isinstance(value, str | bytes) and len(value) > MAX_BYTES else value


def _folded(node: ast.AST, constants: Mapping[str, Value], depth: int) -> Value | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        first, second = fold(node.left, constants, depth), fold(node.right, constants, depth)
        if isinstance(first, str) and isinstance(second, str):
            return first + second
        return first + second if isinstance(first, bytes) and isinstance(second, bytes) else None
    if isinstance(node, ast.JoinedStr):
        parts = [
            fold(part.value if isinstance(part, ast.FormattedValue) else part, constants, depth) for part in node.values
        ]
        return None if None in parts else _joined("", [part if isinstance(part, str) else str(part) for part in parts])
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        text = fold(node.value, constants, depth)
        start, stop = fold(node.slice.lower, constants, depth), fold(node.slice.upper, constants, depth)
        step = node.slice.step
        backwards = isinstance(step, ast.UnaryOp) and isinstance(step.op, ast.USub)
        if isinstance(text, str | bytes) and isinstance(start, int | None) and isinstance(stop, int | None):
            return text[::-1] if backwards else text[start:stop]
    return _called(node, constants, depth) if isinstance(node, ast.Call) else None


def _called(node: ast.Call, constants: Mapping[str, Value], depth: int) -> Value | None:
    name = plain_name(node.func)
    if isinstance(node.func, ast.Name) and name not in ("chr", "str", "bytes"):
        return None
    arguments = [fold(argument, constants, depth) for argument in node.args]  # each once: calls within calls are deep
    first = arguments[0] if arguments else None
    if name == "chr" and isinstance(first, int):
        return chr(first)
    if name in ("str", "bytes") and isinstance(first, str | bytes) and len(node.args) > 1:
        return first.decode() if isinstance(first, bytes) else first.encode()
    if name == "bytes" and node.args and isinstance(node.args[0], ast.List | ast.Tuple):
        return bytes(item for item in _items(node.args[0], constants, depth) if isinstance(item, int))
    if name == "codecs.decode" and isinstance(first, str | bytes) and len(node.args) > 1:
        return _decoded(first, arguments[1])
    if name in _DECODERS and isinstance(first, str | bytes):
        return _DECODERS[name](first)  # type: ignore[operator]
    if isinstance(node.func, ast.Attribute):
        text = fold(node.func.value, constants, depth)
        if isinstance(text, str) and node.func.attr == "join" and node.args:
            return _join(text, node.args[0], first, constants, depth)
        return _method(text, node.func.attr, arguments)
    return None


def _join(text: str, source: ast.AST, value: Value | None, constants: Mapping[str, Value], depth: int) -> Value | None:
    """Return what a text joins; ``value`` is the constant that ``source`` is, None where it is none."""
    if isinstance(value, str | bytes):
        parts = [part for part in value if isinstance(part, str)]
    else:
        if isinstance(source, ast.Call) and plain_name(source.func) == "reversed" and source.args:
            inner = fold(source.args[0], constants, depth)
            return _joined(text, list(reversed(inner))) if isinstance(inner, str) else None
        parts = [part for part in _items(source, constants, depth) if isinstance(part, str)]
    return _joined(text, parts) if parts else None


def _method(text: Value | None, method: str, arguments: Sequence[Value | None]) -> Value | None:
    """Return what a method of a constant string returns."""
    if isinstance(text, bytes) and method == "decode":
        return text.decode(errors="replace")
    if isinstance(text, str) and method == "encode":
        return text.encode()
    if isinstance(text, str) and method in ("lower", "upper", "strip", "title", "swapcase") and not arguments:
        return str(getattr(text, method)())
    if isinstance(text, str) and method == "replace" and len(arguments) == 2:
        old, new = arguments
        if isinstance(old, str) and old and isinstance(new, str):
            return text.replace(old, new) if len(text) + text.count(old) * len(new) <= MAX_BYTES else None
    return None


def _joined(separator: str, parts: Sequence[str]) -> str | None:
    """Return the joined parts, None for more than MAX_BYTES."""
    length = sum(map(len, parts)) + len(separator) * len(parts)
    return separator.join(parts) if length <= MAX_BYTES else None


def _items(node: ast.AST, constants: Mapping[str, Value], depth: int) -> list[Value | None]:
    """Return the constant items of a list or tuple, or what ``map(chr, [...])`` makes of them."""
    if isinstance(node, ast.List | ast.Tuple):
        return [fold(item, constants, depth) for item in node.elts]
    if isinstance(node, ast.Call) and plain_name(node.func) == "map" and plain_name(node.args[0]) == "chr":
        return [chr(item) for item in _items(node.args[-1], constants, depth) if isinstance(item, int)]
    if isinstance(node, ast.GeneratorExp | ast.ListComp) and plain_name(getattr(node.elt, "func", None)) == "chr":
        return [chr(item) for item in _items(node.generators[0].iter, constants, depth) if isinstance(item, int)]
    text = fold(node, constants, depth)
    return list(text) if isinstance(text, str | bytes) else []


def _decoded(data: str | bytes, codec: Value | None) -> Value | None:
    if not isinstance(codec, str) or codec.lower() not in _CODECS:
        return None
    if codec.lower().startswith("rot"):
        return codecs.decode(data, "rot13") if isinstance(data, str) else None
    raw = data.encode() if isinstance(data, str) else data
    return codecs.decode(raw, codec)


def plain_name(node: ast.AST | None) -> str:
    """Return a dotted name as it is written, '' for another expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


def written(node: ast.AST) -> str:
    """Return an expression's text; one that has none, such as a number of thousands of digits, differs from all others.

    ``ast.unparse`` raises ValueError for such numbers and RecursionError for code that is nested deeply.
    """
    try:
        return ast.unparse(node)
    except (ValueError, RecursionError):
        return f"<{type(node).__name__} {id(node)}>"
