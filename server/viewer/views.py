"""Episodes as the page shows them: texts cut and made visible, error turns at their turns and calls."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ...environments.runs.reader import Stored
from ...hints.transcript.parsing import Call, parse_turn, text_of
from ...hints.transcript.status_line import is_status, read_status
from ...models import Episode, ErrorTurn, Finding, InjectedFault, ToolMessage, Turn
from .changes import MAX_FILES, Base, Changed, changes
from .marks import MARKUP, ErrorView, FindingView, error_view, finding_view
from .text import Meter, Text

MAX_TEXT = 4000
"""Characters of one text that are shown; fewer in a long episode, so that all its turns fit."""
MIN_TEXT = 200
"""Characters of one text in the longest episodes."""
MARKS = 160
"""Turns in the strip of an episode."""
_Mark = TypeVar("_Mark", ErrorTurn, InjectedFault, Finding)


@dataclass(frozen=True)
class CallView:
    """One call. ``status`` is the environment's first line, empty when nothing answered."""

    number: int
    tool: str
    brief: str
    arguments: list[tuple[str, Text]]
    raw: Text
    status: str
    failed: bool
    body: Text
    kinds: list[str]
    faults: list[Text]


@dataclass(frozen=True)
class TurnView:
    """One turn. ``notes`` are the environment's messages that answer no call."""

    number: int
    line: str
    text: Text
    thought: Text
    calls: list[CallView]
    notes: list[Text]
    outcome: str
    failed: bool
    errors: list[ErrorView]
    findings: list[FindingView]
    seconds: float


@dataclass(frozen=True)
class EpisodeView:
    """One episode. ``marks`` holds ``ok``, ``error`` or ``fault`` for each turn, in order."""

    number: int
    run: str
    agent: str
    task: str
    sample: int
    episode_id: str
    value: float | None
    valid: bool
    cause: Text
    end: str
    seconds: float
    turn_count: int
    components: list[tuple[str, float]]
    failed_tests: list[tuple[str, int]]
    assurance: str
    sandbox: str
    fork: str
    prompt: Text
    turns: list[TurnView]
    left_out: int
    marks: list[str]
    kinds: list[str]
    errors: int
    recovered: int
    injected: int
    findings: list[FindingView]
    diff: list[Changed] = field(default_factory=list)
    diff_left_out: int = 0


def episode_view(number: int, run: str, stored: Stored, base: Base | None, room: int) -> EpisodeView:
    """Return an episode in about ``room`` characters; turns that do not fit are counted in ``left_out``."""
    episode, errors = stored.episode, stored.episode.error_turns
    pieces = 8 + sum(2 + 4 * len(turn.messages) for turn in episode.turns) + 3 * len(errors)
    meter = Meter(room, max(MIN_TEXT, min(MAX_TEXT, room // pieces)))
    reward, sandbox = episode.reward, episode.sandbox
    parts = list(reward.components.items()) if reward else []
    # Only numbers: the names of hidden tests are secret.
    failed = Counter(failure.component for failure in episode.grade.failures) if episode.grade else Counter[str]()
    findings = [finding_view(finding, meter) for finding in episode.findings[:100]]
    diff = changes(episode.diff, base, Meter(room // 3, MAX_TEXT))
    turns = _turns(episode, meter)
    return EpisodeView(
        number=number,
        run=meter.line(run, 200),
        agent=meter.line(stored.agent, 80),
        task=meter.line(episode.task_id, 120),
        sample=stored.sample,
        episode_id=meter.line(episode.episode_id, 80),
        value=reward.value if reward else None,
        valid=stored.valid,
        cause=meter.show(stored.cause, 600),
        end=episode.end or "unfinished",
        seconds=episode.seconds,
        turn_count=len(episode.turns),
        components=[(meter.line(name, 60), value) for name, value in parts[:50]],
        failed_tests=[(meter.line(name, 60), number) for name, number in sorted(failed.items())[:50]],
        assurance=reward.assurance.replace("_", " ") if reward else "",
        sandbox=f"{sandbox.backend} (isolation by {sandbox.isolation}, limits by {sandbox.limits})" if sandbox else "",
        fork=meter.line(f"{episode.fork.episode_id}, turn {episode.fork.turn}", 120) if episode.fork else "",
        prompt=meter.show(episode.prompt),
        turns=turns,
        left_out=len(episode.turns) - len(turns),
        marks=_marks(episode),
        kinds=sorted({error.kind for error in errors}),
        errors=len(errors),
        recovered=sum(error.recovered is True for error in errors),
        injected=len(episode.injected),
        findings=findings,
        diff=diff,
        diff_left_out=max(0, len(episode.diff) - MAX_FILES),
    )


def _marks(episode: Episode) -> list[str]:
    marked = {error.turn: "fault" if error.injected else "error" for error in episode.error_turns}
    return [marked.get(turn, "ok") for turn in range(min(MARKS, len(episode.turns)))]


def _turns(episode: Episode, meter: Meter) -> list[TurnView]:
    errors = _by_turn(episode.error_turns)
    faults = _by_turn(episode.injected)
    findings = _by_turn(episode.findings)
    views: list[TurnView] = []
    for number, turn in enumerate(episode.turns):
        if meter.remaining <= 0:
            break
        views.append(_turn(number, turn, errors[number], faults[number], findings[number], meter))
    return views


def _by_turn(marks: Sequence[_Mark]) -> defaultdict[int | None, list[_Mark]]:
    by_turn = defaultdict[int | None, list[_Mark]](list)
    for mark in marks:
        by_turn[mark.turn].append(mark)
    return by_turn


def _turn(
    number: int,
    turn: Turn,
    errors: Sequence[ErrorTurn],
    faults: Sequence[InjectedFault],
    findings: Sequence[Finding],
    meter: Meter,
) -> TurnView:
    meter.spend(MARKUP)
    parsed = parse_turn(turn.action, number, strict=False)
    answers = [message for message in turn.messages if message.role == "tool"]
    calls = []
    for index, call in enumerate(parsed.calls[: max(len(answers), 16)]):
        answer = answers[index] if index < len(answers) else None
        call_errors = [error for error in errors if error.call_index == index]
        call_faults = [fault for fault in faults if fault.call_index == index]
        calls.append(_call(index, call, answer, call_errors, call_faults, meter))
    return TurnView(
        number=number,
        line=meter.line(parsed.text, 160),
        text=meter.show(parsed.text),
        thought=meter.show(text_of(turn.action.get("reasoning_content"))),
        calls=calls,
        notes=[meter.show(message.content) for message in turn.messages if message.role != "tool"][:16],
        outcome=next((call.status for call in calls if call.failed), calls[-1].status if calls else "no call"),
        failed=not calls or any(call.failed for call in calls),
        errors=[error_view(error, meter) for error in errors],
        findings=[finding_view(finding, meter) for finding in findings],
        seconds=turn.seconds,
    )


def _call(
    number: int,
    call: Call,
    answer: ToolMessage | None,
    errors: Sequence[ErrorTurn],
    faults: Sequence[InjectedFault],
    meter: Meter,
) -> CallView:
    meter.spend(MARKUP)
    content = answer.content if answer is not None else ""
    has_status = is_status(content)
    first, _, body = content.partition("\n")
    return CallView(
        number=number,
        tool=meter.line(call.name, 100) or "(no name)",
        brief=meter.line(_brief(call), 120),
        arguments=[(meter.line(name, 60), meter.show(_value(value))) for name, value in _first(call.arguments)],
        raw=meter.show(call.raw or call.problem if call.problem else ""),
        status=meter.line(first, 400) if has_status else "" if answer is None else "answered",
        failed=has_status and read_status(content).word != "ok",
        body=meter.show(body if has_status else content),
        kinds=[error.kind for error in errors],
        faults=[meter.show(f"{fault.kind}: {fault.text}", 600) for fault in faults],
    )


def _first(arguments: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return list(arguments.items())[:32]


def _brief(call: Call) -> str:
    """Return the values of a call's arguments on one line, such as the command or the path."""
    return call.raw[:400] if call.problem else " ".join(_value(value)[:400] for _, value in _first(call.arguments))


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return "(nested too deeply)"
