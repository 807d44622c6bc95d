"""Formats that list hidden tests refuse a task that is graded otherwise, in one line."""

from __future__ import annotations

import pytest

from etude.errors import ExportError
from etude.generators.export.expressible import refuse_other_verifiers
from etude.generators.export.swe_bench import row as swe_bench_row
from etude.generators.export.swe_smith import row as swe_smith_row
from etude.models import AnswerVerifier, GeneratorRef, MutantsVerifier, PytestVerifier, SnapshotRef, Task, Verifier


def task(verifier: Verifier) -> Task:
    return Task(
        task_id="shelf.task",
        base_commit="0" * 40,
        snapshot=SnapshotRef(digest="0" * 64),
        generator=GeneratorRef(name="hand", version="1", seed=0),
        problem_statement="Write tests.",
        patch="--- /dev/null\n",
        verifier=verifier,
    )


@pytest.mark.parametrize("row", [swe_bench_row, swe_smith_row])
@pytest.mark.parametrize(
    "verifier", [MutantsVerifier(test_file="tests/test_new.py", versions=""), AnswerVerifier(answer="four")]
)
def test_a_task_with_another_verifier_is_refused_with_its_kind_and_the_remedy(row, verifier) -> None:
    with pytest.raises(
        ExportError, match=f"shelf.task is graded by the verifier '{verifier.kind}'.*export it as nemo-gym"
    ):
        row(task(verifier))


def test_a_task_with_hidden_tests_is_not_refused() -> None:
    refuse_other_verifiers(task(PytestVerifier()))
