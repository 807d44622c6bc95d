"""Distillation sites: the place of each error turn in a Rollout's ids, and the ids of the hint that goes before it.

The teacher reads ``ids[:at] + hint + ids[at:end]``, the student ``ids[:end]``. Both are compared on the tokens of
[start, end) and nowhere else. Every site has the original prefix, without the hints of earlier sites, because that is
what the student had read.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ...models import ErrorTurn
from ..rollouts.rollout import Rollout

CAP = 8
"""Sites of one rollout, at most, so that a loop of fifty errors does not outweigh the other rollouts."""


@dataclass(frozen=True)
class Insertion:
    """Ids of a hint and their place: ``back`` ids before the generation prompt (0 for a separate message)."""

    ids: list[int]
    back: int = 0


Insert = Callable[[Rollout, int, str], "Insertion | None"]
"""Turns a hint's text into ids for a turn of a rollout; None if no hint can go there (``TemplateChat.insert_for``)."""


@dataclass(frozen=True)
class Site:
    """One distillation site. ``at``, ``start`` and ``end`` are positions in ``Rollout.ids``."""

    turn: int
    """Number of the turn in its rollout."""
    kind: str
    """Kind of the error."""
    at: int
    """Where the hint goes in."""
    start: int
    """First token that teacher and student are compared on."""
    end: int
    """End of these tokens."""
    hint: list[int]
    """Ids of the hint."""
    weight: float = 1.0
    """Factor of each token's loss."""
    text: str = ""
    """Text of the hint."""
    source: str = ""
    """Source of the hint."""

    @property
    def total_weight(self) -> float:
        """Return the sum of the weights of the tokens that are compared."""
        return self.weight * (self.end - self.start)

    def teacher_ids(self, ids: Sequence[int]) -> list[int]:
        """Return the ids that the teacher reads; the last ``end - start`` of them are compared."""
        return [*ids[: self.at], *self.hint, *ids[self.at : self.end]]


def choose_sites(
    rollout: Rollout,
    insert: Insert,
    *,
    cap: int = CAP,
    max_ids: int = 1 << 20,
    recovery: bool = False,
    rng: random.Random,
) -> tuple[list[Site], Counter[str]]:
    """Return the sites of a rollout, at most ``cap`` drawn evenly, and the number of errors skipped for each reason.

    An error is a site of the turn that made it, one for each turn. A fault that the policy could not foresee (errors of
    the site ``recovery``, and all injected ones) is not; with ``recovery``, the turn after it is a site instead. A site
    whose teacher would read more than ``max_ids`` ids is skipped. The weights of a rollout's sites sum to 1.
    """
    if not rollout.reward.valid:
        return [], Counter({"invalid episode": len(rollout.error_turns)})
    sites: dict[int, Site] = {}
    skipped: Counter[str] = Counter()
    for error in rollout.error_turns:
        site = _site_of(rollout, error, insert, recovery)
        if isinstance(site, str):
            skipped[site] += 1
        elif site.turn in sites:
            skipped["second error of its turn"] += 1
        elif len(site.hint) + site.end > max_ids:
            skipped["too long"] += 1
        else:
            sites[site.turn] = site
    chosen = sorted(sites.values(), key=lambda site: site.turn)
    if len(chosen) > cap:
        skipped["over the cap"] += len(chosen) - cap
        chosen = sorted(rng.sample(chosen, cap), key=lambda site: site.turn)
    return [replace(site, weight=site.weight / len(chosen)) for site in chosen], skipped


def _site_of(rollout: Rollout, error: ErrorTurn, insert: Insert, recovery: bool) -> Site | str:
    """Return the site of an error, or the reason why it has none; the reasons are part of the names of metrics."""
    unforeseen = error.injected or error.site == "recovery"
    if unforeseen and not recovery:
        return "not foreseeable"
    turn = error.turn + 1 if unforeseen else error.turn
    if turn >= len(rollout.turns):
        return "no turn to teach"
    if not error.hints:
        return "no hint"
    span, hint = rollout.turns[turn], error.hints[0]
    if span.start == span.end:
        return "empty turn"
    inserted = insert(rollout, turn, hint.text)
    if inserted is None:
        return "no place for a hint"
    return Site(
        turn=turn,
        kind=error.kind,
        at=span.begin - inserted.back,
        start=span.start,
        end=span.end,
        hint=inserted.ids,
        text=hint.text,
        source=hint.source,
    )
