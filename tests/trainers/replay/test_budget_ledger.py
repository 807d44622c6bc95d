"""Tests of the spending over every start of a replay: scripted endpoints, and processes that are killed."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from helpers.replay_files import ask, no_pause, settings

from etude.errors import ReplayError
from etude.llm.answers import size
from etude.models import Episode
from etude.trainers.replay.budget_ledger import BudgetLedger
from etude.trainers.replay.external_models import Teacher, open_teachers
from etude.trainers.replay.turns.prefixes import State


def bound_of(request: dict[str, Any]) -> tuple[int, float]:
    """Return the most tokens and USD that one attempt of this request may cost, at the first teacher's price."""
    read, written = size(request), request["max_tokens"]
    return read + written, (read * 1.0 + written * 2.0) / 1e6


def test_expensive_teacher_never_exceeds_the_shared_budget(endpoints: Any, erred: Episode) -> None:
    usage = (2000, 100)
    with endpoints.serving(lambda number, body: endpoints.say("x", usage=usage)) as endpoint:
        replay_settings = settings(endpoint.url, endpoint.url, budget={"usd": 0.05})
        dear = replay_settings.teachers[1].model_copy(update={"price": (1.0, 300.0), "name": "dear"})
        teachers = open_teachers(replay_settings.model_copy(update={"teachers": (replay_settings.teachers[0], dear)}))
        answers = ask(teachers, *[State(erred, 1)] * 6)
        number = len(endpoint.requests)
    spent = sum(answer.usd for answer in answers)
    assert 0 < spent == teachers[0].ledger.usd <= 0.05
    assert [answer.problem for answer in answers if answer.teacher == "dear"] == ["", *["budget"] * 5]
    assert number == sum(answer.problem == "" for answer in answers) == 7


def test_lost_attempts_count_at_the_next_start(endpoints: Any, erred: Episode, tmp_path: Path) -> None:
    def breaking(number: int, body: dict[str, Any]) -> Any:
        return endpoints.GARBAGE if number < 3 else endpoints.say("so")

    charges, cassette = tmp_path / "new" / "charges.log", str(tmp_path / "a.jsonl")
    with endpoints.serving(breaking) as endpoint:
        replay_settings = settings(endpoint.url, cassette=cassette)
        (first,) = open_teachers(replay_settings, charges=charges, sleep=no_pause, attempts=2)
        answers = ask([first], State(erred, 1), State(erred, 1))
        bound = bound_of(endpoint.requests[0])
        assert [answer.action is None for answer in answers] == [True, False] and len(endpoint.requests) == 4
        spent = (3 * bound[0] + 15, pytest.approx(3 * bound[1] + 20e-6))
        assert (first.ledger.tokens, first.ledger.usd) == spent
        (again,) = open_teachers(replay_settings, charges=charges)
        assert (again.ledger.tokens, again.ledger.usd) == spent
        ask([again], State(erred, 1))
        assert len(endpoint.requests) == 4
    assert (again.ledger.tokens, again.ledger.usd) == spent, "an answer is paid for once, then replayed"


@pytest.mark.parametrize("failures", [0, 2])
def test_attempt_that_was_running_when_stopped_counts(
    failures: int, endpoints: Any, erred: Episode, tmp_path: Path
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
        if number < failures:
            return endpoints.GARBAGE
        reached.set()
        return endpoints.STALL

    with endpoints.serving(script) as endpoint:
        (teacher,) = open_teachers(settings(endpoint.url), charges=charges, sleep=no_pause)
        asyncio.run(stopped(teacher))
        bound = bound_of(endpoint.requests[0])
    charges.write_bytes(charges.read_bytes() + b'{"tokens": 99')
    (again,) = open_teachers(settings(endpoint.url), charges=charges)
    assert (again.ledger.tokens, again.ledger.usd) == (
        (1 + failures) * bound[0],
        pytest.approx((1 + failures) * bound[1]),
    )
    assert charges.read_bytes().endswith(b"}\n"), "the cut-off line is removed"


def test_no_file_remains_when_nothing_was_paid_for(endpoints: Any, erred: Episode, tmp_path: Path) -> None:
    charges = tmp_path / "new" / "charges.log"
    with endpoints.serving(lambda number, body: endpoints.fail(400)) as endpoint:
        teachers = open_teachers(settings(endpoint.url, "http://127.0.0.1:9/v1"), charges=charges, sleep=no_pause)
        ask(teachers, State(erred, 1), State(erred, 2))
    assert list(tmp_path.iterdir()) == [] and teachers[0].ledger.tokens == 0


def test_paid_answers_count_at_later_starts_that_do_not_ask_again(
    endpoints: Any, erred: Episode, tmp_path: Path
) -> None:
    charges = tmp_path / "charges.log"
    with endpoints.serving(lambda number, body: endpoints.say("so", usage=(1000, 100))) as endpoint:
        replay_settings = settings(endpoint.url, cassette=str(tmp_path / "a.jsonl"))
        (first,) = open_teachers(replay_settings, charges=charges)
        ask([first], State(erred, 1), State(erred, 2))
        (second,) = open_teachers(replay_settings, charges=charges)
        ask([second], State(erred, 0))
        (third,) = open_teachers(replay_settings, charges=charges)
        ask([third], *[State(erred, turn) for turn in range(3)])
        assert len(endpoint.requests) == 3
    assert [teacher.ledger.tokens for teacher in (first, second, third)] == [2200, 3300, 3300]
    assert second.ledger.usd == pytest.approx(third.ledger.usd) == pytest.approx(3 * first.ledger.usd / 2)


def test_recorded_answers_are_replayed_when_the_budget_is_spent(endpoints: Any, erred: Episode, tmp_path: Path) -> None:
    with endpoints.serving(lambda number, body: endpoints.say("so", usage=(6000, 100))) as endpoint:
        replay_settings = settings(endpoint.url, cassette=str(tmp_path / "a.jsonl"), budget={"tokens": 6200})
        for _ in range(2):
            teachers = open_teachers(replay_settings, charges=tmp_path / "charges.log")
            answers = ask(teachers, State(erred, 1), State(erred, 2))
            assert [answer.problem for answer in answers] == ["", "budget"] and teachers[0].ledger.tokens == 6100
        assert len(endpoint.requests) == 1


def test_answer_counts_once_when_the_process_was_killed_after_it(
    endpoints: Any, erred: Episode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(self: BudgetLedger, *costs: Any) -> None:
        raise KeyboardInterrupt

    with endpoints.serving(lambda number, body: endpoints.say("so")) as endpoint:
        replay_settings, charges = settings(endpoint.url, cassette=str(tmp_path / "a.jsonl")), tmp_path / "charges.log"
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(BudgetLedger, "settle", killed)  # the answer is in its cassette, its cost is not written
            ask(open_teachers(replay_settings, charges=charges), State(erred, 1))
        (again,) = open_teachers(replay_settings, charges=charges)
        (answer,) = ask([again], State(erred, 1))
        assert len(endpoint.requests) == 1 and answer.action == {"text": "so"}
        bound = bound_of(endpoint.requests[0])
    assert (again.ledger.tokens, again.ledger.usd) == (bound[0], pytest.approx(bound[1]))


def test_retry_must_fit_into_the_budget(endpoints: Any, erred: Episode, tmp_path: Path) -> None:
    with endpoints.serving(lambda number, body: endpoints.GARBAGE) as endpoint:
        replay_settings = settings(endpoint.url, budget={"tokens": 6000})
        (teacher,) = open_teachers(replay_settings, sleep=no_pause, charges=tmp_path / "charges.log")
        (answer,) = ask([teacher], State(erred, 1))
        tokens, _ = bound_of(endpoint.requests[0])
        assert len(endpoint.requests) == 6000 // tokens == 2
    (again,) = open_teachers(replay_settings, charges=tmp_path / "charges.log")
    assert answer.problem == "budget" and teacher.ledger.tokens == again.ledger.tokens == 2 * tokens


def test_unreadable_spending_log_is_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "charges.log").write_text('{"tokens": "many"}\n')
    with pytest.raises(ReplayError, match="cannot read the spending log .*charges.log; delete it to continue"):
        open_teachers(settings("http://127.0.0.1:9/v1"), charges=tmp_path / "charges.log")


def test_lost_attempts_count_at_their_bound(endpoints: Any, erred: Episode) -> None:
    with endpoints.serving(lambda number, body: endpoints.GARBAGE) as endpoint:
        (teacher,) = open_teachers(settings(endpoint.url), sleep=no_pause, attempts=2)
        (answer,) = ask([teacher], State(erred, 1))
        bound = bound_of(endpoint.requests[0])
    assert answer.action is None and teacher.ledger.usd == pytest.approx(2 * bound[1])
