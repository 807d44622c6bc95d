"""Record of the calls that a task's tests make, with the answers of the task's own solution; its text in a row."""

from __future__ import annotations

import base64
import functools
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ....errors import GraderError
from .processes.named_answers import hidden

Call = dict[str, Any]
"""One call: ``target`` (the function), ``arguments`` and ``keywords`` as forms and, once recorded, ``answer``."""
QUESTION_PARTS = ("target", "arguments", "keywords")
"""The parts of a call that a solution is sent."""
MAX_BYTES = 512 * 1024
"""Most bytes of a packed record in a row."""
QUESTIONS = {"builtins:repr": "__repr__", "builtins:str": "__str__"}
"""Calls that ask for the text of a returned object, each with the method that gives the answer."""


def question(call: Call) -> Call:
    """Return a call as a solution is sent it, without an answer."""
    return {name: call[name] for name in QUESTION_PARTS if name in call}


@dataclass(frozen=True)
class RecordedCalls:
    """The calls that can be repeated in another process, with the answers of the task's own solution. Secret."""

    targets: list[str]
    """The functions that the task examines (see ``Examined``)."""
    opaque: list[str]
    """The classes whose private state belongs to each solution (see ``Examined``)."""
    packages: list[str]
    """Top-level modules of the workspace."""
    tests: dict[str, list[Call]]
    """The calls of each test, in order."""
    inputs: dict[str, list[Call]] = field(default_factory=dict)
    """Calls that no test makes, by target: held-out inputs near those of the tests."""
    sequences: list[list[Call]] = field(default_factory=list)
    """The calls of tests with other data, in order; their answers hold only what is compared (see ``comparable``)."""
    entries: list[str] = field(default_factory=list)
    """Functions that tests call and that run examined ones: their calls are recorded in place of the inner ones."""
    own_state: dict[str, list[str]] = field(default_factory=dict)
    """Attributes that answers carry beside the state of their objects, by class (see ``own_state.py``)."""
    module_state: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    """What the calls of a test change at the top level of modules, by test and name (see ``recorded_state.py``)."""
    passing: list[str] = field(default_factory=list)
    """The recorded tests that pass without a solution and have to keep passing."""

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
        """Return what a solution's process is sent: calls without answers; numbers replace the names of tests.

        An argument that repeats an earlier answer of the same test is sent as the name of that answer.
        """
        calls = {str(number): hidden(calls) for number, calls in enumerate(self.tests.values())}
        inputs = {f"input {target}": [*map(question, calls)] for target, calls in self.inputs.items()}
        sequences = {f"sequence {number}": [*map(question, calls)] for number, calls in enumerate(self.sequences)}
        return {**calls, **inputs, **sequences}

    @property
    def test_calls(self) -> list[Call]:
        """Return the calls of all tests."""
        return [call for calls in self.tests.values() for call in calls]

    def allowed(self) -> list[tuple[str, str]]:
        """Return the classes and functions that the recorded answers name."""
        return sorted({name for call in self.test_calls for name in _names_of(call["answer"])})


def _names_in(form: Any) -> Iterator[tuple[str, str]]:
    """Yield the module and the name of everything that a form names; data that only looks like a name is left out.

    The maker of an object has its method (``new`` or ``call``) and a space before its module. The module is ``method``
    for the names of bound methods, ``attribute`` for special attributes of functions, and ``live`` for functions that
    stayed in the process where they were made.
    """
    if not isinstance(form, list):
        return
    tag, *parts = form
    if tag in ("g", "e"):
        yield parts[0], parts[1]
        return
    inner: list[Any] = []
    if tag in ("t", "F"):
        inner = parts[0]
    elif tag in ("l", "S"):
        inner = parts[1]
    elif tag in ("d", "D"):
        inner = [part for pair in parts[-1] for part in pair]
    elif tag == "I":
        inner = [*parts[0], *_exception_parts(parts[1])]
    elif tag == "n":
        inner = [parts[1]]
    elif tag == "L":
        yield "live", ""
        yield from (("attribute", name) for name, _ in parts[1] if name.startswith("__"))
        inner = [pair[1] for pair in parts[1]]
    elif tag == "fn" and len(parts) == 8:
        yield from (("attribute", name) for name, _ in parts[-1])
        inner = [pair[1] for pair in parts[-1]]
    elif tag == "B":
        yield "method", parts[2]
        inner = [parts[1]]
    elif tag == "m":
        inner = parts[1:]
    elif tag == "o":
        _, (method, maker), arguments, state, items, pairs = parts
        if maker[0] == "g":  # what makes an object is not a value that may come back
            yield f"{method} {maker[1]}", maker[2]
        inner = [*arguments, state, *(items or []), *(part for pair in pairs or [] for part in pair)]
    elif tag == "O":
        _, kind, attributes, items, pairs = parts
        inner = [kind, *(pair[1] for pair in attributes), *(items or [])]
        inner += [part for pair in pairs or [] for part in pair]
    for part in inner:
        yield from _names_in(part)


def _exception_parts(form: Any) -> list[Any]:
    """Return the class and the arguments of an exception's form."""
    return [] if form is None else [form[0], *(form[2] or [])]


def _names_of(answer: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for part in [answer["result"], *(answer["after"] or []), *_exception_parts(answer["error"])]:
        yield from _names_in(part)
