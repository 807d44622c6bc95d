"""Turns that worked and were a waste: repeating, re-reading, waiting, pages of output, effort after the end."""

from __future__ import annotations

from typing import Any

import pytest

from etude.hints.detect.behaviour import behaviour_of, behaviours
from etude.hints.transcript.past_turns import PastCall, PastTurn


def log(*calls: PastCall) -> list[PastTurn]:
    return [PastTurn("", (call,)) for call in calls]


def found(*calls: PastCall) -> list[tuple[str, int]]:
    """(behaviour, turn) of what is found; one call per turn."""
    return [(behaviour_of(error), error.turn) for error in behaviours(log(*calls))]


@pytest.fixture
def bash(call: Any) -> Any:
    return lambda command, body="": call("bash", {"command": command}, f"ok\n{body}")


@pytest.fixture
def read(call: Any) -> Any:
    return lambda path, **lines: call("read_file", {"path": path, **lines}, "ok\n1\tx = 1")


@pytest.fixture
def edit(call: Any) -> Any:
    return lambda path: call("edit_file", {"path": path, "old": "a", "new": "b"}, f"ok\nedited {path} at line 1")


def test_the_same_command_with_the_same_result_is_a_repeat(bash: Any) -> None:
    assert found(bash("git status", "clean"), bash("git status", "clean")) == [("repeat", 1)]


def test_durations_do_not_make_a_result_another(bash: Any) -> None:
    assert found(bash("pytest -q", "3 passed in 0.12s"), bash("pytest -q", "3 passed in 0.31s")) == [("repeat", 1)]


def test_a_command_between_which_something_changed_is_none(bash: Any, edit: Any) -> None:
    assert found(bash("pytest -q", "3 passed"), edit("a.py"), bash("pytest -q", "3 passed")) == []
    assert found(bash("pytest -q", "3 passed"), bash("python fix.py"), bash("pytest -q", "3 passed")) == []
    assert found(bash("git status", "clean"), bash("git status", "dirty")) == []


def test_failing_tests_run_again_without_a_change_are_a_repeat(call: Any) -> None:
    failing = call("run_tests", {}, "exit 1\n1 failed")
    assert found(failing, failing) == [("repeat", 1)]


def test_calls_that_fail_and_tools_that_act_are_no_repeats(call: Any) -> None:
    broken, acting = call("bash", {"command": "nonsuch"}, "exit 127\n"), call("press_button", {"n": 1}, "ok\npressed")
    assert found(broken, broken, acting, acting) == []


def test_the_same_lines_read_again_are_a_reread(read: Any, bash: Any) -> None:
    assert found(read("a.py"), read("a.py")) == [("reread", 1)]
    assert found(read("a.py", start_line=1, end_line=90), read("a.py", start_line=10, end_line=20)) == [("reread", 1)]
    assert found(bash("cat a.py", "x = 1"), read("./a.py")) == [("reread", 1)]
    assert found(bash("sed -n '1,40p' a.py", "x"), bash("sed -n 5,9p a.py", "x")) == [("reread", 1)]


def test_other_lines_other_files_and_changed_files_are_none(read: Any, edit: Any, bash: Any) -> None:
    assert found(read("a.py", start_line=1, end_line=9), read("a.py", start_line=5, end_line=20)) == []
    assert found(read("a.py"), read("b/a.py")) == []
    assert found(read("a.py"), edit("a.py"), read("a.py")) == []
    assert found(read("a.py"), bash("sed -i s/a/b/ a.py"), read("a.py")) == []
    assert found(read("a.py"), edit("b.py"), read("a.py")) == [("reread", 2)]


def test_what_was_not_shown_may_be_asked_for(call: Any, read: Any) -> None:
    body = "1\tx\n[... lines 200-500 of 500 not shown; ask with start_line=200 ...]"
    first = call("read_file", {"path": "a.py"}, f"ok\n{body}")
    assert found(first, read("a.py", start_line=200)) == []
    assert found(first, read("a.py", start_line=150, end_line=199)) == [("reread", 1)]
    assert found(call("bash", {"command": "cat a.py | head -5"}, "ok\nx"), read("a.py")) == []


@pytest.mark.parametrize(
    ("command", "waits"),
    [
        ("sleep 10", True),
        ("sleep 1", True),
        ("sleep 0.5 && sleep 30; ls", True),
        ("while ! test -f done; do sleep 1; done", True),
        ("for i in 1 2 3; do sleep 1; curl localhost; done", True),
        ("python -c 'import time; time.sleep(20)'", True),
        ("python server.py & sleep 1; curl localhost:8000", False),
        ("grep -rn 'sleep 60' src", False),
        ("git commit -m 'do not sleep 30 seconds'", False),
        ("cat > run.sh <<'EOF'\nsleep 60\nEOF", False),
        ("echo done", False),
    ],
)
def test_waiting_is_told_by_the_programs_that_run(command: str, waits: bool, bash: Any) -> None:
    assert found(bash(command)) == ([("sleep", 0)] if waits else [])


def test_a_whole_huge_file_is_pages(bash: Any) -> None:
    text = "a line of text\n" * 800
    assert found(bash("cat big.txt", text)) == [("pages", 0)]
    assert found(bash("cat big.txt", "short")) == []
    assert found(bash("grep -n a big.txt", text)) == []


def test_one_partial_read_after_another_is_pages(call: Any) -> None:
    def part(first: int) -> PastCall:
        body = "x" * 16_000 + f"\n[... lines {first + 99}-9000 of 9000 not shown; ask with start_line={first + 99} ...]"
        return call("read_file", {"path": "big.txt", "start_line": first}, f"ok\n{body}")

    assert found(part(1)) == []
    assert found(part(1), part(100), part(200)) == [("pages", 1), ("pages", 2)]


def test_ten_turns_after_the_work_is_done_are_too_many(edit: Any, call: Any, read: Any) -> None:
    passed = call("run_tests", {}, "ok\n3 passed")
    looks = [read(f"f{number}.py") for number in range(10)]
    assert found(edit("a.py"), passed, *looks[:9]) == []
    assert found(edit("a.py"), passed, *looks) == [("effort", 11)]
    assert found(edit("a.py"), passed, *looks[:5], edit("b.py"), *looks[5:]) == []
    assert found(passed, *looks) == [], "nothing was done yet"


def test_recovery_is_the_next_turn_without_it(bash: Any) -> None:
    first, second = behaviours(log(bash("sleep 10"), bash("sleep 20"), bash("ls")))
    assert (first.recovered, first.turns_to_recover, second.turns_to_recover) == (True, 2, 1)
    (last,) = behaviours(log(bash("sleep 10")))
    assert (last.recovered, last.turns_to_recover) == (None, None)


def test_what_is_said_of_a_turn_does_not_depend_on_later_ones(bash: Any, read: Any, edit: Any) -> None:
    calls = [
        read("a.py"),
        read("a.py"),
        bash("ls", "a"),
        edit("a.py"),
        bash("ls", "a"),
        bash("ls", "a"),
        bash("sleep 9"),
    ]
    whole = [(error.turn, error.message) for error in behaviours(log(*calls))]
    for size in range(len(calls)):
        part = [(error.turn, error.message) for error in behaviours(log(*calls[:size]))]
        assert part == [entry for entry in whole if entry[0] < size]


@pytest.mark.parametrize(
    "command",
    [
        "echo 'open",
        "$(",
        "a" * 100_000,
        "<<EOF",
        "((((",
        "cat <(ls) > x",
        "&&&",
        "x=1",
        "timeout",
        "\x00",
        "sed -n 9" + "9" * 5000 + "p a",
    ],
)
def test_odd_commands_are_read(command: str, bash: Any) -> None:
    assert isinstance(found(bash(command), bash("ls")), list)


def test_odd_arguments_are_read(call: Any) -> None:
    odd = [{"path": ["a"]}, {"command": 7}, {"command": ["ls", "-l"]}, {"path": None}, {1: {2: 3}, "a": object()}]
    names = ("bash", "read_file", "run_tests", "edit_file", "submit")
    assert isinstance(found(*(call(name, arguments) for name in names for arguments in odd)), list)


def test_an_editor_with_sub_commands_is_read_by_those(call: Any) -> None:
    def edit(command: str, **more: Any) -> PastCall:
        return call("str_replace_editor", {"command": command, "path": "a.py", **more}, "ok\nx")

    assert found(edit("view"), edit("view")) == [("reread", 1)]
    assert found(edit("view"), edit("str_replace", old_str="a", new_str="b"), edit("view")) == []
    assert found(edit("view", view_range=[1, 50]), edit("view", view_range=[60, 90])) == []


def test_commands_inside_commands_are_seen(bash: Any) -> None:
    assert found(bash("bash -lc 'sleep 30'")) == [("sleep", 0)]
    assert found(bash("timeout 60 sleep 30")) == [("sleep", 0)]
    assert found(bash("# sleep 30\nls")) == []
