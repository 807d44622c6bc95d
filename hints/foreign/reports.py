"""How a harness reports outcomes without status lines: exit codes in a fixed place, or a result object.

A place counts for a tool only when most of the tool's results use it: a file that holds such a line does not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..transcript.status_line import Status
from ..transcript.tool_roles import PRINTING, Role
from . import exit_codes as exits
from . import limits
from .error_kind_patterns import classify
from .objects import exited, outcome, parsed

_SHELLS_KEYS = frozenset(
    "stdout stderr output returncode return_code exit_code exitCode exit_status result success rc out".split()
)
"""Keys of the objects that a shell's harness answers with."""
_KILLED = frozenset((124, 137, 143, -1, -9, -15))
_ELEMENT = re.compile(r"\s*<(\w+)>(?P<said>[^\n]*)</\1>\s*")
Report = Callable[[str, Mapping[str, Any]], "tuple[Status, str] | None"]

_HEADER = re.compile(
    r"\s*(?:(?:EXECUTION )?(?:RESULT|OBSERVATION|OUTPUT)(?: of \[[^\n]*\])?:[ \t]*\n"
    r"|(?:Tool|Function|Command) (?:result|output|response)(?![^\n]*(?:too l|trunc|cut|exceed))[^\n:]{0,60}:[ \t]*\n"
    r"|Command executed\.\s*\nOutput:[ \t]*\n"
    r"|(?:(?:here (?:is|are)|this is|below is) )?(?:the |your )?(?:(?!error|fail|trunc|partial|last|first)\w+ ){0,3}"
    r"(?:output|results?|response|observations?)(?: (?:of|from|for) [^\n:]{1,60})?(?: (?:is|was|are|were))?"
    r"(?: (?:below|as follows))?:[ \t]*\n)+",
    re.IGNORECASE,
)


_TELLS = re.compile(r"error|fail|exception|warn|traceback|invalid|denied|unable|cannot|timed|trunc", re.IGNORECASE)
_TITLE = re.compile(r"\s*\[\w[^\n]{0,300}\] Result:[ \t]*\n+")


def untitled(content: str) -> str:
    """A result without the name of the call that it is the result of."""
    found = _TITLE.match(content)
    return content[found.end() :] if found else content


def unheaded(content: str, usual: str = "") -> str:
    """A result without the line that some harnesses put before every one; ``usual`` is the one that they do here."""
    first, _, rest = content.partition("\n")
    if usual and rest.strip() and first.strip() == usual:
        content = rest
    found = _HEADER.match(content)
    return content[found.end() :] if found else content


def usual_header(contents: Sequence[str]) -> str:
    """The short line ending in a colon that most results of a tool begin with, where it speaks of no error."""
    counts = Counter(first.strip() for first, _, rest in (each.partition("\n") for each in contents) if rest)
    line, count = counts.most_common(1)[0] if counts else ("", 0)
    short = line.endswith(":") and len(line) <= 80 and not _TELLS.search(line)
    return line if short and count > 1 and count * 2 > len(contents) else ""


def reporters(
    name: str, kind: Role, contents: Sequence[str], shows: Callable[[Mapping[str, Any]], bool] = lambda given: False
) -> Report:
    """What reads the reports of one tool, given all of its results; ``None`` from it: nothing is reported.

    ``shows``: whether a call with these arguments prints text that was there before, which may be an object too.
    """
    printing = kind in PRINTING
    objects = [table for table in map(parsed, contents) if table is not None]
    use_objects = not printing or len(objects) * 2 > len(contents)
    own = kind != "shell" or any(not _SHELLS_KEYS.isdisjoint(table) for table in objects)
    places = [exits.PLACES[number] for number in exits.used(contents)]

    def report(content: str, given: Mapping[str, Any]) -> tuple[Status, str] | None:
        table = parsed(content) if use_objects else None
        if table is not None and (own or not shows(given)):
            return outcome(table, name, given)
        for place in places:
            found = place(content)
            if found is not None:
                return stopped(found), found[1]
        return None

    return report


def stopped(found: exits.Found) -> Status:
    """The outcome of a reported exit code; a time limit that the harness speaks of beside it goes before."""
    code, body, around = found
    lines = [line for line in (*around.split("\n"), *body.strip().split("\n")[-1:]) if line.strip()]
    late = next((line for line in lines if limits.timed_out(_untagged(line))), None) if code else None
    if code in _KILLED and late is None:
        late = next((line for line in around.split("\n") if line.strip() and classify(line) == "timeout"), None)
    only = len([line for line in body.strip().split("\n") if line.strip()]) <= 1
    if late is not None and (late in around or code in _KILLED or only):
        return Status("timeout", late.strip()[:600])
    return exited(code)


def _untagged(line: str) -> str:
    found = _ELEMENT.fullmatch(line)
    return found["said"] if found else line
