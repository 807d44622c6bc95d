"""Screening: what one warm run decides about candidates, and what it leaves to the full proof."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from helpers.deleted_total import package, snapshot_of

from etude.environments.snapshots import Snapshot
from etude.generators.base import Candidate, HiddenTests, Rejection
from etude.generators.engine.screening import Screened, screen
from etude.generators.engine.warm_suite import WarmSuite
from etude.generators.library.mutation.bug_report import BugReport
from etude.models import GeneratorRef

HIDDEN = "from sums import total\n\n\ndef test_total():\n    assert total([4, 5]) == 9\n"
VISIBLE = "from sums import largest\n\n\ndef test_largest():\n    assert largest([1, 2]) == 2\n"
FILES = package("sums", HIDDEN, VISIBLE)
MODULE = "src/sums/core.py"
TEST = "tests/test_hidden.py::test_total"


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    return snapshot_of(tmp_path_factory.mktemp("source") / "sums", FILES)


def candidate(before: str, after: str) -> Candidate:
    assert before in FILES[MODULE]
    return Candidate(
        entity=f"{MODULE}::{after}",
        generator=GeneratorRef(name="hand", version="1", seed=0),
        exercise={MODULE: FILES[MODULE].replace(before, after).encode()},
        hidden_tests=HiddenTests([TEST]),
        statement=BugReport("hidden"),
    )


def screened(snapshot: Snapshot, *candidates: Candidate) -> list[Screened]:
    return asyncio.run(screen(candidates, WarmSuite(snapshot)))


def test_a_change_that_no_test_notices_is_rejected_and_one_that_a_test_notices_is_not(snapshot: Snapshot) -> None:
    unnoticed, noticed = screened(snapshot, candidate("result = 0", "result = 0.0"), candidate("+=", "-="))
    assert unnoticed.rejection == Rejection("v1_no_test_fails", "1 tests run the changed code, all of them still pass")
    assert noticed.rejection is None
    assert noticed.run is not None and noticed.run.outcomes[TEST].outcome == "failed"


def test_a_change_with_which_the_tests_do_not_end_is_rejected(snapshot: Snapshot) -> None:
    (endless,) = screened(snapshot, candidate("result = 0\n", "result = 0\n    while True: pass\n"))
    assert endless.rejection is not None and endless.rejection.reason == "v1_too_slow"


def test_what_a_warm_run_cannot_show_is_left_to_the_full_proof(snapshot: Snapshot) -> None:
    changed = candidate("+=", "-=")
    at_import = replace(changed, exercise={MODULE: FILES[MODULE].encode() + b"\nLIMIT = 3\n"})
    rewritten = replace(changed, hidden_tests=replace(changed.hidden_tests, rewritten={"tests/test_hidden.py": b""}))
    deleted = replace(changed, exercise={MODULE: None})
    blocked = replace(changed, blocked=Rejection("v0_undefined", "a name is missing"))
    assert screened(snapshot, at_import, rewritten, deleted, blocked) == [Screened()] * 4
