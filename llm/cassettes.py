"""Answers kept in a file, so that a test needs no endpoint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import CassetteMiss, LLMError
from .errors import one_line


class Cassette:
    """Answers by the hash of their request, one JSON line each: ``record`` writes them, ``replay`` needs no endpoint.

    The same request asked several times gets its answers in the order in which they came.
    """

    def __init__(self, path: Path, *, record: bool = False) -> None:
        self._path, self._record = path, record
        self._answers: dict[str, list[dict[str, Any]]] = {}
        try:
            lines = [] if record and not path.exists() else _whole(path, record)
            for row in map(json.loads, lines):
                self._answers.setdefault(row["key"], []).append(row["answer"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LLMError(f"the cassette {path} cannot be read ({one_line(error)}): record it again") from None

    def replay(self, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """The next answer to this request; ``None`` means: ask, and ``keep``. Raises CassetteMiss."""
        waiting = self._answers.get(request_key(body))
        if waiting:
            return waiting.pop(0)
        if self._record:
            return None
        raise CassetteMiss(f"the cassette {self._path} holds no (further) answer to this request: record it again")

    def holds(self, body: Mapping[str, Any]) -> bool:
        """Whether ``replay`` has an answer to this request."""
        return bool(self._answers.get(request_key(body)))

    def keep(self, body: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": request_key(body), "answer": answer}) + "\n")


def _whole(path: Path, mend: bool) -> list[str]:
    """The lines; to ``mend`` is to remove a last one that was cut off when its writer was killed."""
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1] if mend else data
    if whole != data:
        path.write_bytes(whole)
    return whole.decode("utf-8").splitlines()


def request_key(body: Mapping[str, Any]) -> str:
    """The hash of what is asked, without who asks and where."""
    return hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()
