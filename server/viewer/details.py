"""An opened episode as JSON: turns with their calls and marks, reward, findings, tests, and the final diff.

Every text is made safe to read and is either a string, or ``[head, characters left out, tail]``. ``reveal`` adds what
must not be published: names and causes of failed hidden tests, and the difference from the reference solution.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

from ...environments.runs.reader import Stored
from ...models import ErrorTurn, FileChange, Finding
from .changes import Base, Changed, changes
from .safe_text import Meter, Text, one_line
from .views import CallView, EpisodeView, TurnView, behaviour, message, recovery

Solution = tuple[list[str], Base]
"""Paths that the reference solution changes, and a function that reads the text of any path after it."""

MAX_FAILURES = 200
MAX_TESTS_TEXT = 2000


def detail_of(
    stored: Stored,
    *,
    base: Base | None = None,
    solution: Callable[[], Solution | None] | None = None,
    room: int,
    reveal: bool = False,
) -> dict[str, Any]:
    """Return an episode in about ``room`` characters of its text.

    ``base`` reads the workspace before the episode. ``solution`` returns the reference solution, None for a task
    without one; it is called only with ``reveal``.
    """
    view = EpisodeView(0, "", stored, base, room)
    episode, meter = stored.episode, view.meter
    reward, sandbox, fork = episode.reward, episode.sandbox, episode.fork
    turns = [_turn(view, turn) for turn in view.turns()]
    return {
        "prompt": _text(meter.show(episode.prompt, 20_000)),
        "cause": _text(meter.show(stored.cause, 600)),
        "origin": view.origin,
        "components": [
            [one_line(name, 60), value, None if reward is None else reward.fractions.get(name)]
            for name, value in list(reward.components.items() if reward else ())[:50]
        ],
        "assurance": reward.assurance.replace("_", " ") if reward and stored.log is None else "",
        "sandbox": f"{sandbox.backend}, isolation by {sandbox.isolation}, limits by {sandbox.limits}"
        if sandbox
        else "",
        "fork": None if fork is None else [one_line(fork.episode_id, 80), fork.turn],
        "settings": _settings(stored),
        "teacher": _teacher(stored),
        "findings": [_finding(finding, meter) for finding in episode.findings[:100]],
        "faults": [[fault.turn, one_line(fault.kind, 60)] for fault in episode.injected[:1000]],
        "turns": turns,
        "left_out": view.left_out,
        "tests": _tests(view, reveal=reveal),
        "diff": [_changed(changed) for changed in view.diff],
        "diff_left_out": view.diff_left_out,
        "oracle": _oracle(episode.diff, base, solution(), room) if reveal and solution is not None else None,
    }


def _text(text: Text) -> Any:
    return [text.head, text.left_out, text.tail] if text.left_out else text.head


def _turn(view: EpisodeView, turn: TurnView) -> dict[str, Any]:
    meter = view.meter
    numbered = [(place, finding) for place, finding in enumerate(view.episode.findings[:100])]
    return {
        "n": turn.number,
        "thought": _text(meter.show(turn.thought)),
        "text": _text(meter.show(turn.text)),
        "calls": [_call(call, meter) for call in turn.calls],
        "notes": [_text(meter.show(note)) for note in turn.notes],
        "errors": [_error(error, meter) for error in turn.errors],
        "findings": [place for place, finding in numbered if finding.turn == turn.number],
        "outcome": one_line(turn.outcome, 200),
        "failed": turn.failed,
        "seconds": round(turn.seconds, 4) if view.has_time else None,
    }


def _call(call: CallView, meter: Meter) -> dict[str, Any]:
    return {
        "n": call.number,
        "name": meter.line(call.call.name, 100),
        "brief": meter.line(call.brief, 160),
        "args": [[meter.line(name, 60), _text(meter.show(value))] for name, value in call.arguments],
        "raw": _text(meter.show(call.raw)),
        "status": call.status,
        "failed": call.failed,
        "body": _text(meter.show(call.body)),
        "kinds": call.kinds,
        "faults": [[one_line(fault.kind, 60), _text(meter.show(fault.text, 600))] for fault in call.faults],
    }


def _error(error: ErrorTurn, meter: Meter) -> dict[str, Any]:
    return {
        "kind": error.kind,
        "behaviour": meter.line(behaviour(error), 40),
        "call": error.call_index,
        "injected": error.injected,
        "site": error.site,
        "recovered": error.recovered,
        "recovery": recovery(error),
        "message": _text(message(error, meter)),
        "evidence": _text(meter.show(error.evidence, 400)),
        "hints": [
            {
                "name": meter.line(hint.template or hint.source, 60),
                "score": hint.score,
                "text": _text(meter.show(hint.text, 2000)),
            }
            for hint in error.hints[:16]
        ],
    }


def _finding(finding: Finding, meter: Meter) -> dict[str, Any]:
    stages = {"attempted": finding.attempted, "succeeded": finding.succeeded, "integrated": finding.integrated}
    return {
        "exploit": meter.line(finding.exploit_id, 100),
        "severity": finding.severity,
        "stages": [name for name, reached in stages.items() if reached],
        "turn": finding.turn,
        "path": meter.line(finding.path, 400),
        "command": _text(meter.show(finding.command, 400)),
        "excerpt": _text(meter.show(finding.excerpt, 400)),
    }


def _teacher(stored: Stored) -> list[tuple[int, float]]:
    """Return how far the policy was from the teacher that read the hint: nats a token at the turns of a training run.

    A run's file may hold anything there: only numbers at turns of the episode are taken.
    """
    values = stored.settings.get("divergence")
    turns = range(len(stored.episode.turns))
    numbers = {str(turn): turn for turn in turns}
    return [
        (numbers[name], float(value))
        for name, value in (values.items() if isinstance(values, dict) else ())
        if name in numbers and isinstance(value, (int, float)) and isfinite(value)
    ]


def _settings(stored: Stored) -> list[list[str]]:
    """Return the settings of the run that people read, as names and texts."""
    hidden = ("log", "hint", "divergence")
    shown = {name: value for name, value in stored.settings.items() if name not in hidden and value is not None}
    return [[one_line(name, 40), one_line(str(value), 120)] for name, value in list(shown.items())[:30]]


def _tests(view: EpisodeView, *, reveal: bool) -> dict[str, Any]:
    """Return how many hidden tests failed by component; their names and causes only when they may be revealed."""
    grade = view.episode.grade
    failures = [] if grade is None or not reveal else grade.failures[:MAX_FAILURES]
    meter = Meter(100_000, MAX_TESTS_TEXT)
    return {
        "graded": grade is not None and bool(grade.failures or grade.reward.fractions),
        "counts": [[one_line(name, 60), number] for name, number in view.failed_tests],
        "failures": [[one_line(f.component, 60), one_line(f.test, 300), _text(meter.show(f.cause))] for f in failures],
        "end_cause": _text(meter.show(grade.end_cause)) if grade is not None and reveal else "",
    }


def _changed(changed: Changed) -> dict[str, Any]:
    return {
        "path": _text(changed.path),
        "what": changed.what,
        "note": _text(changed.note),
        "added": changed.added,
        "removed": changed.removed,
        "lines": [[line.kind, line.old, line.new, _text(line.text)] for line in changed.lines],
        "left_out": changed.left_out,
    }


def _oracle(
    diff: Sequence[FileChange], base: Base | None, solution: Solution | None, room: int
) -> list[dict[str, Any]] | None:
    """Return how the agent's files differ from those of the reference solution; None for a task without one."""
    if solution is None:
        return None
    paths, text_of = solution
    by_path = {change.path: change for change in diff if change.kind != "refused"}
    entries = [by_path.get(path) or _unchanged(path, base) for path in dict.fromkeys([*by_path, *paths])]
    shown = [_changed(one) for one in changes(entries, text_of, Meter(room // 3, 4000))]
    return [one for one in shown if one["added"] or one["removed"] or one["note"]]


def _unchanged(path: str, base: Base | None) -> FileChange:
    """Return a file that the agent left as it was in the workspace."""
    text = None if base is None else base(path)
    if text is None:
        return FileChange(path=path, kind="deleted")
    return FileChange(path=path, kind="file", content=base64.b64encode(text.encode()).decode())
