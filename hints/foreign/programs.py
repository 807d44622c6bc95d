"""Programs whose output may be anybody's text, and which of them complain about what they were given."""

from __future__ import annotations

from ..detect.behaviour.shell import Simple

SILENT = frozenset("sleep true false test [ cd export set".split())
QUOTES = frozenset(
    "cat head tail less more bat nl tac awk gawk sed jq yq echo printf cut tr sort uniq strings column xxd od "
    "hexdump grep egrep fgrep rg "
    "ag env printenv history git curl wget http journalctl dmesg docker kubectl podman gh tee type "
    "xmllint pr fold fmt rev paste get-content gc findstr select-string write-output".split()
)
"""Programs whose output may be anybody's text, so that an error line in it may be too."""
SHOWS = {
    "git": frozenset("log diff show blame grep".split()),
    "docker": frozenset("logs inspect events".split()),
    "podman": frozenset("logs inspect events".split()),
    "kubectl": frozenset("logs describe get events".split()),
    "gh": frozenset("view list diff api".split()),
}
FILES = frozenset("cat head tail less more bat nl tac grep egrep fgrep rg ag".split())
"""Those that print the lines of files as they are: a complaint in a file looks like their own."""
OF_CMD = frozenset("type dir more find findstr copy xcopy del erase move ren rd rmdir md mkdir cd start call".split())
ASKS = frozenset("curl wget git docker kubectl podman gh".split())


def quotes(part: Simple) -> bool:
    """Whether a command prints text that was there before it."""
    shown = SHOWS.get(part.program)
    return part.program.lower() in QUOTES if shown is None else not shown.isdisjoint(part.words[1:4])
