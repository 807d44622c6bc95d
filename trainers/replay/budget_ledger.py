"""What all teachers together may spend, over every start of a replay that was cut short.

All that was paid for stands in a file, a line for each change; the next start counts it, whatever it asks itself. An
attempt stands there at its upper bound before it begins, and at what its answer took once that came: so one that broke
off, or was under way when the replay was killed, is not forgotten. What a cassette answers is not paid for again.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import ReplayError
from .settings import BudgetSettings

Bound = tuple[int, float]
"""Tokens and USD that one attempt may cost at most."""


@dataclass
class Purse:
    """An attempt is made only when its upper bound still fits, so the budget is never exceeded, as long as endpoints
    keep to ``max_tokens``. ``kept`` is the file of what was paid for, if any. Raises ReplayError when it cannot be read
    or written.
    """

    limits: BudgetSettings = field(default_factory=BudgetSettings)
    usd: float = 0.0
    tokens: int = 0
    kept: Path | None = None

    def __post_init__(self) -> None:
        rows = _charges(self.kept) if self.kept else []
        self._filed, self._made = sum(tokens for tokens, _ in rows), False
        self.tokens, self.usd = self.tokens + self._filed, self.usd + math.fsum(usd for _, usd in rows)

    def fits(self, tokens: int, usd: float) -> bool:
        limits = self.limits
        enough_usd = limits.usd is None or self.usd + usd <= limits.usd
        return enough_usd and (limits.tokens is None or self.tokens + tokens <= limits.tokens)

    def under_way(self, bound: Bound) -> None:
        """An attempt begins: on file it is paid for, in case nobody is left to say what became of it."""
        self._write(*bound)

    def came_back(self, bound: Bound, tokens: int, usd: float) -> None:
        """The attempt that was under way is over, and took this."""
        self.tokens, self.usd = self.tokens + tokens, self.usd + usd
        self._write(tokens - bound[0], usd - bound[1])

    def _write(self, tokens: int, usd: float) -> None:
        if self.kept is None or not (tokens or usd):
            return
        line = json.dumps({"tokens": tokens, "usd": usd})
        self._filed += tokens
        try:
            self._made = self._made or not self.kept.parent.exists()
            self.kept.parent.mkdir(parents=True, exist_ok=True)
            with self.kept.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
            if not self._filed:
                self._removed()
        except OSError as error:
            raise ReplayError(f"cannot write to {self.kept}: {error.strerror}; choose another --out") from None

    def _removed(self) -> None:
        """Nothing was paid for: there is nothing to tell the next start."""
        assert self.kept is not None
        self.kept.unlink()
        if self._made:
            with suppress(OSError):  # answers lie there
                self.kept.parent.rmdir()


def _charges(path: Path) -> list[Bound]:
    """The lines. A last one that was cut off when its writer was killed is removed: either its question was never sent,
    or one that came back counts at its bound."""
    try:
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        if whole != data:
            path.write_bytes(whole)
        rows = [json.loads(line) for line in whole.splitlines()]
        found = [(int(row["tokens"]), float(row["usd"])) for row in rows]
        if not all(math.isfinite(usd) for _, usd in found):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        raise ReplayError(
            f"what was paid for stands in {path}, which cannot be read: remove it, and what it held is not counted"
        ) from None
    return found
