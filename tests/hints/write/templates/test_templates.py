"""One hint per kind of error: specific, short, the same each time, and true before the turn as well as after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from etude.environments.coding.tools import TOOLS, schemas
from etude.hints.detect.error_kinds import error_kind
from etude.hints.transcript.parsing import read_arguments
from etude.hints.transcript.past_turns import PastCall, PastTurn
from etude.hints.transcript.status_line import read_status
from etude.hints.write.hint_text import LONGEST
from etude.hints.write.templates import hints_for
from etude.models import ErrorKind, ErrorTurn, Hint
from etude.tool_names import nearest_name

FILES = ["src/tally/core.py", "src/tally/words.py", "tests/test_visible.py", "pyproject.toml"]
SCHEMAS = schemas(list(TOOLS))
UNKNOWN = "The tools are: " + ", ".join(TOOLS)


@dataclass(frozen=True)
class RawCall(PastCall):
    """A call whose reader kept the arguments as they were written."""

    raw: str = ""


def hints(
    *calls: PastCall,
    kind: ErrorKind | None = None,
    injected: bool = False,
    files: list[str] = FILES,
    tools: Any = SCHEMAS,
) -> list[Hint]:
    """Return the hints for the last of these calls, one call per turn."""
    turns, last = [PastTurn("", (call,)) for call in calls], calls[-1]
    own_kind = kind or error_kind(last)
    assert own_kind is not None
    error = ErrorTurn(
        turn=len(turns) - 1,
        call_index=0,
        kind=own_kind,
        tool=last.name,
        message=last.status.message or last.status.line,
        evidence=last.status.line,
        injected=injected,
    )
    built = hints_for(error, turns, tools, files)
    assert built == hints_for(error, turns, tools, files)
    for hint in built:
        assert 0 < len(hint.text) <= LONGEST and "\n" not in hint.text
        assert (hint.source, hint.role) == ("template", "user")
    return built


def first(*calls: PastCall, **more: Any) -> str:
    return hints(*calls, **more)[0].text


@pytest.mark.parametrize(
    ("tool", "arguments", "content", "says"),
    [
        ("grep", {}, f"error tool_not_found: there is no tool 'grep'. {UNKNOWN}", ["bash, read_file, ", "use search."]),
        ("read_fil", {}, f"error tool_not_found: there is no tool 'read_fil'. {UNKNOWN}", ["use read_file."]),
        ("frob", {}, f"error tool_not_found: there is no tool 'frob'. {UNKNOWN}", ["There is no tool 'frob'."]),
        ("bash", {}, "error malformed_call: duplicate id 'c1' in one turn; not run", ["'c1'", "a different id"]),
        (
            "bash",
            {"cmd": "ls"},
            "error invalid_args: x",
            ["no argument 'cmd'; did you mean 'command'", "bash(command: string, timeout_s?: number >= 0.1 <= 120)"],
        ),
        (
            "bash",
            {"command": "ls", "timeout_s": 99},
            "error invalid_args: bash: timeout_s must be at most 20",
            ["at most 20"],
        ),
        (
            "read_file",
            {"path": "x", "end_line": "3"},
            "error invalid_args: x",
            ["end_line must be of type integer", '"3"'],
        ),
        (
            "read_file",
            {"path": "src/core.py"},
            "error file_not_found: no such file: src/core.py",
            ["src/tally/core.py"],
        ),
        ("read_file", {"path": "src/tally/cor.py"}, "error file_not_found: no such file", ["src/tally/core.py"]),
        (
            "read_file",
            {"path": "src"},
            "error file_not_found: src is a folder; list",
            ["is a folder", "src/tally/core.py"],
        ),
        (
            "search",
            {"pattern": "x", "path": "test"},
            "error file_not_found: no such file or folder: test",
            ["is tests."],
        ),
        ("read_file", {"path": "zzz"}, "error file_not_found: no such file: zzz", ["`zzz`", "List the files"]),
        (
            "edit_file",
            {"path": "a.py", "old": "return sum(value)", "new": "x"},
            "error edit_failed: old is not in a.py; the nearest line is 12: '    return sum(values)'",
            ["`return sum(value)` is not in `a.py`", "line is 12: `    return sum(values)`", "Read `a.py`"],
        ),
        (
            "edit_file",
            {"path": "a.py", "old": "return", "new": "x"},
            "error edit_failed: old occurs 3 times in a.py (lines 3, 9, 12); add lines around it",
            ["`return` occurs 3 times", "(lines 3, 9, 12)", "the line before or after"],
        ),
        (
            "edit_file",
            {"path": "a.py", "old": "", "new": "x"},
            "error edit_failed: old is empty; use",
            ["word for word"],
        ),
        (
            "edit_file",
            {"path": "a.py", "old": "x", "new": "x"},
            "error edit_failed: old and new are the same",
            ["different"],
        ),
        ("bash", {"command": "pytst -q"}, "exit 127\nbash: line 1: pytst: command not found", ["python -m pytest"]),
        ("bash", {"command": "rg x"}, "exit 127\nbash: line 1: rg: command not found", ["'rg'", "grep -rn"]),
        ("bash", {"command": "mypy ."}, "exit 127\nsh: 1: mypy: not found", ["`python -m mypy`"]),
        ("bash", {"command": "run_tests"}, "exit 127\nbash: line 1: run_tests: command not found", ["is a tool"]),
        ("bash", {"command": "sleep 60"}, "timeout 30s", ["`sleep 60`", "30 s", "Do not wait"]),
        ("bash", {"command": "pytest"}, "timeout 30s", ["one test file"]),
        ("bash", {"command": "python -m http.server"}, "timeout 30s", ["never ends"]),
        ("bash", {"command": "find / -name x"}, "timeout 30s", ["workspace only"]),
        (
            "bash",
            {"command": "git apply p"},
            "exit 1\nerror: patch does not apply\n",
            ["code 1", "`error: patch does not apply`"],
        ),
        ("bash", {"command": "grep -rn x ."}, "exit 2\ngrep: x: Is a directory", ["code 2", "Is a directory"]),
        ("bash", {"command": "x"}, "exit 137\nKilled", ["memory"]),
        ("run_tests", {"selector": "x"}, "exit 4\nERROR: not found: x", ["pytest was called wrongly"]),
        ("write_file", {"path": "x"}, "error io_error: cannot write x: No space left on device", ["No space left"]),
        ("bash", {"command": "ls"}, "error transport_error: connection reset", ["send the same call once more"]),
        ("bash", {"command": "ls"}, "error injected_fault: rate limit, try again later", ["rate limit", "once more"]),
    ],
)
def test_a_hint_names_what_was_wrong_and_what_is_right(
    call: Any, tool: str, arguments: dict[str, Any], content: str, says: list[str]
) -> None:
    text = first(call(tool, arguments, content))
    for words in says:
        assert words in text


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ('{"command": "ls', ["line 1 column 13", 'Close it with `"}`']),
        ('{"command": "ls"', ["end too early", "Close it with `}`"]),
        ("{'command': 'ls'}", ["line 1 column 2", "`'command'", "double quotes"]),
        ('{"command": "ls",}', ["`}`", "Leave out the comma"]),
        ('{"command":\n True}', ["line 2 column 2", "`True}`", "true, false and null"]),
        ('{"command": "ls"}{"a": 1}', ["column 18", '`{"a": 1}`', "one object"]),
        ('{"command": "grep "x" y"}', ["column 20", '\\"']),
        ('{command: "ls"}', ["`command:", "Names take double quotes"]),
        ('```json\n{"command": "ls"}\n```', ["code fence"]),
        ('{"command": "a\\d"}', ["column 15", "backslash"]),
        ('{"command": "ls" // list\n}', ["`// list", "no comments"]),
        ('["ls"]', ["not a list"]),
    ],
)
def test_malformed_json_is_shown_with_its_place(raw: str, says: list[str]) -> None:
    problem = read_arguments(raw)[1]
    text = first(RawCall("c", "bash", read_status(f"error {problem}"), {}, problem, "", raw))
    for words in [*says, "bash(command: string"]:
        assert words in text


def test_without_the_raw_arguments_the_status_line_gives_the_place(call: Any) -> None:
    line = "error malformed_call: arguments are not valid JSON: Expecting ',' delimiter at line 1 column 9"
    assert "Expecting ',' delimiter at line 1 column 9" in first(call("bash", {}, line))


def test_a_traceback_is_placed_in_the_workspace(call: Any) -> None:
    body = (
        "Traceback (most recent call last):\n"
        '  File "/workspace/run.py", line 3, in <module>\n    total("x")\n'
        '  File "/workspace/src/tally/core.py", line 8, in total\n    return json.loads(values)\n'
        '  File "/usr/lib/python3.12/json/__init__.py", line 346, in loads\n    return x\n'
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n"
    )
    text = first(call("bash", {"command": "python run.py"}, f"exit 1\n{body}"))
    assert "line 8 of `src/tally/core.py` (in total)" in text
    assert "JSONDecodeError: Expecting value" in text


def test_paths_that_were_listed_before_are_known(call: Any) -> None:
    listed = call("list_files", {}, "ok\nsrc/tally/deep/inner.py\nREADME.md")
    missing = call("read_file", {"path": "inner.py"}, "error file_not_found: no such file: inner.py")
    assert "src/tally/deep/inner.py" in first(listed, missing, files=[])
    assert "src/tally/deep" not in first(missing, files=[])


def test_a_command_that_misses_a_file_gets_the_nearest_path_as_a_second_hint(call: Any) -> None:
    missing = call("bash", {"command": "cat src/core.py"}, "exit 1\ncat: src/core.py: No such file or directory\n")
    assert [hint.template for hint in hints(missing)] == ["nonzero_exit", "file_not_found"]
    assert "src/tally/core.py" in hints(missing)[1].text


def test_the_reason_is_quoted_when_usage_lines_follow_it(call: Any) -> None:
    answer = (
        "exit 128\nfatal: ambiguous argument 'x': unknown revision\nUse '--' to separate paths, like this:\n'git ...'"
    )
    assert "It says `fatal: ambiguous argument 'x': unknown revision`." in first(
        call("bash", {"command": "git show x"}, answer)
    )
    stopped = call("bash", {"command": "make all"}, "exit 2\ncc: no input\nmake: *** [all] Error 1")
    assert "It says `make: *** [all] Error 1`." in first(stopped)


def test_line_numbers_in_the_text_to_replace_are_noticed(call: Any) -> None:
    read = call("read_file", {"path": "a.py"}, "ok\n1\tdef total(values):\n2\t    pass")
    edit = call(
        "edit_file",
        {"path": "a.py", "old": "1\tdef total(values):", "new": "x"},
        "error edit_failed: old is not in a.py",
    )
    text = first(read, edit)
    assert "Leave out the line numbers" in text and "`def total(values):`" in text


def test_a_file_changed_since_it_was_read_is_noticed(call: Any) -> None:
    read = call("read_file", {"path": "a.py"}, "ok\n1\tone = 1")
    edit = call("edit_file", {"path": "a.py", "old": "one = 1", "new": "two = 2"}, "ok\nedited a.py at line 1")
    again = call("edit_file", {"path": "a.py", "old": "one = 1", "new": "x"}, "error edit_failed: old is not in a.py")
    assert "was changed after you read it" in first(read, edit, again)


def test_commands_that_worked_are_offered(call: Any) -> None:
    worked = call("bash", {"command": "cd src && frobnicate --all"}, "ok\n")
    assert "use `frobnicate`" in first(
        worked, call("bash", {"command": "frobnicat"}, "exit 127\nsh: frobnicat: not found")
    )


def test_a_cut_result_says_how_to_ask_for_less(call: Any) -> None:
    body = "x" * 8192 + "\n[... 5000 bytes dropped ...]\n" + "x" * 8192
    text = first(call("bash", {"command": "cat big.txt"}, f"ok\n{body}"))
    assert "`cat big.txt`" in text and "5000 bytes" in text and "start_line" in text
    assert "one test" in first(call("bash", {"command": "pytest -v"}, f"ok\n{body}"))


def test_the_budgets_end_names_the_tool_that_hands_in(call: Any) -> None:
    looks = [call("search", {"pattern": str(number)}, "ok\nx") for number in range(5)]
    text = first(*looks, kind="budget")
    assert "Call submit" in text and "5 of the 5 turns changed nothing" in text


def test_a_call_that_fails_again_gets_a_second_hint(call: Any) -> None:
    failing = call("bash", {"command": "make all"}, "exit 2\nno rule")
    edit = call("edit_file", {"path": "a.py", "old": "a", "new": "b"}, "ok\nedited")
    assert [hint.template for hint in hints(failing, failing)] == ["nonzero_exit", "again"]
    assert "`make all` has failed in turn 0 already" in hints(failing, failing)[1].text
    assert [hint.template for hint in hints(failing, edit, failing)] == ["nonzero_exit"]


def test_an_injected_fault_is_not_the_calls_own(call: Any) -> None:
    failing = call("bash", {"command": "ls"}, "exit 1\npermission denied")
    assert hints(failing, injected=True)[0].template == "injected_fault"
    gone = call("search", {}, "error tool_not_found: there is no tool 'search'. The tools are: bash, find_text")
    text = first(gone, injected=True)
    assert "bash, find_text" in text and "read_file" not in text and "use find_text" in text


def test_a_schema_that_has_changed_is_not_quoted_as_it_was(call: Any) -> None:
    answer = "error invalid_args: bash has no argument 'command'; it takes script"
    text = first(call("bash", {"command": "ls"}, answer), injected=True)
    assert "it takes script" in text and "bash(command" not in text


def test_nested_schemas_fit_on_one_line(call: Any) -> None:
    address = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}},
        "required": ["city"],
    }
    kinds = {"type": "array", "items": {"enum": ["a", "b"]}}
    rule = {"type": "object", "properties": {"to": address, "kinds": kinds}, "required": ["to"]}
    tools = [{"type": "function", "function": {"name": "send", "parameters": rule}}]
    text = first(call("send", {"to": {"zip": 1}}, "error invalid_args: x"), tools=tools)
    assert 'send(to: {city: string, zip?: integer}, kinds?: ["a"|"b"])' in text and "'city'" in text


@pytest.mark.parametrize("kind", ErrorKind.__args__)  # type: ignore[attr-defined]
def test_every_kind_of_a_failed_call_has_a_template_that_takes_anything(kind: ErrorKind) -> None:
    error = ErrorTurn(turn=3, call_index=7, kind=kind, tool="x" * 500, message="y" * 5000, evidence="z" * 5000)
    built = hints_for(error, [], [], [])
    assert all(len(hint.text) <= LONGEST for hint in built)
    if kind not in ("wasteful", "style", "false_claim"):
        assert built or kind == "tool_not_found", "without tools there are none to name"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("reed_the_fiel", "read_file"),
        ("str_replace", "edit_file"),
        ("grep", "search"),
        ("run_test", "run_tests"),
        ("delete_file", ""),
        ("weigh", ""),
    ],
)
def test_the_nearest_tool_does_the_same(name: str, near: str) -> None:
    assert nearest_name(name, ["bash", "read_file", "edit_file", "search", "run_tests", "submit"]) == near


def test_a_tool_that_shares_a_noun_alone_is_not_offered() -> None:
    assert nearest_name("weigh_truck", ["load_next", "close_truck", "submit"]) == ""
    assert (
        nearest_name("read_contract_weight", ["delete_contract_weight", "show_contract_weight"])
        == "show_contract_weight"
    )
    assert nearest_name("retrieve_car_due_date", ["delete_car_due_date", "weigh_car_due_date"]) == ""
    assert nearest_name("retrieve_car_due_date", ["delete_car_due_date", "read_car_due_date"]) == "read_car_due_date"
    assert nearest_name("car_due_date_show", ["car_due_date_overwrite", "car_due_date_get"]) == "car_due_date_get"
