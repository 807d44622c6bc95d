"""Parts of a drill: tools that are functions of a small state, seeded choices, and values that only the drill knows."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ...errors import ToolError
from ..tool_protocol import function_schema, parameters_schema
from .words import ATTRIBUTES, NAMES, NOUNS, Attribute, Noun

T = TypeVar("T")

State = dict[str, Any]
"""What an episode changed, in JSON values; ``effects`` is compared with the effects of the drill at the end."""

_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"


@dataclass(frozen=True)
class DrillTool:
    """A tool of a drill."""

    name: str
    description: str
    parameters: dict[str, Any]
    run: Callable[[State, dict[str, Any]], str]
    """Changes the state and returns the body of the result, or raises ToolError."""

    def schema(self) -> dict[str, Any]:
        """Return the tool in OpenAI's function style."""
        return function_schema(self.name, self.description, self.parameters)


Steps = list[tuple[str, dict[str, Any]]]
"""Tool names and arguments, in order."""


@dataclass(frozen=True)
class Drill:
    """One exercise. Its answer, effects and solution are secret."""

    statement: str
    tools: Sequence[DrillTool]
    """The tools of its agent, without ``submit``."""
    answer: str
    solution: Callable[[], Steps]
    """Returns the calls that solve it, without ``submit``."""
    effects: Mapping[str, str] = field(default_factory=dict)
    """What the agent must have changed at the end, no more and no less."""
    features: Mapping[str, int] = field(default_factory=dict)
    workdir: str | None = None
    """Folder that relative paths start from, in drills with files."""


class Deal:
    """Random choices of one drill. ``level`` is 1 (plain) to 5; ``held_out`` takes the words kept for evaluation."""

    def __init__(self, name: str, level: int, held_out: bool) -> None:
        self.level = level
        self._key = hashlib.sha256(name.encode("utf-8", "replace")).digest()
        self.rng = random.Random(int.from_bytes(self._key[:6], "big"))
        self._nouns = NOUNS[1 if held_out else 0]

    def number(self, *parts: object) -> int:
        """Return a number below 2**64 that only this drill gives for ``parts``."""
        data = "\0".join(map(str, parts)).encode("utf-8", "replace")
        return int.from_bytes(hashlib.blake2b(data, digest_size=8, key=self._key).digest(), "big")

    def code(self, *parts: object) -> str:
        """Return eight letters and digits, as hard to guess as ``number``."""
        number = self.number(*parts)
        letters = "".join(_LETTERS[number >> (5 * place) & 31] for place in range(8))
        return f"{letters[:4]}-{letters[4:]}"

    def nouns(self, count: int) -> list[Noun]:
        """Return different nouns."""
        return self.rng.sample(self._nouns, count)

    def attributes(self, count: int) -> list[Attribute]:
        """Return different attributes."""
        return self.rng.sample(ATTRIBUTES, count)

    def one(self, choices: Sequence[T]) -> T:
        """Return one of the choices."""
        return choices[int(self.rng.random() * len(choices))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in another order."""
        return sorted(items, key=lambda _: self.rng.random())

    def id_of(self, noun: Noun, *parts: object) -> str:
        """Return an id such as ``INV-40213``: the one that ``parts`` name, without them a new one."""
        number = self.number("id", noun.prefix, *parts) if parts else int(self.rng.random() * 90_000)
        return f"{noun.prefix}-{10_000 + number % 90_000}"

    def value(self, attribute: Attribute, *parts: object) -> str:
        """Return the ``attribute`` of the thing that ``parts`` name, in the attribute's format."""
        number = self.number(attribute.word, *parts)
        if attribute.form == "date":
            return f"20{20 + number % 20}-{1 + number // 20 % 12:02}-{1 + number // 240 % 28:02}"
        if attribute.form == "amount":
            return f"{10 + number % 9990}.{number // 9990 % 100:02}"
        if attribute.form == "name":
            return f"{NAMES[number % len(NAMES)]} {NAMES[number // 64 % len(NAMES)]}"
        return self.code(attribute.word, *parts)


def text_argument(*names: str) -> dict[str, Any]:
    """Return the schema of tools that take these strings and nothing else."""
    return parameters_schema({name: {"type": "string"} for name in names}, names)


def checked_id(tool: str, argument: str, noun: Noun, value: str) -> str:
    """Return the id. Raises ToolError for a text that is not the id of a ``noun``."""
    prefix, dash, number = value.partition("-")
    if prefix != noun.prefix or not dash or not (len(number) == 5 and number.isdecimal()):
        raise ToolError("invalid_args", f"{tool}: {argument} looks like {noun.prefix}-12345, got {value[:60]!r}")
    return value


def id_tool(name: str, description: str, noun: Noun, answer: Callable[[str], str], argument: str = "") -> DrillTool:
    """Return a tool that takes the id of a ``noun`` and returns the ``answer`` for it."""
    argument = argument or f"{noun.word}_id"

    def run(state: State, arguments: dict[str, Any]) -> str:
        return answer(checked_id(name, argument, noun, arguments[argument]))

    return DrillTool(name, description, text_argument(argument), run)


def effect(state: State, name: str, value: str) -> None:
    """Record a change of the world."""
    state.setdefault("effects", {})[name] = value
