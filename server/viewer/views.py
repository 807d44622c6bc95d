"""Episodes as the page shows them: every text cut and made visible, every error turn at its turn and call."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...hints.transcript.parsing import Call, parse_turn, text_of
from ...hints.transcript.status_line import is_status, read_status
from ...models import Episode, ErrorTurn, Finding, InjectedFault, ToolMessage, Turn
from .changes import MAX_FILES, Base, Changed, changes
from .marks import MARKUP, ErrorView, FindingView, error_view, finding_view
from .stored import Stored
from .text import Meter, Text

MAX_TEXT = 4000
"""Characters of one text that are shown at most; in a long episode it is less, so that all its turns fit."""
MIN_TEXT = 200
MARKS = 160


@dataclass(frozen=True)
class CallView:
    """``status`` is the environment's line, empty when nothing answered. ``arguments`` are names and values."""

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
    number: int
    line: str
    said: Text
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
    """``marks`` say of each turn, in order, ``ok``, ``error`` or ``fault``."""

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


def episode_view(number: int, stored: Stored, base: Base | None, room: int) -> EpisodeView:
    """One episode in ``room`` characters, about; turns that do not fit are counted in ``left_out``."""
    episode, errors = stored.episode, stored.episode.error_turns
    pieces = 8 + sum(2 + 4 * len(turn.messages) for turn in episode.turns) + 3 * len(errors)
    meter = Meter(room, max(MIN_TEXT, min(MAX_TEXT, room // pieces)))
    reward, sandbox = episode.reward, episode.sandbox
    parts = list(reward.components.items()) if reward else []
    # How many, not which: their names are secret.
    failed = Counter(each.component for each in episode.grade.failures) if episode.grade else Counter[str]()
    findings = [finding_view(each, meter) for each in episode.findings[:100]]
    diff = changes(episode.diff, base, Meter(room // 3, MAX_TEXT))
    turns = _turns(episode, meter)
    return EpisodeView(
        number=number,
        run=meter.line(stored.run, 200),
        agent=meter.line(stored.agent, 80),
        task=meter.line(episode.task_id, 120),
        sample=stored.sample,
        episode_id=meter.line(episode.episode_id, 80),
        value=reward.value if reward else None,
        valid=bool(reward and reward.valid),
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
    wrong = {error.turn: "fault" if error.injected else "error" for error in episode.error_turns}
    return [wrong.get(turn, "ok") for turn in range(min(MARKS, len(episode.turns)))]


def _turns(episode: Episode, meter: Meter) -> list[TurnView]:
    errors, faults, findings = (
        dict[int, list[ErrorTurn]](),
        dict[int, list[InjectedFault]](),
        dict[int, list[Finding]](),
    )
    for error in episode.error_turns:
        errors.setdefault(error.turn, []).append(error)
    for fault in episode.injected:
        faults.setdefault(fault.turn, []).append(fault)
    for finding in episode.findings:
        findings.setdefault(-1 if finding.turn is None else finding.turn, []).append(finding)
    shown: list[TurnView] = []
    for number, turn in enumerate(episode.turns):
        if meter.left <= 0:
            break
        marked = errors.get(number, []), faults.get(number, []), findings.get(number, [])
        shown.append(_turn(number, turn, *marked, meter))
    return shown


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
        here = [error for error in errors if error.call_index == index]
        calls.append(_call(index, call, answer, here, [fault for fault in faults if fault.call_index == index], meter))
    return TurnView(
        number=number,
        line=meter.line(parsed.text, 160),
        said=meter.show(parsed.text),
        thought=meter.show(text_of(turn.action.get("reasoning_content"))),
        calls=calls,
        notes=[meter.show(message.content) for message in turn.messages if message.role != "tool"][:16],
        outcome=next((call.status for call in calls if call.failed), calls[-1].status if calls else "no call"),
        failed=not calls or any(call.failed for call in calls),
        errors=[error_view(error, meter) for error in errors],
        findings=[finding_view(each, meter) for each in findings],
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
    known = is_status(content)
    first, _, rest = content.partition("\n")
    return CallView(
        number=number,
        tool=meter.line(call.name, 100) or "(no name)",
        brief=meter.line(_brief(call), 120),
        arguments=[(meter.line(name, 60), meter.show(_value(value))) for name, value in _first(call.arguments)],
        raw=meter.show(call.raw or call.problem if call.problem else ""),
        status=meter.line(first, 400) if known else "" if answer is None else "answered",
        failed=known and read_status(content).word != "ok",
        body=meter.show(rest if known else content),
        kinds=[error.kind for error in errors],
        faults=[meter.show(f"{fault.kind}: {fault.text}", 600) for fault in faults],
    )


def _first(arguments: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return list(arguments.items())[:32]


def _brief(call: Call) -> str:
    """The values of a call's arguments, as one reads them: the command, the path."""
    return call.raw[:400] if call.problem else " ".join(_value(value)[:400] for _, value in _first(call.arguments))


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return "(nested too deeply)"
