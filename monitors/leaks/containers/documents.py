"""Documents whose text is written with escapes, in cells or in pieces: SQLite, Python bytecode, JSON, HTML."""

from __future__ import annotations

import html
import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from typing import Any

from .container import Container, Parts

_HTML_HEAD = re.compile(rb"<!doctype html|<html[\s>]|<body[\s>]", re.IGNORECASE)
_HTML_TAG = re.compile(r"<[^<>]*>")
_LONGEST_STRING = 1 << 20
_LONG_STRING = re.compile(rb"[sutaA\xf3\xf5\xf4\xe1\xc1](?=..[\0-\x10]\0[\t\n\r\x20-\x7f])", re.DOTALL)
"""A marshal code of a string with four bytes of length, where its first character may be text."""
_PRINTABLE = bytes((*b"\t\n\r", *range(32, 128)))
"""Characters that text begins with."""


def _sqlite_parts(data: bytes, limit: int) -> Parts:
    """Yield the schema and every cell of every table, as of mypy's and other tools' caches."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(data)
        database.text_factory = bytes
        database.execute("PRAGMA trusted_schema = 0")
        database.execute("PRAGMA query_only = 1")
        tables = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        yield "schema", b"\n".join(sql for _, sql in tables if sql)
        for table in (name.decode("utf-8", "replace") for name, _ in tables):
            quoted = table.replace('"', '""')
            for row in database.execute(f'SELECT * FROM "{quoted}"'):
                yield from ((table, cell) for cell in row if isinstance(cell, bytes))


def _bytecode_parts(data: bytes, limit: int) -> Parts:
    """Yield the strings of the code objects, in their order.

    They are read from the marshal format without unmarshalling, which needs the same interpreter version and may crash
    on damage. Names, constants and docstrings are strings in every version; the instructions are skipped.
    """
    strings: list[bytes] = []
    short, position = _short_strings(), 12
    for candidate in _LONG_STRING.finditer(data, position):
        header = candidate.start()
        start = header + 5
        end = start + int.from_bytes(data[header + 1 : start], "little")
        if header < position or not start < end <= min(len(data), start + _LONGEST_STRING):
            continue
        text = data[start:end]
        if text.isascii() and not text[:64].translate(None, _PRINTABLE):
            strings += [string[2:] for string in short.findall(data, position, header + 4)]
            strings.append(text)
            position = end
    strings += [string[2:] for string in short.findall(data, position)]
    yield "", b"\n".join(strings)


@cache
def _short_strings() -> re.Pattern[bytes]:
    """Return the pattern of strings with one byte of length, that many characters, and text at least at the start."""
    text, ascii_only = rb"[\t\n\r\x20-\x7f]", rb"[\0-\x7f]"
    sizes = [
        re.escape(bytes([size])) + text + b"{%d}" % min(size, 64) + (ascii_only + b"{%d}" % (size - 64)) * (size > 64)
        for size in range(1, 256)
    ]
    return re.compile(rb"[zZ\xfa\xda](?:" + b"|".join(sizes) + b")", re.DOTALL)


def _is_json(name: str, data: bytes) -> bool:
    """Return whether the content looks like JSON with escapes: notebooks, tools' caches, source maps."""
    return data.lstrip()[:1] in (b"{", b"[") and b"\\" in data and data.rstrip()[-1:] in (b"}", b"]")


def _json_parts(data: bytes, limit: int) -> Parts:
    try:
        strings = list(_strings(json.loads(data)))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    yield "", "\n".join(strings).encode("utf-8", "replace")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _strings(item)


def _is_html(name: str, data: bytes) -> bool:
    head = data[:2048]
    return b"<" in head and _HTML_HEAD.search(head) is not None


def _html_parts(data: bytes, limit: int) -> Parts:
    """Yield the text without tags: highlighted code is cut into spans, and its quotes are entities."""
    # A tag does not separate words: a string may be highlighted in pieces, two words have a space or a sign between.
    yield "", html.unescape(_HTML_TAG.sub("", data.decode("utf-8", "replace"))).encode("utf-8", "replace")


# Deleted rows stay in the free pages of a database: its bytes are searched too.
SQLITE = Container("sqlite", lambda name, data: data.startswith(b"SQLite format 3\0"), _sqlite_parts, also_text=True)
BYTECODE = Container(
    "bytecode",
    lambda name, data: data[2:4] == b"\r\n" and len(data) > 16,
    _bytecode_parts,
    also_text=True,
    verbatim=True,
)
JSON = Container("json", _is_json, _json_parts, also_text=True)
HTML = Container("html", _is_html, _html_parts, also_text=True)
FAILURES = (sqlite3.Error,)
"""Errors of the readers, besides the built-in ones."""
