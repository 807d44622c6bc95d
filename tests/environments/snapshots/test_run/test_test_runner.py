"""Reading of a result pipe: only signed records in sequence, with an end, count."""

from __future__ import annotations

import hashlib
import hmac
import json
import random
from typing import Any

import pytest

from etude.environments.sandbox import ExecResult
from etude.environments.snapshots.test_run.test_runner import TestRun, read_run

KEY = b"k" * 32
END = {"kind": "end", "status": 0, "cause": "", "selected": 2, "ran": 2, "violations": []}


def passed(test: str) -> dict[str, Any]:
    return {
        "kind": "result",
        "id": test,
        "outcome": "passed",
        "when": "call",
        "message": "",
        "exception": "",
        "where": "",
    }


def line(number: int, record: dict[str, Any], key: bytes = KEY) -> bytes:
    body = json.dumps(record).encode()
    mac = hmac.new(key, b"%d %s" % (number, body), hashlib.sha256).hexdigest().encode()
    return b"%d %s %s\n" % (number, mac, body)


def lines(*records: dict[str, Any]) -> list[bytes]:
    return [line(number, record) for number, record in enumerate(records)]


def run(channel: bytes, **fields: Any) -> TestRun:
    return read_run(ExecResult(**{"exit_code": 0, "output": b"", "channel": channel, **fields}), KEY)


HONEST = lines({"kind": "plan", "count": 2}, passed("a"), passed("b"), END)


def test_read_run_accepts_signed_records_in_sequence() -> None:
    result = run(b"".join(HONEST))
    assert (result.complete, result.passed, result.cause) == (True, ["a", "b"], "")


@pytest.mark.parametrize(
    ("name", "channel", "cause"),
    [
        ("truncated", b"".join(HONEST[:2]), "ended early: exit 0 after 1 of 2 tests"),
        ("cut in a line", b"".join(HONEST)[:-5], "ended early: exit 0 after 2 of 2 tests"),
        ("empty", b"", "ended early: exit 0 after 0 tests"),
        ("replayed", b"".join([*HONEST[:2], HONEST[1], *HONEST[2:]]), "forged or damaged"),
        ("reordered", b"".join([HONEST[1], HONEST[0], *HONEST[2:]]), "forged or damaged"),
        ("dropped", b"".join([HONEST[0], *HONEST[2:]]), "forged or damaged"),
        ("wrong key", line(0, END, b"x" * 32), "forged or damaged"),
        ("plain text", b"PASSED\n" + b"".join(HONEST), "forged or damaged"),
        ("after the end", b"".join([*HONEST, line(4, passed("c"))]), "forged or damaged"),
        ("two ends", b"".join([*HONEST, line(4, END)]), "forged or damaged"),
        ("too few", b"".join(lines(passed("a"), END)), "pytest stopped after 1 tests"),
    ],
)
def test_read_run_is_incomplete_when_records_are_missing_or_forged(name: str, channel: bytes, cause: str) -> None:
    result = run(channel)
    assert not result.complete, name
    assert cause in result.cause


def test_read_run_gives_no_outcome_when_an_id_is_reported_twice() -> None:
    result = run(b"".join(lines(passed("a"), passed("a"), END)))
    assert (result.outcomes, result.repeated) == ({}, ["a"])


def test_read_run_names_the_running_test_after_a_timeout() -> None:
    channel = b"".join(lines({"kind": "plan", "count": 3}, passed("a"), {"kind": "start", "id": "b"}))
    result = run(channel, exit_code=None, timed_out=True)
    assert result.cause == "timeout after 1 of 3 tests during b"


def test_read_run_never_adds_a_pass_when_records_are_damaged() -> None:
    rng, intact = random.Random(0), b"".join(HONEST)
    for _ in range(500):
        damaged = bytearray(intact)
        for _ in range(rng.randrange(1, 6)):
            kind, at = rng.randrange(3), rng.randrange(len(damaged))
            if kind == 0:
                damaged[at] = rng.randrange(256)
            elif kind == 1:
                del damaged[at : at + rng.randrange(1, 40)]
            else:
                damaged[at:at] = rng.randbytes(rng.randrange(1, 40))
        result = run(bytes(damaged))
        assert set(result.passed) <= {"a", "b"}
        assert bytes(damaged) == intact or not result.complete
