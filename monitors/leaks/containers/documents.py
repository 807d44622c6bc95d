"""Documents whose text is written with escapes, in cells or in pieces: SQLite, Python bytecode, JSON, HTML."""

from __future__ import annotations

import html
import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from .container import Container, Parts

_HTML_HEAD = re.compile(rb"<!doctype html|<html[\s>]|<body[\s>]", re.IGNORECASE)
_HTML_TAG = re.compile(r"<[^<>]*>")
_LONGEST_STRING = 1 << 20
_MARSHALLED = re.compile(
    rb"[zZ\xfa\xda](?=[\x01-\xff][\t\n\r\x20-\x7f])|[sutaA\xf3\xf5\xf4\xe1\xc1](?=..[\0-\x10]\0[\t\n\r\x20-\x7f])",
    re.DOTALL,
)
"""A marshal code of a string that may start here: with one byte of length, or with four, and its first character."""
_SHORT_STRINGS = frozenset(b"zZ\xfa\xda")
"""Marshal codes of strings with one byte of length."""
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
    search, length = _MARSHALLED.search, len(data)
    candidate = search(data, 12)
    while candidate is not None:
        position = candidate.start()
        if data[position] in _SHORT_STRINGS:
            start, size = position + 2, data[position + 1]
        else:
            start, size = position + 5, int.from_bytes(data[position + 1 : position + 5], "little")
        end = start + size
        if 0 < size <= _LONGEST_STRING and end <= length:
            text = data[start:end]
            if text.isascii() and not text[:64].translate(None, _PRINTABLE):
                strings.append(text)
                position = end - 1
        candidate = search(data, position + 1)
    yield "", b"\n".join(strings)


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
    "bytecode", lambda name, data: data[2:4] == b"\r\n" and len(data) > 16, _bytecode_parts, also_text=True
)
JSON = Container("json", _is_json, _json_parts, also_text=True)
HTML = Container("html", _is_html, _html_parts, also_text=True)
FAILURES = (sqlite3.Error,)
"""Errors of the readers, besides the built-in ones."""
