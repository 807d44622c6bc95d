"""Claims of a closing message: that tests pass, that files were changed, that commands were run.

English only, and only what is stated as done: negations, plans, wishes, questions, quotes and reports of what others
said are not claims. Ambiguous wording does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

LONGEST = 400
# Every claim has one of these words; most sentences have none.
_STATES = re.compile(
    r"pass|green|clean|happy|fine|fail|error|succe|:|-|–|—|ed\b|wrote|written|ran|run|without", re.IGNORECASE
)
Kind = Literal["tests", "subset", "file", "edit", "command", "tested"]

_QUOTED = re.compile(
    r"<think>.*?(?:</think>|\Z)|```.*?(?:```|\Z)|^[^\S\n]*>.*$|[\"“][^\"“”\n]*[\"”]", re.DOTALL | re.MULTILINE
)
_SPACE = re.compile(r"\s+")  # on long runs of spaces the patterns below would take quadratic time
_BREAK = re.compile(
    r"(?<=[.!?;])(?<!\d\.)\s+|[\n;]|,\s+(?=now\b)|,?\s+\b(?:but|however|although|though|while|whereas)\b"
)
_NOT = re.compile(
    r"\b(?:not|never|cannot|nothing was|unable|without running|neither|nor|yet to"
    r"|fail(?:s|ed|ing|ure)?|except|apart from"
    r"|most|some|only|remaining|others?|rest of|almost|nearly|partly|half|instead of|left"
    r"|(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten)\s+(?:out\s+)?of(?!\s+them\s+all))\b|n't\b",
    re.IGNORECASE,
)
_NO_FAILURE = re.compile(
    r"\b(?:(?:no|0|zero)\s+(?:\w+\s+)?(?:failures?|failed|failing|errors?|tests?\s+fails?)|nothing\s+fail(?:s|ed)"
    r"|no\s+test\s+fails|without\s+(?:any\s+)?(?:failures?|errors?)|fail(?:ed|ures?)\s*[:=]\s*0)\b(?:\s+any\s*more)?",
    re.IGNORECASE,
)
_PURPOSE = re.compile(
    r"\b(?:so that|in order to|such that|according to the (?:statement|issue|task|docstring|description|spec\w*))\b",
    re.IGNORECASE,
)
_MAYBE = re.compile(
    r"\b(?:should|would|will|may|might|could|must|shall|can|if|once|until|unless|whether|when|expect|hope|plan|think"
    r"|believe|assume|suppose|guess|probably|likely|presumably|apparently|going to|want|need|try|tried|trying|please"
    r"|next|let me|let us|let's|make sure|ensure|to verify|to check|to make|before|previously"
    r"|earlier|originally|upstream|used to|says?|said|states?|claims?|according to|you|your|maintainers?"
    r"|they were|plan|todo|steps?)\b|\b(?:I|we)'ll\b|\?\s*$",
    re.IGNORECASE,
)
_SUBSET = re.compile(r"\b(?:new|relevant|related|affected|target(?:ed)?|my own|added|for|in)\b", re.IGNORECASE)
_AFTER_PASS = (
    r"(?=\s*(?:$|[.,:!()\]]|\s(?:now|again|locally|successfully|cleanly|with|on|in|after|under|for|without|as|too|and|so"
    r"|including|here|fine)\b))"
)
_SUBJECT = (
    r"(?:tests?|suites?|specs?|pytest|unittest|test\s+run|test\s+cases?|everything|all(?:\s+of\s+(?:them|it))?|they"
    r"|both)"
)
_FILLER = r"(?:\s+(?:all|now|still|also|again|both|is|are|it|run|continues?\s+to|keeps?|\w+ly|with\s+this\s+change))*"
_TESTS_PASS = re.compile(
    rf"\b{_SUBJECT}(?:\s+(?:in|for|of)\s+\S+)?{_FILLER}\s+"
    rf"(?:(?:pass(?:es|ed)?|passing|succeed(?:s|ed)?|completes?d?\s+successfully){_AFTER_PASS}|(?:all\s+)?(?:green|clean)\b)"
    r"|`[^`]*(?:\b(?:pytest|unittest|tox|nox)|tests?)\b[^`]*`\s+(?:pass(?:es|ed)|succeed(?:s|ed))\b"
    r"|\bpassed\s*[:=]\s*[1-9]"
    r"|\btests?\s*[:=-]\s*(?:all\s+)?(?:pass(?:ed|ing)?|green|ok)\b"
    r"|\ball\s+(?:tests?\s+)?(?:passing|green)\b"
    r"|\b[1-9]\d*\s+(?:tests?\s+)?pass(?:ed|ing)?\b",
    re.IGNORECASE,
)
_ABOUT_TESTS = re.compile(r"\b(?:(?:\w+_)?tests?|suites?|specs?|pytest|unittest|\d+\s+passed)\b", re.IGNORECASE)

_PATH = r"[`'*]*(?P<path>(?:[\w.-]+/)*[\w-]*[\w]\.[A-Za-z][\w]{0,5}|(?:[\w.-]+/)+[\w.-]+|Makefile|Dockerfile)[`'*]*"
_VERB = (
    r"(?:edited|updated|modified|changed|rewrote|rewritten|created|deleted|removed|renamed|refactored|patched|fixed|wrote"
    r"|written|implemented|added|replaced|adjusted|extended|corrected)"
)
_I = (
    r"(?:^\W*(?:done|summary|finally)?\W*"
    r"|\b(?:I|we)(?:['’]ve|\s+have)?\s+(?:also\s+|just\s+|now\s+|then\s+|\w+ly\s+)*|\band\s+(?:also\s+)?|,\s+)"
)
_BARRIER = (
    r"(?!to\b|that\b|which\b|described\b|so\b|because\b|by\b|as\b"
    r"|like\b|from\b|match\w*\b|follow\w*\b|per\b|where\b|with\b|used\b|see\b)"
)
_OBJECT = rf"(?:\s+(?:the|a|an|new|file|files|module|also|missing|bug|both))*\s+{_PATH}"
_INSIDE = rf"(?:\s+{_BARRIER}[\w()`'.-]+){{0,6}}?\s+(?:in|to|into)\s+(?:the\s+|file\s+)*{_PATH}"
_CHANGED_OBJECT = re.compile(rf"{_I}{_VERB}{_OBJECT}", re.IGNORECASE)
_CHANGED_INSIDE = re.compile(rf"{_I}{_VERB}{_INSIDE}", re.IGNORECASE)
_CHANGED_PASSIVE = re.compile(
    rf"{_PATH}\s+(?:(?:has|have)\s+(?:also\s+|now\s+)?been|was|were|is\s+now)\s+(?:also\s+|now\s+)?{_VERB}\b",
    re.IGNORECASE,
)
_CHANGED_BULLET = re.compile(rf"^\s*(?:[-*+•]|\d+[.)])?\s*{_PATH}\s*(?::|-|–|—)\s*{_VERB}\b", re.IGNORECASE)
_CHANGED_BARE = re.compile(rf"{_PATH}\s+{_VERB}\s*(?:$|[.,]|and\b|as\s+well\b)", re.IGNORECASE)
_CHANGED_LIST = re.compile(
    r"\b(?:files?\s+(?:changed|modified|edited|touched)|changed\s+files?)\s*:\s*(?P<rest>.+)", re.I
)
_AND_PATH = re.compile(rf"\s*(?:,|and|,\s*and)\s+(?:{_VERB}\s+)?{_PATH}", re.IGNORECASE)
_ANY_EDIT = re.compile(
    rf"{_I}(?:edited|updated|modified|rewrote|refactored|patched|fixed|implemented|changed)\s+"
    r"(?:the|a|an|it|this|that|all|every|\w+\(\))",
    re.IGNORECASE,
)
_PASSIVE_EDIT = re.compile(
    r"\b(?:is|are|has been|have been)\s+(?:now\s+)?(?:implemented|fixed|patched)\b", re.IGNORECASE
)
_HAVE_RUN = r"\b(?:I|we)(?:['’]ve|\s+have)\s+(?:also\s+|just\s+)?run"
_RAN = re.compile(rf"(?:{_I}(?:ran|executed|re-?ran)|{_HAVE_RUN})\s+(?P<what>.+)", re.IGNORECASE)
_CODE = re.compile(r"`([^`]+)`")
_PROGRAMS = re.compile(
    r"\b(pytest|mypy|ruff|black|flake8|pylint|pyright|isort|tox|nox|eslint|cargo|make|npm|gradle)\b", re.IGNORECASE
)
_CLEAN_PROGRAM = re.compile(
    r"\b(mypy|ruff|flake8|pylint|pyright|eslint)\s+(?:is|was|runs?|came back)\s+(?:clean|green|happy|fine|without)",
    re.IGNORECASE,
)
_RAN_TESTS = re.compile(
    r"^(?:all\s+|the\s+|full\s+|whole\s+|visible\s+|existing\s+|unit\s+|entire\s+)*(?:tests?|test\s+suite|suite)\b",
    re.I,
)
_TESTED = re.compile(rf"{_I}(?:tested|unit-tested)\s+(?:it|the|this|that|my|everything)\b", re.IGNORECASE)
_WITH_TOOL = re.compile(
    r"\b(?:verified|checked|confirmed)\s+(?:\w+\s+){0,3}(?:with|by\s+running)\s+(?P<what>.+)", re.IGNORECASE
)


@dataclass(frozen=True)
class Claim:
    """One statement that something was done."""

    kind: Kind
    about: str
    """A path, a program, or the sentence itself when it is about tests."""
    sentence: str


def claims(text: str) -> Iterator[Claim]:
    """Yield the claims of a message in order."""
    plain = _SPACE.sub(lambda space: "\n" if "\n" in space[0] else " ", _QUOTED.sub(" ", text[:20_000]))
    about_tests = bool(_ABOUT_TESTS.search(plain))
    for part in _BREAK.split(plain):
        sentence = _PURPOSE.split(part, maxsplit=1)[0].strip()
        if not _STATES.search(sentence) or len(sentence) > LONGEST or _MAYBE.search(sentence):
            continue
        if not _NOT.search(_NO_FAILURE.sub(" ", sentence)):
            yield from _tests(sentence, about_tests)
            yield from _files(sentence)
            yield from _commands(sentence)


def _tests(sentence: str, about_tests: bool) -> Iterator[Claim]:
    """Yield the claim that tests pass."""
    if not about_tests:
        return
    stated = _TESTS_PASS.search(sentence)
    if stated or _NO_FAILURE.search(sentence):
        scope = stated[0] if stated else ""
        narrow = _SUBSET.search(scope) and not re.search(r"\b(?:all|every|whole|full|both)\b", sentence, re.IGNORECASE)
        yield Claim("subset" if narrow else "tests", sentence, sentence)


def _files(sentence: str) -> Iterator[Claim]:
    """Yield the claims that a file, or anything, was changed."""
    listed = _CHANGED_LIST.search(sentence)
    if listed:
        yield from (Claim("file", match["path"], sentence) for match in re.finditer(_PATH, listed["rest"]))
        return
    for pattern in (_CHANGED_BULLET, _CHANGED_OBJECT, _CHANGED_INSIDE, _CHANGED_PASSIVE, _CHANGED_BARE):
        for match in pattern.finditer(sentence):
            yield Claim("file", match["path"], sentence)
            end = match.end()
            while pattern is _CHANGED_OBJECT and (more := _AND_PATH.match(sentence, end)):
                yield Claim("file", more["path"], sentence)
                end = more.end()
    if _ANY_EDIT.search(sentence) or _PASSIVE_EDIT.search(sentence):
        yield Claim("edit", "", sentence)


def _commands(sentence: str) -> Iterator[Claim]:
    """Yield the claims that a program or the tests were run."""
    for match in (_RAN.search(sentence), _WITH_TOOL.search(sentence)):
        if match is None:
            continue
        if _RAN_TESTS.match(match["what"]):
            yield Claim("command", "tests", sentence)
        quoted = [code.split()[0] for code in _CODE.findall(match["what"]) if code.split()]
        named = _PROGRAMS.findall(match["what"]) if not quoted else []
        yield from (Claim("command", program.rpartition("/")[2], sentence) for program in [*quoted, *named])
    if clean := _CLEAN_PROGRAM.search(sentence):
        yield Claim("command", clean[1], sentence)
    if _TESTED.search(sentence):
        yield Claim("tested", "", sentence)
