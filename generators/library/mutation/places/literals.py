"""Other texts and patterns that a programmer could have written in place of a literal."""

from __future__ import annotations

import ast
import re
import warnings

_LOOKALIKES = {
    b",": b";", b";": b",", b"-": b"_", b"_": b"-", b".": b",", b":": b";", b"/": b"\\\\", b"|": b"/", b"=": b":",
    b" ": b"", b"&": b"|", b"+": b"-", b"*": b"+", b"[": b"(", b"]": b")", b"(": b"[", b")": b"]", b"'": b"`",
    b"\\n": b"\\r\\n", b"\\t": b" ", b"0": b" ", b"<": b">", b">": b"<", b"{": b"[", b"}": b"]", b"%": b"$",
}  # fmt: skip
"""What a text of one character is confused with, as the source writes it."""
_WEAKENED = (
    (rb"(?<!\\)(?<!\.[+*])(?<!\.[+*]\))\$$", b""),
    (rb"^\^", b""),
    (rb"(?<=[\w\])])\+(?!\?)", b"*"),
    (rb"(?<=[\w\])])\*(?!\?)", b"+"),
    (rb"(?<=[\w\])*+])\?(?![:=!<P])", b""),
    (rb"\\w", rb"\\d"),
    (rb"\\s", rb" "),
    (rb"\[\^", b"["),
    (rb"0-9", b"1-9"),
    (rb"a-z", b"a-y"),
    (rb"\(\?!", b"(?="),
)
"""Parts of a pattern, and what takes their place."""
_PATTERN_CALLS = {"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
_UNANCHORED = {"search", "sub", "subn", "split", "findall", "finditer"}
_TEXT_METHODS = {
    "split", "rsplit", "join", "strip", "lstrip", "rstrip", "startswith", "endswith", "replace", "partition",
    "rpartition", "find", "rfind", "index", "count", "ljust", "rjust", "center", "removeprefix", "removesuffix",
}  # fmt: skip
_LITERAL = re.compile(rb"""([bBrRuU]{0,2})("{3}|'{3}|"|')((?:(?!\2)[^\\]|\\.)*)\2""", re.DOTALL)


def is_pattern(node: ast.Constant, parent: ast.Call) -> bool:
    """Return whether the literal is the regular expression of a call of ``re``."""
    call = parent.func if parent.args and parent.args[0] is node else None
    return (
        isinstance(call, ast.Attribute)
        and call.attr in _PATTERN_CALLS
        and isinstance(call.value, ast.Name)
        and call.value.id in ("re", "regex", "_re")
    )


def is_telling(node: ast.Constant, parent: ast.AST) -> bool:
    """Return whether a text decides what the code does: it is compared, searched for, joined, returned or added."""
    if isinstance(parent, ast.Call):
        return isinstance(parent.func, ast.Attribute) and parent.func.attr in _TEXT_METHODS
    if isinstance(parent, ast.Attribute):
        return parent.attr in ("join", "format")
    return isinstance(parent, ast.Compare | ast.BinOp | ast.Return | ast.IfExp)


def changed_text(source: bytes) -> list[bytes]:
    """Return other literals in place of this one: a confused sign, lost or added blanks, or a lost last letter."""
    match = _LITERAL.fullmatch(source)
    if match is None:
        return []
    prefix, quote, body = match.groups()
    if body in _LOOKALIKES and not (b"r" in prefix.lower() and b"\\" in _LOOKALIKES[body]):
        other = _LOOKALIKES[body]
    elif body.strip() != body and body.strip():
        other = body.strip()
    elif re.fullmatch(rb"%\.?\d*[dfsgx]|.*\{:?[^{}]*\}.*|.*%\(?\w*\)?[dsfrx].*", body, re.DOTALL):
        return [_joined(prefix, quote, text) for text in _changed_format(body)]
    elif len(body) >= 2 and b"\\" not in body[-2:]:
        other = body[:-1]
    else:
        return []
    return [] if quote[:1] in other.replace(b"\\" + quote[:1], b"") else [_joined(prefix, quote, other)]


def _changed_format(body: bytes) -> list[bytes]:
    """Return the text with one other format: a digit more, another sign of alignment, or no blank before a field."""
    texts = [
        re.sub(rb"(?<=[.:>%<^0])(\d)(?=[dfsgxe}])", lambda match: str(int(match[1]) + 1).encode(), body, count=1),
        re.sub(rb"(?<=:)>|(?<=:)<", lambda match: b"<" if match[0] == b">" else b">", body, count=1),
        re.sub(rb" (?=[{%])", b"", body, count=1),
        re.sub(rb"(?<=[}sd])[^\s{}%](?=[^\w]|$)", b"", body, count=1),
    ]
    return list(dict.fromkeys(text for text in texts if text != body))[:1]


def changed_pattern(source: bytes, call: str) -> list[bytes]:
    """Return other patterns in place of this one, which compile, have the same groups and matter to ``re.call``."""
    match = _LITERAL.fullmatch(source)
    if match is None:
        return []
    prefix, quote, body = match.groups()
    texts = []
    for part, other in _WEAKENED:
        if (part == rb"^\^" and call not in _UNANCHORED) or (part.endswith(rb"\$$") and call == "fullmatch"):
            continue  # the function, or probably the method of the compiled pattern, is anchored itself
        for hit in list(re.finditer(part, body))[:2]:
            text = body[: hit.start()] + hit.expand(other) + body[hit.end() :]
            if _is_like(_joined(prefix, quote, text), source):
                texts.append(_joined(prefix, quote, text))
    return texts


def _is_like(literal: bytes, original: bytes) -> bool:
    """Return whether both literals are patterns with the same groups."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            first, second = (re.compile(ast.literal_eval(item.decode())) for item in (literal, original))
        except (re.error, ValueError, SyntaxError, RecursionError, OverflowError):
            return False
    return first.groups == second.groups and first.groupindex == second.groupindex


def _joined(prefix: bytes, quote: bytes, body: bytes) -> bytes:
    return prefix + quote + body + quote
