"""When faults fall due: a function of the seed, the task and the number of the call, the same in every process.

ETUDE_DRILL_SECRET, when it is set, goes into it too: a policy may have the code and guess the seed.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field
from functools import lru_cache

from ...errors import FaultsError
from ...registry import did_you_mean
from . import FAULTS

_AT = re.compile(r"(?P<kind>\w+)@(?P<call>\d{1,6})", re.ASCII)
_NUMBERS = {"rate": float, "most": int, "seed": int}


@dataclass(frozen=True)
class Schedule:
    """With probability ``rate`` a call makes one of ``kinds`` fall due, ``most`` times; ``at`` are fixed ones.

    A fault that is due hits the next call that it fits.
    """

    kinds: tuple[str, ...] = ()
    rate: float = 0.0
    most: int = 3
    seed: int = 0
    at: tuple[tuple[int, str], ...] = ()
    secret: str = field(default="", repr=False)

    def __bool__(self) -> bool:
        return bool(self.at or (self.rate and self.most))

    def chance(self, task_id: str, call: int) -> int:
        """A number below 2**64 for one call."""
        key = f"fault {self.secret and self.secret + ' '}{self.seed} {task_id} {call}".encode("utf-8", "replace")
        return int.from_bytes(hashlib.sha256(key).digest()[:8], "big")

    def due(self, task_id: str, call: int) -> tuple[list[str], str]:
        """The fixed kinds that fall due with this call, and the kind that is drawn for it ('': none)."""
        number = self.chance(task_id, call)
        drawn = self.kinds[number % len(self.kinds)] if self.kinds and (number >> 8) / (1 << 56) < self.rate else ""
        return [kind for at, kind in self.at if at == call], drawn


def read_schedule(spec: str) -> Schedule:
    """Read ``rate=0.2,timeout,stale_read,seed=7`` or ``timeout@2,renamed@5``; '' is no fault at all.

    Kinds restrict what is drawn (``all``, or none given: every kind); without ``rate`` and ``@`` the rate is 0.2.
    Raises FaultsError.
    """
    return _read(spec, os.environ.get("ETUDE_DRILL_SECRET", ""))


@lru_cache(maxsize=256)  # an episode's reset may name the same one again, and looking for third parties' kinds takes ms
def _read(spec: str, secret: str) -> Schedule:
    if not spec.strip():
        return Schedule()
    known = FAULTS.paths()
    kinds: list[str] = []
    at: list[tuple[int, str]] = []
    numbers: dict[str, float | int] = {}
    for part in (each.strip() for each in spec.split(",")):
        name, equals, value = part.partition("=")
        if equals:
            numbers[name] = _number(name, value)
        elif match := _AT.fullmatch(part):
            at.append((int(match["call"]), _known(match["kind"], known)))
        elif part == "all":
            kinds += known
        elif part:
            kinds.append(_known(part, known))
    rate = numbers.get("rate", 0.0 if at and not kinds else 0.2)
    drawn = tuple(dict.fromkeys(kinds)) or tuple(known)
    most, seed = int(numbers.get("most", 3)), int(numbers.get("seed", 0))
    return Schedule(drawn, float(rate), most, seed, tuple(sorted(at)), secret)


def _known(kind: str, known: dict[str, str]) -> str:
    if kind not in known:
        raise FaultsError(f"faults: {did_you_mean('fault', kind, known)}")
    return kind


def _number(name: str, value: str) -> float | int:
    if name not in _NUMBERS:
        raise FaultsError(f"faults: {did_you_mean('setting', name, _NUMBERS)}")
    try:
        number = _NUMBERS[name](value)
    except ValueError:
        raise FaultsError(f"faults: {name} must be a number, got {value[:40]!r}") from None
    if (name == "rate" and not 0 <= number <= 1) or (name == "most" and number < 0):
        raise FaultsError(f"faults: {name} must be {'0 to 1' if name == 'rate' else '0 or more'}, got {value[:40]}")
    return number
