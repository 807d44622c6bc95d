"""What harnesses put around a result: colours, line ends, tags, fences, headers before it and footers after it."""

from __future__ import annotations

import json
import re

from ..transcript.parsing import clean
from .labels import untitled

_I = re.IGNORECASE
_ANSI = re.compile(r"\x1b(?:\[[0-9;:?<=>]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78cDEHM])")
_TAGS = (
    r"system|tool[_-]?(?:result|output|response)|function[_-]?(?:results?|response)|results?|output|response"
    r"|observation|stdout|stderr|message|text|content|return"
)
_TAGGED = re.compile(rf"\s*<(?P<tag>{_TAGS})(?: [^<>\n]{{0,80}})?>\n?(?P<said>.*?)\n?</(?P=tag)>\s*", re.DOTALL | _I)
_FENCED = re.compile(r"\s*```[\w-]*\n(?P<said>.*?)\n?```\s*", re.DOTALL)
_STATE = (
    r"(?:open|current)[ _]file|(?:current|working|current[ _]working)[ _](?:directory|dir)|cwd|pwd"
    r"|(?:jupyter|python|conda)[\w ]{0,40}|interpreter|(?:prompt |completion |total |input |output )?tokens?(?:"
    r" [\w ]{1,20})?"
    r"|context(?: [\w ]{1,20})?|(?:wall |elapsed )?time|elapsed|duration|took|latency|session(?: id)?|shell id|pid"
    r"|process group pgid|background pids"
    r"|(?:turns?|steps?|calls?|budget)(?: (?:left|remaining|used))|cost|window|git branch|branch|user|host(?:name)?"
    r"|env"
)
_ADVICE = (
    r"please (?:fix|correct|retry|try again|check)\b[^\n]{0,160}|fix the errors? and try again\W*"
    r"|error occurred in processing last action"
    r"|now let's retry\b[^\n]{0,300}"
)
_FOOTER = re.compile(
    rf"\s*(?:\[(?!stop|kill|err|exit|stat|time|trunc|warn|note|code|return|result|std|out|cut|abort|cancel|fail"
    rf"|process|command)"
    rf"[a-z][\w ]{{0,25}}: [^\n\]]{{0,100}}\]|[\[(<{{]\s*(?:{_STATE})\s*[:=]\s*[^\n]{{0,200}}[\])>}}]"
    rf"|[\[(<]\s*(?:{_ADVICE})[\])>]"
    rf"|(?:{_STATE})\s*[:=]\s*\S[^\n]{{0,120}}|{_ADVICE}"
    r"|[\[(][\d.]+ ?m?s[\])]|[\[(]?(?:(?:command |tool |execution )?(?:took|finished in|completed in|ran (?:for|in)"
    r"|done in|duration"
    r"|elapsed|execution time|time)):? [\d.]+ ?(?:ms|s|sec\w*|min\w*)[\])]?\.?"
    r"|(?:\([\w.-]+\) )?(?:(?:ba|z|k|da)?sh(?:-[\d.]*)?|[\w.-]+@[\w.-]+:?[^\n$#]{0,80})?[$#]|PS"
    r" [A-Z]:[^\n>]{0,120}>|[A-Z]:\\[^\n>]{0,120}>"
    r"|error: \(none\)|(?:stdout|stderr|output)\s*:\s*(?:\((?:none|empty)\))?|\(none\)|-{3,}|={3,})\s*",
    _I,
)
_HEADER = re.compile(
    r"\s*(?:file(?:name|_path| path)?|path|command|cmd|tool|url|uri|(?:working |current )?directory|cwd|query|input"
    r"|arguments|language)\s*[:=] ?[^\n]{0,300}"
    r"|\s*(?:new )?(?:terminal|screen|shell|console) (?:output|screen|state)\s*:?\s*",
    _I,
)
_ANNOUNCES = re.compile(
    r"[^\n]{0,160}?\b(?:error|failed|failure|exception|traceback|crashed|failing|raised|execution)\b[^\n]{0,120}:\s*",
    _I,
)
_REMINDER = re.compile(
    r"<(?P<tag>(?:system|environment|user)[-_](?:reminder|note|details|message|info)"
    r"|reminder)>(?:(?!</?(?P=tag)>).)*</(?P=tag)>\s*\Z",
    re.DOTALL | _I,
)
_ALONE = re.compile(rf"\s*<(?P<tag>{_TAGS})>\n?(?P<said>(?:(?!</(?P=tag)>).)*?)\n?</(?P=tag)>\s*", re.DOTALL | _I)
_FENCED_ALONE = re.compile(r"\s*```[\w-]*\n(?P<said>(?:(?!```).)*?)\n?```\s*", re.DOTALL)
_MCP = re.compile(r'"content"\s*:\s*\[|"isError"\s*:')
_MCP_KEYS = frozenset(("content", "isError", "_meta", "structuredContent"))
_BARE_TRACE = re.compile(r"(?:(?!error|fail|exception|raised|crash)[^\n])*Traceback \(most", _I)
_LINES = 8


def plain(text: str) -> str:
    """A text without colours, and with the line ends of Unix."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return text.replace("\r\n", "\n").removesuffix("\r") if "\r" in text else text


def unquoted(text: str) -> str:
    """The text in a JSON string, or in the parts of a message, that a result was written as."""
    start, end = text[:1], text.rstrip()[-1:]
    if not (
        (start == end == '"' and len(text) > 2) or (text.startswith('[{"') and '"text"' in text[:200] and end == "]")
    ):
        return text
    try:
        found = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return text
    if isinstance(found, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in found):
        return clean("\n".join(str(part.get("text", "")) for part in found))
    return clean(found) if isinstance(found, str) else text


def flagged_parts(text: str) -> tuple[str, bool | None]:
    """The text of a result as MCP writes one (``content`` of parts, ``isError``), and its flag; else ``unquoted``."""
    if text[:1] != "{" or not _MCP.search(text[:400] + text[-100:]):
        return unquoted(text), None
    try:
        found = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return text, None
    parts, failed = found.get("content"), found.get("isError")
    if set(found) - _MCP_KEYS or not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        return text, None
    return "\n".join(clean(str(part.get("text", ""))) for part in parts), failed if isinstance(failed, bool) else None


def inner(text: str) -> str:
    """A text without the tag or the fence that is around all of it."""
    for pattern, mark in ((_TAGGED, "<"), (_FENCED, "`")):
        found = pattern.fullmatch(text) if text.lstrip()[:1] == mark else None
        if found is not None:
            return found["said"]
    return text


def bare(text: str) -> str:
    """A text without tag and fence, without the lines that name the call, and without what tells the shell's state.

    One that consists of such lines alone stays as it is.
    """
    text = inner(text)
    head, tail = text[:4000].split("\n"), text[-4000:].rstrip().split("\n")
    first, last = 0, 0
    while first < min(_LINES, len(head) - 1) and (
        not head[first].strip() or len(head[first]) < 400 and _HEADER.fullmatch(head[first])
    ):
        first += 1
    while last < min(_LINES, len(tail)) and (
        not tail[-1 - last].strip() or len(tail[-1 - last]) < 400 and _FOOTER.fullmatch(tail[-1 - last])
    ):
        last += 1
    if not first and not last:
        return text
    start = sum(len(line) + 1 for line in head[:first])
    end = len(text.rstrip()) - sum(len(line) + 1 for line in tail[len(tail) - last :])
    kept = text[start : max(end, 0)]
    return inner(kept) if kept.strip() else text


def announced(text: str) -> str:
    """What follows a first line that only announces it (``Execution error in f:``), without its fence; '' else."""
    first, _, rest = text.lstrip().partition("\n")
    if not rest.strip() or len(first) > 300 or _BARE_TRACE.match(first) or not _ANNOUNCES.fullmatch(first):
        return ""
    rest = inner(rest)
    return rest if "raceback" not in first or "raceback" in rest else f"Traceback (most recent call last):\n{rest}"


def plainly(text: str) -> str:
    """A text without the harness's reminders behind it, the one tag or fence around it, and the title before it."""
    if "</" in text[-40:]:
        text = _REMINDER.sub("", text)
    found = _ALONE.fullmatch(text) if text.lstrip()[:1] == "<" else None
    found = _FENCED_ALONE.fullmatch(text) if text.lstrip()[:3] == "```" else found
    text = found["said"] if found is not None else text
    return untitled(text)
