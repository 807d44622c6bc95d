"""Policies that draw the hint to try at an error turn, with the probability of every candidate known exactly."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

from ...models import ErrorTurn, Hint

Context = Mapping[str, str]
"""What a policy may depend on; see ``context_of``."""
Policy = Callable[[Context, Sequence[str]], Mapping[str, float]]
"""Takes a context and the candidates (arms) and returns their probabilities; a candidate left out has probability 0."""
MOST_ATTEMPTS = 4


def first(context: Context, arms: Sequence[str]) -> dict[str, float]:
    """Return probability 1 for the first candidate."""
    return {arms[0]: 1.0}


def uniform(context: Context, arms: Sequence[str]) -> dict[str, float]:
    """Return the same probability for every candidate."""
    return dict.fromkeys(arms, 1.0 / len(arms))


def always(arm: str) -> Policy:
    """Return the policy that takes one candidate wherever it exists, else the first one."""
    return lambda context, arms: {arm if arm in arms else arms[0]: 1.0}


def policy_name(policy: Policy) -> str:
    """Return the name under which a log records the policy."""
    return str(getattr(policy, "name", "") or getattr(policy, "__qualname__", type(policy).__name__))


def context_of(error: ErrorTurn, errors: Sequence[ErrorTurn]) -> dict[str, str]:
    """Return the context of an error; of all ``errors`` of the episode, only earlier ones count."""
    same = [other for other in errors if other.kind == error.kind and other.tool == error.tool]
    earlier = [other for other in same if (other.turn, other.call_index or 0) < (error.turn, error.call_index or 0)]
    return {
        "kind": error.kind,
        "tool": error.tool,
        "attempt": str(min(len(earlier) + 1, MOST_ATTEMPTS)),
        "site": error.site,
        "injected": "yes" if error.injected else "no",
    }


def arm_of(hint: Hint) -> str:
    """Return the candidate that a hint belongs to: its template, its writer, or a digest of its text."""
    if hint.template:
        return hint.template
    if hint.source in ("llm", "introspect"):
        return hint.source
    return f"text:{hashlib.sha256(hint.text.encode()).hexdigest()[:8]}"


def by_arm(hints: Sequence[Hint]) -> dict[str, Hint]:
    """Return the candidates: the first hint of each arm."""
    candidates: dict[str, Hint] = {}
    for hint in hints:
        candidates.setdefault(arm_of(hint), hint)
    return candidates


def draw(probabilities: Mapping[str, float], number: float) -> str:
    """Return the arm on which a number from [0, 1) falls."""
    for arm, probability in probabilities.items():
        number -= probability
        if number < 0:
            return arm
    return arm
