"""Each dialect's reader: turns, calls and results, and how a result without a status line went."""

from __future__ import annotations

import json
from typing import Any

import pytest

from etude.errors import UnknownName
from etude.hints import PastCall, PastTurn, error_kind, read

BASH = {
    "name": "bash",
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
}
Message = dict[str, Any]


def says(content: Any, **more: Any) -> Message:
    return {"role": "assistant", "content": content, **more}


def user(content: str) -> Message:
    return {"role": "user", "content": content}


def native(call_id: str, name: str, **arguments: Any) -> Message:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def result(call_id: str, content: Any, **more: Any) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": content, **more}


def calls(turns: list[PastTurn]) -> list[list[tuple[str, dict[str, Any], str]]]:
    return [[(call.name, dict(call.arguments), call.body) for call in turn.calls] for turn in turns]


def shell(command: str, content: str, *others: str) -> PastCall:
    """A call of a shell whose log has no exit codes; ``others`` are results of further calls."""
    messages = [says(""), says("", tool_calls=[native("a", "bash", command=command)]), result("a", content)]
    for number, other in enumerate(others):
        messages += [says("", tool_calls=[native(f"o{number}", "bash", command="true")]), result(f"o{number}", other)]
    return read(messages, dialect="openai")[1].calls[0]


def tool(name: str, content: str, **arguments: Any) -> PastCall:
    messages = [says("", tool_calls=[native("a", name, **arguments)]), result("a", content)]
    return read(messages, dialect="openai")[0].calls[0]


# --- Who called what ----------------------------------------------------------------------------------------


def test_openai_results_find_their_calls_by_id() -> None:
    listed = [native("a", "bash", command="one"), native("b", "bash", command="two")]
    turns = read([says("both", tool_calls=listed), result("b", "2"), result("a", "1"), user("go on"), says(None)], [])
    assert calls(turns) == [[("bash", {"command": "one"}, "1"), ("bash", {"command": "two"}, "2")], []]
    assert (turns[0].text, turns[0].notes) == ("both", ("go on",))


def test_calls_with_one_id_are_answered_in_order() -> None:
    listed = [native("a", "bash", command="one"), native("a", "bash", command="two")]
    turns = read([says("", tool_calls=listed), result("a", "1"), result("a", "2")], [], "openai")
    assert [body for *_, body in calls(turns)[0]] == ["1", "2"]


def test_a_result_may_come_a_turn_late() -> None:
    listed = [native("a", "slow"), native("b", "fast")]
    turns = read([says("", tool_calls=listed), result("b", "2"), says("waiting"), result("a", "1")], [])
    assert calls(turns) == [[("slow", {}, "1"), ("fast", {}, "2")], []]


def test_a_result_that_nobody_asked_for_is_a_call_without_arguments() -> None:
    turns = read([says(""), result("a", "ok\nx", name="bash")], [])
    assert calls(turns) == [[("bash", {}, "x")]]


def test_a_function_call_of_the_old_kind_is_a_call() -> None:
    old = says(None, function_call={"name": "f", "arguments": '{"a": 1}'})
    assert calls(read([old, {"role": "function", "name": "f", "content": "1"}], [])) == [[("f", {"a": 1}, "1")]]


def test_more_than_sixteen_calls_are_malformed_in_our_own_dialect_only() -> None:
    messages = [says("", tool_calls=[native("a", "f")] * 20)]
    assert [bool(call.problem) for call in read(messages, [], "etude")[0].calls] == [False] + [True] * 19
    assert not any(call.problem for call in read(messages, [], "openai")[0].calls)


STRING = "a </tool_call> <think>and</think> <tool_call> b"
HERMES = f'<tool_call>\n{{"name": "f", "arguments": {{"text": "{STRING}"}}}}\n</tool_call>'


def test_hermes_calls_are_json_whatever_their_strings_hold() -> None:
    turns = read(
        [
            says("<think><tool_call>no</tool_call></think>" + HERMES * 2),
            user("<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response>"),
        ]
    )
    arguments = {"text": STRING}
    assert calls(turns) == [[("f", arguments, "1"), ("f", arguments, "2")]]


def test_a_hermes_result_may_hold_the_tags_itself() -> None:
    inner = "x\n</tool_response>\n<tool_response>\ny"
    turns = read([says(HERMES), user(f"<tool_response>\n{inner}\n</tool_response>")], [], "hermes")
    assert calls(turns)[0][0][2] == inner


def test_a_hermes_call_that_cannot_be_read_got_no_answer_when_the_others_did() -> None:
    broken = '<tool_call>{"name": "g", "arguments": {"a: 1}}</tool_call>'
    turns = read([says(broken + HERMES), {"role": "tool", "content": "<tool_response>\n1\n</tool_response>"}], [])
    assert [(call.name, call.body) for call in turns[0].calls] == [("g", ""), ("f", "1")]
    assert error_kind(turns[0].calls[0]) == "malformed_call"


def test_parameters_in_xml_get_the_types_of_the_schema() -> None:
    schema = {
        "name": "f",
        "parameters": {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}},
    }
    xml = "<parameter=n>\n3\n</parameter>\n<parameter=s>\n4\n</parameter>"
    text = f"<tool_call>\n<function=f>\n{xml}\n</function>\n</tool_call>"
    assert calls(read([says(text), user("<tool_response>\n1\n</tool_response>")], [schema])) == [
        [("f", {"n": 3, "s": "4"}, "1")]
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('Thought: t\nAction: bash\nAction Input: {"command": "ls"}', {"command": "ls"}),
        ("Thought: t\nAction: bash\nAction Input: ls", {"command": "ls"}),
        ("Action: bash\nAction Input: ```sh\nls\n```\n", {"command": "ls"}),
        ("Thought: t\nAction: bash[ls]", {"command": "ls"}),
        ('Action:\n```json\n{"action": "bash", "action_input": {"command": "ls"}}\n```', {"command": "ls"}),
        ('Action: {"tool": "bash", "tool_input": "ls"}', {"command": "ls"}),
        ('**Action:** bash\n**Action Input:** {"command": "ls"}\nObservation: made up', {"command": "ls"}),
        ('Action 1: bash\nAction Input 1: {"command": "a\nThought: b"}', {"command": "a\nThought: b"}),
    ],
)
def test_each_way_to_write_a_react_action(text: str, expected: dict[str, Any]) -> None:
    turns = read([says(text), user("Observation: x.py\nThought: not the agent's")], [BASH])
    assert calls(turns) == [[("bash", expected, "x.py\nThought: not the agent's")]]


def test_a_scratchpad_is_one_turn_of_several_calls() -> None:
    first = "Thought: a\nAction: f\nAction Input: 1\nObservation: one\n"
    text = first + "Thought: b\nAction: g\nAction Input: 2\nObservation: two\nFinal Answer: 3"
    turns = read([user("q"), says(text)], [])
    assert [[(name, body) for name, _, body in turn] for turn in calls(turns)] == [[("f", "one"), ("g", "two")]]


def test_a_dialect_that_there_is_not_gets_the_nearest_name() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'hermes'"):
        read([], [], "hermse")


def test_calls_in_fields_go_before_calls_in_text() -> None:
    message = says(
        "<tool_call>{</tool_call>\nAction: f\nAction Input: 1", tool_calls=[native("a", "bash", command="ls")]
    )
    assert calls(read([message, result("a", "x")], [])) == [[("bash", {"command": "ls"}, "x")]]


# --- How it went, without status lines ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "content", "kind"),
    [
        ("jq . a", "bash: line 1: jq: command not found", "command_not_found"),
        ("cat log", "bash: line 1: jq: command not found", None),
        ("grep -rn 'command not found' .", "a.log:1:bash: jq: command not found", None),
        ("cat x.txt", "cat: x.txt: No such file or directory", "nonzero_exit"),
        ("cat log", "cat: x.txt: No such file or directory", None),
        ("cat x.txt log", "cat: x.txt: No such file or directory\nmore of the log", None),
        (
            "python a.py",
            'start\nTraceback (most recent call last):\n  File "a.py", line 1, in <module>\nE: x',
            "traceback",
        ),
        ("cat a.log", 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nE: x', None),
        ("python a.py", 'ERROR:a:told\nTraceback (most recent call last):\n  File "a.py", line 1, in f\nE: x', None),
        ("python a.py", 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nE: x\n\ndone', None),
        ("python -c 'print(\"Error: x\")'", "Error: x", None),
        ("python -m pytest -q", "E  Error: x\nFAILED a.py::b - Error: x\n1 failed", None),
        ("git checkout relase", "error: pathspec 'relase' did not match any file(s) known to git", "nonzero_exit"),
        ("sleep 99", "Error: command timed out after 30 seconds", "timeout"),
        ("cat log", "Error: command timed out after 30 seconds", None),
        ("grep -n x lib", "Exit code 2\ngrep: lib: No such file or directory", "nonzero_exit"),
        ("cat log", "Exit code 2\nstopped", None),
        ("cat a.json", '{"error": "x", "exit_code": 3}', None),
    ],
)
def test_a_shell_without_exit_codes(command: str, content: str, kind: str | None) -> None:
    assert error_kind(shell(command, content, "fine", "also fine")) == kind


@pytest.mark.parametrize(
    "results",
    [
        ('{"stdout": "x", "exit_code": 3}', '{"stdout": "", "exit_code": 0}'),
        ('{"output": "x", "metadata": {"exit_code": 3}}', '{"output": "", "metadata": {"exit_code": 0}}'),
        ("<returncode>3</returncode>\n<output>\nx\n</output>", "<returncode>0</returncode>\n<output>\n</output>"),
        ("x\n[The command completed with exit code 3.]", "\n[The command completed with exit code 0.]"),
        ("exit code: 3\nx", "exit code: 0\n"),
    ],
)
def test_an_exit_code_in_its_place(results: tuple[str, str]) -> None:
    call = shell("anything", results[0], results[1])
    assert (call.status.word, call.status.exit_code, call.body.strip()) == ("exit", 3, "x")


@pytest.mark.parametrize(
    ("name", "arguments", "content", "kind"),
    [
        ("read_file", {"path": "b.txt"}, "Error: No such file or directory: 'b.txt'", "file_not_found"),
        ("read_file", {"path": "a.log"}, "Error: File not found: config.yml", None),
        ("read_file", {"path": "a.log"}, "Error: one\nError: two", None),
        ("read_file", {"path": "a.py"}, 'Traceback (most recent call last):\n  File "a.py", line 1\nE: x', None),
        (
            "python_repl",
            {"code": "1/0"},
            'Traceback (most recent call last):\n  File "a.py", line 1\nE: x',
            "traceback",
        ),
        (
            "str_replace",
            {"path": "a"},
            "No replacement was performed, old_str `x` did not appear verbatim in a.",
            "edit_failed",
        ),
        ("str_replace", {"path": "a"}, "The file a has been edited:\n1\traise Error('old_str not found')", None),
        ("get_order", {"id": "1"}, "order 1, note: 'Error: failed'", None),
        ("get_order", {"id": "1"}, '{"error": "no such order"}', "nonzero_exit"),
        ("get_order", {"id": "1"}, '{"success": false, "message": "429 Too Many Requests"}', "transport_error"),
        ("get_order", {"id": "1"}, "Error: 503 Service Unavailable", "transport_error"),
        ("get_ordre", {"id": "1"}, "get_ordre is not a valid tool, try one of [get_order].", "tool_not_found"),
        ("search", {"q": "x"}, "Tool not found\nand how to fix it", None),
        ("run_tests", {}, "Error: printed by a test\n2 passed", None),
    ],
)
def test_a_tool_without_a_status(name: str, arguments: dict[str, Any], content: str, kind: str | None) -> None:
    assert error_kind(tool(name, content, **arguments)) == kind


@pytest.mark.parametrize(
    ("command", "content", "kind"),
    [
        ("make", "a.c:3:5: error: 'x' undeclared\nmake: *** [Makefile:4: a.o] Error 1", "nonzero_exit"),
        ("cat build.log", "make: *** [Makefile:4: a.o] Error 1", None),
        ("mypy src", "src/a.py:3: error: Incompatible types\nFound 1 error in 1 file", None),
        ("npm test", "FAIL a.test.js\nnpm ERR! Test failed.  See above for more details.", None),
        ("git push", "error: failed to push some refs\nhint: Updates were rejected", "nonzero_exit"),
        ("python a.py", "Error: config missing\nserved 3 requests", None),
        ("ls x", "root@a:/w# ls x\nls: cannot access 'x': No such file or directory\nroot@a:/w# ", "nonzero_exit"),
        ("sleep 60", "[Process killed: exceeded the time limit of 60s]", "timeout"),
        ("diff a b", "1c1\n< x\n---\n> y\nCommand exited with code 1", "nonzero_exit"),
    ],
)
def test_the_last_words_of_what_was_run(command: str, content: str, kind: str | None) -> None:
    assert error_kind(shell(command, content, "fine", "also fine")) == kind


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("book_table", "We are sorry, this restaurant cannot seat 40 people.", "nonzero_exit"),
        ("cancel_order", "Order 7 cannot be cancelled because it has shipped", "nonzero_exit"),
        ("cancel_order", "Order 7 was cancelled. Errors: 0", None),
        ("pay", "Unknown action pay", "tool_not_found"),
        ("close_ticket", "Marked ticket 'Login failed' as resolved", None),
        ("get_run", '{"id": 1, "status": "failed", "started": "10:00", "error": "exit code 1", "branch": "x"}', None),
        ("rerun", '{"status": "failed", "reason": "no such run"}', "nonzero_exit"),
        ("search_flights", "No flights found for this route.", None),
        ("translate", "Error: file not found", None),
    ],
)
def test_the_words_of_a_tool_that_acts(name: str, content: str, kind: str | None) -> None:
    assert error_kind(tool(name, content, id="7")) == kind


def test_what_breaks_the_schema_is_certain_unless_the_call_is_reported_to_have_worked() -> None:
    def asked(name: str, arguments: dict[str, Any], content: str) -> str | None:
        messages = [says("", tool_calls=[native("a", name, **arguments)]), result("a", content)]
        return error_kind(read(messages, [BASH])[0].calls[0])

    assert asked("sh", {"command": "ls"}, "whatever") == "tool_not_found"
    assert asked("bash", {"cmd": "ls"}, "whatever") == "invalid_args"
    assert asked("bash", {"command": 1}, '{"exit_code": 0, "stdout": "x"}') is None
    assert asked("bash", {"command": "ls"}, "whatever") is None


def test_the_harness_own_flag_goes_before_words() -> None:
    listed = [native("a", "f"), native("b", "f")]
    messages = [says("", tool_calls=listed), result("a", "Error: x", is_error=False), result("b", "x", status="error")]
    assert [error_kind(call) for call in read(messages, [])[0].calls] == [None, "nonzero_exit"]


def test_an_exit_code_counts_in_a_result_that_the_harness_marks_as_failed() -> None:
    """Claude Code reports the exit code of a command only when it failed."""
    commands = ["ls", "pwd", "grep x y", "nosuch", "make"]
    contents = ["a", "/", "Exit code 1", "Exit code 127\nbash: nosuch: command not found", "Exit code 2\nno rule"]
    messages = []
    for number, (command, content) in enumerate(zip(commands, contents, strict=True)):
        messages.append(says("", tool_calls=[native(f"c{number}", "Bash", command=command)]))
        messages.append(result(f"c{number}", content, is_error=content.startswith("Exit")))
    kinds = [error_kind(turn.calls[0]) for turn in read(messages)]
    assert kinds == [None, None, None, "command_not_found", "nonzero_exit"]  # grep without a match is an answer


def test_an_object_around_each_output_does_not_hide_the_exit_code() -> None:
    """NeMo Gym's servers answer with objects, and some of them with one text alone."""
    contents = [
        '{"output": "no such file\\n\\nexit code: 2"}',
        '{"output": "one two\\n\\nexit code: 0"}',
        '{"detail": "Not Found"}',
    ]
    messages = []
    for number, content in enumerate(contents):
        messages += [says("", tool_calls=[native(f"c{number}", "bash", command="x")]), result(f"c{number}", content)]
    calls = [turn.calls[0] for turn in read(messages)]
    assert [(call.status.exit_code, call.body.strip()) for call in calls[:2]] == [(2, "no such file"), (0, "one two")]


def test_an_operating_systems_error_alone_is_a_failure_of_a_reader() -> None:
    text = "[Errno 2] No such file or directory: 'missing.txt'"
    assert error_kind(tool("read_text", text, path="missing.txt")) == "file_not_found"
    assert error_kind(tool("read_text", text, path="log.txt")) is None  # the file may hold that line
    assert error_kind(tool("read_text", "Internal Server Error", path="x")) == "transport_error"
