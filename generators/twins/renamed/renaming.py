"""A renaming applied to files, paths, patterns and texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...base import Files
from ...python.source import Module, apply_edits
from ...python.source_tree import SOURCE_SUFFIXES
from .local_names import documented, local_edits

_WORD = re.compile(r"[^\W\d]\w*")
_MOST = 1 << 20
"""Larger files are data."""


@dataclass
class Renaming:
    """New names. ``words`` are replaced wherever they occur, the others only inside functions of the sources."""

    roots: tuple[str, ...]  # package folders and single modules, in which files and folders are renamed too
    words: Mapping[str, str]  # functions, classes, attributes, keyword parameters, modules
    distribution: tuple[str, str] | None = None  # name of the distribution where it is not a word, and its new name
    variables: Mapping[str, str] = field(default_factory=dict)  # local variables
    parameters: Mapping[str, str] = field(default_factory=dict)  # parameters that no caller names
    _results: dict[tuple[str, bytes], bytes] = field(default_factory=dict, repr=False)

    @property
    def count(self) -> int:
        """Return the number of renamed identifiers."""
        return len({*self.words, *self.variables, *self.parameters})

    def files(self, files: Files) -> Files:
        """Return the files under their new paths, with their new content."""
        return {
            self.path(path): None if content is None else self.content(path, content) for path, content in files.items()
        }

    def path(self, path: str) -> str:
        """Return the new path of a file, or a pattern for the new paths: only what is in the package changes."""
        root = next((root for root in self.roots if path == root or path.startswith(root.rstrip("/") + "/")), None)
        if root is None:
            return path
        head, _, name = root.rpartition("/")
        start = f"{head}/" if head else ""
        parts = path[len(start) :].split("/")
        return start + "/".join(_WORD.sub(lambda match: self.words.get(match[0], match[0]), part) for part in parts)

    def content(self, path: str, content: bytes) -> bytes:
        """Return the new content of a file; files that are not text, and licences, stay as they are."""
        key = (path, content)
        if key not in self._results:
            self._results[key] = self._content(path, content)
        return self._results[key]

    def _content(self, path: str, content: bytes) -> bytes:
        is_source = path.endswith(SOURCE_SUFFIXES) and self.path_is_inside(path)
        if is_source:
            module = Module(path, content)
            if not module.broken:
                content = apply_edits(content, local_edits(module, self.variables, self.parameters))
        if len(content) > _MOST or Path(path).name.upper().startswith(("LICENSE", "LICENCE", "COPYING", "AUTHORS")):
            return content
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            return content
        return self.text(text).encode()

    def path_is_inside(self, path: str) -> bool:
        """Return whether a file belongs to the package."""
        return any(path == root or path.startswith(root.rstrip("/") + "/") for root in self.roots)

    def text(self, text: str) -> str:
        """Return a text in which every renamed word has its new name."""
        if self.distribution:
            old, new = self.distribution
            text = re.sub(rf"(?<![\w-]){re.escape(old)}(?![\w-])", new, text, flags=re.IGNORECASE)
        return _WORD.sub(lambda match: self.words.get(match[0], match[0]), text)

    def statement(self, text: str) -> str:
        """Return a statement: its words, and the parameters of the signatures that it shows."""
        text = self.text(text)
        heads = _SIGNATURE.findall(text)
        names = {match[2] for head in heads for match in _PARAMETER.finditer(head.partition("(")[2])}
        shown = {name: self.parameters[name] for name in names & self.parameters.keys()}
        return _SIGNATURE.sub(lambda match: self.signature(match[0]), documented(text, shown))

    def signature(self, text: str) -> str:
        """Return ``def name(parameters)`` with the new names of parameters."""
        head, bracket, tail = text.partition("(")
        return (
            head
            + bracket
            + _PARAMETER.sub(lambda match: match[1] + self.parameters.get(match[2], match[2]) + match[3], tail)
        )


_SIGNATURE = re.compile(r"\bdef [^\W\d]\w*\([^\n]*")
_PARAMETER = re.compile(r"((?:^|,)\s*\*{0,2})([^\W\d]\w*)(\s*(?=[,=:)]|$))")
