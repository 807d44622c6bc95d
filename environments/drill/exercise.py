"""What a drill is made of: tools that are pure functions of a small state, seeded words, values that only it knows."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ...errors import ToolError
from .words import ATTRIBUTES, NAMES, NOUNS, Attribute, Noun

T = TypeVar("T")

State = dict[str, Any]
"""What an episode changed, JSON values only; ``effects`` is compared with the drill's at the end."""

_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"


@dataclass(frozen=True)
class DrillTool:
    """``parameters`` is the JSON schema of the arguments; ``run`` changes the state, returns the body or raises."""

    name: str
    description: str
    parameters: dict[str, Any]
    run: Callable[[State, dict[str, Any]], str]

    def schema(self) -> dict[str, Any]:
        """OpenAI's function style."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}


Steps = list[tuple[str, dict[str, Any]]]
"""Tool names and arguments, in order."""


@dataclass(frozen=True)
class Drill:
    """One exercise. ``answer``, ``effects`` and ``solution`` (calls that solve it, without submit) are secret."""

    statement: str
    tools: Sequence[DrillTool]
    answer: str
    solution: Callable[[], Steps]
    effects: Mapping[str, str] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    workdir: str | None = None


class Deal:
    """One drill's stream of chances. ``level`` is 1 (plain) to 5; ``held_out`` takes the words kept for evaluation."""

    def __init__(self, name: str, level: int, held_out: bool) -> None:
        self.level = level
        self._key = hashlib.sha256(name.encode("utf-8", "replace")).digest()
        self.rng = random.Random(int.from_bytes(self._key[:6], "big"))
        self._nouns = NOUNS[1 if held_out else 0]

    def number(self, *parts: object) -> int:
        """A number below 2**64 that only this drill gives for ``parts``."""
        data = "\0".join(map(str, parts)).encode("utf-8", "replace")
        return int.from_bytes(hashlib.blake2b(data, digest_size=8, key=self._key).digest(), "big")

    def code(self, *parts: object) -> str:
        """Eight letters and digits, as unguessable as ``number``."""
        number = self.number(*parts)
        shown = "".join(_LETTERS[number >> (5 * place) & 31] for place in range(8))
        return f"{shown[:4]}-{shown[4:]}"

    def nouns(self, count: int) -> list[Noun]:
        return self.rng.sample(self._nouns, count)

    def attributes(self, count: int) -> list[Attribute]:
        return self.rng.sample(ATTRIBUTES, count)

    def one(self, choices: Sequence[T]) -> T:
        return choices[int(self.rng.random() * len(choices))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        return sorted(items, key=lambda _: self.rng.random())

    def id_of(self, noun: Noun, *parts: object) -> str:
        """An id such as ``INV-40213``; without ``parts`` a new one."""
        number = self.number("id", noun.prefix, *parts) if parts else int(self.rng.random() * 90_000)
        return f"{noun.prefix}-{10_000 + number % 90_000}"

    def value(self, attribute: Attribute, *parts: object) -> str:
        """What ``attribute`` is of the thing that ``parts`` name, in the attribute's own format."""
        number = self.number(attribute.word, *parts)
        if attribute.form == "date":
            return f"20{20 + number % 20}-{1 + number // 20 % 12:02}-{1 + number // 240 % 28:02}"
        if attribute.form == "amount":
            return f"{10 + number % 9990}.{number // 9990 % 100:02}"
        if attribute.form == "name":
            return f"{NAMES[number % len(NAMES)]} {NAMES[number // 64 % len(NAMES)]}"
        return self.code(attribute.word, *parts)


def text_argument(*names: str) -> dict[str, Any]:
    """The schema of tools that take these strings and nothing else."""
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": list(names),
        "additionalProperties": False,
    }


def checked_id(tool: str, argument: str, noun: Noun, given: str) -> str:
    """Raises ToolError for what is no id of a ``noun``."""
    prefix, dash, number = given.partition("-")
    if prefix != noun.prefix or not dash or not (len(number) == 5 and number.isdecimal()):
        raise ToolError("invalid_args", f"{tool}: {argument} looks like {noun.prefix}-12345, got {given[:60]!r}")
    return given


def effect(state: State, name: str, value: str) -> None:
    """Note that the world changed."""
    state.setdefault("effects", {})[name] = value
