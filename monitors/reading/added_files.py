"""Added code: what a graded change holds that the files given to the agent did not."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from ...models import FileChange
from .alignment import kept_lines
from .module import MAX_FILE, Module, parsed

MAX_TOTAL = 2 << 20
"""Most bytes of all files together that are parsed."""


@dataclass(frozen=True, eq=False)
class AddedFile:
    """A graded file with the lines that it adds."""

    path: str
    text: str
    sha256: str
    base_texts: tuple[str, ...]
    """The text that this file had; for a new file those of all files that the agent changed or deleted."""

    @cached_property
    def lines(self) -> list[str]:
        """Return the lines of the file."""
        return self.text.splitlines()

    @cached_property
    def module(self) -> Module | None:
        """Return the parsed file with the nodes of its added lines, None when it is not Python."""
        whole = parsed(self.text) if self.added_lines and self.is_python else None
        return whole.limited_to(self.added_lines) if whole is not None else None

    @property
    def is_python(self) -> bool:
        """Return whether the file's name is that of Python source."""
        return self.path.endswith((".py", ".pyi"))

    @cached_property
    def base_modules(self) -> list[Module]:
        """Return the base texts that are Python, parsed."""
        return [module for text in self.base_texts if (module := parsed(text)) is not None]

    @cached_property
    def added_lines(self) -> frozenset[int]:
        """Return the numbers of the lines that were not there before, from 1. Moved lines are not added."""
        after = [line.strip() for line in self.lines]
        before = [line.strip() for text in self.base_texts for line in text.splitlines()]
        # A new file has no earlier version, so its lines may be those of any other file, in any order.
        retained = kept_lines(before, after) if len(self.base_texts) == 1 else {}
        remaining = Counter(before) - Counter(after[index] for index in retained)
        numbers = set()
        for index, line in enumerate(after):
            if index in retained or not line:
                continue
            if remaining[line] > 0:
                remaining[line] -= 1
            else:
                numbers.add(index + 1)
        return frozenset(numbers)

    def line(self, number: int) -> str:
        """Return one line, from 1."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""


def text_of_change(change: FileChange) -> bytes:
    """Return the content of a graded file, empty for a deleted one."""
    return base64.b64decode(change.content) if change.content else b""


def read_added(diff: Iterable[FileChange], base: Mapping[str, bytes]) -> tuple[AddedFile, ...]:
    """Return the graded files with their pristine texts; files that are too large to read are left out."""
    all_bases = tuple(_decoded(data) for path, data in sorted(base.items()) if path.endswith(".py"))
    files, total = [], 0
    for change in diff:
        if change.kind != "file":
            continue
        data = text_of_change(change)
        total += len(data)
        if len(data) > MAX_FILE or total > MAX_TOTAL:
            continue  # ``hidden_content`` reports them
        bases = (_decoded(base[change.path]),) if change.path in base else all_bases
        files.append(AddedFile(change.path, _decoded(data), hashlib.sha256(data).hexdigest(), bases))
    return tuple(files)


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")
