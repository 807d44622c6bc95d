"""Exit code 1 as an answer: nothing matches, the files differ, the path is not there.

Such programs report a failure with a greater code, so what they print matters only where another part may have failed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .shell_commands import SimpleCommand, looks, parse

_CONDITIONS = frozenset("test [ [[ which".split())
_ANSWERS = _CONDITIONS | frozenset(
    "grep egrep fgrep zgrep rg ag diff cmp zdiff zcmp colordiff pgrep pidof lsof fuser expr".split()
)
_GIT_ANSWERS = frozenset("grep check-ignore show-ref diff-index diff-files".split())
_GIT_ASKS = frozenset("--quiet -q --exit-code --no-index --check --is-ancestor --get --verify".split())
_GIT_ASKED = frozenset("diff merge-base config rev-parse".split())
_CLOSES = frozenset("done fi esac }".split())
"""Words of the shell whose exit code is that of the part before them."""
_STOPS_AT_FAILURE = re.compile(r"-\w*e\w*")
_SUBSTITUTED = re.compile(r"[<>$]\([^()]*\)")
_COMPLAINS = r"^(?:\S*sh: (?:line \d+: |\d+: )?)?(?:\S*/)?(?:{}): "


def is_answer(command: str, body: str) -> bool:
    """Return whether exit code 1 of this command line is its answer and not a failure.

    The last program of a pipeline gives its exit code, and in ``a && b`` the first one that does not succeed.
    """
    parts = [part for part in parse(_SUBSTITUTED.sub("x", command)) if part.program not in _CLOSES]
    chain = _deciding(parts)
    asking = [number for number, part in enumerate(chain) if answers(part)]
    if not asking or _complains(parts, body):
        return False
    others = [*chain[: asking[0]], *chain[asking[-1] + 1 :]]
    return not body.strip() or all(map(looks, others))


def is_denied_condition(command: str) -> bool:
    """Return whether the command only asks whether something is there, so that exit code 1 says that it is not."""
    chain = _deciding(parse(_SUBSTITUTED.sub("x", command)))
    return bool(chain) and any(part.program in _CONDITIONS or part.words[:2] == ("command", "-v") for part in chain)


def answers(part: SimpleCommand) -> bool:
    """Return whether exit code 1 is an answer of this program."""
    words = part.words
    if part.program == "git":
        name = next((word for word in words[1:] if not word.startswith("-")), "")
        return name in _GIT_ANSWERS or (name in _GIT_ASKED and not _GIT_ASKS.isdisjoint(words))
    is_lookup = part.program == "command" and words[1:2] in (("-v",), ("-V",))
    return part.program in _ANSWERS or is_lookup or words[-1] in ("]]", "]")


def _deciding(parts: Sequence[SimpleCommand]) -> list[SimpleCommand]:
    """Return the parts whose exit code may be that of the command line, in order."""
    stops = any(part.program == "set" and any(map(_STOPS_AT_FAILURE.fullmatch, part.words[1:2])) for part in parts)
    chain: list[SimpleCommand] = []
    for number, part in enumerate(parts):
        if part.after != "&&" and part.after != "|" and not (stops and part.after == ";"):
            chain = []
        is_piped = number + 1 < len(parts) and parts[number + 1].after in ("|", "|&")
        if not is_piped:
            chain.append(part)
    return chain


def _complains(parts: Sequence[SimpleCommand], body: str) -> bool:
    """Return whether a line of the output is a message of one of the programs, or of the shell about it."""
    programs = {part.program for part in parts}
    names = {re.escape(program) for program in programs} | ({"fatal", "error"} if "git" in programs else set())
    return re.search(_COMPLAINS.format("|".join(sorted(names))), body, re.MULTILINE) is not None
