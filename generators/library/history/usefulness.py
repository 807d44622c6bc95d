"""Whether the text of a commit says enough about a behaviour to be the statement of a task."""

from __future__ import annotations

import re

MIN_WORDS = 3
"""Words besides the general ones that a description needs."""

_NOISE = {
    "reverts a change": (r"\breverts?\b", r"\bback(?:ed)? out\b", r"\bundo\b"),
    "is about a version": (
        r"^(?:bump|release|prepare)\b",
        r"\bversion bump\b",
        r"^(?:\w+ )?v?\d+\.\d+(?:\.\d+)?(?:\.?dev\d*|rc\d+)?$",
        r"\b(?:back to dev|development mode|post[- ]release)",
        r"\bstart(?:ing)? (?:version|v?\d)",
    ),
    "is about dependencies": (
        r"\bbump\b",
        r"\b(?:update|upgrade|pin|drop|require)\b.*\b(?:dependenc|requirement|lock|hooks?\b)",
        r"\bdependabot\b",
        r"\bpre-commit\b",
    ),
    "is about formatting": (
        r"^(?:re)?format\b|\breformat",
        r"\bcode (?:style|format\w*)\b|\bpep ?8\b",
        r"\b(?:lint\w*|flake8|ruff|isort|pyupgrade)\b",
        r"^black\b|(?:run|with|apply) black\b",
        r"\btypos?\b|\bspelling\b|\bcopy-?edit",
        r"to f-strings?\b|^white ?space|\btrailing white ?space\b|\bline lengths?\b",
    ),
    "is about types": (
        r"\b(?:mypy|pyright|typing|type[- ](?:hints?|annotations?|check\w*)|typed|untyped|overloads?)\b",
        r"^(?:\w+ )?annotat\w+",
    ),
    "is about documents": (
        r"^(?:docs?|documentation|docstrings?|readme|changelog|document|clarify)\b",
        r"\b(?:docstrings?|changelog|readme)\b",
    ),
    "is about tests": (
        r"^(?:tests?|(?:add(?:ed|s)?|fix(?:ed|es)?|more|update[sd]?) (?:\w+ ){0,2}tests?|coverage)\b",
        r"\b(?:test suite|test coverage|code coverage|parametri[sz]e)\b",
    ),
    "describes a refactoring": (
        r"\b(?:refactor\w*|clean(?:ed|ing|s)?[- ]?up|cleanups?|rewrite|rewrote|reorgani[sz]\w+|restructur\w+)\b",
        r"\b(?:moderni[sz]e\w*|deduplicat\w+|drop support|drop python|python ?2)\b",
        r"^(?:simplif\w+|renam\w+|mov(?:e|ed|es|ing)|extract(?:ed|s)?|inline[sd]?|streamline[sd]?|reuse[sd]?)\b",
        r"^(?:tid(?:y|ied)|split|mark \w+ \w+ private)\b",
        r"^remove[sd]? (?:unused|dead|redundant|unnecessary|unneeded|duplicate\w*)\b",
    ),
    "describes a faster way, not a behaviour": (
        r"\b(?:perf|performance|faster|speed[- ]?ups?|optimi[sz]\w+|efficien\w+)\b",
    ),
    "names only a file": (r"^(?:update|create|delete|edit|add|change)[sd]? [\w/.-]+\.\w+$",),
    "is unfinished work": (r"\b(?:wip|work in progress|temp commit|checkpoint)\b", r"^(?:fixup|squash|amend)\b"),
    "answers a review": (
        r"\b(?:code review|review comments?|reviewers?|nitpicks?|merge conflicts?)\b|^review\b|\bsuggestions from\b",
        r"^(?:address|apply|incorporate)\w* .*\b(?:comments?|suggestions?|feedback|review)\b",
    ),
}
_GENERAL = frozenset(
    """
    a an the and or of in on at to for from by with without as is are was were be been it its this that these those when
    if so not no now also all any some more only just than then there where which while into out up will may must
    s t don does did doesn do should would could can first initial final few new old better minor small various misc
    fix fixes fixed fixing bug bugs issue issues error errors problem problems broken regression missing
    update updates updated change changes changed add adds added adding remove removes removed make makes made
    improve improves improved handle handles handled handling support supports supported allow allows allowed
    use uses used using implement implements implemented correct correctly properly proper work works
    test tests testing code stuff things case cases edge merge branch commit pr pull request ref refs follow
    python py feature features function method class module
    """.split()
)


def problem_of(title: str) -> str:
    """Return why a title describes no behaviour, ``is about types``; empty when nothing shows that."""
    for problem, patterns in _NOISE.items():
        if any(re.search(pattern, title, re.IGNORECASE) for pattern in patterns):
            return problem
    return "" if telling_words(title) else "says nothing"


def useless(title: str, body: str) -> str:
    """Return one line that says why a text cannot be a statement; empty when it says enough."""
    problem = problem_of(title)
    if problem:
        return f"the message {problem}: {title!r}"
    if len(telling_words(f"{title} {body}")) < MIN_WORDS:
        return f"the message says only {title!r}"
    return ""


def telling_words(text: str) -> set[str]:
    """Return the words of a text that are not general, in lower case."""
    return {word for word in re.findall(r"[^\W\d_]{2,}", text.lower()) if word not in _GENERAL}
