"""Tests of action equality: which actions count as the same answer."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from etude.trainers.replay.turns.action_equality import (
    Canonical,
    canonical,
    is_same,
    read_answer,
    similarity,
    wire_action,
    without_thought,
)

TOOLS: list[dict[str, Any]] = [
    {"name": "bash", "parameters": {"properties": {"command": {"type": "string"}, "timeout_s": {"type": "number"}}}},
    {"name": "read_file", "parameters": {"properties": {"path": {}, "start_line": {"default": 1}, "end_line": {}}}},
    {"name": "edit_file", "parameters": {"properties": {"path": {}, "old": {}, "new": {}}}},
]


def call(tool: str, **arguments: Any) -> Canonical:
    return canonical({"tool_calls": [{"name": tool, "arguments": arguments}]}, TOOLS)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (call("bash", command="cd a&&ls  -l"), call("bash", command="cd a && ls -l", timeout_s=5)),
        (call("bash", command="grep 'x y' f"), call("bash", command='grep "x y" f')),
        (call("read_file", path="./a//b.py"), call("read_file", path="a/b.py", start_line=1, end_line=None)),
        (canonical({"tool": "bash", "arguments": '{"command": "ls"}'}, TOOLS), call("bash", command="ls ")),
        (canonical({"text": "<think>a</think>I am done"}), canonical({"text": "i am  DONE"})),
    ],
)
def test_similarity_is_one_when_one_action_is_written_in_two_ways(one: Canonical, other: Canonical) -> None:
    assert similarity(one, other) == 1.0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (call("read_file", path="a.py"), call("edit_file", path="a.py")),
        (call("read_file", path="a.py"), call("read_file", path="b.py")),
        (call("read_file", path="a.py", end_line=3), call("read_file", path="a.py", end_line="3")),
        (call("get", id="H-1234"), call("get", id="H-1235")),
        (call("five", a=1, b=2, c=3, d=4, e=5), call("five", a=1, b=2, c=3, d=4, e=6)),
        (call("bash", command="ls"), canonical({"text": "ls"})),
        (canonical({"tool_calls": [{"name": "bash", "arguments": "{"}]}), call("bash")),
    ],
)
def test_similarity_is_zero_when_a_name_a_path_or_an_id_differs(one: Canonical, other: Canonical) -> None:
    assert similarity(one, other) == 0.0


PYTEST = "python -m pytest tests/test_a.py -x -q --tb short"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (PYTEST, PYTEST.replace("test_a", "test_b")),
        (PYTEST + " tests/test_c.py::test_one", PYTEST + " tests/test_c.py::test_two"),
        (PYTEST, PYTEST.replace("short", "long")),
        (PYTEST.replace("--tb short", "--tb=short"), PYTEST.replace("--tb short", "--tb=long")),
        (PYTEST, PYTEST.replace("pytest", "pylint")),
        ("head -n 20 -q --verbose a b c d e f", "head -n 30 -q --verbose a b c d e f"),
        ("get the issue H-1234 of this project and show it", "get the issue H-1235 of this project and show it"),
        ("cat a b c d e f g h", "rm a b c d e f g h"),
        ("make all the parts of it && echo done", "make all the parts of it || echo done"),
        ("echo a b c d e f > here", "echo a b c d e f > there"),
        ('echo "$HOME" a b c d e src/a.py', 'echo "$HOME" a b c d e src/b.py'),
    ],
)
def test_similarity_is_zero_when_commands_name_different_things(one: str, other: str) -> None:
    assert similarity(call("bash", command=one), call("bash", command=other)) == 0.0


def test_similarity_is_partial_when_commands_differ_in_plain_words() -> None:
    one, other = call("bash", command=PYTEST), call("bash", command=PYTEST.replace("-x -q", "-q"))
    assert 0.8 < similarity(one, other) < 1
    path = "my own folder with a long name/{}.py"
    assert similarity(call("read_file", path=path.format("a b")), call("read_file", path=path.format("a c"))) == 0.0


@pytest.mark.parametrize(
    ("value", "other_value", "same"),
    [(None, None, True), (0.0, 0.0, True), (0.5, None, True), (0.0, 0.5, False), (-1.0, None, False), (-1, -1, False)],
)
def test_is_same_needs_equal_executed_values_when_actions_are_only_similar(
    value: float | None, other_value: float | None, same: bool
) -> None:
    one = call("edit_file", path="a.py", old="x = 1", new="def f(a, b, c, d): return a + b")
    near = call("edit_file", path="a.py", old="x = 1", new="def f(a, b, c, d): return a - b")
    assert is_same(one, near, 0.8, value, other_value) == is_same(near, one, 0.8, other_value, value) == same
    assert is_same(one, one, 0.8, value, other_value) and not is_same(one, near, 0.999)


def test_similarity_respects_the_quotes_of_a_shell() -> None:
    assert similarity(call("bash", command="echo '$HOME'"), call("bash", command='echo "$HOME"')) < 0.8
    assert similarity(call("bash", command="echo $A\nls"), call("bash", command="echo $A ls")) < 1


def test_similarity_is_partial_when_texts_differ_in_one_word() -> None:
    one = call("edit_file", path="a.py", old="x = 1", new="def f(a, b): return a + b")
    near = call("edit_file", path="a.py", old="x = 1", new="def f(a, b): return a - b")
    assert 0.5 < similarity(one, near) < 1


def drawn(rng: random.Random) -> dict[str, Any]:
    """Draw an action as a model may emit it, malformed ones too."""
    words = ["ls", "-l", "a.py", "'a b'", '"', "&&", "$X", "", "<think>", "</think>", "ü"]
    text = lambda: " ".join(rng.choices(words, k=rng.randint(0, 5)))  # noqa: E731
    values = [text, lambda: rng.randint(0, 3), lambda: None, lambda: [text()], lambda: {"a": text()}]
    calls: list[Any] = []
    for _ in range(rng.randint(0, 3)):
        names = rng.sample(["command", "path", "old", "new", "start_line"], rng.randint(0, 3))
        arguments: Any = {name: rng.choice(values)() for name in names}
        name = rng.choice(["bash", "read_file", "edit_file", "nothing", "", None])
        calls.append({"name": name, "arguments": rng.choice([arguments, json.dumps(arguments), text()])})
    return {"text": text(), "tool_calls": rng.choice([calls, calls, None, text()])}


def test_similarity_is_reflexive_symmetric_and_within_bounds() -> None:
    rng = random.Random(0)
    for _ in range(3000):
        first, second = drawn(rng), drawn(rng)
        one, other = canonical(first, TOOLS), canonical(second, TOOLS)
        assert similarity(one, canonical(first, TOOLS)) == 1.0
        assert 0.0 <= similarity(one, other) == similarity(other, one) <= 1.0
        assert (similarity(one, other) == 1.0) == (one == other)
        if [call.tool for call in one.calls] != [call.tool for call in other.calls]:
            assert similarity(one, other) == 0.0


def test_wire_action_does_the_same_as_the_action() -> None:
    rng = random.Random(1)
    for _ in range(1000):
        action = drawn(rng)
        assert canonical(wire_action(action), TOOLS) == canonical(action, TOOLS)
        assert "<think>" not in wire_action(action)["text"] or not without_thought(wire_action(action)["text"])


def test_wire_action_has_no_thought_unless_the_turn_was_cut_inside_it() -> None:
    assert wire_action({"text": "<think>\nHm.\n</think>\n\nDone."}) == {"text": "Done."}
    assert wire_action({"text": "<think>\nHm.\n</think>"}) == {"text": ""}
    assert wire_action({"text": "<think>\nHm, so"}) == {"text": "<think>\nHm, so"}


def test_read_answer_reads_native_calls_and_calls_in_tags() -> None:
    native = {
        "content": None,
        "tool_calls": [{"id": "c", "function": {"name": "bash", "arguments": '{"command":"ls"}'}}],
    }
    tagged = {"content": 'So.<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>'}
    thought = {"content": "<think>maybe <tool_call>{}</tool_call></think>Done."}
    assert canonical(read_answer(native), TOOLS) == canonical(read_answer(tagged), TOOLS) == call("bash", command="ls")
    assert read_answer(thought) == {"text": "Done."}
    assert without_thought("open thought</think> said") == "said"


def test_is_same_ignores_timeouts_unless_an_action_failed() -> None:
    hasty, patient = call("bash", command="pytest -q", timeout_s=1), call("bash", command="pytest -q", timeout_s=120)
    assert similarity(hasty, patient) == 1.0 and hasty != patient
    assert is_same(hasty, patient, 0.9) and is_same(hasty, patient, 0.9, 0.0)
    assert not is_same(hasty, patient, 0.9, -1.0) and not is_same(hasty, patient, 0.9, None, -1.0)


def test_read_answer_types_arguments_without_quotes_by_the_tools_schema() -> None:
    types = {"path": {"type": "string"}, "start_line": {"type": "integer"}}
    tools = [{"name": "read_file", "parameters": {"properties": types}}]
    parameters = "<parameter=path>\n3\n</parameter>\n<parameter=start_line>\n3\n</parameter>"
    answer = read_answer(
        {"content": f"<tool_call>\n<function=read_file>\n{parameters}\n</function>\n</tool_call>"}, tools
    )
    assert answer["tool_calls"] == [{"name": "read_file", "arguments": {"path": "3", "start_line": 3}}]
