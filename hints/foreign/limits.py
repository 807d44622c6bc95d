"""What a harness says when it cut a result, or stopped a command that ran too long."""

from __future__ import annotations

import re

from .labels import unlabelled

_I = re.IGNORECASE


def _any(*alternatives: str) -> str:
    return "(?:" + "|".join(alternatives) + ")"


_WHAT = (
    r"(?:bytes?|char(?:acter)?s?|lines?|tokens?|output|response|observation|result|content|text|rows?|entries|data"
    r"|stdout|stderr|file(?: content)?s?|(?:k|m)i?b)"
)
_CUT_WORDS = (
    r"(?:dropped|truncated|clipped|omitted|elided|not shown|cut(?: off)?|abbreviated|hidden|trimmed|snipped"
    r"|removed|skipped)"
)
_CUT = re.compile(
    r"^[^\w\n]{0,20}(?:"
    rf"(?:(?:the |your |this |last |tool |command "
    rf"|file )?(?:[\d.,]+ ?)?(?:\w+ ){{0,2}}?)?{_WHAT}\b[^\n]{{0,70}}\b{_CUT_WORDS}\b[^\n]{{0,160}}"
    rf"|(?:truncated|clipped|omitted|elided|dropped|skipped|trimmed|snip)\b[^\n]{{0,120}}"
    rf"|[^\n]{{0,60}}?<response clipped>[^\n]*"
    rf"|(?:the )?{_WHAT}\b[^\n]{{0,60}}\b(?:too (?:long|large)|exceed(?:s|ed))\b[^\n]{{0,160}}"
    r"|(?:showing|displaying)\b[^\n]{0,60}\b(?:of|out of)\b [\d,]+[^\n]{0,100})$",
    re.MULTILINE | _I,
)
_STEMS = (
    "more "
    "drop truncat clip omit elid cut abbreviat hidden trimmed snip removed skipped exceed showing displaying".split()
    + ["not shown", "too lo", "too la"]
)
"""One of these is in every such line; most results hold none, and need no search."""
_MARKED = re.compile(r"[^\w\n]*(?:[\[(<{]|\.{3}|…|-{3}|={3}|\*{3})|(?:note|warning|important|system)\b", _I)
_INLINE = re.compile(
    rf"(?:\.{{3}}|…|\[|<)[^\w\n]{{0,4}}[^\n\[\]]{{0,30}}\b{_WHAT}?\b[^\n\[\]]{{0,30}}\b{_CUT_WORDS}\b[^\n\[\]]{{0,80}}"
    rf"(?:\.{{3}}|…|\]|>)",
    _I,
)
_ANNOUNCED = re.compile(
    r"[^\w\n]{0,20}(?:(?:warning|note|important|notice|system|info)\W{1,4})?(?P<own>(?:the |your |command |tool )?"
    r"[\w'` ]{0,60}?)"
    r"\b(?:output|result|response|(?:file )?contents?|observation|file|stdout)\b[^\n]{0,80}?"
    r"\b(?:too (?:long|large|big)|exceed(?:s|ed)|truncated|clipped|trimmed|shortened|abbreviated"
    r"|elided)\b[^\n]{0,200}",
    _I,
)
"""A line before the result which says that only a part of it follows."""
_SPOKEN = re.compile(
    r"\W*(?:warning|note|important|notice|system)\b|\byour\b|command output|tool output"
    r"|(?:first|last) [\d,.]+ ?\w+|[\d,.]{2,} (?:characters|bytes|chars|lines|tokens)",
    _I,
)
_PART_SHOWN = re.compile(r"\s*<(?:elided|truncated|omitted|dropped|skipped)_\w+>[^\n]*|\s*<output_head>\s*", _I)
_MARK = re.compile(
    rf"^\s*(?:[.~=*#-]{{2,}}|…)\s*[\[(<]?\s*[\d,]+ (?:more )?(?:\w+ )?{_WHAT} (?:were |was )?{_CUT_WORDS}\s*[\])>]?\s*"
    rf"(?:[.~=*#-]{{2,}}|…)\s*$"
    rf"|^\s*[\[(<]?\s*(?:\.{{2,}}|…)\s*{_CUT_WORDS}:? (?:the )?(?:\w+ )?[\d,]+ (?:of [\d,]+ )?(?:\w+ )?{_WHAT}"
    rf"[^\n]{{0,40}}?(?:\.{{2,}}|…)?\s*[\])>]?\s*$"
    rf"|^\s*(?:\.{{3,}}|…)\s*(?:and )?[\[(]?\+?[\d,]+ more (?:lines|bytes|characters"
    rf"|chars)[\])]?\s*$",
    _I,
)
_AT_END = re.compile(
    rf"(?:\.{{3}}|…) ?[\[(<_*]{{0,2}} ?(?:{_WHAT} )?{_CUT_WORDS}\b[^\n]{{0,80}}\Z"
    r"|[\[(<][^\n\[\]()<>]{0,40}\b(?:truncated|clipped|cut off|elided|abbreviated)\b[^\n]{0,120}[\])>]\s*\Z"
    rf"|<(?P<tag>error|warning|note|system|notice)>[^\n<]{{0,40}}\b(?:truncated"
    rf"|clipped)\b[^\n<]{{0,200}}</(?P=tag)>\s*\Z",
    _I,
)
"""The last words of a result that was cut there."""
_LONG = 2000
_ENDS, _NEAR = 700, 4000
_SUBJECT = (
    r"(?:the |your |this )?(?:(?:bash|shell|tool|last|previous|python|code|cell|script|api|http|sandbox|command"
    r"|page|your) )*(?:command|process"
    r"|execution|tool|call|code|cell|script|program|operation|run|tests?|suite|bash|terminal|kernel|session|job"
    r"|request"
    r"|task|function|query|load|it)"
)
_TIMED_OUT = re.compile(
    r"[^\w'\"]{0,6}(?:(?:\w+\.)*Timeout(?:Expired|Error|Exception): )?(?:(?:tool |execution )?error\W{1,3}"
    r"|system\W{1,3}|(?:interrupted|stopped|aborted): |(?:tool |command )?fail(?:ed|ure)\W{1,3})?"
    rf"(?:{_SUBJECT}\b[^\n]{{0,200}}?\s?)?\W{{0,3}}(?:(?:has |had |was |is |been |were |automatically )*"
    + _any(
        r"timed[ -]?out",
        r"(?:gave|given|giving) up after \d",
        r"time-?out:? (?:the |your )?(?:command|process|execution|code|cell|call|request|tool)\b",
        r"time-?out(?: error)?\W*\Z|time-?out:? (?:after|of|while|waiting|error|\(?\d|code|exceeded|reached|expired)",
        r"(?:exceed(?:ed|ing|s)|hit|reached|over|past) (?:the |its |a )?(?:[\w-]+ ){0,3}?(?:time ?-?(?:limit"
        r"|out)|time|deadline)\b",
        r"exceeded (?:the )?\d[\d.,]* ?(?:s|ms|sec\w*|min\w*)\b",
        r"time (?:limit|budget) (?:of [^\n]{0,20} )?(?:was |has been )?(?:exceeded|reached|hit|expired)",
        r"(?:killed|terminated|cancell?ed|aborted|stopped|interrupted|ended)\b[^\n]{0,60}\b(?:time ?-?out|time limit"
        r"|after \d[\d.,]* ?(?:s|ms|sec|m)\w*|took|second limit|deadline|no (?:new )?output|limit of \d[\d.]*"
        r" ?(?:s|ms|sec|min)|wall[- ]clock)\b",
        r"took (?:too long|(?:longer|more) than)|(?:ran|running) (?:for )?(?:too long|longer than|out of time"
        r"|more than)",
        r"(?:did not|didn't|failed to|does not) (?:finish|complete|return|respond|exit|terminate)[^\n]{0,30}"
        r"(?:within|in time|after|in \d)",
        r"(?:is )?still running (?:after|\(?\d)|deadline exceeded|wall[- ]clock limit",
        r"(?:has |with |produced )?no (?:new )?(?:output|response|change)s? (?:for|after|within|in) (?:the last )?\d",
    )
    + ")[^\n]*",
    _I,
)
_SPENT = re.compile(
    r"\W{0,4}(?:(?:tool |system |budget )?(?:error|warning|system|notice|denied|blocked)\W{1,3})?"
    + _any(
        r"(?:the |your |this |tool |function |daily |total )*(?:max(?:imum)?|limit|tool|function|call|token|step"
        r"|turn|usage|cost"
        r"|search|spending|iteration|budget|credit|['`\"][^\n'`\"]{1,60}['`\"])\w*\b[^\n]{0,60}?\b(?:calls?|uses?"
        r"|usage|tokens?|steps?|turns?|limit"
        r"|budget|credits?|iterations?|searches|money|allowance|quota)\b[^\n]{0,40}?\b(?:exceeded|reached|hit"
        r"|exhausted|used up|spent"
        r"|depleted|over|gone)\b",
        r"(?:the |this )?(?:tool|function|agent|session|task|run|episode)?\b[^\n]{0,60}?\b(?:has|have|was|is)"
        r" (?:been )?(?:already )?(?:reached|exceeded|hit"
        r"|used up|over|exhausted) (?:the|its|your|their|all) [^\n]{0,30}\b(?:limit|budget|quota|calls|uses"
        r"|allowance)\b",
        r"you(?:'ve| have)? (?:already )?(?:used|made|reached|exceeded|exhausted|hit|spent|run"
        r" out)\b[^\n]{0,60}\b(?:calls?|uses|usage"
        r"|tokens|steps|turns|limit|budget|credits?|searches|quota|allowance)\b",
        r"(?:no|zero|0) (?:more )?(?:\w+ ){0,2}(?:calls|uses|steps|turns|credits|searches|tokens|budget) (?:left"
        r"|remain\w*|allowed|available)\b",
        r"(?:out of|not enough|insufficient) (?:tool calls|credits|budget|tokens|steps)\b",
        r"(?:budget|credits?|tokens?|allowance|quota|call count)(?: for [^\n]{1,60}?)? (?:is |are |has been "
        r"|have been )?(?:exhausted"
        r"|exceeded|used up|spent|depleted)\b",
        r"too many (?:tool |function )?calls\b",
    ),
    _I,
)
_TIMED = re.compile(r"\d|time", _I)


def cut(body: str, *, shows: bool = False, pages: bool = False) -> bool:
    """Whether the harness says that it cut a result: on a line of its own, first, last or in the middle of a long text.

    ``pages``: the call asked for a part, so that being shown a part is no cut. ``shows``: the text is a
    file's or a log's, so in a short one such a line may be its own, unless it is the last one and gives numbers.
    """
    size = len(body)
    if pages and not re.search(_CUT_WORDS, body[-_ENDS:] + body[:_ENDS], _I):
        return False
    lowered = body.lower()
    if not any(stem in lowered for stem in _STEMS):
        return False
    if _announced(body, shows=shows) or (not pages and _AT_END.search(body[-300:])):
        return True
    if size >= _LONG:
        head, tail = body[:_ENDS], body[-_ENDS:]
        if any(mark.start() < 200 or _first_words(head[: mark.start()]) for mark in _CUT.finditer(head)):
            return True
        if any(len(tail) - mark.end() <= 3 or _only_marks(tail[mark.end() :]) for mark in _CUT.finditer(tail)):
            return True
        middle = body[size // 4 : size - size // 4]
        return _CUT.search(middle) is not None or (
            not shows and _INLINE.search(body, size // 2 - _NEAR, size // 2 + _NEAR) is not None
        )
    lines = [line for line in body.strip().split("\n") if line.strip()]
    if len(lines) < 2:
        return False
    if len(lines) < 60 and any(map(_MARK.match, lines)):
        return True
    for line in (lines[-1], *(lines[:-1] if len(lines) < 60 and not shows else ())):
        if len(line) < 300 and (found := _CUT.match(line)) is not None:
            own = _MARKED.match(line) is not None or line is not lines[-1]
            if (any(map(str.isdigit, found[0])) if shows else own) and _MARKED.match(line):
                return True
    return False


def _announced(body: str, *, shows: bool) -> bool:
    """Whether the first lines say that only a part follows."""
    lines = [line for line in body[:1500].split("\n") if line.strip()][:4]
    if len(lines) < 2:
        return False
    if any(map(_PART_SHOWN.fullmatch, lines)):
        return True
    return any(
        _ANNOUNCED.fullmatch(line) is not None and (not shows or _SPOKEN.search(line) is not None) for line in lines[:2]
    )


def _first_words(before: str) -> bool:
    return not before.strip()


def _only_marks(after: str) -> bool:
    return all(re.match(r"\s*(?:[<\[(].*|[-=*]+)?\Z", line) for line in after.split("\n"))


def spent(line: str) -> bool:
    """Whether a line is a harness's, that a limit on calls, tokens, steps or money is reached."""
    return _SPENT.match(line.strip()[:300]) is not None and not timed_out(line)


def timed_out(line: str) -> bool:
    """Whether a line is a harness's, that the command or the call took too long."""
    line = line.strip()[:600]
    return _TIMED_OUT.fullmatch(line) is not None or _TIMED_OUT.fullmatch(unlabelled(line).strip()) is not None
