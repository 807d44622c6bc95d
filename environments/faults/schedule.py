"""Schedule of faults: a function of seed, task and call number, so that it is the same in every process.

ETUDE_DRILL_SECRET, where it is set, is a part of the seed: a policy may know this code and guess the rest.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from ...errors import FaultsError
from ...registry import did_you_mean
from ..rng import hashed_number
from . import FAULTS

_AT = re.compile(r"(?P<kind>\w+)@(?P<call>\d{1,6})", re.ASCII)
_NUMBERS = {"rate": float, "most": int, "seed": int}


@dataclass(frozen=True)
class Schedule:
    """When faults become due. A fault that is due changes the next call that it fits."""

    kinds: tuple[str, ...] = ()
    """Kinds that are drawn from."""
    rate: float = 0.0
    """Probability that a call draws a fault."""
    most: int = 3
    """Faults that an episode draws at most."""
    seed: int = 0
    """Seed of the draws."""
    at: tuple[tuple[int, str], ...] = ()
    """Fixed faults: the number of a call, and the kind that is due from it on."""
    secret: str = field(default="", repr=False)
    """Part of the draws that a policy cannot know."""

    def __bool__(self) -> bool:
        return bool(self.at or (self.rate and self.most))

    def chance(self, task_id: str, call: int) -> int:
        """Return a number below 2**64 for one call."""
        return hashed_number(f"fault {self.secret and self.secret + ' '}{self.seed} {task_id} {call}")

    def due(self, task_id: str, call: int) -> tuple[list[str], str]:
        """Return the fixed kinds that become due at this call, and the kind that it draws ('': none)."""
        number = self.chance(task_id, call)
        drawn = self.kinds[number % len(self.kinds)] if self.kinds and (number >> 8) / (1 << 56) < self.rate else ""
        return [kind for at, kind in self.at if at == call], drawn


def read_schedule(spec: str) -> Schedule:
    """Read a text such as ``rate=0.2,timeout,stale_read,seed=7`` or ``timeout@2,renamed@5``; '' means no faults.

    Kinds restrict what is drawn (``all`` or none: every kind); without ``rate`` and ``@`` the rate is 0.2. Raises
    FaultsError.
    """
    return _read(spec, os.environ.get("ETUDE_DRILL_SECRET", ""))


@lru_cache(maxsize=256)  # many resets name the same one, and looking for third parties' kinds takes milliseconds
def _read(spec: str, secret: str) -> Schedule:
    if not spec.strip():
        return Schedule()
    registered = FAULTS.paths()
    kinds: list[str] = []
    at: list[tuple[int, str]] = []
    numbers: dict[str, float | int] = {}
    for part in map(str.strip, spec.split(",")):
        name, equals, value = part.partition("=")
        if equals:
            numbers[name] = _number(name, value)
        elif match := _AT.fullmatch(part):
            at.append((int(match["call"]), _checked_kind(match["kind"], registered)))
        elif part == "all":
            kinds += registered
        elif part:
            kinds.append(_checked_kind(part, registered))
    rate = numbers.get("rate", 0.0 if at and not kinds else 0.2)
    drawn = tuple(dict.fromkeys(kinds)) or tuple(registered)
    most, seed = int(numbers.get("most", 3)), int(numbers.get("seed", 0))
    return Schedule(drawn, float(rate), most, seed, tuple(sorted(at)), secret)


def _checked_kind(kind: str, registered: Mapping[str, str]) -> str:
    """Return the kind. Raises FaultsError for an unknown one."""
    if kind not in registered:
        raise FaultsError(f"faults: {did_you_mean('fault', kind, registered)}")
    return kind


def _number(name: str, value: str) -> float | int:
    """Return the value of a setting. Raises FaultsError."""
    if name not in _NUMBERS:
        raise FaultsError(f"faults: {did_you_mean('setting', name, _NUMBERS)}")
    try:
        number = _NUMBERS[name](value)
    except ValueError:
        raise FaultsError(f"faults: {name} must be a number, got {value[:40]!r}") from None
    if (name == "rate" and not 0 <= number <= 1) or (name == "most" and number < 0):
        raise FaultsError(f"faults: {name} must be {'0 to 1' if name == 'rate' else '0 or more'}, got {value[:40]}")
    return number
