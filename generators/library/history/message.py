"""From the message of a commit or a pull request to prose that names no person, number, hash or address."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from .usefulness import problem_of

_TRAILER = re.compile(
    r"^(?:[A-Z][\w-]*-by|Change-Id|Cc|git-svn-id|Signed-off|Co-authored|X-\w[\w-]*)\s*:.*$|"
    r"^(?:Refs?|Closes|Fix(?:es|ed)?|Resolves|Bug|Issues?|PR|Pull[- ]Request|Links?|See|Related|Backport of)\s*:"
    r"\s*(?:#|http|[A-Z]+-\d|\[?\w+/\w+#|[0-9a-f]{7}).*$|^\(cherry picked from .*\)$|^-{3,}$",
    re.MULTILINE | re.IGNORECASE,
)
_REFERENCE = (
    r"(?:(?:[\w.-]+/[\w.-]+)?#\d+|\b(?:gh|bpo|issue|pr|ticket)[- ]?#?\d+|:(?:issue|pr|ghissue|ghpull|gh):`[^`]*`|@@url)"
)
_PURPOSE = (
    r"(?:(?:this\s+)?(?:partially\s+|also\s+)?(?:fix(?:es|ed)?|clos(?:es?|ed)|resolv(?:es?|ed)|refs?|see(?:\s+also)?|"
    r"related to|part of|follow[- ]?up (?:to|of|on)|supersedes|replaces|reverts|continues|from|in|for|issues?|PR|"
    r"addresses|implements|completes|as (?:discussed|reported|suggested|described) in|discussion|per|via|after|since)"
    r"\s*:?\s+)"
)
_REFERENCES = re.compile(
    rf"[(\[]?\s*{_PURPOSE}*{_REFERENCE}(?:\s*(?:,|and|&|/)\s*{_PURPOSE}*{_REFERENCE})*\s*[)\]]?(?:\s+--?\s+)?",
    re.IGNORECASE,
)
_GONE = "\0"
_ACCOUNT = re.compile(r"(?<![\w`.])@([A-Za-z][\w-]*)(?!\w|\(|\.\w)")
_INTRODUCED = re.compile(
    rf"(?:[ \t(\[,;]*(?:\b(?:by|in|from|with|via|see|and|to)\b[ \t]*)*[(\[]?{_GONE})+(?:[ \t]*[)\]]+)?[ \t]*"
)
_HASH = re.compile(r"(?:\b(?:commit|in|since|from|by|of)\s+)*\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b")
_LINK = re.compile(r"(?<!!)\[([^\]\n]+)\]\((?:https?:)?[^)\s]*\)|`([^`<\n]+?)\s*<https?:[^>]*>`_+")
_URL = re.compile(r"<?\bhttps?://[^\s<>)\]]+>?|\bwww\.[^\s<>)\]]+")
_MAIL = re.compile(r"<?[\w.+-]+@[\w-]+\.[\w.-]+>?")
_CREDIT = re.compile(
    r"[^.!?\n]*\b(?:thanks? (?:to|for|you|[:{@\[])|thank you|thx|kudos|credits? (?:to|goes)|"
    r"patch by|patch from|reported by|contributed by|suggested by|found by|authored by|courtesy of|cc\b)"
    r"[^.!?\n]*(?:[.!?](?=\s|$)|$)",
    re.IGNORECASE | re.MULTILINE,
)
_WORK_LOG = re.compile(
    r"(?i)^\W*(?:todo\b|initial tests?\b|add(?:ed|s)? (?:\w+ ){0,2}tests?\b)|\b\d+ (?:tests? )?pass(?:ed|es)?\b"
    r"|\b(?:tox|ruff|mypy|flake8|pylint)\b.*\b(?:clean|job|pass(?:es|ed)?)\b"
)
"""Lines about the author's work: tests that were added, checks that passed."""
_PREFIX = re.compile(
    r"^(?:(?:feat(?:ure)?|fix|bugfix|bug|hotfix|enh(?:ancement)?|perf|refactor|docs?|tests?|tst|chore|build|ci|style|maint|api|"
    r"dep|deprecation|revert)(?:\([^)\n]*\))?!?:\s+|\[[^\]\n]{1,20}\]\s*:?\s*|:[a-z_]+:\s*|[^\w\s`'\"(*<\[{/.$@~+-]+\s+)+",
    re.IGNORECASE,
)
_TEMPLATE = re.compile(
    r"<!--.*?-->|^\s*[-*]\s*\[[ xX]\].*$|^#+\s.*$|^\s*\*\*[\w ]+\*\*:?\s*$", re.MULTILINE | re.DOTALL
)
_MERGE = re.compile(r"^Merge (?:pull request|branch|remote|tag|commit|[\w-]+/[\w-]+).*\n*", re.IGNORECASE)


@dataclass(frozen=True)
class Description:
    """The prose of a message."""

    title: str  # its first line, without a full stop
    body: str  # the other paragraphs; empty when there is only a title

    @property
    def text(self) -> str:
        """Return title and body."""
        return f"{self.title}\n\n{self.body}".strip()


def describe(message: str, people: Collection[str] = (), code: Collection[str] = ()) -> Description:
    """Return what a message says about the change.

    ``people`` are full names that must not remain, ``code`` words of the code base: ``@word`` is a decorator then.
    """
    merge = _MERGE.match(message)
    text = message[merge.end() :] if merge else message
    first, newline, remaining = _TEMPLATE.sub("", text.replace("\r", "")).strip().partition("\n")
    text = _without_numbers(first + newline + _TRAILER.sub("", remaining), people, code)
    title, _, body = text.strip().partition("\n")
    if title and body and not body.startswith("\n") and not title.endswith((".", ":")):  # a title that was wrapped
        remaining, _, body = body.partition("\n\n")
        joined = f"{title.strip()} {' '.join(remaining.split())}"
        title, body = (joined, body) if len(joined) < 140 else (title, f"{remaining}\n\n{body}")
    title = _PREFIX.sub("", title.strip()).strip(" .,;-–:*")
    paragraphs = [_paragraph(part) for part in re.split(r"\n\s*\n", body)]
    return Description(_capitalized(title), "\n\n".join(part for part in paragraphs if part))


def _capitalized(title: str) -> str:
    """Return the title with a capital letter, unless it starts with a name of the code."""
    return title[:1].upper() + title[1:] if re.match(r"[a-z]+(?![\w.(:=\[])", title) else title


def without_lines(description: Description, code: Collection[str]) -> Description:
    """Return the description without paragraphs that quote a line of ``code``, whose spaces are squeezed."""

    def quotes(part: str) -> bool:
        squeezed = re.sub(r"\s+", "", part)
        return any(line in squeezed for line in code)

    body = "\n\n".join(part for part in description.body.split("\n\n") if not quotes(part))
    return Description("" if quotes(description.title) else description.title, body)


def clean(text: str, people: Collection[str] = (), code: Collection[str] = ()) -> str:
    """Return one piece of prose, such as an entry of a changelog, without numbers, addresses and people."""
    return _paragraph(_without_numbers(text, people, code))


def _without_numbers(text: str, people: Collection[str], code: Collection[str]) -> str:
    """Return the text without references and people, and without the words that only introduced them."""
    text = _LINK.sub(lambda match: match[1] or match[2], text)
    text = _URL.sub("@@url", text)
    text = _CREDIT.sub("", text)
    text = _REFERENCES.sub(_GONE, text)
    text = _HASH.sub("", _MAIL.sub(_GONE, text))
    text = _ACCOUNT.sub(lambda match: match[0] if match[1] in code else _GONE, text)
    for name in sorted(people, key=lambda item: (-len(item), item)):
        if name in text:
            text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", _GONE, text)
    return re.sub(r"(?<!\w)\([ \t]*[,;:]*[ \t]*\)|(?<!\w)\[[ \t]*\]", "", _INTRODUCED.sub(_after, text))


def _after(match: re.Match[str]) -> str:
    """Return the replacement of a reference: nothing at the end of a phrase, else a space."""
    following = match.string[match.end() :][:1]
    at_start = match.start() == 0 or match.string[match.start() - 1] == "\n"
    return "" if at_start or following in "\n.,;:!?)]" else " "


def _paragraph(text: str) -> str:
    """Return a paragraph without list entries that are noise; empty when nothing remains."""
    lines = []
    for line in text.split("\n"):
        entry = re.sub(r"^\s*[*+-]\s+", "", line)
        is_entry = entry != line
        if is_entry and problem_of(_PREFIX.sub("", entry).strip()) or _WORK_LOG.search(entry):
            continue
        if not re.search(r"\w", line) and line.strip() not in ("```", "'''"):
            continue
        lines.append((line[: -len(entry)] + _PREFIX.sub("", entry) if is_entry else line).rstrip())
    paragraph = "\n".join(lines).strip("\n")
    return paragraph if re.search(r"\w\w", paragraph) else ""
