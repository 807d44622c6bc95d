"""Which names a tree uses in texts: as references that are renamed with the code, or in a way that cannot be known."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ...python.source import parse_or_empty

_REFERENCE_CALLS = {"getattr", "hasattr", "setattr", "delattr", "patch", "object", "import_module", "TypeVar"}
_NAME_LISTS = {"__all__", "__slots__", "__match_args__"}
_WORD = re.compile(r"[^\W\d]\w*")
_DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+")
_KEYWORD = re.compile(r"([^\W\d]\w*)\s*=(?!=)")
_SCOPE_READERS = frozenset({"locals", "eval", "exec", "vars", "_getframe", "format_map"})


@dataclass
class StringUses:
    """What the texts of a tree say about its names."""

    words: set[str] = field(default_factory=set)  # words of texts that may name something, in a way that is not known
    exact: set[str] = field(default_factory=set)  # texts that are an identifier, or a list of them
    fragments: set[str] = field(default_factory=set)  # starts and ends of names that are looked up by a made-up text
    keywords: set[str] = field(default_factory=set)  # names of keyword arguments, in code, texts and documents
    docstrings: set[str] = field(default_factory=set)  # words of docstrings

    def is_looked_up(self, name: str) -> bool:
        """Return whether a name may be looked up by a text that is put together."""
        return any(name.startswith(part) or name.endswith(part) for part in self.fragments)


def string_uses(files: Mapping[str, bytes], documents: Iterable[bytes]) -> StringUses:
    """Return the uses in Python files and in other texts."""
    uses = StringUses()
    for source in files.values():
        _add(parse_or_empty(source), uses)
    for text in documents:
        uses.keywords |= set(_KEYWORD.findall(text.decode("utf-8", "replace")))
    return uses


def reads_scopes(words: Iterable[str]) -> bool:
    """Return whether code with these words may see the names of local variables."""
    return not _SCOPE_READERS.isdisjoint(words)


def _add(module: ast.Module, uses: StringUses) -> None:
    docstrings = {id(node) for node in _docstrings(module)}
    references = {id(node) for node in _references(module)}
    made_up = False
    texts: list[str] = []
    for node in ast.walk(module):
        if isinstance(node, ast.keyword) and node.arg:
            uses.keywords.add(node.arg)
        if isinstance(node, ast.Call) and _called(node) in ("getattr", "setattr", "hasattr") and len(node.args) > 1:
            made_up |= not isinstance(node.args[1], ast.Constant)
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str | bytes):
            continue
        text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
        uses.keywords |= set(_KEYWORD.findall(text))
        if id(node) in docstrings:
            uses.docstrings |= set(_WORD.findall(text))
            continue
        texts.append(text)
        words = _WORD.findall(text)
        if re.fullmatch(r"[\w\s,.]*", text):
            uses.exact |= set(words)
        if id(node) not in references:
            uses.words |= {*words, *(word for part in re.findall(r"[\w-]+", text) for word in [part.replace("-", "_")])}
    if made_up:
        uses.fragments |= {text for text in texts if re.fullmatch(r"[^\W\d]\w*_|_\w+", text) and len(text) > 2}


def _docstrings(module: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(module):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                yield first.value


def _references(module: ast.Module) -> Iterator[ast.expr]:
    """Yield the texts that name something of the code as a whole: they are renamed with it."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and _called(node) in _REFERENCE_CALLS:
            yield from node.args[:2]
        elif isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id in _NAME_LISTS for target in targets):
                yield from (item for item in ast.walk(node.value) if isinstance(item, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _DOTTED.fullmatch(node.value):
            yield node
        annotations = [getattr(node, name, None) for name in ("annotation", "returns")]
        for annotation in annotations:
            if isinstance(annotation, ast.expr):
                yield from (item for item in ast.walk(annotation) if isinstance(item, ast.Constant))


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
