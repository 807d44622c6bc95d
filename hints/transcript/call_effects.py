"""What the calls of a transcript did: what they changed, which tests they ran, which files they showed."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from . import shell_commands
from .past_turns import PastCall, PastTurn, Place
from .shell_commands import ShownFile
from .status_line import was_cut
from .tool_roles import name_words

Outcome = Literal["passed", "failed", "none"]

WAIT_SECONDS = 5.0
_LOOKS = frozenset(
    "read view open cat show get fetch search grep find list ls glob query lookup status submit finish think plan "
    "count describe calculate".split()
)
_WRITES = frozenset(
    "write edit create replace insert patch apply append update delete remove rename move save modify put add".split()
)
_TESTS = re.compile(r"(run_?)?(unit_?)?tests?|pytest", re.IGNORECASE)
_ENDS = frozenset("submit finish done final_answer complete task_complete".split())
_TESTING = re.compile(r"\b(?:pytest|unittest)\b")
_COUNTS = re.compile(r"\b(\d{1,9}) (passed|failed|errors?)\b")
_UNITTEST = re.compile(r"^(?:OK|FAILED)(?: \(.*\))?$", re.MULTILINE)
_NUMBERS = re.compile(r"\d+(?:\.\d+)?(?= ?m?s\b)|0x[0-9a-f]+")
_PATHS = dict.fromkeys(("path", "file_path", "filepath", "filename", "file", "target_file", "selector")).keys()
_LARGEST_LINE = 1e9
_ENCODE = json.JSONEncoder(sort_keys=True, ensure_ascii=False, default=str).encode


@dataclass(frozen=True)
class TestRun:
    """A run of tests: how it went, and the words that selected them ('' for all)."""

    __test__ = False  # pytest takes a class of this name for tests

    turn: int
    tool: str
    outcome: Outcome
    selection: str


class CallEffects:
    """One call, its place, and what it did, computed once for all behaviours."""

    __slots__ = ("call", "command", "failed", "index", "may_change", "shown", "test_run", "turn")

    def __init__(self, turn: int, index: int, call: PastCall, is_struck: bool = False) -> None:
        """``is_struck`` says that a fault was injected into the call; it then counts as failed."""
        self.turn, self.index, self.call = turn, index, call
        self.command = command_of(call)
        self.failed = is_struck or has_failed(call)
        self.may_change = may_change(call)
        self.shown = shown_files(call)
        self.test_run = _test_run(turn, call, self.command)


def effects_of(turns: Sequence[PastTurn], struck: Container[Place] = ()) -> list[CallEffects]:
    """Return the effects of every call in order; ``struck`` are the calls with an injected fault."""
    return [
        CallEffects(turn, index, call, (turn, index) in struck)
        for turn, past in enumerate(turns)
        for index, call in enumerate(past.calls)
    ]


def has_failed(call: PastCall) -> bool:
    """Return whether the call did not do what it should: such a call is an error already."""
    status = call.status
    return status.word in ("error", "timeout", "other", "none") or bool(status.exit_code) or bool(call.problem)


def was_limited(call: PastCall) -> bool:
    """Return whether the result was cut at the output limit, which is an error already."""
    return call.status.code == "output_limit" or was_cut(call.body)


def hands_in(call: PastCall) -> bool:
    """Return whether the call hands in the work."""
    return call.name.lower() in _ENDS


def command_of(call: PastCall) -> str:
    """Return the command line of a call that runs one; '' for any other."""
    return shell_commands.command_of(call.arguments)


def path_of(call: PastCall) -> str:
    """Return the path that a call names; '' when it names none."""
    if _PATHS.isdisjoint(call.arguments):
        return ""
    return next((value for name in _PATHS if isinstance(value := call.arguments.get(name), str)), "")


def _verbs(call: PastCall) -> tuple[str, ...]:
    """Return the words that say what the tool does: of an editor's ``command`` if it has one, else of its name."""
    subcommand = call.arguments.get("command")
    return name_words(subcommand if isinstance(subcommand, str) and "path" in call.arguments else call.name)


@lru_cache(maxsize=1024)
def _runs_tests(name: str) -> bool:
    return _TESTS.fullmatch(name) is not None


def is_test_tool(call: PastCall) -> bool:
    """Return whether the tool's name says that it runs tests."""
    return _runs_tests(call.name)


def is_writer(call: PastCall) -> bool:
    """Return whether the tool's name says that it changes a file."""
    return not command_of(call) and not _WRITES.isdisjoint(_verbs(call))


def writes_by_name(call: PastCall) -> bool:
    """Return whether the tool's name says that it changes a file, and the call worked."""
    return is_writer(call) and call.status.word in ("ok", "exit")


def acts(call: PastCall) -> bool:
    """Return whether a call changes something when it works; unknown tools count as if they did."""
    line = command_of(call)
    if line:
        return not shell_commands.looks_only(line) and not _only_tests(line)
    return _LOOKS.isdisjoint(_verbs(call)) and not _runs_tests(call.name)


def may_change(call: PastCall) -> bool:
    """Return whether anything can have changed through this call; unknown tools count as if they changed something."""
    return not call.problem and call.status.word not in ("error", "none") and acts(call)


def _only_tests(line: str) -> bool:
    tests = shell_commands.testing_commands(line)
    others = [part for part in shell_commands.parse(line) if part not in tests]
    return bool(tests) and all(part.program in shell_commands.LOOKS and not part.redirects for part in others)


def _test_run(turn: int, call: PastCall, line: str) -> TestRun | None:
    """Return the run of tests that a call is, if it is one; a run that could not start has no outcome."""
    if call.problem:
        return None
    if line:
        parts = shell_commands.testing_commands(line)
        selection = " ".join(word for part in parts for word in part.words[1:])
        return TestRun(turn, call.name, _outcome(call), selection) if parts else None
    code = call.arguments.get("code")
    if not (_runs_tests(call.name) or (isinstance(code, str) and _TESTING.search(code))):
        return None
    return TestRun(turn, call.name, _outcome(call), " ".join(str(value) for value in call.arguments.values()))


def _outcome(call: PastCall) -> Outcome:
    """Return how a test run went, by its printed summary if there is one, because a pipe hides the exit code."""
    status = call.status
    if status.word in ("error", "none", "other") or status.exit_code in (4, 5, 126, 127):
        return "none"
    if status.word == "timeout":
        return "failed"
    counts = {word.rstrip("s"): int(number) for number, word in _COUNTS.findall(call.body[-4000:])}
    if counts.get("failed") or counts.get("error"):
        return "failed"
    verdicts = _UNITTEST.findall(call.body[-4000:])
    if verdicts and verdicts[-1].startswith("FAILED"):
        return "failed"
    return "failed" if status.exit_code else "passed"


def same_result(first: PastCall, second: PastCall) -> bool:
    """Return whether two results are the same except for durations and addresses."""
    if first.status != second.status:
        return False
    return first.body == second.body or _NUMBERS.sub("#", first.body) == _NUMBERS.sub("#", second.body)


def one_line(call: PastCall) -> str:
    """Return the call as one line of text, equal for calls that ask for the same."""
    try:
        return call.name + _ENCODE(call.arguments)
    except (TypeError, ValueError, RecursionError):  # keys that are not strings, or nested too deeply
        return f"{call.name} {call.id}"


def shown_files(call: PastCall) -> list[ShownFile]:
    """Return the files that the call shows, whole or in part."""
    line = command_of(call)
    if line:
        shown = shell_commands.shown_files(line)
        return [ShownFile(workspace_path(file.path), file.first, file.last, file.is_fresh) for file in shown]
    path = path_of(call)
    if not path or {"read", "view", "open", "cat", "show"}.isdisjoint(_verbs(call)):
        return []
    first = _line_number(call, ("start_line", "start", "offset", "line_start"), 1)
    last = _line_number(call, ("end_line", "end", "line_end"), float("inf"))
    window = call.arguments.get("view_range")
    if isinstance(window, list) and len(window) == 2 and all(isinstance(edge, int) for edge in window):
        first, last = window[0], window[1] if window[1] > 0 else float("inf")
    elif "limit" in call.arguments:
        last = first + _line_number(call, ("limit",), float("inf")) - 1
    return [ShownFile(workspace_path(path), first, last)]


def shows_file(call: PastCall, path: str) -> bool:
    """Return whether the call shows the file, whole or in part."""
    return any(file.path == workspace_path(path) for file in shown_files(call))


def _line_number(call: PastCall, names: Sequence[str], default: float) -> float:
    for name in names:
        value = call.arguments.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST_LINE:
            return float(value)
    return default


def workspace_path(path: str) -> str:
    """Return a path relative to the workspace."""
    return path.removeprefix("/workspace/").removeprefix("./")


def waits(call: PastCall) -> bool:
    """Return whether the call waits: in a loop, for WAIT_SECONDS or more, or as all that it does."""
    line = command_of(call)
    if not line:
        return call.name.lower() in ("sleep", "wait", "pause")
    if "sleep" not in line and "watch" not in line:
        return False
    seconds, is_loop = shell_commands.seconds_slept(line)
    only_waits = all(part.program in ("sleep", "echo", "true") for part in shell_commands.parse(line))
    return is_loop or seconds >= WAIT_SECONDS or (only_waits and seconds > 0)
