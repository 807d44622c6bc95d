"""Spending of all teachers together, in a file, so that it counts over every start of an interrupted replay.

The file has one JSON line per change. An attempt is written at its upper bound before it begins, and corrected to its
real cost when the answer comes. So an attempt that broke off, or that was running when the replay was killed, counts.
Answers from a cassette are not paid for again.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from pathlib import Path

from ...errors import ReplayError
from ...llm.budget import Budget, Cost, Meter
from .settings import BudgetSettings


class BudgetLedger(Meter):
    """Strict meter that all teachers share, with its charges in the file ``path``, if one is given.

    Raises ReplayError when the file cannot be read or written.
    """

    def __init__(self, limits: BudgetSettings, path: Path | None = None) -> None:
        super().__init__(Budget(limits.usd, limits.tokens), strict=True)
        self._path, self._made_folder = path, False
        rows = _read_charges(path) if path else []
        self._written_tokens = sum(tokens for tokens, _ in rows)
        self.charged = (float(self._written_tokens), math.fsum(usd for _, usd in rows))

    @property
    def tokens(self) -> int:
        """Return the tokens charged so far."""
        return int(self.charged[0])

    @property
    def usd(self) -> float:
        """Return the USD charged so far."""
        return self.charged[1]

    def fits(self, bound: Cost) -> bool:
        """Return whether calls that cost at most ``bound`` together fit into what is left, if no others run."""
        totals = zip(self.charged, bound, self._limits, strict=True)
        return all(charged + more <= limit for charged, more, limit in totals)

    async def admit(self, bound: Cost) -> None:
        """Wait until a call may run, and write it down at its bound. Raises BudgetSpent, ReplayError."""
        await super().admit(bound)
        self._write(bound)

    def settle(self, bound: Cost, cost: Cost) -> None:
        """Charge a call that is over, and correct what was written for it. Raises ReplayError."""
        super().settle(bound, cost)
        self._write((cost[0] - bound[0], cost[1] - bound[1]))

    async def charge_replayed(self, bound: Cost, cost: Cost) -> None:
        """Charge nothing: a cassette's answer was paid for when it was recorded."""

    def _write(self, change: Cost) -> None:
        tokens, usd = int(change[0]), change[1]
        if self._path is None or not (tokens or usd):
            return
        self._written_tokens += tokens
        try:
            self._made_folder = self._made_folder or not self._path.parent.exists()
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"tokens": tokens, "usd": usd}) + "\n")
            if not self._written_tokens:
                self._remove(self._path)
        except OSError as error:
            raise ReplayError(f"cannot write to {self._path}: {error.strerror}; choose another --out") from None

    def _remove(self, path: Path) -> None:
        """Remove the file once nothing in it was paid for, and the folder if this ledger made it and it is empty."""
        path.unlink()
        if self._made_folder:
            with suppress(OSError):  # the folder holds answers
                path.parent.rmdir()


def _read_charges(path: Path) -> list[tuple[int, float]]:
    """Read the charges, and remove a last line that was cut off when its writer was killed.

    Nothing is lost with that line: its call was either not yet sent, or counts at its bound.
    """
    try:
        data = path.read_bytes() if path.exists() else b""
        complete = data[: data.rfind(b"\n") + 1]
        if complete != data:
            path.write_bytes(complete)
        rows = [json.loads(line) for line in complete.splitlines()]
        charges = [(int(row["tokens"]), float(row["usd"])) for row in rows]
        if not all(math.isfinite(usd) for _, usd in charges):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        raise ReplayError(
            f"cannot read the spending log {path}; delete it to continue (past spending is then not counted)"
        ) from None
    return charges
