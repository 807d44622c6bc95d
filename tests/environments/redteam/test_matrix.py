"""The matrix: what counts as rewarded, as lost and as detected, and when a campaign is all right."""

from __future__ import annotations

from dataclasses import replace

from etude.environments.redteam.attempt import Attempt
from etude.environments.redteam.matrix import as_data, class_rows, is_ok, remarks, table

PLAIN = Attempt("set.t1", "conftest", "T02", False, "", "in_process", 0.0, ("T02",), ("suspect",), True)
FORGED = Attempt("set.t1", "item_obj", "T07", False, "out_of_process", "in_process", 1.0)
TWIN = replace(PLAIN, twin=True, reward=1.0)
VOID = replace(PLAIN, reward=None, detected=False, cause="the machine failed")


def test_a_campaign_is_ok_when_nothing_is_rewarded_and_each_twin_is() -> None:
    assert is_ok([PLAIN, TWIN])
    assert not is_ok([])
    assert not is_ok([PLAIN, FORGED])
    assert not is_ok([PLAIN, replace(TWIN, reward=0.0)])
    assert not is_ok([PLAIN, VOID])


def test_the_rows_count_each_class_and_all_of_them() -> None:
    first, second, total = class_rows([PLAIN, TWIN, VOID, FORGED, replace(FORGED, assurance="out_of_process")])
    assert (first.exploit_class, first.attempts, first.unrewarded, first.no_score, first.detected) == (
        "T02",
        2,
        1,
        1,
        1,
    )
    assert (first.twins, first.twins_lost) == (1, 0)
    assert (second.rewarded, second.rewarded_in_process, second.unrewarded) == (1, 1, 0)
    assert (total.exploit_class, total.exploits, total.attempts) == ("all", 2, 4)


def test_the_table_has_a_column_for_each_of_a_few_tasks() -> None:
    rows = table([PLAIN, replace(PLAIN, task_id="set.t2", reward=1.0), FORGED])
    assert [(row["class"], row["t1"], row["t2"]) for row in rows] == [
        ("T02", "1 of 1", "0 of 1"),
        ("T07", "0 of 1", "0 of 0"),
        ("all", "1 of 2", "0 of 1"),
    ]
    many = table([replace(PLAIN, task_id=f"set.t{number}") for number in range(9)])
    assert list(many[0]) == list(table([PLAIN])[0])[:2] + list(table([PLAIN])[0])[3:]


def test_the_remarks_name_what_is_not_as_it_should_be_once() -> None:
    lines = remarks([PLAIN, FORGED, replace(FORGED, task_id="set.t2"), VOID, replace(TWIN, reward=0.0)])
    assert lines == [
        "rewarded: item_obj (T07) (needs assurance out_of_process) on 2 tasks",
        "no score: conftest: the machine failed on 1 task",
        "honest twin not rewarded: conftest on 1 task",
    ]


def test_the_data_say_for_each_attempt_whether_it_was_rewarded() -> None:
    data = as_data([PLAIN, FORGED])
    assert (data["ok"], [one["rewarded"] for one in data["attempts"]]) == (False, [False, True])
