"""Patterns that say which kind of error a failure is, once it is known that a call failed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..transcript.tool_roles import role
from ..transcript.tracebacks import ends_with_traceback

_SEARCHED = 600
_PATH_KEY = re.compile(r"path|file|dir|folder", re.IGNORECASE)
_ABSENT = re.compile(r"not found|(?:not|n't) exist|no file\b", re.IGNORECASE)
_PATTERNS = {
    "malformed_call": r"malformed|\b(?:arguments?|call|action)\b.{0,60}\bjson\b|valid json\b|could not parse"
    r"|invalid format: missing",
    "tool_not_found": r"\b(?:unknown|no such|invalid|unsupported|unavailable) (?:tool|function|call|action)\b"
    r"(?! (?:arg|param|input))|not a valid (?:tool|function)|no (?:tool|function) (?:named|called)|method not found"
    r"|\b(?:tool|function)\b[^.\n]{0,60}?\b(?:not found|(?:does|is)(?: not|n't) (?:exist|available|registered|enabled"
    r"|defined))|(?:tool|function)_not_found",
    "edit_failed": r"\A(?!.*\b(?:missing|required|path)\b).*(?:\bold_?(?:str|string|text)\b|\bold is not in\b|verbatim"
    r"|\bno (?:replacement|changes|exact match|match)|\bhunk|not found in (?:the )?file|nothing replaced|already exists"
    r"|(?:string|text|snippet|content|block|anchor|context)\b.{0,80}not (?:be )?found|not unique|occurs \d+|edit_failed"
    r"|(?:multiple|several|\d+) (?:occurrences|matches)|does not match|overwrite|invalid patch|not been read"
    r"|(?:failed|unable|could not) (?:to )?(?:apply|find|locate)|(?:modified|changed) since)",
    "file_not_found": r"\A(?!.*\b40\d\b).*(?:no such (?:file|directory)|it does not exist|non-?existent file"
    r"|\b(?:file|path|directory|folder)\b.*?(?:not (?:be )?found|not exist|doesn't exist)|(?:cannot|can't) find the"
    r"|is a directory|not a directory|filenotfound|\benoent\b|\beisdir\b|file_not_found)",
    "invalid_args": r"\b(?:missing|required|unexpected|unknown|invalid|unrecognized|extra)\b.{0,40}"
    r"\b(?:arg|param|propert|field|input|value|key)\w*|validation errors?\b|validation failed|invalid_args|invalid_type"
    r"|\b(?:argument|parameter|field|property|input)s? .{0,40}\b(?:required|missing|invalid)|input should be"
    r"|out of range|could not convert|\bmust (?:be|not be|have|match|contain)\b|\bis not (?:one of|of type|a valid)\b"
    r"|absolute path|\bexpected (?:to be|(?:an? )?(?:str|int|number|bool|list|array|object))"
    r"|\b(?:invalid|unsupported) (?!tool|function|patch|diff|json|token|session|credential)\w+",
    "budget": r"\b(?:call|usage|step|turn|token|cost|budget|spending|search)s?\b.{0,50}\b(?:exceeded|reached|exhausted"
    r"|used up)|\bout of (?:budget|credits|tokens)",
    "timeout": r"(?<!gateway )timed?[ _-]?out\b(?!.*\b50[0-4]\b)|took (?:too long|longer)|deadline exceeded"
    r"|did not (?:exit|finish|complete)|time limit",
    "transport_error": r"\b(?:429|50[0-4])\b|rate.?limit|too many requests|bad gateway|gateway time-?out|network"
    r"|internal server error|upstream|(?:service|server).{0,20}(?:unavailable|overloaded)|temporarily unavailable"
    r"|\bconnection\b|connectionreset|\becon\w+|getaddrinfo|name resolution|could not resolve|\bdns\b|net::err|\bssl",
    "output_limit": r"too (?:large|long|big)\b|exceeds? (?:the )?(?:maximum|max)|larger than",
}
"""Kinds in the order in which they are tried; the first whose pattern matches is taken."""
_COMPILED = {kind: re.compile(pattern, re.IGNORECASE | re.DOTALL) for kind, pattern in _PATTERNS.items()}


def classify(text: str, name: str = "", arguments: Mapping[str, Any] | None = None) -> str:
    """Return the kind of error that a failure message reports; ``nonzero_exit`` when no pattern matches.

    ``name`` and ``arguments`` are those of the call: a call whose arguments could be read is not malformed, and only
    an editor's edit can fail.
    """
    if ends_with_traceback(text):
        return "traceback"
    is_editor = bool(name) and role(name, arguments or {}) == "editor"
    for kind, pattern in _COMPILED.items():
        if (kind == "malformed_call" and arguments) or (kind == "edit_failed" and not is_editor):
            continue
        if pattern.search(text[:_SEARCHED]):
            return kind
    paths = (value for key, value in (arguments or {}).items() if _PATH_KEY.search(key) and isinstance(value, str))
    absent = _ABSENT.search(text[:_SEARCHED]) and any(path and path in text for path in paths)
    return "file_not_found" if absent else "nonzero_exit"
