"""Comparison of tool names by what the tools do: ``grep_files`` is near ``search``, but not ``edit_files``."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

_SYNONYMS = (
    "search grep find rg lookup query glob",
    "read view open cat show display get load fetch retrieve look",
    "write create save put make",
    "edit replace patch modify update change",
    "bash shell run execute exec terminal command console sh cmd",
    "list ls dir tree",
    "test tests pytest check",
    "submit finish done complete end stop answer",
    "delete remove drop rm",
    "send post message mail",
)
"""Words with which tool names say what a tool does; words of one line mean the same."""
_ACTIONS = {word: number for number, line in enumerate(_SYNONYMS) for word in line.split()}
_GENERIC = frozenset(
    "file files code str string text tool tools content contents data path name the of in to do new".split()
)
"""Words that do not say what a tool acts on."""
_SPELLED = 0.75
"""The least similarity (``difflib`` ratio) of a mistyped word; ``delete`` and ``date`` have 0.6."""


def nearest_name(name: str, tools: Sequence[str]) -> str:
    """Return the only tool that does the same to the same thing; '' when there is none or several.

    Names are compared word by word: words match when one is the other mistyped or when both name the same action
    (``grep`` and ``search``). All words for things must match, and so must the action, unless every word matches.
    """
    scored = sorted(((_likeness(name, other), other) for other in tools), reverse=True)
    if not scored or scored[0][0] == 0 or (len(scored) > 1 and scored[0][0] == scored[1][0]):
        return ""
    return scored[0][1]


def by_likeness(name: str, tools: Iterable[str]) -> list[str]:
    """Return the tools, those that share the most words with ``name`` first, otherwise in their order."""
    words = _words(name)
    return sorted(tools, key=lambda other: -_shared(words, _words(other)))


def same_action(name: str, other: str) -> bool:
    """Return whether two tool names may stand for the same action: not when each names another one."""
    actions, others = ({_ACTIONS[word] for word in _words(text) if word in _ACTIONS} for text in (name, other))
    return not actions or not others or not actions.isdisjoint(others)


def _likeness(name: str, other: str) -> float:
    """Return how alike two tool names are, from 0 (they do different things) to 1 (the same words in any order)."""
    words, others = _words(name), _words(other)
    matched = [other_word for other_word in others if _match(other_word, words)]
    unmatched = [word for word in words if not _match(word, others)]
    unmatched += [other_word for other_word in others if other_word not in matched]
    is_same_thing = all(word in _ACTIONS or word in _GENERIC for word in unmatched)
    is_same_action = any(word in _ACTIONS for word in matched) or not unmatched
    if not matched or not is_same_thing or not is_same_action or any(word in _ACTIONS for word in unmatched):
        return 0.0
    return _shared(words, others) + difflib.SequenceMatcher(None, name, other).ratio() / 1000


def _shared(words: Sequence[str], others: Sequence[str]) -> float:
    """Return the share of words that match, counted in both names (Dice's coefficient); a typo counts less."""
    matched = sum(_match(word, others) for word in words) + sum(_match(word, words) for word in others)
    return matched / max(1, len(words) + len(others))


def _match(word: str, others: Sequence[str]) -> float:
    """Return how well the best of the others matches: 1 for the same word or action, less when mistyped, 0 if none."""
    action = _ACTIONS.get(word)
    if word in others or (action is not None and any(_ACTIONS.get(other) == action for other in others)):
        return 1.0
    near = difflib.get_close_matches(word, others, n=1, cutoff=_SPELLED)
    return difflib.SequenceMatcher(None, word, near[0]).ratio() if near else 0.0


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z]{2,}", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())
