"""What a record lacks, as a short reason that tasks share."""

from __future__ import annotations

import pytest

from etude.environments.grading.out_of_process.recorded_calls import RecordedCalls
from etude.environments.grading.out_of_process.strength.requirements import Requirement, Unmet, missing


@pytest.mark.parametrize(
    ("cause", "summary"),
    [
        ("", "enough tests"),
        ("m.n:C.f#set: a RLock has no form (TypeError)", "enough tests: a RLock has no form"),
        ("elsewhere it differs (m:f: another result)", "enough tests: elsewhere it differs"),
        ("with given answers it fails (<C object at 0x7f00> is None)", "enough tests: with given answers it fails"),
    ],
)  # fmt: skip
def test_the_summary_has_no_names_numbers_and_messages(cause: str, summary: str) -> None:
    assert Unmet(Requirement.TESTS, "1 of 2 tests are not recorded", cause).summary == summary


def test_missing_names_the_requirement_that_a_record_does_not_meet() -> None:
    call = {"target": "m:f", "arguments": [], "keywords": {}}
    few = RecordedCalls(
        ["m:f"], [], ["m"], {"t": [{**call, "arguments": [n], "answer": {**ANSWER, "result": n}} for n in (1, 2)]}
    )
    assert missing(few, {}, "", (), {}) == Unmet(Requirement.CALLS, "only 2 different calls are recorded")
    unseen = missing(few, {"u": "its calls differ from run to run"}, "", ["m:g"], {})
    assert unseen and unseen.summary == "enough tests: its calls differ from run to run"


ANSWER = {"after": None, "error": None, "printed": ""}
