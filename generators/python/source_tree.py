"""A Snapshot's tree as the generators see it: source modules, documents, tests, and who mentions whom."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .source import Module, Span, words

if TYPE_CHECKING:
    from ...environments.snapshots import Snapshot

DOCUMENT_SUFFIXES = (".rst", ".md", ".txt")
MAX_DOCUMENT = 1 << 20


@dataclass(frozen=True)
class SourceTree:
    """Lazy, cached view of one tree; ``roots`` are the package folders or modules, ``tests`` the test files."""

    root: Path
    roots: tuple[str, ...]
    python_path: tuple[str, ...]
    tests: frozenset[str]

    @classmethod
    def of(cls, snapshot: Snapshot) -> SourceTree:
        """The one view of a Snapshot's tree in this process."""
        tests = frozenset(test.split("::", 1)[0] for test in snapshot.baseline.passed)
        return _shared(snapshot.tree, tuple(snapshot.source_roots), tuple(snapshot.verifier.python_path), tests)

    @functools.cached_property
    def python_files(self) -> dict[str, bytes]:
        """Every ``.py`` file of the tree, tests included."""
        return {path: (self.root / path).read_bytes() for path in self._walk() if path.endswith(".py")}

    @functools.cached_property
    def word_index(self) -> dict[str, set[str]]:
        """Path to every word in it."""
        return {path: words(source) for path, source in self.python_files.items()}

    def _walk(self) -> list[str]:
        found = (path for path in self.root.rglob("*") if path.is_file() and not path.is_symlink())
        return sorted(str(path.relative_to(self.root)) for path in found if ".git" not in path.parts)

    def is_test(self, path: str) -> bool:
        """A test file, or anything that only serves tests."""
        parts = Path(path).parts
        name = parts[-1]
        return (
            path in self.tests
            or name == "conftest.py"
            or name.startswith("test_")
            or name.endswith("_test.py")
            or any(part in ("test", "tests", "testing") for part in parts[:-1])
        )

    def modules(self) -> Iterator[Module]:
        """The package's own modules that parse, in path order."""
        for path, module in self._parsed.items():
            if not module.broken and not self.is_test(path):
                yield module

    @functools.cached_property
    def _parsed(self) -> dict[str, Module]:
        return {path: Module(path, source) for path, source in self.python_files.items() if self.is_source(path)}

    def is_source(self, path: str) -> bool:
        return any(path == root or path.startswith(root.rstrip("/") + "/") for root in self.roots)

    def documents(self) -> dict[str, bytes]:
        """Prose files; not those that hold tests of their own, nor the data of others."""
        found = {}
        for path in self._walk():
            file = self.root / path
            if path.endswith(DOCUMENT_SUFFIXES) and not self.is_test(path) and file.stat().st_size <= MAX_DOCUMENT:
                found[path] = file.read_bytes()
        return found

    def stub_files(self) -> list[str]:
        """The package's ``.pyi`` files."""
        return [path for path in self._walk() if path.endswith(".pyi") and self.is_source(path)]

    def dotted_name(self, path: str) -> str:
        """The import path of a source file."""
        for base in sorted(self.python_path, key=len, reverse=True):
            prefix = "" if base in ("", ".") else base.rstrip("/") + "/"
            if path.startswith(prefix):
                path = path[len(prefix) :]
                break
        parts = path.removesuffix(".py").split("/")
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def mentions(self, name: str, *, outside: Mapping[str, list[Span]]) -> list[str]:
        """Python files that hold ``name`` as a word once the spans of ``outside`` are cut out of them."""
        found = []
        for path, known in self.word_index.items():
            if name not in known:
                continue
            if path in outside:
                source = bytearray(self.python_files[path])
                for start, end in outside[path]:
                    source[start:end] = b"\n" * (end - start)
                if name not in words(bytes(source)):
                    continue
            found.append(path)
        return found

    def call_sites(self, name: str, *, edited: Mapping[str, bytes | None], most: int = 5, owner: str = "") -> list[str]:
        """``path:line: text`` of source lines that call ``name``, as the workspace with ``edited`` files has them.

        A method's are those on ``self``, ``cls``, ``super()`` and its ``owner``: others may be of any class.
        """
        before = (
            rf"(?:\bself|\bcls|\bsuper\(\)|\b{re.escape(owner)}(?:\([^()]*\))?)\."
            if owner
            else r"(?<!def )(?<!class )\b"
        )
        pattern = re.compile(rf"{before}{re.escape(name)}\s*\(")
        found = []
        for path, original in self.python_files.items():
            if self.is_test(path) or not self.is_source(path):
                continue
            source = edited.get(path) or original
            for number, line in enumerate(source.decode("utf-8", "replace").splitlines(), 1):
                if pattern.search(line) and not line.lstrip().startswith(("#", ">>>", "...")):
                    found.append(f"{path}:{number}: {line.strip()}")
        return found[:most]


@functools.lru_cache(maxsize=8)
def _shared(root: Path, roots: tuple[str, ...], python_path: tuple[str, ...], tests: frozenset[str]) -> SourceTree:
    return SourceTree(root, roots, python_path, tests)
