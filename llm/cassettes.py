"""Recorded answers in a file, so that a test or a resumed run needs no endpoint."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import CassetteMiss, LLMError
from .printable import one_line


class Cassette:
    """Answers by the hash of their request, one JSON line each.

    With ``record`` unknown requests go to the endpoint and their answers are added; without it they are an error.
    A request that was sent several times gets its answers in the order in which they were recorded.
    """

    def __init__(self, path: Path, *, record: bool = False) -> None:
        self._path, self._record = path, record
        self._answers: dict[str, list[dict[str, Any]]] = {}
        try:
            lines = [] if record and not path.exists() else complete_lines(path, repair=record)
            for row in map(json.loads, lines):
                self._answers.setdefault(row["key"], []).append(row["answer"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LLMError(f"the cassette {path} cannot be read ({one_line(error)}): record it again") from None

    def replay(self, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the next recorded answer to a request; None means: call the endpoint, then ``keep`` its answer.

        Raises CassetteMiss when nothing is recorded and recording is off.
        """
        answers = self._answers.get(request_key(body))
        if answers:
            return answers.pop(0)
        if self._record:
            return None
        raise CassetteMiss(f"the cassette {self._path} holds no (further) answer to this request: record it again")

    def holds(self, body: Mapping[str, Any]) -> bool:
        """Return whether ``replay`` has an answer to this request."""
        return bool(self._answers.get(request_key(body)))

    def keep(self, body: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Append the endpoint's answer to a request."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": request_key(body), "answer": answer}) + "\n")


def complete_lines(path: Path, repair: bool) -> list[str]:
    """Return the lines; with ``repair`` remove a last line that was cut off when its writer was killed."""
    data = path.read_bytes()
    complete = data[: data.rfind(b"\n") + 1] if repair else data
    if complete != data:
        path.write_bytes(complete)
    return complete.decode("utf-8").splitlines()


def request_key(body: Mapping[str, Any]) -> str:
    """Return the hash of a request's body; the address and the key are not part of it."""
    return hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()
