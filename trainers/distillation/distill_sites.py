"""Where distillation acts: each error turn's place in a Rollout's ids, and the ids of the hint that goes before it.

The teacher reads ``ids[:at] + hint + ids[at:end]``, the student ``ids[:end]``; both are compared on the tokens of
[start, end) and nowhere else. Every site has the original prefix, without the hints of earlier sites: that is what the
student had read.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ...models import ErrorTurn
from ..rollouts.rollout import Rollout

CAP = 8
"""Sites of one rollout: a loop of fifty errors shall not outweigh the others."""


@dataclass(frozen=True)
class Insertion:
    """The ids of a hint, ``back`` ids before the generation prompt (0: a message of its own)."""

    ids: list[int]
    back: int = 0


Insert = Callable[[Rollout, int, str], "Insertion | None"]
"""A hint's text for a turn of a rollout, as ids (``TemplateChat.insert_for``)."""


@dataclass(frozen=True)
class Site:
    """Positions in ``Rollout.ids``; ``weight`` multiplies the loss of each of its tokens."""

    turn: int
    kind: str
    at: int
    start: int
    end: int
    hint: list[int]
    weight: float = 1.0
    text: str = ""
    source: str = ""

    def teacher_ids(self, ids: Sequence[int]) -> list[int]:
        """What the teacher reads; its response is the last ``end - start`` ids."""
        return [*ids[: self.at], *self.hint, *ids[self.at : self.end]]


def choose(
    rollout: Rollout,
    insert: Insert,
    *,
    cap: int = CAP,
    max_ids: int = 1 << 20,
    recovery: bool = False,
    rng: random.Random,
) -> tuple[list[Site], Counter[str]]:
    """The sites of one rollout, at most ``cap`` drawn evenly, and how many were left out for which reason.

    ``insert`` makes a hint's ids for a turn, or ``None`` where none can be spliced in. An error is a site of the turn
    that made it, once for each turn. A fault that the policy could not foresee (``recovery`` sites, everything
    injected) never is: with ``recovery`` the turn after it is one, else it is left out.
    """
    found: dict[int, Site] = {}
    left: Counter[str] = Counter()
    if not rollout.reward.valid:
        return [], Counter({"invalid episode": len(rollout.error_turns)})
    for error in rollout.error_turns:
        reason, site = _site(rollout, error, insert, recovery)
        if site is None:
            left[reason] += 1
        elif site.turn in found:
            left["second error of its turn"] += 1
        elif len(site.hint) + site.end > max_ids:
            left["too long"] += 1
        else:
            found[site.turn] = site
    chosen = sorted(found.values(), key=lambda site: site.turn)
    if len(chosen) > cap:
        left["over the cap"] += len(chosen) - cap
        chosen = sorted(rng.sample(chosen, cap), key=lambda site: site.turn)
    return [replace(site, weight=site.weight / len(chosen)) for site in chosen], left


def _site(rollout: Rollout, error: ErrorTurn, insert: Insert, recovery: bool) -> tuple[str, Site | None]:
    unforeseen = error.injected or error.site == "recovery"
    if unforeseen and not recovery:
        return "not foreseeable", None
    turn = error.turn + 1 if unforeseen else error.turn
    if turn >= len(rollout.turns):
        return "no turn to teach", None
    if not error.hints:
        return "no hint", None
    span, hint = rollout.turns[turn], error.hints[0]
    if span.start == span.end:
        return "empty turn", None
    inserted = insert(rollout, turn, hint.text)
    if inserted is None:
        return "no place for a hint", None
    return "", Site(
        turn=turn,
        kind=error.kind,
        at=span.begin - inserted.back,
        start=span.start,
        end=span.end,
        hint=inserted.ids,
        text=hint.text,
        source=hint.source,
    )
