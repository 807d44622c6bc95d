"""Official labels against measured ones, in the three spellings of SWE-bench's log parsers."""

from __future__ import annotations

from etude.environments.snapshots.test_run.test_runner import Outcome, TestRun
from etude.generators.library.rows.instance import changed_files
from etude.generators.library.rows.labels import compare, measure_labels, named_tests, needs_network


def run(**outcomes: str) -> TestRun:
    """Return a run; names are written with two underscores for ``::``."""
    named = {name.replace("__", "::"): Outcome(value) for name, value in outcomes.items()}  # type: ignore[arg-type]
    return TestRun(outcomes=named, order=list(named), complete=True, cause="")


def test_a_test_counts_only_when_all_runs_agree() -> None:
    before = [run(f__a="failed", f__b="passed", f__c="failed", f__d="failed")] * 2
    before.append(run(f__a="error", f__b="passed", f__c="passed", f__d="failed"))
    after = [run(f__a="passed", f__b="passed", f__c="passed", f__d="failed", f__e="passed")] * 3
    labels = measure_labels(before, after)
    assert (labels.fail_to_pass, labels.pass_to_pass, labels.flaky) == (["f::a", "f::e"], ["f::b"], ["f::c"])


def test_labels_are_read_as_the_parsers_of_swe_bench_write_them() -> None:
    pytest_run = run(**{"f__a[x y]": "passed", "f__C__b": "passed"})
    assert named_tests(["f::a[x"], pytest_run) == ["f::a[x y]"]  # cut at the first space
    assert named_tests(["f::C::b", "b"], pytest_run) == ["f::C::b"]
    assert named_tests(["test_solve"], run(sympy__test_solve="passed")) == ["sympy::test_solve"]  # the function alone
    django = TestRun(
        outcomes={"m.tests.Case.test_x": Outcome("passed"), "m.tests.Case.test_y": Outcome("passed")},
        order=["m.tests.Case.test_x", "m.tests.Case.test_y"],
        complete=True,
        cause="",
        descriptions={"m.tests.Case.test_y": "#1234 -- It works."},
    )
    for label in ("test_x (m.tests.Case)", "test_x (m.tests.Case.test_x)"):
        assert named_tests([label], django) == ["m.tests.Case.test_x"]
    assert named_tests(["#1234 -- It works."], django) == ["m.tests.Case.test_y"]


def test_the_difference_says_what_happened() -> None:
    before, after = run(f__a="passed", f__b="failed"), run(f__a="passed", f__b="passed", f__c="failed")
    difference = compare(["f::a", "f::b", "f::c", "f::gone"], ["f::b"], before, after)
    assert difference.reproduced == 1 and difference.unlisted == []
    assert difference.not_reproduced == {
        "f::a": "before: passed; after: passed",
        "f::c": "before: missing; after: failed",
        "f::gone": "no such test",
    }
    assert compare([], ["f::b"], before, after).unlisted == ["f::b"]


def test_a_failure_for_want_of_a_connection_is_recognised() -> None:
    failed = {"f::a": Outcome("failed", "call", "Max retries exceeded", "ConnectionError")}
    broken = TestRun(outcomes=failed, order=["f::a"], complete=True, cause="")
    assert needs_network([broken], ["f::a"]) and not needs_network([run(f__a="failed")], ["f::a"])


def test_changed_files_leaves_out_what_a_patch_deletes() -> None:
    patch = (
        "diff --git a/tests/test_a.py b/tests/test_a.py\n--- a/tests/test_a.py\n+++ b/tests/test_a.py\n"
        "diff --git a/tests/test_b.py b/tests/test_b.py\ndeleted file mode 100644\n"
        "diff --git a/old.py b/new.py\nsimilarity index 100%\nrename from old.py\nrename to new.py\n"
    )
    assert changed_files(patch) == ["tests/test_a.py", "new.py"]
