"""Episodes as the page shows them: turns with their calls, answers, errors and findings, within a limit of characters.

``page.html`` reads the records of ``models`` itself; this module joins them: an error to its turn and call, an answer
to its call.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ...environments.runs.reader import Stored
from ...hints.transcript.parsing import Call, parse_turn, text_of
from ...hints.transcript.status_line import is_status, read_status
from ...models import ErrorTurn, Finding, InjectedFault, Turn
from .changes import MAX_FILES, Base, Changed, changes
from .safe_text import Meter, Text, one_line

MAX_TEXT = 4000
"""Characters of one text that are shown; fewer in a long episode, so that all its turns fit."""
MIN_TEXT = 200
"""Characters of one text in the longest episodes."""
MARKS = 160
"""Turns in the strip of an episode."""
MARKUP = 400
"""Characters that the page itself writes for a turn, a call or a mark, about."""


@dataclass(frozen=True)
class CallView:
    """One call with its answer."""

    number: int
    call: Call
    status: str
    """First line of the environment's answer; empty when nothing answered."""
    failed: bool
    body: str
    """The answer without its status."""
    kinds: list[str]
    """Kinds of the error turns at this call."""
    faults: list[InjectedFault]

    @property
    def arguments(self) -> list[tuple[str, str]]:
        """Return the first arguments with their values as text."""
        return [(name, _value(value)) for name, value in islice(self.call.arguments.items(), 32)]

    @property
    def raw(self) -> str:
        """Return a call that could not be parsed as it was written; empty for any other."""
        return self.call.raw or self.call.problem if self.call.problem else ""

    @property
    def brief(self) -> str:
        """Return the values of the arguments, such as the command or the path."""
        return self.call.raw[:400] if self.call.problem else " ".join(value[:400] for _, value in self.arguments)


@dataclass(frozen=True)
class TurnView:
    """One turn with its calls and marks."""

    number: int
    text: str
    thought: str
    calls: list[CallView]
    notes: list[str]
    """Messages of the environment that answer no call."""
    errors: list[ErrorTurn]
    findings: list[Finding]
    seconds: float

    may_end_in_words: bool = False
    """Whether a turn without a call is a usual answer, as in most logs of other tools."""

    @property
    def failed(self) -> bool:
        """Return whether a call failed, or none was made where one was expected."""
        return any(call.failed for call in self.calls) or (not self.calls and not self.may_end_in_words)

    @property
    def outcome(self) -> str:
        """Return the status of the first call that failed, else of the last one."""
        last = self.calls[-1].status or "no result" if self.calls else "no call"
        return next((call.status for call in self.calls if call.failed), last)


class EpisodeView:
    """One episode, shown in about ``room`` characters."""

    def __init__(self, number: int, run: str, stored: Stored, base: Base | None, room: int) -> None:
        self.number, self.run, self.stored, self.episode = number, run, stored, stored.episode
        errors = self.episode.error_turns
        pieces = 8 + sum(2 + 4 * len(turn.messages) for turn in self.episode.turns) + 3 * len(errors)
        self.meter = Meter(room, max(MIN_TEXT, min(MAX_TEXT, room // pieces)))
        self.agent, self.task = one_line(stored.agent, 80), one_line(self.episode.task_id, 120)
        self.left_out = 0
        self.log = stored.log
        self.kinds = sorted({error.kind for error in errors})
        self.recovered = sum(error.recovered is True for error in errors)
        self._base, self._diff_meter = base, Meter(room // 3, MAX_TEXT)

    @property
    def value(self) -> float | None:
        """Return the reward; None for an episode without an honest score."""
        return self.episode.reward.value if self.stored.valid and self.episode.reward else None

    @property
    def is_void(self) -> bool:
        """Return whether an episode that was played has no honest score; a log without a reward is not void."""
        return not self.stored.valid and (self.log is None or self.episode.reward is not None)

    @property
    def end(self) -> str:
        """Return how the episode ended, in the words of its log where it has one."""
        if self.log is None:
            return self.episode.end or "unfinished"
        return one_line(str(self.log.get("end") or "") or self.episode.end or "not stated", 80)

    @property
    def has_time(self) -> bool:
        """Return whether the time of the episode is known: few logs record one."""
        return self.log is None or self.episode.seconds > 0

    @property
    def origin(self) -> str:
        """Return the format, the file and the place that an imported episode was read from; empty for a played one."""
        parts = [str(self.log.get(name) or "") for name in ("format", "file", "place")] if self.log else []
        return one_line(", ".join(part for part in parts if part), 300)

    @property
    def marks(self) -> list[str]:
        """Return ``ok``, ``error`` or ``fault`` for each of the first turns."""
        marked = {error.turn: "fault" if error.injected else "error" for error in self.episode.error_turns}
        return [marked.get(turn, "ok") for turn in range(min(MARKS, len(self.episode.turns)))]

    @property
    def failed_tests(self) -> list[tuple[str, int]]:
        """Return the number of hidden tests that failed in each component; their names are secret."""
        grade = self.episode.grade
        return sorted(Counter(failure.component for failure in grade.failures).items())[:50] if grade else []

    @property
    def diff(self) -> list[Changed]:
        """Return the changed files."""
        return changes(self.episode.diff, self._base, self._diff_meter)

    @property
    def diff_left_out(self) -> int:
        """Return how many changed files are not shown."""
        return max(0, len(self.episode.diff) - MAX_FILES)

    def turns(self) -> Iterator[TurnView]:
        """Yield turns as long as the characters last; the others are counted in ``left_out`` afterwards."""
        for number, turn in enumerate(self.episode.turns):
            if self.meter.remaining <= 0:
                self.left_out = len(self.episode.turns) - number
                return
            yield self._turn(number, turn)

    def _turn(self, number: int, turn: Turn) -> TurnView:
        parsed = parse_turn(turn.action, number, strict=False)
        answers = _answers(turn, [call.id for call in parsed.calls])
        errors = [error for error in self.episode.error_turns if error.turn == number]
        faults = [fault for fault in self.episode.injected if fault.turn == number]
        calls = [
            _call(index, call, answers.get(index), errors, faults, is_log=self.log is not None)
            for index, call in enumerate(parsed.calls[: max(len(answers), 16)])
        ]
        findings = [finding for finding in self.episode.findings if finding.turn == number]
        self.meter.spend(MARKUP * (1 + len(calls) + len(errors) + len(findings)))
        return TurnView(
            number=number,
            text=parsed.text,
            thought=text_of(turn.action.get("reasoning_content")),
            calls=calls,
            notes=[message.content for message in turn.messages if message.role != "tool"][:16],
            errors=errors,
            findings=findings,
            seconds=turn.seconds,
            may_end_in_words=self.log is not None,
        )


def _answers(turn: Turn, call_ids: Sequence[str]) -> dict[int, str]:
    """Return the answers by the index of their call: by the call's id, where each answer has one of another call."""
    results = [message for message in turn.messages if message.role == "tool"]
    answer_ids = [message.tool_call_id for message in results]
    if len(set(answer_ids)) < len(answer_ids) or not set(answer_ids) <= set(call_ids):
        return {index: message.content for index, message in enumerate(results)}
    return {call_ids.index(message.tool_call_id): message.content for message in results}


def _call(
    index: int,
    call: Call,
    answer: str | None,
    errors: Sequence[ErrorTurn],
    faults: Sequence[InjectedFault],
    *,
    is_log: bool = False,
) -> CallView:
    """Return a call with its answer; in a log of another tool, the error turns say whether it failed."""
    content = answer or ""
    kinds: list[str] = [error.kind for error in errors if error.call_index == index]
    if is_log:
        status = ", ".join(kinds) or ("" if answer is None else "answered")
        return CallView(index, call, status, bool(kinds), content, kinds, [])
    has_status = is_status(content)
    first, _, body = content.partition("\n")
    return CallView(
        number=index,
        call=call,
        status=one_line(first, 400) if has_status else "" if answer is None else "answered",
        failed=has_status and read_status(content).word != "ok",
        body=body if has_status else content,
        kinds=kinds,
        faults=[fault for fault in faults if fault.call_index == index],
    )


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return "(nested too deeply)"


def behaviour(error: ErrorTurn) -> str:
    """Return the behaviour that an error's message names before its colon; empty for other kinds."""
    name, colon, _ = error.message.partition(": ")
    return name if colon and error.kind in ("wasteful", "style") else ""


def message(error: ErrorTurn, meter: Meter) -> Text:
    """Return an error's message without its kind and its behaviour."""
    return meter.show(error.message.removeprefix(f"{behaviour(error) or error.kind}: "), 1200)


def recovery(error: ErrorTurn) -> str:
    """Return in words whether and when the agent recovered from an error."""
    if error.recovered is None:
        return "the last turn: nothing came after it"
    if not error.recovered:
        return "not recovered"
    turns = error.turns_to_recover
    return "recovered" if turns is None else f"recovered after {turns} turn{'s' * (turns != 1)}"
