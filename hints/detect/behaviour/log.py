"""What the calls of a transcript did: what they changed, which tests they ran, which files they showed."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from ...transcript.past_turns import PastCall, PastTurn, Place
from ...transcript.status_line import was_cut
from . import shell

Outcome = Literal["passed", "failed", "none"]

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
_FAR = 1e9
_ENCODE = json.JSONEncoder(sort_keys=True, ensure_ascii=False, default=str).encode


class At:
    """One call, where it stands, and what it did: found out once, for all who ask."""

    __slots__ = ("call", "command", "failed", "index", "may_change", "run", "shown", "turn")

    def __init__(self, turn: int, index: int, call: PastCall, struck: bool = False) -> None:
        self.turn, self.index, self.call = turn, index, call
        self.command = command(call)
        self.failed = struck or failed(call)
        self.may_change = may_change(call)
        self.shown = shown(call)
        self.run = _run_of_tests(self)


@dataclass(frozen=True)
class Run:
    """A run of tests: how it went, and the words that chose them ('' for all)."""

    at: At
    outcome: Outcome
    selection: str


def calls(turns: Sequence[PastTurn], struck: Container[Place] = ()) -> list[At]:
    """Every call, in order; one that was ``struck`` by an injected fault counts as failed, whatever it says."""
    return [
        At(turn, index, call, (turn, index) in struck)
        for turn, past in enumerate(turns)
        for index, call in enumerate(past.calls)
    ]


def failed(call: PastCall) -> bool:
    """Whether the call did not do what it should: such a call is annotated as an error of its own."""
    status = call.status
    return status.word in ("error", "timeout", "other", "none") or bool(status.exit_code) or bool(call.problem)


def cut(call: PastCall) -> bool:
    """Whether the result was cut at the output limit, which is an error of its own."""
    return call.status.code == "output_limit" or was_cut(call.body)


def ends(call: PastCall) -> bool:
    """Whether the call hands in the work."""
    return call.name.lower() in _ENDS


def command(call: PastCall) -> str:
    """The shell command of a call that runs one; '' for any other."""
    return shell.command_of(call.arguments)


def path_of(call: PastCall) -> str:
    """The path that a call names; '' when it names none."""
    if _PATHS.isdisjoint(call.arguments):
        return ""
    return next((value for name in _PATHS if isinstance(value := call.arguments.get(name), str)), "")


@lru_cache(maxsize=1024)
def _words(name: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()))


def _verbs(call: PastCall) -> frozenset[str]:
    """The words that say what the tool does: of an editor's ``command`` when it has one, else of its name."""
    sub = call.arguments.get("command")
    return _words(sub if isinstance(sub, str) and "path" in call.arguments else call.name)


@lru_cache(maxsize=1024)
def _runs_tests(name: str) -> bool:
    return _TESTS.fullmatch(name) is not None


def writes_by_name(call: PastCall) -> bool:
    """Whether the tool's name says that it changes a file, and the call worked."""
    return not command(call) and bool(_verbs(call) & _WRITES) and call.status.word in ("ok", "exit")


def may_change(call: PastCall) -> bool:
    """Whether anything can have changed through this call; unknown tools count as if they changed something."""
    if call.problem or call.status.word in ("error", "none"):
        return False
    line = command(call)
    if line:
        return not shell.looks_only(line) and not _only_tests(line)
    return not _verbs(call) & _LOOKS and not _runs_tests(call.name)


def _only_tests(line: str) -> bool:
    tests = shell.parts_that_test(line)
    rest = [part for part in shell.parse(line) if part not in tests]
    return bool(tests) and all(part.program in shell.LOOKS and not part.redirects for part in rest)


def _run_of_tests(at: At) -> Run | None:
    """The run of tests that a call is, when it is one; one that could not start has no outcome."""
    call, line = at.call, at.command
    if line:
        parts = shell.parts_that_test(line)
        if not parts or call.problem:
            return None
        chosen = " ".join(word for part in parts for word in part.words[1:])
        return Run(at, _outcome(call), chosen)
    code = call.arguments.get("code")
    if call.problem or not (_runs_tests(call.name) or (isinstance(code, str) and _TESTING.search(code))):
        return None
    return Run(at, _outcome(call), " ".join(str(value) for value in call.arguments.values()))


def _outcome(call: PastCall) -> Outcome:
    """What the run printed decides, since a pipe hides its exit code; without a summary the status does."""
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
    if status.exit_code:
        return "failed"
    return "passed"


def same_result(first: PastCall, second: PastCall) -> bool:
    """Whether two results are the same but for durations and addresses."""
    if first.status != second.status:
        return False
    return first.body == second.body or _NUMBERS.sub("#", first.body) == _NUMBERS.sub("#", second.body)


def key(call: PastCall) -> str:
    """The call as one line of text, equal for calls that ask for the same."""
    try:
        return call.name + _ENCODE(call.arguments)
    except (TypeError, ValueError, RecursionError):  # keys that are no text, or nested too deeply: like no other
        return f"{call.name} {call.id}"


def shown(call: PastCall) -> list[tuple[str, float, float]]:
    """(path, first line, last line) of each file that the call shows whole or in part."""
    line = command(call)
    if line:
        return [(norm(path), first, last) for path, first, last in shell.reads(line)]
    words, path = _verbs(call), path_of(call)
    if not path or not words & {"read", "view", "open", "cat", "show"}:
        return []
    first = _number(call, ("start_line", "start", "offset", "line_start"), 1)
    last = _number(call, ("end_line", "end", "line_end"), float("inf"))
    window = call.arguments.get("view_range")
    if isinstance(window, list) and len(window) == 2 and all(isinstance(edge, int) for edge in window):
        first, last = window[0], window[1] if window[1] > 0 else float("inf")
    elif "limit" in call.arguments:
        last = first + _number(call, ("limit",), float("inf")) - 1
    return [(norm(path), first, last)]


def _number(call: PastCall, names: Sequence[str], default: float) -> float:
    for name in names:
        value = call.arguments.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _FAR:
            return float(value)
    return default


def norm(path: str) -> str:
    """A path as seen from the workspace."""
    return path.removeprefix("/workspace/").removeprefix("./")


WAIT = 5.0


def waits(call: PastCall) -> bool:
    """Whether the call waits: in a loop, for WAIT seconds or more, or as all that it does."""
    line = command(call)
    if not line:
        return call.name.lower() in ("sleep", "wait", "pause")
    if "sleep" not in line and "watch" not in line:
        return False
    seconds, loops = shell.seconds_slept(line)
    bare = all(part.program in ("sleep", "echo", "true") for part in shell.parse(line))
    return loops or seconds >= WAIT or (bare and seconds > 0)
