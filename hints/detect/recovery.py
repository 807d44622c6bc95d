"""Recovery: which later call does what a failed call should have done.

A call has targets: a file that it shows or changes, a test run, a program, or, where nothing else is known, the tool
itself. A later call is a new attempt when it shares a target with the failed call. File names that differ by a typo
are the same target. A file that was looked for in vain is also found by listing its folder, and a question that a
command answers by its exit code alone (``grep``, ``test``) needs no second attempt, and neither does waiting. A
traceback is also recovered by an edit near a line that it names and a later run.
"""

from __future__ import annotations

import difflib
import posixpath
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ...models import ErrorKind
from ...tool_names import nearest_name
from ..transcript.call_effects import (
    acts,
    command_of,
    hands_in,
    is_test_tool,
    is_writer,
    path_of,
    waits,
    workspace_path,
)
from ..transcript.past_turns import PastCall, PastTurn, Place
from ..transcript.shell_commands import SimpleCommand, looks, looks_only, parse, testing_commands
from ..transcript.tracebacks import named_lines
from .error_kinds import error_kind, worked

Target = tuple[str, str]
"""What a call is about: the sort of target and its name.

========  ==========================================    ============  =================================
sort      name                                          sort          name
========  ==========================================    ============  =================================
show      a file that is shown or searched              program       a program without file arguments
change    a file that is written, moved or removed      word          an argument of a command
run       a file that is executed or tested             command       empty: any command
list      a folder that is listed                       tool          the tool
tests     empty: all tests                              some_tests    empty: any tests
========  ==========================================    ============  =================================
"""

_ANY_TOOL: frozenset[ErrorKind] = frozenset(("tool_not_found", "malformed_call"))
_ABSENT: frozenset[ErrorKind] = frozenset(("file_not_found", "nonzero_exit"))
_FILE_SORTS = frozenset(("show", "change", "run"))
_RUN_SORTS = frozenset(("run", "program", "some_tests"))
_REDIRECTED = re.compile(r"(?:>|\btee(?: -a)?) *([^\s;&|<>()]+)")
_NEVER_ENDS = re.compile(r"\btail -[fF]|\bwatch\b|http\.server|\brunserver\b|\b(?:uvicorn|gunicorn)\b|\bflask run\b")
_SUBCOMMANDS = frozenset("git npm pip pip3 cargo docker kubectl poetry uv apt apt-get go make conda yarn".split())
_LISTS = frozenset("ls find tree fd".split())
_CHANGERS = frozenset("sed mv cp rm tee touch mkdir rmdir chmod patch ln truncate perl tar unzip git".split())
_TRIVIAL = frozenset("cd echo export set true printf pwd sleep".split())
_FILE_WORD = re.compile(r"(?!-|[sy]/[^/]*/[^/]*/\w*\Z)[\w.+@/-]*(?:\.\w+|/)[\w.+@/-]*")
"""A word that looks like a path: not an option, and not a script of ``sed`` such as ``s/old/new/``."""
_SIMILAR = 0.7
"""The least ``difflib`` ratio of two file names that differ by a typo."""
_EDITED = re.compile(r"\bat line (\d{1,9})$", re.MULTILINE)
_REGION = 60
_LONGER, _COMPARED = 3, 100


@dataclass(frozen=True)
class Goal:
    """What a later call must do to be a new attempt."""

    targets: frozenset[Target] = frozenset()
    any_call: bool = False
    """Whether every call except the one that hands in the work is a new attempt."""
    tool: str = ""
    """A tool that was called by a wrong name or with an unreadable call; handing in is then an attempt at that tool."""


def goal_of(call: PastCall, kind: ErrorKind) -> Goal:
    """Return the goal of a call that failed with an error of this kind."""
    if kind in _ANY_TOOL:
        return Goal(any_call=True, tool=call.name)
    line, path = command_of(call), path_of(call)
    is_answer = kind == "nonzero_exit" and line and looks_only(line) and not call.body.strip()
    if waits(call) or is_answer or (kind == "timeout" and _NEVER_ENDS.search(line)):
        return Goal(any_call=True)
    tool = ("tool", call.name)
    if not line and not path:
        return Goal(frozenset([tool]))
    targets = frozenset(_targets(call))
    if kind == "command_not_found":
        programs = {target for target in targets if target[0] == "program"}
        others = {target for target in targets if target[0] in ("word", *_FILE_SORTS)}
        return Goal(frozenset(programs | (others or {("command", "")})))
    goal = {target for target in targets if target[0] in ("program", *_FILE_SORTS)}
    if ("some_tests", "") in targets:
        goal.add(("tests", ""))
        if not any(sort == "run" for sort, _ in goal):
            goal.add(("some_tests", ""))
    if kind in _ABSENT and not acts(call):
        folders = [posixpath.dirname(workspace_path(name)) or "." for name in _file_names(call)]
        goal |= {("list", posixpath.normpath(folder)) for folder in folders}
    if kind == "invalid_args" or not goal:
        goal.add(tool)
    return Goal(frozenset(goal))


def is_new_attempt(failed: PastCall, kind: ErrorKind, later: PastCall) -> bool:
    """Return whether ``later`` is another attempt at what ``failed`` should have done."""
    goal = goal_of(failed, kind)
    if goal.any_call:
        return not hands_in(later) or _means(goal.tool, later.name)
    targets = frozenset(_targets(later))
    return not targets.isdisjoint(_widened(goal.targets, _names(targets)))


class WorkedCalls:
    """The calls of a log that worked, by target. Calls into which a fault was injected are left out."""

    def __init__(self, turns: Sequence[PastTurn], struck: Container[Place]) -> None:
        self._whole: dict[Target, list[Place]] = defaultdict(list)
        self._cut: dict[Target, list[Place]] = defaultdict(list)
        self._any: list[Place] = []
        self._runs: list[tuple[Place, str]] = []
        self._edited_lines: dict[Place, int] = {}
        self._handed_in: dict[str, list[Place]] = defaultdict(list)
        for turn, past in enumerate(turns):
            for index, call in enumerate(past.calls):
                if worked(call) and (turn, index) not in struck:
                    self._add((turn, index), call)
        self._names = _names([*self._whole, *self._cut])

    def _add(self, place: Place, call: PastCall) -> None:
        (self._handed_in[call.name] if hands_in(call) else self._any).append(place)
        if not (command_of(call) and looks_only(command_of(call))) and _RUN_SORTS.intersection(
            sort for sort, _ in _targets(call)
        ):
            self._runs.append((place, call.body))
        if edited := _EDITED.search(call.body):
            self._edited_lines[place] = int(edited[1])
        table = self._whole if error_kind(call) is None else self._cut
        for target in frozenset(_targets(call)):
            table[target].append(place)

    def turns_to_recovery(self, place: Place, call: PastCall, kind: ErrorKind) -> int | None:
        """Return the turns until a new attempt worked; ``None`` when none did.

        An error ``output_limit`` needs a result that was not cut.
        """
        goal = goal_of(call, kind)
        if goal.any_call:
            places = [self._any, *(self._handed_in[name] for name in self._handed_in if _means(goal.tool, name))]
        else:
            tables = [self._whole] if kind == "output_limit" else [self._whole, self._cut]
            places = [table[key] for table in tables for key in _widened(goal.targets, self._names) if key in table]
        later = [row[number] for row in places if (number := bisect_right(row, place)) < len(row)]
        if kind == "traceback" and (run := self._run_after_edit(place, call)) is not None:
            later.append(run)
        return min(later)[0] - place[0] if later else None

    def _run_after_edit(self, place: Place, call: PastCall) -> Place | None:
        """Return the first run that worked after an edit near a line that the traceback of a call names."""
        edits = [
            edit
            for path, lines in named_lines(call.body).items()
            for edit in self._whole.get(("change", _base(path)), ())
            if edit > place and _is_near(self._edited_lines.get(edit), lines)
        ]
        raised = call.body.rstrip().rpartition("\n")[2]
        runs = (run for run, body in self._runs if edits and run > min(edits) and raised not in body)
        return next(runs, None)


def _is_near(edited: int | None, lines: Sequence[int]) -> bool:
    """Return whether an edit is at most _REGION lines from one of these; an edit whose place is unknown is near."""
    return edited is None or any(abs(edited - line) <= _REGION for line in lines)


def _means(name: str, tool: str) -> bool:
    """Return whether a name that an agent used means the tool."""
    return bool(name) and (name == tool or bool(nearest_name(name, [tool])))


def _names(targets: Collection[Target]) -> list[str]:
    return sorted({name for sort, name in targets if sort in _FILE_SORTS})


def _widened(targets: Collection[Target], names: Sequence[str]) -> set[Target]:
    """Return the targets, and those with file names that are spelled much like theirs."""
    widened = set(targets)
    for sort, name in targets:
        if sort in _FILE_SORTS:
            similar = [other for other in names if abs(len(other) - len(name)) <= _LONGER][:_COMPARED]
            widened |= {(sort, other) for other in difflib.get_close_matches(name, similar, cutoff=_SIMILAR)}
    return widened


def _targets(call: PastCall) -> Iterator[Target]:
    """Yield everything that a call is about."""
    yield "tool", call.name
    line, path = command_of(call), path_of(call)
    if line:
        yield "command", ""
        yield from _command_targets(line)
    elif is_test_tool(call):
        yield from _test_targets([path] if path else [])
    elif path:
        yield ("change" if is_writer(call) else "show"), _base(path)
    if not line and call.name.lower().startswith(("list", "ls", "find", "glob", "tree")):
        yield "list", posixpath.normpath(workspace_path(path) or ".")


@lru_cache(maxsize=2048)
def _command_targets(line: str) -> tuple[Target, ...]:
    targets: list[Target] = [("change", _base(name)) for name in _REDIRECTED.findall(line)]
    tests = testing_commands(line)
    for part in parse(line):
        arguments = [word for word in part.words[1:] if not word.startswith("-")]
        files = [word for word in arguments if _FILE_WORD.fullmatch(word)]
        targets += [("word", word) for word in arguments if len(word) > 1]
        if part in tests:
            targets += _test_targets(files)
            continue
        sort = "show" if looks(part) else "change" if part.program in _CHANGERS else "run"
        targets += [(sort, _base(name)) for name in files]
        if not files and part.program not in _TRIVIAL:
            targets.append(("program", _program(part)))
        if part.program in _LISTS:
            targets += [("list", posixpath.normpath(workspace_path(name))) for name in arguments[:1] or ["."]]
    return tuple(targets)


def _test_targets(selection: Sequence[str]) -> list[Target]:
    """Return the targets of a test run that was limited to these files or tests."""
    files = [("run", _base(name.partition("::")[0])) for name in selection]
    return [("some_tests", ""), *(files or [("tests", "")])]


def _program(part: SimpleCommand) -> str:
    """Return the program, with its subcommand where it has one."""
    if part.program in _SUBCOMMANDS and len(part.words) > 1:
        return f"{part.program} {part.words[1]}"
    return part.program


def _file_names(call: PastCall) -> list[str]:
    """Return the paths that a call that only looks names."""
    line = command_of(call)
    if not line:
        return [path_of(call)]
    words = [word for part in parse(line) for word in part.words[1:]]
    return [word for word in words if _FILE_WORD.fullmatch(word)]


def _base(path: str) -> str:
    return posixpath.basename(path.rstrip("/")) or path
