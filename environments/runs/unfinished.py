"""Results of long work that was interrupted: they are in the cache until the same work is done."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ... import __version__
from ..snapshots.store.cache import cache_folder

_PACKAGE = Path(__file__).parents[2]


class Unfinished:
    """Results by name, from earlier tries of the same work, and of this one.

    The work is the same when its ``inputs``, everything that the results depend on, and Etude's own code are. Each
    result is one line of a file; a line that a kill cut short is left out. Raises SnapshotError for a cache that cannot
    be written.
    """

    def __init__(self, command: str, *inputs: str) -> None:
        key = hashlib.sha256(json.dumps([_code(), *inputs]).encode()).hexdigest()[:32]
        self._path = cache_folder() / "unfinished" / f"{command}-{key}.jsonl"
        self.results: dict[str, Any] = dict(self._read())
        self.earlier = len(self.results)
        """Results of earlier tries."""

    def add(self, name: str, result: Any) -> None:
        """Write a result. Raises OSError."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"\n{json.dumps([name, result])}\n")  # a line that was cut short must not swallow this one
        self.results[name] = result

    def finish(self) -> None:
        """Forget the results, because the work is done."""
        self._path.unlink(missing_ok=True)

    def _read(self) -> Iterator[tuple[str, Any]]:
        text = self._path.read_text(encoding="utf-8", errors="replace") if self._path.exists() else ""
        for line in text.splitlines():
            with suppress(ValueError, TypeError):
                name, result = json.loads(line)
                yield str(name), result


def _code() -> str:
    """Return the version of Etude, and what changes with each change to a checkout."""
    times = [file.stat().st_mtime_ns for file in _PACKAGE.glob("[!.]*/**/*.py") if file.is_file()]
    return f"{__version__} {len(times)} {max(times, default=0)}"
