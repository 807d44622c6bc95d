"""Teachers behind scripted endpoints: what they are shown, what they cost, how they fail."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from etude.llm import CassetteMiss
from etude.models import Episode
from etude.trainers.replay.settings import ReplayError, ReplaySettings, parse_settings
from etude.trainers.replay.states import State
from etude.trainers.replay.teachers import Answer, Teacher, open_teachers


def settings(*urls: str, budget: dict[str, Any] | None = None, **more: Any) -> ReplaySettings:
    rows = [
        {"name": f"t{i}", "model": f"m{i}", "base_url": url, "price": [1.0 + i, 2.0 + i], "max_tokens": 100, **more}
        for i, url in enumerate(urls)
    ]
    return parse_settings({"teachers": rows, "consensus": {"least": 1}, "budget": budget or {}})


def ask(teachers: list[Teacher], *states: State) -> list[Answer]:
    async def all_of_them() -> list[Answer]:
        try:
            return [await teacher.ask(state) for state in states for teacher in teachers]
        finally:
            for teacher in teachers:
                await teacher.close()

    return asyncio.run(all_of_them())


def test_a_teacher_sees_what_the_student_saw_and_no_more(endpoints: Any, erred: Episode) -> None:
    with endpoints.serving(lambda number, body: endpoints.say(None, endpoints.call("look", {}))) as endpoint:
        (answer,) = ask(open_teachers(settings(endpoint.url)), State(erred, 2, system="Be brief."))
        (body,) = endpoint.requests
    assert [message["role"] for message in body["messages"]] == ["system", "user", *["assistant", "tool"] * 2]
    assert body["messages"][1]["content"] == erred.prompt and body["tools"] == erred.tools
    assert body["messages"][3]["content"] == erred.turns[0].messages[0].content
    assert all(hint.text not in json.dumps(body) for error in erred.error_turns for hint in error.hints)
    assert answer.action == {"text": "", "tool_calls": [endpoints.call("look", {})]}
    assert (answer.prompt_tokens, answer.completion_tokens, answer.usd) == (10, 5, pytest.approx(20e-6))


def test_a_teacher_without_calls_is_told_the_tools_in_text(endpoints: Any, erred: Episode) -> None:
    said = 'I look. <tool_call>\n{"name": "look", "arguments": {"a": 1}}\n</tool_call>'
    with endpoints.serving(lambda number, body: endpoints.say(said)) as endpoint:
        (answer,) = ask(open_teachers(settings(endpoint.url, calls="text")), State(erred, 2))
        (body,) = endpoint.requests
    assert "tools" not in body and all(json.dumps(tool) in body["messages"][0]["content"] for tool in erred.tools)
    assert [message["role"] for message in body["messages"]] == ["system", "user", *["assistant", "user"] * 2]
    assert "<tool_call>" in body["messages"][2]["content"] and "<tool_response>" in body["messages"][3]["content"]
    assert answer.action == {"text": "I look.", "tool_calls": [{"name": "look", "arguments": {"a": 1}}]}


def test_the_cheapest_is_first_whatever_the_file_says(endpoints: Any) -> None:
    made = settings("http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1")
    turned = made.model_copy(update={"teachers": made.teachers[::-1]})
    assert [teacher.name for teacher in open_teachers(turned)] == ["t0", "t1"]


def test_one_that_fails_gives_no_answer_and_one_that_refuses_is_asked_no_more(endpoints: Any, erred: Episode) -> None:
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
    assert [answer.problem for answer in answers[2:]] == ["empty", "cut off"]
    assert [bool(teacher.out) for teacher in teachers] == [False, True, False, False]


def test_an_expensive_one_never_exceeds_the_budget_of_all(endpoints: Any, erred: Episode) -> None:
    usage = (2000, 100)
    with endpoints.serving(lambda number, body: endpoints.say("x", usage=usage)) as endpoint:
        made = settings(endpoint.url, endpoint.url, budget={"usd": 0.05})
        dear = made.teachers[1].model_copy(update={"price": (1.0, 300.0), "name": "dear"})
        teachers = open_teachers(made.model_copy(update={"teachers": (made.teachers[0], dear)}))
        answers = ask(teachers, *[State(erred, 1)] * 6)
        asked = len(endpoint.requests)
    spent = sum(answer.usd for answer in answers)
    assert 0 < spent == teachers[0].purse.usd <= 0.05
    assert [answer.problem for answer in answers if answer.teacher == "dear"] == ["", *["budget"] * 5]
    assert asked == sum(answer.problem == "" for answer in answers) == 7


async def no_pause(seconds: float) -> None:
    pass


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
def test_a_key_or_credit_that_ends_amid_answers_ends_the_asking(
    status: int, says: str, out: str, endpoints: Any, erred: Episode
) -> None:
    def ending(number: int, body: dict[str, Any]) -> Any:
        return endpoints.say("so") if number < 2 else endpoints.fail(status, says)

    with endpoints.serving(ending) as endpoint:
        (teacher,) = open_teachers(settings(endpoint.url), sleep=no_pause)
        answers = ask([teacher], *[State(erred, 1)] * 3)
        assert len(endpoint.requests) == 3, "without another attempt"
    assert [answer.action is None for answer in answers] == [False, False, True]
    assert out in teacher.out and bool(teacher.out) == bool(out) and teacher.unheard == 1


def test_what_was_lost_counts_at_the_next_start(endpoints: Any, erred: Episode, tmp_path: Path) -> None:
    def breaking(number: int, body: dict[str, Any]) -> Any:
        return endpoints.GARBAGE if number < 3 else endpoints.say("so")

    charges, kept = tmp_path / "new" / "charges.log", str(tmp_path / "a.jsonl")
    with endpoints.serving(breaking) as endpoint:
        made = settings(endpoint.url, cassette=kept)
        (first,) = open_teachers(made, charges=charges, sleep=no_pause, attempts=2)
        answers = ask([first], State(erred, 1), State(erred, 1))
        bound = first.bound(State(erred, 1).messages(), erred.tools)
        assert [answer.action is None for answer in answers] == [True, False] and len(endpoint.requests) == 4
        (again,) = open_teachers(made, charges=charges)
        assert (again.purse.tokens, again.purse.usd) == (3 * bound[0], pytest.approx(3 * bound[1]))
        ask([again], State(erred, 1))
    assert (again.purse.tokens, again.purse.usd) == (first.purse.tokens, pytest.approx(first.purse.usd))
    (more,) = open_teachers(made, charges=charges)
    assert more.purse.tokens == 3 * bound[0], "what a cassette answers is charged for once"


@pytest.mark.parametrize("lost", [0, 2])
def test_what_was_under_way_when_it_was_stopped_counts(
    lost: int, endpoints: Any, erred: Episode, tmp_path: Path
) -> None:
    reached, charges = threading.Event(), tmp_path / "charges.log"

    async def stopped(teacher: Teacher) -> None:
        asking = asyncio.create_task(teacher.ask(State(erred, 1)))
        await asyncio.to_thread(reached.wait, 60)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await teacher.close()

    def script(number: int, body: dict[str, Any]) -> Any:
        if number < lost:
            return endpoints.GARBAGE
        reached.set()
        return endpoints.STALL

    with endpoints.serving(script) as endpoint:
        (teacher,) = open_teachers(settings(endpoint.url), charges=charges, sleep=no_pause)
        asyncio.run(stopped(teacher))
    bound = teacher.bound(State(erred, 1).messages(), erred.tools)
    charges.write_bytes(charges.read_bytes() + b'{"tokens": 99')
    (again,) = open_teachers(settings(endpoint.url), charges=charges)
    assert (again.purse.tokens, again.purse.usd) == ((1 + lost) * bound[0], pytest.approx((1 + lost) * bound[1]))
    assert charges.read_bytes().endswith(b"}\n"), "a line that was cut off is removed"


def test_where_everything_came_back_nothing_is_kept(endpoints: Any, erred: Episode, tmp_path: Path) -> None:
    charges = tmp_path / "new" / "charges.log"
    with endpoints.serving(lambda number, body: endpoints.fail(400) if number else endpoints.say("so")) as endpoint:
        teachers = open_teachers(settings(endpoint.url, "http://127.0.0.1:9/v1"), charges=charges, sleep=no_pause)
        ask(teachers, State(erred, 1), State(erred, 2))
    assert list(tmp_path.iterdir()) == [] and teachers[0].purse.tokens == 15


def test_charges_that_cannot_be_read_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "charges.log").write_text('{"tokens": "many"}\n')
    with pytest.raises(ReplayError, match="charges.log, which cannot be read: remove it, and what it held is not"):
        open_teachers(settings("http://127.0.0.1:9/v1"), charges=tmp_path / "charges.log")


def test_lost_attempts_count_in_full(endpoints: Any, erred: Episode) -> None:
    with endpoints.serving(lambda number, body: endpoints.GARBAGE) as endpoint:
        (teacher,) = open_teachers(settings(endpoint.url), sleep=no_pause, attempts=2)
        (answer,) = ask([teacher], State(erred, 1))
    bound = teacher.bound(State(erred, 1).messages(), erred.tools)
    assert answer.action is None and teacher.purse.usd == pytest.approx(2 * bound[1])


def test_a_cassette_replays_without_a_request(endpoints: Any, erred: Episode, tmp_path: Path) -> None:
    with endpoints.serving(lambda number, body: endpoints.say(f"answer {number}")) as endpoint:
        made = settings(endpoint.url, cassette=str(tmp_path / "a.jsonl"))
        first = ask(open_teachers(made), State(erred, 1), State(erred, 2))
        again = ask(open_teachers(made), State(erred, 1), State(erred, 2))
        assert len(endpoint.requests) == 2
    assert again == first == ask(open_teachers(made, replayed=True), State(erred, 1), State(erred, 2))
    with pytest.raises(CassetteMiss, match="holds no"):
        ask(open_teachers(made, replayed=True), State(erred, 0))


def test_what_is_kept_outlives_a_writer_that_was_killed(endpoints: Any, erred: Episode, tmp_path: Path) -> None:
    kept = tmp_path / "new" / "a.jsonl"
    with endpoints.serving(lambda number, body: endpoints.say(f"answer {number}")) as endpoint:
        made = settings(endpoint.url, cassette=str(kept))
        first = ask(open_teachers(made), State(erred, 1), State(erred, 2))
        kept.write_bytes(kept.read_bytes()[:-9])
        again = ask(open_teachers(made), State(erred, 1), State(erred, 2))
        assert (again[0], len(endpoint.requests)) == (first[0], 3)
    assert ask(open_teachers(made, replayed=True), State(erred, 1), State(erred, 2)) == again


def test_one_that_cannot_be_reached_is_given_up_and_one_that_refuses_a_state_is_not(
    endpoints: Any, erred: Episode
) -> None:
    def refusing(number: int, body: dict[str, Any]) -> Any:
        return endpoints.say("so") if number == 0 else endpoints.fail(400, "maximum context length")

    with endpoints.serving(refusing) as endpoint:
        teachers = open_teachers(settings("http://127.0.0.1:9/v1", endpoint.url), sleep=no_pause, attempts=2)
        answers = ask(teachers, *[State(erred, 1)] * 5)
    assert [bool(teacher.out) for teacher in teachers] == [True, False]
    assert "3 questions in a row; check base_url" in teachers[0].out
    assert [answer.action is None for answer in answers if answer.teacher == "t1"] == [False, *[True] * 4]
