"""What kind of error a failure is that somebody told in words."""

from __future__ import annotations

import re

from ..transcript.tool_roles import role
from .labels import unlabelled

_QUOTED = re.compile(r"`[^`\n]*`|(?<!\w)'[^'\n]*'|(?<!\w)\"[^\"\n]*\"")
_LONG_QUOTE = {"`": 32, "'": 82, '"': 82}
_SEARCHED = 600

_FORMAT = re.compile(
    r"invalid format: missing|could not parse (?:output|llm|action)|malformed_call|(?:tool"
    r"|function) calls?\b.{0,30}\bjson"
    r"|(?:could not|cannot|failed to|unable to) parse (?:the )?(?:tool|function) call",
    re.IGNORECASE,
)
_MALFORMED = (
    r"(?:could not|cannot|can't|failed to|unable to|error|when) pars(?:e|ing)\b.{0,30}\b(?:tool|function|action"
    r"|call)\b"
    r"|\barguments?\b.{0,60}\bjson\b|\bjson\b.{0,60}\barguments?\b|arguments as json|malformed (?:tool|function|call)"
    r"|(?:tool|function) calls?\b.{0,30}\b(?:not valid json|malformed|(?:could not|cannot) be parsed)"
    r"|invalid format: missing|could not parse (?:output|llm|action)|malformed_call"
)
_JSON = (
    r"invalid json|not (?:a )?valid json|json ?(?:decode|parse|parsing|syntax)? ?(?:error|failed)|malformed json"
    r"|unexpected (?:token|end of json)|unterminated string|expecting (?:value|property name)|malformed"
    r"|(?:could not|cannot|can't|failed to|unable to) parse\b"
)
_KINDS: tuple[tuple[str, str], ...] = (
    (
        "tool_not_found",
        r"\b(?:unknown|no such|unrecogni[sz]ed|invalid|non-?existent|unavailable|unsupported|unregistered|undefined)"
        r"[ _](?:tool|function)\b(?! (?:args|arguments|parameters|input|call arg))|\bunsupported call\b"
        r"|\bno (?:tool|function)s? (?:named|called|with (?:the )?name|matching|registered)\b"
        r"|\bdo(?:n't| not) have (?:a|any) (?:tool|function)\b|there is no (?:tool|function)\b|not (?:a"
        r"|an) (?:valid|known|recogni[sz]ed|registered|available|existing) (?:tool"
        r"|function)\b"
        r"|\btools?\b(?:(?!\. ).){0,60}?\b(?:not found|not exist|don't exist|doesn't exist|unavailable|not (?:in"
        r"|one of) "
        r"|(?:is|are|was) (?:not|n't) (?:available|registered|defined|known|recogni[sz]ed|supported|enabled|provided)"
        r"|could not be found|not available|not registered|unknown)"
        r"|\b(?:function|action|command|method)\b.{0,60}?\b(?:not registered|don't exist|(?:could )?not (?:be )?found"
        r"|does(?: not|n't) exist|(?:is )?not available|is not (?:registered|recogni[sz]ed|defined|supported))"
        r"|\b(?:unknown|no such|unrecogni[sz]ed|unsupported|invalid) (?:action|command|method|operation)\b"
        r"|\b(?:tool|function)_not_found\b|(?:only )?(?:these|available) (?:tools|functions|actions)\b.{0,20}:"
        r"|method not found|(?:isn't|not) one of (?:your|the|my|our) (?:\w+ )?(?:tools|functions)\b"
        r"|\btool\W+\w+\W+is disabled",
    ),
    (
        "invalid_args",
        r"\bmissing (?:\d+ |the |a )?(?:required )?(?:positional |keyword(?:-only)? |mandatory )?"
        r"(?:value for|arguments?|param(?:eter)?s?|fields?|propert(?:y|ies)|input|keys?)\b"
        r"|\bmissing required\b|\b(?:field|property|value|argument|parameter)s? (?:is |are )?(?:required|missing)\b"
        r"|\bunexpected (?:keyword )?(?:argument|param(?:eter)?|property|field|key)|\bis (?:a )?required\b"
        r"|\b(?:requires|needs) (?:the |an? |one )?(?:argument|param|field|'|`|\")|has no argument|\bneeds \w+\Z"
        r"|\brequired (?:property|param(?:eter)?|argument|field|key)|\bfield required\b"
        r"|\b(?:unknown|unrecogni[sz]ed|extra|additional|unsupported|too many|no such|duplicate) "
        r"(?:arguments?|param(?:eter)?s?|propert(?:y|ies)|fields?|keys?|inputs?)\b"
        r"|\binvalid(?: or missing)?(?: ['`\"]?[\w.]+['`\"]?)? "
        r"(?:arguments?|arg|param(?:eter)?s?|input|type|value|enum|option|literal|regular expression|regex|pattern"
        r"|glob)\b"
        r"|\bto the tool (?:was|are|is) invalid|\binvalid (?:request )?(?:arguments|parameters|args)\b"
        r"|\b(?:param|parameter|argument|input)s? .{0,40}(?:is|are|was) (?:invalid|not valid)\b"
        r"|\b(?:arguments?|parameters?|input) (?:validation|schema)|schema validation|type validation"
        r"|does not match the "
        r"schema|validation errors?\b|validation failed|inputvalidationerror|input should be|invalid_type|invalid_args"
        r"|\bmust (?:be (?:an?|of type|one of|either|true|false|at least|at most|less|greater|between|positive"
        r"|within|in "
        r"|non-?negative|non-?empty|integers?|numbers?|strings?|numeric|unique|valid)|not be (?:empty|blank|null"
        r"|negative)"
        r"|have required|contain|match|provide|specify|include)"
        r"|\bmust be (?:>=?|<=?)|\bshould (?:be (?:an?|one of|within|between|of type)|have required|match)\b"
        r"|\bexpected (?:an? |one of )?(?:value of )?(?:type )?['\"`<]?(?:class )?['\"`]?(?:str|int|integer|number"
        r"|bool|float|list"
        r"|array|dict|object|mapping)\w*\b"
        r"|\b(?:is|are) not (?:an? |of type |one of |a valid )['\"`]?(?:integer|int|number|float|string|boolean"
        r"|bool|list"
        r"|array|object|uuid|enum|date|datetime|url|uri)|\bis not one of\b|\bnot of type\b|is not valid under"
        r"|takes (?:no|\d+|from \d+).{0,30} arguments?|got multiple values for|cannot convert\b"
        r"|could not convert|cannot be converted|not a valid (?:value|type|choice|option)\b"
        r"|(?:invalid|wrong|bad|incorrect|unrecogni[sz]ed) (?:\w+ ){0,2}format\b|\bexpected format\b"
        r"|(?:invalid|wrong|incorrect) type|type mismatch|(?:is|was|were) expected to be (?!in stock)|out of range"
        r"|regex parse error|error parsing (?:the )?regex"
        r"|unbalanced parenthesis|unterminated (?:character|subpattern)"
        r"|beyond (?:the )?end of\b|additional propert|not be (?:empty|blank)"
        r"|no value (?:was )?(?:provided|given)|\b(?:has|have) to be (?!re|de)|could(?: not|n't) be parsed as"
        r"|look like an?\b"
        r"|absolute path|must be absolute|relative paths? (?:are|is) not|should start with [`'\"]/|not (?:an?"
        r" )?absolute"
        r"|invalid (?:timezone|reason|unit|currency|language|country|email|date|url|uri|format|mode|range|index"
        r"|characters)\b"
        r"|\bunsupported (?:currency|unit|language|format|mode|type|value|option|encoding)\b"
        r"|is not a valid (?!tool)\w+"
        r"|was called with invalid|invalid ['`\"]?\w+['`\"]? parameter|(?:arguments"
        r"|parameters) provided .{0,30}invalid",
    ),
    (
        "edit_failed",
        r"\b(?:unable|failed|could not|couldn't|cannot) (?:to )?apply\b|similar match"
        r"|no (?:replacements?|changes|edits|modifications)(?: (?:was|were|has been|have been|to))? (?:performed"
        r"|made?|applied)"
        r"|invalid (?:patch|diff)|patch (?:is )?invalid"
        r"|\bold_?(?:str|text)\w*\b|\b(?:string|text|snippet|code|block|content) to (?:be )?(?:replaced?|find|match)\b"
        r"|not appear verbatim|\b(?:occurs|appears|found|matched|matches) (?:more than once|multiple|\d+ (?:times"
        r"|places))"
        r"|\b(?:multiple|several|\d+|no(?: exact)?|exact|similar) (?:occurrences?|match(?:es)?)\b|matching (?:text"
        r"|lines?)\b"
        r"|\bhunks?\b|patch (?:failed|does not apply|rejected)|apply_patch|failed to (?:apply|match|edit|replace)"
        r"|\bdoes not match\b|did not match|\bold is (?:not in|empty)\b|\bedit_failed\b|string not found|search block"
        r"|search text|search/replace|not (?:been )?applied|expected lines|not unique|ambiguous|is identical"
        r"|are identical"
        r"|already exists|exists already|overwritten|(?:it|file) exists|refus\w+ to overwrite|would overwrite"
        r"|syntax error|(?:has|was|been)"
        r" (?:been )?(?:modified|changed) since|not been read"
        r"|read it first"
        r"|must read|(?:text|string|pattern|anchor|context|target|snippet|substring|original|search \w+)\b.{0,80}?"
        r"not (?:be )?(?:found|present|located)|(?:could not|couldn't|cannot|unable to) (?:find|locate) "
        r"(?:the |a |an )?(?:exact|match|matching|text|string|search|target|original|specified|given|context|snippet)"
        r"|not found in (?:the )?(?:file|content|document|buffer)(?! system)",
    ),
    (
        "file_not_found",
        r"no such (?:file|directory|path)|\b(?:file|path|directory|folder)s?\b.*?\b(?:(?:does not|doesn't|not) exist"
        r"|not found\b|could not be found|missing\b)"
        r"|\bis (?:actually )?an? (?:directory|folder)\b|illegal operation on a directory|not a (?:regular )?file\b"
        r"|filenotfound|\benoent\b|\beisdir\b|\benotdir\b|\bnot a directory\b|\bfile_not_found\b|isadirectory"
        r"|notadirectory"
        r"|(?:cannot|can't|could not|couldn't|unable to) (?:find|locate|access|open) (?:the )?"
        r"(?:file|path|directory|folder)|non-?existent (?:file|path|directory)"
        r"|\bno (?:file|directory|folder)\b.{0,60}?(?:found|exists|named|called|at )",
    ),
    (
        "budget",
        r"\b(?:tool|function|call|usage|step|turn|iteration|token|cost|spending|budget|search"
        r"|quer\w+)s?[- _](?:call |use |usage )?"
        r"(?:limit|budget|quota|cap|allowance)s?\b.{0,40}\b(?:exceeded|reached|hit|exhausted|used up|of \d+|spent)"
        r"|(?:exceeded|reached|hit|exhausted|over|used (?:up )?)\b.{0,40}\b(?:call|usage|use|step|turn|iteration"
        r"|token|cost|spending)s?"
        r" (?:limit|budget|quota|cap|allowance|count)|(?:exceeded|reached|hit) (?:the |your |its )?(?:maximum"
        r"|max|limit|allowed)"
        r"(?: (?:number|of|amount|allowed|tool|function|\d+))* (?:calls|uses|invocations|steps|turns|iterations"
        r"|searches|queries|requests)\b"
        r"|\b(?:max(?:imum)?|limit)(?: (?:number|of|allowed|tool|function))* (?:calls|uses|invocations|steps"
        r"|turns|iterations|searches"
        r"|queries)\b.{0,40}\b(?:exceeded|reached|hit|exhausted|used)|\b(?:no|0|zero) (?:more )?(?:tool "
        r"|function )?(?:calls|uses|credits|steps"
        r"|turns|searches|budget) (?:left|remaining|available)|\b(?:budget|credits?|allowance) (?:is |has been "
        r"|was |are |have been )?"
        r"(?:exhausted|exceeded|used up|spent|depleted)|(?:out of|insufficient|not enough) (?:credits?|budget"
        r"|tokens)|too many (?:tool |function )"
        r"?(?:calls|invocations)\b|usage limit\b|call limit\b|may (?:only )?be (?:called|used) (?:only |at most"
        r" )?(?:once|twice|\d+ times)"
        r"|(?:already )?(?:used|made|called) (?:all )?(?:of )?(?:your |the )?\d+ (?:of \d+ )?(?:allowed "
        r"|permitted )?(?:calls|uses|searches|times)",
    ),
    (
        "timeout",
        r"\btimed[ -]?out\b|(?<!gateway )(?<!gateway)\b\w*time-?out(?:error|exception|expired)?\b(?! ?=)|took"
        r" (?:too long|longer|more) |deadline exceeded|time limit|ran out of time"
        r"|exceeded (?:the )?(?:maximum )?(?:execution |run ?)?time\b|did not (?:complete|finish|respond|exit"
        r"|return|terminate)\b.{0,20}in\b"
        r"|exceeded (?:the )?\d[\d.,]* ?(?:s|ms|sec\w*|min\w*)\b|wall[- ]clock|still running after|timed_out"
        r"|\betimedout\b|execution_time_exceeded|time[_ ]exceeded",
    ),
    (
        "transport_error",
        r"\b(?:http|status|code|error|server|returned|got|response)\b\W{0,3}(?:(?:http|status|error|code)\W{0,3}){0,3}"
        r"(?:429|50[0-4]|52\d)\b|\b(?:429|50[0-4])\b\W{0,3}(?:too many|internal|bad|service|gateway|server"
        r"|client error)"
        r"|\A\W*(?:error\W+)?(?:429|50[0-4])\b"
        r"|rate.?limit|too many requests|throttl|(?:service|server)(?: is)?(?: temporarily)? (?:unavailable"
        r"|overloaded)"
        r"|bad gateway|gateway time-?out|internal server error|temporarily unavailable|overloaded"
        r"|\bconnect(?:ion)?\s?(?:error|refused|reset|aborted|closed|lost|dropped|failed|failure)"
        r"|\b(?:connection|network|connectivity) (?:issue|problem|trouble|interruption)s?\b"
        r"|connection (?:was|has been|is) (?:refused|reset|aborted|closed|lost|dropped)"
        r"|\beconn\w+|\benotfound\b|\beai_again\b|\behostunreach|\benetunreach|\bepipe\b|\berr_(?:name|conn|cert"
        r"|ssl|address|proxy|empty|tunnel|http"
        r"|internet|network)"
        r"|getaddrinfo|name resolution|name or service not known|could not resolve|dns (?:error|lookup|failure)"
        r"|network(?: is)? (?:error|unreachable|failure|down)|no route to host|socket hang up|(?:ssl|tls"
        r"|certificate).{0,20}"
        r"(?:error|fail|verif)|(?:failed|unable|could not|cannot|can't) (?:to )?(?:connect|reach)\b"
        r"|check your (?:network|internet|connection)|(?:api|server|host|network|service|site|url|endpoint"
        r"|gateway|proxy)\b.{0,30}\b(?:unreachable|not reachable)|can ?not (?:download|reach|connect)"
        r"|api (?:is )?not working|upstream (?:connect|request|server|error)|service is down"
        r"|server disconnected|broken pipe|fetch failed|hung up|did(?: not|n't) answer|remote end closed"
        r"|\btransport_error\b|max retries exceeded",
    ),
    (
        "output_limit",
        r"exceeds? (?:the )?(?:maximum )?(?:allowed )?(?:\w+ ){0,2}(?:tokens?|characters|output|size|length|limit)\b"
        r"|\b(?:file|output|result|response|content)\b.{0,40}? (?:is )?too (?:large|long|big)\b|output[_ ](?:limit"
        r"|truncated)"
        r"|larger than the (?:maximum|limit)",
    ),
)
_TABLE = tuple((code, re.compile(pattern, re.IGNORECASE | re.DOTALL)) for code, pattern in _KINDS)
_CALL_IS_MALFORMED = re.compile(_MALFORMED, re.IGNORECASE)
_IS_JSON = re.compile(_JSON, re.IGNORECASE)
_ABSENT = re.compile(
    r"not (?:be )?found|(?:not|n't) exist|no such|cannot find|can't find|could(?:n't| not) (?:find|locate"
    r"|be (?:found|located))"
    r"|isn't there|nonexistent|not present",
    re.I,
)
_PLACE = re.compile(_ABSENT.pattern + r"|\btimes\b|occurs|occurrence|unique|\bmatch|already exists|overwrite", re.I)
_NOT_HERE = re.compile(
    r"['`\"\])]{0,2}:? ?(?:tool |function )?(?:(?:is|was) (?:not|n't|un)|does(?: not|n't)|not|un|isn't)"
    r" ?(?:currently )?"
    r"(?:available|enabled|registered|defined|known|a known|recogni[sz]ed|supported|provided|exist|a valid tool"
    r"|callable|permitted here)\b",
    re.I,
)
_SERVERS = re.compile(r"\b50[0-4]\b|gateway time-?out", re.I)
_RATE = re.compile(r"\b429\b|rate.?limit|too many requests|per (?:second|minute|hour|day)", re.I)
_FORBIDDEN = re.compile(
    r"denied|permi(?:tted|ssion)|not allowed|forbidden|read-only|outside|space left|binary|locked|unauthori", re.I
)
_STATUS = re.compile(r"\b40[0-9]\b")
_GENERIC = re.compile(r"\b(?:function|action|command|method|operation|these|available)\b", re.I)
_TOOL = re.compile(r"\btools?\b", re.I)
_PATHS = re.compile(r"path|file|dir|folder|source|destination|target$|^src$|^dst$|uri", re.I)
KNOWN = frozenset(code for code, _ in _KINDS) | {"malformed_call"}


def classify(text: str, name: str = "", given: object = None, kind: str = "", *, known: bool = False) -> str:
    """The code of a failure that is told in words.

    ``given`` are the call's arguments when they are known, ``kind`` a code that the harness gave along. Arguments that
    were read cannot have been broken JSON, whatever else was; an unknown "function" or "command" is a missing tool only
    when it is the one that was called. A tool that is ``known`` can be missing nothing but a thing it looked for.
    """
    if kind in KNOWN:
        return kind
    text = unlabelled(text[:_SEARCHED])
    text = f"{kind.replace('_', ' ')} {text[:_SEARCHED]}" if kind else text[:_SEARCHED]
    text = _QUOTED.sub(lambda found: "" if len(found[0]) >= _LONG_QUOTE[found[0][0]] else found[0], text)
    arguments = given if isinstance(given, dict) else {}
    if _FORMAT.search(text) and not arguments:
        return "malformed_call"
    editor = role(name, arguments) == "editor"
    if editor and re.match(r"\W*(?:invalid|malformed) (?:patch|diff)", text, re.I):
        return "edit_failed"
    if name and not known and _named_absent(name, text):
        return "tool_not_found"
    for code, pattern in _TABLE:
        found = pattern.search(text) if code != "edit_failed" or editor else None
        if code == "file_not_found" and found is not None and _STATUS.search(text):
            continue
        if found is None or (code == "tool_not_found" and (known or not _is_the_tool(text, found[0], name))):
            continue
        if code == "timeout" and _SERVERS.search(text):
            continue
        if code == "budget" and _RATE.search(text):
            return "transport_error"
        if code == "invalid_args" and editor and _PLACE.search(text) and not re.search(r"required|missing", text, re.I):
            continue
        return code
    if _CALL_IS_MALFORMED.search(text) or (not arguments and _IS_JSON.search(text)):
        return "malformed_call"
    if _ABSENT.search(text) and not _STATUS.search(text) and _names_a_path(text, arguments):
        return "file_not_found"
    if editor and not _FORBIDDEN.search(text) and re.search(r"edit|patch|diff|replace|insert|match|find", text, re.I):
        return "edit_failed"
    return "nonzero_exit"


def _named_absent(name: str, text: str) -> bool:
    """Whether the first words are that the called tool is not there."""
    before, found, after = text[:200].partition(name)
    return (
        bool(found)
        and len(name) > 2
        and re.fullmatch(r"\W*(?:(?:error|tool|function|the|action|no|sorry)\W{1,3}){0,4}", before, re.I) is not None
        and _NOT_HERE.match(after) is not None
    )


def _is_the_tool(text: str, said: str, name: str) -> bool:
    """Whether what is missing is the tool that was called, as far as the words tell."""
    if _TOOL.search(said):
        return True
    return not name or name.lower() in text.lower() or not _named(text)


def _named(text: str) -> bool:
    """Whether the words name anything: a quoted or a composed name."""
    return re.search(r"['\"`]\w|\w_\w|\w\.\w|:\s*\w", text) is not None


def _names_a_path(text: str, arguments: dict[str, object]) -> bool:
    paths = [value for key, value in arguments.items() if _PATHS.search(key) and isinstance(value, str) and value]
    return any(path in text or path.rstrip("/").rpartition("/")[2] in text for path in paths)
