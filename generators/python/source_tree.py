"""The tree of a Snapshot as generators read it: modules, documents, tests, and which file mentions which name."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..base import Files
from .source import Module, Span, blank_spans, words

if TYPE_CHECKING:
    from ...environments.snapshots import Snapshot

SOURCE_SUFFIXES = (".py", ".pyi")
DOCUMENT_SUFFIXES = (".rst", ".md", ".txt")
MAX_DOCUMENT = 1 << 20


@dataclass(frozen=True)
class SourceTree:
    """A lazy, cached view of one tree."""

    root: Path  # the folder of the tree
    roots: tuple[str, ...]  # package folders and single modules, relative to ``root``
    python_path: tuple[str, ...]  # folders on ``sys.path``, relative to ``root``
    tests: frozenset[str]  # files that hold tests of the baseline
    overlay: tuple[tuple[str, bytes | None], ...] = ()  # Python files that the view has instead of the folder's

    @classmethod
    def of(cls, snapshot: Snapshot) -> SourceTree:
        """Return the view of a Snapshot's tree that is shared within this process."""
        tests = frozenset(test.split("::", 1)[0] for test in snapshot.baseline.passed)
        return _shared(snapshot.tree, tuple(snapshot.source_roots), tuple(snapshot.verifier.python_path), tests)

    @functools.cached_property
    def python_files(self) -> dict[str, bytes]:
        """Return path and content of every ``.py`` file, tests included."""
        files = {path: self.read(path) for path in self._walk() if path.endswith(".py")}
        files.update((path, content or b"") for path, content in self.overlay)
        absent = {path for path, content in self.overlay if content is None}
        return {path: content for path, content in sorted(files.items()) if path not in absent}

    def overlaid(self, files: Files) -> SourceTree:
        """Return the view in which ``python_files`` and what follows from them has these Python files too."""
        python = tuple(sorted((path, content) for path, content in files.items() if path.endswith(".py")))
        return replace(self, overlay=python) if python else self

    @functools.cached_property
    def word_index(self) -> dict[str, set[str]]:
        """Return the words of every ``.py`` file by path."""
        return {path: words(source) for path, source in self.python_files.items()}

    @functools.cached_property
    def vocabulary(self) -> set[str]:
        """Return the words of all ``.py`` files."""
        return set().union(*self.word_index.values())

    def read(self, path: str) -> bytes:
        """Return the content of a file. Raises OSError."""
        return (self.root / path).read_bytes()

    def _walk(self) -> list[str]:
        paths = (path for path in self.root.rglob("*") if path.is_file() and not path.is_symlink())
        return sorted(str(path.relative_to(self.root)) for path in paths if ".git" not in path.parts)

    def all_files(self) -> list[str]:
        """Return the paths of all files but those of version control, sorted."""
        return self._walk()

    def is_test(self, path: str) -> bool:
        """Return whether a file holds tests or serves only tests."""
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
        """Yield the package's own modules that parse, in path order."""
        for path, module in self._parsed.items():
            if not module.broken and not self.is_test(path):
                yield module

    @functools.cached_property
    def _parsed(self) -> dict[str, Module]:
        return {path: Module(path, source) for path, source in self.python_files.items() if self.is_source(path)}

    def is_source(self, path: str) -> bool:
        """Return whether a file belongs to the package."""
        return any(path == root or path.startswith(root.rstrip("/") + "/") for root in self.roots)

    def documents(self) -> dict[str, bytes]:
        """Return path and content of prose files, except those that hold tests or serve as their data."""
        return {
            path: self.read(path)
            for path in self._walk()
            if path.endswith(DOCUMENT_SUFFIXES)
            and not self.is_test(path)
            and (self.root / path).stat().st_size <= MAX_DOCUMENT
        }

    def read_by_tests(self, paths: Iterable[str]) -> list[str]:
        """Return those of some files whose name a test file mentions, as one does that reads its cases from there."""
        tests = [source for path, source in self.python_files.items() if self.is_test(path)]
        return [path for path in paths if any(Path(path).name.encode() in source for source in tests)]

    def stub_files(self) -> list[str]:
        """Return the package's ``.pyi`` files."""
        return [path for path in self._walk() if path.endswith(".pyi") and self.is_source(path)]

    def dotted_name(self, path: str) -> str:
        """Return the import path of a source file."""
        for base in sorted(self.python_path, key=len, reverse=True):
            prefix = "" if base in ("", ".") else base.rstrip("/") + "/"
            if path.startswith(prefix):
                path = path[len(prefix) :]
                break
        parts = path.removesuffix(".py").split("/")
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def mentions(self, name: str, *, outside: Mapping[str, list[Span]]) -> list[str]:
        """Return the Python files that contain the word ``name`` outside the spans given by path."""
        paths = []
        for path, vocabulary in self.word_index.items():
            if name not in vocabulary:
                continue
            if path in outside and name not in words(blank_spans(self.python_files[path], outside[path])):
                continue
            paths.append(path)
        return paths


def read_files(tree: Path, paths: Iterable[str]) -> Files:
    """Return the content of files below the folder ``tree``; None for a path without a file."""
    return {path: (tree / path).read_bytes() if (tree / path).is_file() else None for path in sorted(paths)}


@functools.lru_cache(maxsize=8)
def _shared(root: Path, roots: tuple[str, ...], python_path: tuple[str, ...], tests: frozenset[str]) -> SourceTree:
    return SourceTree(root, roots, python_path, tests)
