"""Tests of external teachers behind scripted endpoints: what they receive, what they cost, how they fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.replay_files import ask, no_pause, settings

from etude.errors import CassetteMiss
from etude.models import Episode
from etude.trainers.replay.external_models import open_teachers
from etude.trainers.replay.turns.prefixes import State


def test_teacher_receives_exactly_what_the_student_saw(endpoints: Any, erred: Episode) -> None:
    with endpoints.serving(lambda number, body: endpoints.say(None, endpoints.call("look", {}))) as endpoint:
        (answer,) = ask(open_teachers(settings(endpoint.url)), State(erred, 2, system="Be brief."))
        (body,) = endpoint.requests
    assert [message["role"] for message in body["messages"]] == ["system", "user", *["assistant", "tool"] * 2]
    assert body["messages"][1]["content"] == erred.prompt and body["tools"] == erred.tools
    assert body["messages"][3]["content"] == erred.turns[0].messages[0].content
    assert all(hint.text not in json.dumps(body) for error in erred.error_turns for hint in error.hints)
    assert answer.action == {"text": "", "tool_calls": [endpoints.call("look", {})]}
    assert (answer.prompt_tokens, answer.completion_tokens, answer.usd) == (10, 5, pytest.approx(20e-6))


def test_teacher_without_native_calls_receives_the_tools_as_text(endpoints: Any, erred: Episode) -> None:
    text = 'I look. <tool_call>\n{"name": "look", "arguments": {"a": 1}}\n</tool_call>'
    with endpoints.serving(lambda number, body: endpoints.say(text)) as endpoint:
        (answer,) = ask(open_teachers(settings(endpoint.url, calls="text")), State(erred, 2))
        (body,) = endpoint.requests
    assert "tools" not in body and all(json.dumps(tool) in body["messages"][0]["content"] for tool in erred.tools)
    assert [message["role"] for message in body["messages"]] == ["system", "user", *["assistant", "user"] * 2]
    assert "<tool_call>" in body["messages"][2]["content"] and "<tool_response>" in body["messages"][3]["content"]
    assert answer.action == {"text": "I look.", "tool_calls": [{"name": "look", "arguments": {"a": 1}}]}


def test_open_teachers_orders_by_price_whatever_the_file_says(endpoints: Any) -> None:
    replay_settings = settings("http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1")
    turned = replay_settings.model_copy(update={"teachers": replay_settings.teachers[::-1]})
    assert [teacher.name for teacher in open_teachers(turned)] == ["t0", "t1"]


def test_teacher_gives_no_answer_when_it_fails_and_is_dropped_when_it_refuses(endpoints: Any, erred: Episode) -> None:
    with (
        endpoints.serving(lambda number, body: endpoints.fail(400, "bad luck")) as failing,
        endpoints.serving(lambda number, body: endpoints.fail(401, "no key")) as refusing,
        endpoints.serving(lambda number, body: endpoints.say("", finish="stop")) as silent,
        endpoints.serving(lambda number, body: endpoints.say("cut", finish="length")) as cut,
    ):
        teachers = open_teachers(settings(failing.url, refusing.url, silent.url, cut.url))
        answers = ask(teachers, State(erred, 1))
    assert [answer.action for answer in answers] == [None] * 4
    assert "bad luck" in answers[0].problem and "401" in answers[1].problem
    assert [answer.problem for answer in answers[2:]] == ["empty", "cut off at max_tokens = 100"]
    assert [bool(teacher.out) for teacher in teachers] == [False, True, False, False]


@pytest.mark.parametrize(
    ("status", "says", "out"),
    [
        (429, "insufficient_quota", "the account has no credit left"),
        (401, "expired", "check the key (api_key_env names"),
        (402, "more credits, please", "more credits, please"),
        (403, "forbidden", "check the key (api_key_env names"),
        (400, "odd", ""),
    ],
)
def test_teacher_is_dropped_when_its_key_or_credit_ends_after_answers(
    status: int, says: str, out: str, endpoints: Any, erred: Episode
) -> None:
    def ending(number: int, body: dict[str, Any]) -> Any:
        return endpoints.say("so") if number < 2 else endpoints.fail(status, says)

    with endpoints.serving(ending) as endpoint:
        (teacher,) = open_teachers(settings(endpoint.url), sleep=no_pause)
        answers = ask([teacher], *[State(erred, 1)] * 3)
        assert len(endpoint.requests) == 3, "there is no second attempt"
    assert [answer.action is None for answer in answers] == [False, False, True]
    assert out in teacher.out and bool(teacher.out) == bool(out) and teacher.unanswered == 1


def test_cassette_replays_without_a_request(endpoints: Any, erred: Episode, tmp_path: Path) -> None:
    with endpoints.serving(lambda number, body: endpoints.say(f"answer {number}")) as endpoint:
        replay_settings = settings(endpoint.url, cassette=str(tmp_path / "a.jsonl"))
        first = ask(open_teachers(replay_settings), State(erred, 1), State(erred, 2))
        again = ask(open_teachers(replay_settings), State(erred, 1), State(erred, 2))
        assert len(endpoint.requests) == 2
    assert again == first == ask(open_teachers(replay_settings, replayed=True), State(erred, 1), State(erred, 2))
    with pytest.raises(CassetteMiss, match="holds no"):
        ask(open_teachers(replay_settings, replayed=True), State(erred, 0))


def test_cassette_survives_a_writer_that_was_killed(endpoints: Any, erred: Episode, tmp_path: Path) -> None:
    cassette = tmp_path / "new" / "a.jsonl"
    with endpoints.serving(lambda number, body: endpoints.say(f"answer {number}")) as endpoint:
        replay_settings = settings(endpoint.url, cassette=str(cassette))
        first = ask(open_teachers(replay_settings), State(erred, 1), State(erred, 2))
        cassette.write_bytes(cassette.read_bytes()[:-9])
        again = ask(open_teachers(replay_settings), State(erred, 1), State(erred, 2))
        assert (again[0], len(endpoint.requests)) == (first[0], 3)
    assert ask(open_teachers(replay_settings, replayed=True), State(erred, 1), State(erred, 2)) == again


def test_teacher_is_dropped_when_unreachable_but_not_when_it_refuses_one_state(endpoints: Any, erred: Episode) -> None:
    def refusing(number: int, body: dict[str, Any]) -> Any:
        return endpoints.say("so") if number == 0 else endpoints.fail(400, "maximum context length")

    with endpoints.serving(refusing) as endpoint:
        teachers = open_teachers(settings("http://127.0.0.1:9/v1", endpoint.url), sleep=no_pause, attempts=2)
        answers = ask(teachers, *[State(erred, 1)] * 5)
    assert [bool(teacher.out) for teacher in teachers] == [True, False]
    assert "3 questions in a row; check base_url" in teachers[0].out
    assert [answer.action is None for answer in answers if answer.teacher == "t1"] == [False, *[True] * 4]
    assert teachers[1].unanswered == 0, "another start would fare no better"


def test_teacher_is_dropped_when_it_asks_to_wait_too_long(endpoints: Any, erred: Episode) -> None:
    with endpoints.serving(lambda number, body: endpoints.fail(429, "slow down", Retry_After="120")) as endpoint:
        (teacher,) = open_teachers(settings(endpoint.url))
        ask([teacher], *[State(erred, 1)] * 3)
        assert len(endpoint.requests) == 3
    assert "asks to wait 120 s" in teacher.out and "start again later" in teacher.out


@pytest.mark.parametrize(("complete", "out"), [((), True), ((2,), False)])
def test_teacher_is_dropped_when_all_its_answers_are_cut_off(
    complete: tuple[int, ...], out: bool, endpoints: Any, erred: Episode
) -> None:
    def cutting(number: int, body: dict[str, Any]) -> Any:
        return endpoints.say("so") if number in complete else endpoints.say("", finish="length")

    with endpoints.serving(cutting) as endpoint:
        (teacher,) = open_teachers(settings(endpoint.url))
        ask([teacher], *[State(erred, 1)] * 4)
    reason = "cut off at max_tokens = 100, 3 questions in a row; raise max_tokens in the file of teachers"
    assert teacher.out == (reason if out else "")


def test_expected_cost_is_learned_from_answers(endpoints: Any, erred: Episode) -> None:
    state = State(erred, 1)
    with endpoints.serving(lambda number, body: endpoints.say("so", usage=(3000, 2000))) as endpoint:
        (teacher,) = open_teachers(settings(endpoint.url))
        size = sum(len(json.dumps(part, ensure_ascii=False).encode()) for part in (state.messages(), erred.tools))
        assert teacher.expected_usd(state) == pytest.approx((size / 4 + 200 * 2) / 1e6, rel=0.01)
        ask([teacher], *[state] * 50)
    assert teacher.expected_usd(state) == pytest.approx((3000 + 2000 * 2) / 1e6, rel=0.05)
