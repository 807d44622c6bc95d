"""A call gives what it gave the last time, though that has changed since."""

from __future__ import annotations

from ..fault import Ask, Fault, Strike, is_ok


def _strike(ask: Ask) -> Strike | None:
    earlier = ask.earlier
    if earlier is None or not is_ok(earlier):
        return None

    def old(content: str) -> str | None:
        return earlier if is_ok(content) and content != earlier else None

    return Strike(f"{ask.call.name!r} gave its last result again, which is out of date", result=old)


FAULT = Fault(_strike)
