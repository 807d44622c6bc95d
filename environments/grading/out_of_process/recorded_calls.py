"""What a task remembers of the calls that its tests make, and how it travels in the task's row."""

from __future__ import annotations

import base64
import functools
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ....errors import GraderError
from ...snapshots.test_run import plugin_imports

_BOUNDARY = ("places", "value_encoding", "value_decoding", "boundary")

Call = dict[str, Any]
"""``target``, ``arguments``, ``keywords`` and, once recorded, ``answer``."""
MAX_BYTES = 512 * 1024
"""Most bytes of a record in a row, packed."""


@dataclass(frozen=True)
class RecordedCalls:
    """The calls of tests that can be repeated in another process, with what the solution answered. Secret."""

    targets: list[str]
    opaque: list[str]
    packages: list[str]
    """Top-level modules of the workspace."""
    tests: dict[str, list[Call]]
    """The calls of each test, in order."""
    inputs: dict[str, list[Call]] = field(default_factory=dict)
    """Calls that no test makes, by target: held-out inputs near those of the tests."""

    def pack(self) -> str:
        """Return the record as text for a row."""
        text = json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)
        return base64.b85encode(zlib.compress(text.encode(), 9)).decode()

    @classmethod
    @functools.lru_cache(maxsize=64)
    def unpack(cls, text: str) -> RecordedCalls:
        """Return the record that ``pack`` wrote. Raises GraderError for anything else."""
        try:
            return cls(**json.loads(zlib.decompress(base64.b85decode(text))))
        except (ValueError, TypeError, zlib.error) as error:
            raise GraderError("the task's recorded calls are damaged; make the task again") from error

    def sent(self) -> dict[str, list[Call]]:
        """Return what a solution's process is given: calls without answers, and no name of a test."""
        calls = {str(number): _bare(calls) for number, calls in enumerate(self.tests.values())}
        return {**calls, **{f"input {target}": _bare(calls) for target, calls in self.inputs.items()}}

    def allowed(self) -> list[tuple[str, str]]:
        """Return the classes and functions that the recorded answers name."""
        places = {place for calls in self.tests.values() for call in calls for place in _places(call["answer"])}
        return sorted(places)


def _bare(calls: list[Call]) -> list[Call]:
    return [{name: call[name] for name in ("target", "arguments", "keywords")} for call in calls]


def _places(form: Any) -> Iterator[tuple[str, str]]:
    """Yield module and name of everything that a form names, with parts of forms that only look like names."""
    if isinstance(form, Mapping):
        for value in form.values():
            yield from _places(value)
    elif isinstance(form, list):
        for first, second in zip(form, form[1:], strict=False):
            if isinstance(first, str) and isinstance(second, str):
                yield first, second
        for value in form:
            yield from _places(value)


@functools.cache
def boundary_parts() -> tuple[str, ...]:
    """Return the texts that the trusted side of a test run needs."""
    return tuple(Path(__file__).with_name(f"{name}.py").read_text("utf-8") for name in _BOUNDARY)


@functools.cache
def worker_parts() -> tuple[str, ...]:
    """Return the texts that run a solution's calls."""
    worker = Path(__file__).with_name("candidate_worker.py").read_text("utf-8")
    return (Path(plugin_imports.__file__).read_text("utf-8"), *boundary_parts(), worker)
