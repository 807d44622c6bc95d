"""What a solution's processes write and what an agent leaves is random here: nothing crashes, nothing is earned.

10,000 messages and submissions: of the result channel, with and without the right key, of the channel of answers, of
forms that the trusted side decodes, and of changed files.
"""

from __future__ import annotations

import copy
import hashlib
import hmac
import json
import random
import sys
from collections.abc import Callable
from typing import Any

import pytest

from etude.environments.grading.collect import changes_of, collect, diff_digest
from etude.environments.grading.out_of_process.judging.answers import parsed, same_answer
from etude.environments.grading.out_of_process.processes.programs import boundary_parts
from etude.environments.sandbox import Change, ExecResult
from etude.environments.snapshots.test_run.test_runner import read_run
from etude.environments.tasks.task_trees import materials
from etude.models import Task

KEY = bytes(32)
TESTS = ("tests/test_a.py::test_one", "tests/test_a.py::test_two")
RESULT = {"outcome": "failed", "when": "call", "message": "1 != 2", "exception": "AssertionError", "where": "a.py:1"}
RECORDS: list[dict[str, Any]] = [
    {"kind": "modules", "files": {"a": "a.py"}},
    {"kind": "plan", "count": 2},
    {"kind": "start", "id": TESTS[0]},
    {"kind": "result", "id": TESTS[0], **RESULT},
    {"kind": "start", "id": TESTS[1]},
    {"kind": "result", "id": TESTS[1], **RESULT},
    {"kind": "cover", "id": TESTS[0], "files": {"a.py": [1]}},
    {"kind": "collect", "id": "tests/b.py", "message": "no"},
    {"kind": "crossing", "id": TESTS[0], "record": {"calls": []}},
    {"kind": "end", "status": 1, "cause": "", "ran": 2, "selected": 2, "violations": []},
]
ODD = [
    *(None, True, -1, 2**80, 1.5, float("nan"), "", "passed", "\ud800", "x" * 5000),
    *([], {}, [[]], {"kind": "end"}, "end"),
]
FORMS: list[Any] = [
    *(1, None, "x", ["i", "5"], ["f", "1.5"], ["s", "6162"], ["b", "YQ=="], ["t", [1, 2]], ["F", [1]], ["D", [[1, 2]]]),
    *(["r", 0], ["g", "os", "system"], ["g", "builtins", "eval"], ["e", "re", "RegexFlag", "A"], ["I", [1, 2], None]),
    *(["l", 1, [1, 2]], ["d", 1, [[1, 2]]], ["S", 2, [1]], ["ba", 1, "YQ=="], ["o", 1, "m", "C", {}]),
]
Random = random.Random


def signed(records: list[Any], key: bytes = KEY) -> bytes:
    """Return the channel that a run with the key would write."""
    channel = b""
    for number, record in enumerate(records):
        body = json.dumps(record).encode()
        mac = hmac.new(key, b"%d %s" % (number, body), hashlib.sha256).hexdigest().encode()
        channel += b"%d %s %s\n" % (number, mac, body)
    return channel


def damaged_bytes(data: bytes, chance: Random) -> bytes:
    """Return the bytes after one to five edits: cut, flipped, inserted or repeated."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 5)):
        place = chance.randrange(len(changed) + 1)
        action = chance.randrange(4)
        if action == 0:
            del changed[place : place + chance.randint(1, 200)]
        elif action == 1 and place < len(changed):
            changed[place] ^= 1 << chance.randrange(8)
        elif action == 2:
            changed[place:place] = chance.randbytes(chance.randint(1, 50))
        else:
            changed[place:place] = changed[: chance.randint(1, 300)]
    return bytes(changed)


def damaged_value(value: Any, chance: Random) -> Any:
    """Return the value with a part of it replaced, removed, repeated or nested."""
    value = copy.deepcopy(value)
    parts = [(value, key) for key in (value if isinstance(value, dict) else range(len(value)))] if value else []
    while parts:
        holder, key = chance.choice(parts)
        inner = holder[key]
        if isinstance(inner, list | dict) and inner and chance.random() < 0.6:
            parts = [(inner, key) for key in (inner if isinstance(inner, dict) else range(len(inner)))]
            continue
        action = chance.randrange(4)
        if action == 0:
            del holder[key]
        elif action == 1:
            holder[key] = [inner, inner]
        else:
            holder[key] = chance.choice([*ODD, *FORMS])
        break
    return value


def run_of(channel: bytes) -> Any:
    return read_run(ExecResult(exit_code=1, output=b"", channel=channel), KEY)


def test_a_damaged_result_channel_is_a_run_that_proves_nothing_more() -> None:
    chance, whole = Random(1), signed(RECORDS)
    for _ in range(3000):
        run = run_of(damaged_bytes(whole, chance))
        assert run.passed == []
        assert all(outcome.outcome == "failed" for outcome in run.outcomes.values())


def test_a_signed_result_of_another_shape_is_a_forgery() -> None:
    """Whoever reads the key can sign: a shape that the plugin never writes ends the run, and not the grader."""
    chance = Random(2)
    for _ in range(2000):
        records = damaged_value(RECORDS, chance)
        run = run_of(signed(records))
        assert run.complete or run.cause
    run = run_of(signed([*RECORDS[:3], {"kind": "result"}]))
    assert (run.complete, run.forged, run.cause) == (False, True, "forged or damaged result record at position 3")


def test_damaged_answers_are_no_right_answers() -> None:
    """An answer counts only when it equals the recorded one in every part."""
    chance = Random(3)
    answers = [{"result": form, "state": [["l", 1, [form]]]} for form in FORMS]
    line = json.dumps({"test": "0", "answers": answers}).encode() + b"\n"
    for number in range(2500):
        if number % 2:
            channel = damaged_bytes(line, chance)
        else:
            channel = json.dumps({"test": "0", "answers": damaged_value(answers, chance)}).encode()
        got = parsed(channel).get("0")
        assert got is None or got == answers or not same_answer(answers, got)


@pytest.fixture(scope="module")
def values() -> Callable[..., Any]:
    """Return what decodes forms on the trusted side."""
    scope: dict[str, Any] = {"__name__": "side"}
    for part in boundary_parts():
        exec(compile(part, "<side>", "exec"), scope)
    kind: Callable[..., Any] = scope["Values"]
    return kind


def test_a_damaged_form_runs_nothing(values: Callable[..., Any]) -> None:
    """Decoding on the trusted side imports, opens and starts nothing, whatever the form names."""
    chance, seen = Random(4), []
    watched = {"open", "exec", "compile", "import", "os.system", "subprocess.Popen", "os.exec", "socket.connect"}
    active = [True]
    sys.addaudithook(lambda event, _: seen.append(event) if active[0] and event in watched else None)
    for _ in range(1500):
        try:
            values(allowed=[]).decode(damaged_value([*FORMS], chance))
        except Exception:  # noqa: BLE001  the caller turns every failure of decoding into a wrong answer
            continue
    active[0] = False
    assert seen == []


def odd_change(chance: Random) -> Change:
    """Return a change as a sandbox may report it, of any path and kind."""
    names = [
        "src",
        "tally",
        "core.py",
        "..",
        ".",
        "",
        ".git",
        "tests",
        "conftest.py",
        "\u202e",
        "a" * 300,
        "\udcff",
        "CORE.py",
    ]
    path = "/".join(chance.choice(names) for _ in range(chance.randint(1, 5)))
    kind = chance.choice(["file", "deleted", "symlink", "special"])
    content = chance.randbytes(chance.randint(0, 40)) if chance.random() < 0.8 else None
    size = len(content or b"") + (chance.randint(-1, 2**40) if chance.random() < 0.1 else 0)
    return Change(path=path, kind=kind, size=size, executable=chance.random() < 0.5, content=content)  # type: ignore[arg-type]


def test_odd_changes_are_sorted_into_graded_and_refused(task: Task) -> None:
    chance = Random(5)
    tree = materials(task).pristine_tree
    for _ in range(1000):
        accepted, refused = collect([odd_change(chance) for _ in range(chance.randint(1, 8))], task, tree)
        assert all(change.path.startswith("src/tally/") and ".." not in change.path for change in accepted)
        assert all(change.reason for change in refused)
        assert len(diff_digest(accepted)) == 64
        assert len(changes_of(accepted)) == len(accepted)
