"""What is paid for, over every start: by scripted endpoints, and by processes that are killed."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from helpers.replay_files import ask, no_pause, settings

from etude.errors import ReplayError
from etude.models import Episode
from etude.trainers.replay.external_models import Teacher, open_teachers
from etude.trainers.replay.prefixes import State


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
        spent = (3 * bound[0] + 15, pytest.approx(3 * bound[1] + 20e-6))
        assert (first.purse.tokens, first.purse.usd) == spent
        (again,) = open_teachers(made, charges=charges)
        assert (again.purse.tokens, again.purse.usd) == spent
        ask([again], State(erred, 1))
        assert len(endpoint.requests) == 4
    assert (again.purse.tokens, again.purse.usd) == spent, "what a cassette answers is paid for once"


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


def test_where_nothing_was_paid_for_nothing_is_kept(endpoints: Any, erred: Episode, tmp_path: Path) -> None:
    charges = tmp_path / "new" / "charges.log"
    with endpoints.serving(lambda number, body: endpoints.fail(400)) as endpoint:
        teachers = open_teachers(settings(endpoint.url, "http://127.0.0.1:9/v1"), charges=charges, sleep=no_pause)
        ask(teachers, State(erred, 1), State(erred, 2))
    assert list(tmp_path.iterdir()) == [] and teachers[0].purse.tokens == 0


def test_what_was_paid_for_counts_though_it_is_not_asked_again(endpoints: Any, erred: Episode, tmp_path: Path) -> None:
    charges = tmp_path / "charges.log"
    with endpoints.serving(lambda number, body: endpoints.say("so", usage=(1000, 100))) as endpoint:
        made = settings(endpoint.url, cassette=str(tmp_path / "a.jsonl"))
        (first,) = open_teachers(made, charges=charges)
        ask([first], State(erred, 1), State(erred, 2))
        (second,) = open_teachers(made, charges=charges)
        ask([second], State(erred, 0))
        (third,) = open_teachers(made, charges=charges)
        ask([third], *[State(erred, turn) for turn in range(3)])
        assert len(endpoint.requests) == 3
    assert [each.purse.tokens for each in (first, second, third)] == [2200, 3300, 3300]
    assert second.purse.usd == pytest.approx(third.purse.usd) == pytest.approx(3 * first.purse.usd / 2)


def test_what_is_kept_is_given_when_the_budget_is_spent(endpoints: Any, erred: Episode, tmp_path: Path) -> None:
    with endpoints.serving(lambda number, body: endpoints.say("so", usage=(6000, 100))) as endpoint:
        made = settings(endpoint.url, cassette=str(tmp_path / "a.jsonl"), budget={"tokens": 6200})
        for _ in range(2):
            teachers = open_teachers(made, charges=tmp_path / "charges.log")
            answers = ask(teachers, State(erred, 1), State(erred, 2))
            assert [answer.problem for answer in answers] == ["", "budget"] and teachers[0].purse.tokens == 6100
        assert len(endpoint.requests) == 1


def test_an_answer_whose_process_was_killed_counts_once(
    endpoints: Any, erred: Episode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(self: Teacher, *spent: Any) -> None:
        raise KeyboardInterrupt

    with endpoints.serving(lambda number, body: endpoints.say("so")) as endpoint:
        made, charges = settings(endpoint.url, cassette=str(tmp_path / "a.jsonl")), tmp_path / "charges.log"
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(Teacher, "_came_back", killed)  # its answer is on file, what it took is not
            ask(open_teachers(made, charges=charges), State(erred, 1))
        (again,) = open_teachers(made, charges=charges)
        (answer,) = ask([again], State(erred, 1))
        assert len(endpoint.requests) == 1 and answer.action == {"text": "so"}
    bound = again.bound(State(erred, 1).messages(), erred.tools)
    assert (again.purse.tokens, again.purse.usd) == (bound[0], pytest.approx(bound[1]))


def test_another_attempt_must_fit_too(endpoints: Any, erred: Episode, tmp_path: Path) -> None:
    with endpoints.serving(lambda number, body: endpoints.GARBAGE) as endpoint:
        made = settings(endpoint.url, budget={"tokens": 6000})
        (teacher,) = open_teachers(made, sleep=no_pause, charges=tmp_path / "charges.log")
        (answer,) = ask([teacher], State(erred, 1))
        tokens = teacher.bound(State(erred, 1).messages(), erred.tools)[0]
        assert len(endpoint.requests) == 6000 // tokens == 2
    (again,) = open_teachers(made, charges=tmp_path / "charges.log")
    assert answer.problem == "budget" and teacher.purse.tokens == again.purse.tokens == 2 * tokens


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
