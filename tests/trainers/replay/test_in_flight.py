"""Tests of several turns in flight: speed, the same files whatever their number, the budget, and interrupts."""

from __future__ import annotations

import asyncio
import json
import random
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.replay_files import Script

from etude.client import Client
from etude.errors import ReplayError
from etude.models import Episode
from etude.trainers.replay.external_models import Teacher, open_teachers
from etude.trainers.replay.in_flight import learned_turns
from etude.trainers.replay.report import Report
from etude.trainers.replay.run import replay
from etude.trainers.replay.settings import ReplaySettings, parse_settings

USAGE = (1000, 50)
PRICES = ((1.0, 2.0), (2.0, 3.0), (3.0, 4.0))


def answering(endpoints: Any, erred: Episode, place: int, after_s: float = 0.0, jitter_s: float = 0.0) -> Script:
    """Return a script whose answer depends on the question alone: the right next call, or now and then another one."""

    def script(number: int, body: dict[str, Any]) -> Any:
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        action = erred.turns[2 if turn == 1 else turn].action["tool_calls"][0]
        draw = random.Random(f"{place} {json.dumps(body['messages'])}")
        call = endpoints.call("also_none", {}) if draw.random() < 0.25 else endpoints.call(*_named(action))
        return replace(endpoints.say(None, call, usage=USAGE), after_s=after_s + jitter_s * random.random())

    return script


def _named(action: dict[str, Any]) -> tuple[str, Any]:
    return action["name"], action["arguments"]


def different(erred: Episode, number: int) -> list[Episode]:
    """Return episodes with different questions."""
    return [
        erred.model_copy(update={"episode_id": f"e{i}", "prompt": f"{i}. {erred.prompt}", "task_id": f"task {i}"})
        for i in range(number)
    ]


def settings_of(endpoints: list[Any], teachers: dict[str, Any] | None = None, **tables: Any) -> ReplaySettings:
    rows = [
        {"name": f"t{i}", "model": f"m{i}", "base_url": one.url, "price": PRICES[i], **(teachers or {})}
        for i, one in enumerate(endpoints)
    ]
    return parse_settings({"teachers": rows, **tables})


def written(
    episodes: list[Episode], settings: ReplaySettings, out: Path, in_flight: int, urls: list[str] | None = None
) -> tuple[Report, bytes, bytes]:
    """Replay; return the report and the bytes of the pairs and of the log."""

    async def whole() -> Report:
        teachers = open_teachers(settings)
        clients = [Client(url) for url in urls or []]
        try:
            for client in clients:
                await client.connect()
            return await replay(episodes, teachers, clients or None, out, settings=settings, in_flight=in_flight)
        finally:
            for closing in (*teachers, *clients):
                await closing.close()

    report = asyncio.run(whole())
    return report, out.read_bytes(), Path(f"{out}.turns.jsonl").read_bytes()


def test_eight_turns_in_flight_are_several_times_faster_than_one(
    endpoints: Any, erred: Episode, tmp_path: Path
) -> None:
    episodes, seconds, results = different(erred, 14), {}, {}
    with endpoints.serving(answering(endpoints, erred, 0, after_s=0.1)) as endpoint:
        settings = settings_of([endpoint], consensus={"least": 1}, gate={"which": "random", "rate": 0.7})
        for in_flight in (8, 1):
            start = time.monotonic()
            results[in_flight] = written(episodes, settings, tmp_path / f"{in_flight}", in_flight)
            seconds[in_flight] = time.monotonic() - start
        assert 4 <= endpoint.most_at_once <= 8
    assert results[8] == results[1] and results[1][1]
    assert seconds[1] > 2.5 * seconds[8]


@pytest.mark.parametrize("gate", [{"which": "voi", "worth": 0.02}, {"which": "all", "tiers": False}])
@pytest.mark.parametrize("usd", [0.05, None])
def test_files_are_the_same_for_every_number_of_turns_in_flight(
    usd: float | None, gate: dict[str, Any], endpoints: Any, erred: Episode, tmp_path: Path
) -> None:
    """Answers arrive out of order, and the budget ends the replay amid the run."""
    episodes, results, asked = [*different(erred, 9), *different(erred, 2)], {}, {}
    for in_flight in (1, 8, 32):
        with ExitStack() as stack:
            scripts = [answering(endpoints, erred, place, jitter_s=0.02) for place in range(3)]
            running = [stack.enter_context(endpoints.serving(script)) for script in scripts]
            settings = settings_of(running, gate=gate, budget={"usd": usd} if usd else {})
            results[in_flight] = written(episodes, settings, tmp_path / f"{in_flight}", in_flight)
            asked[in_flight] = [len(one.requests) for one in running]
    report, pairs, _ = results[1]
    assert results[8] == results[1] == results[32] and asked[8] == asked[1] == asked[32] and pairs
    paid = sum(n * (USAGE[0] * read + USAGE[1] * out) / 1e6 for n, (read, out) in zip(asked[1], PRICES, strict=True))
    assert report.usd == pytest.approx(paid)
    assert bool(report.unreached) == (report.stopped == "the budget is spent") == bool(usd)
    assert usd is None or usd / 2 < report.usd <= usd


def test_endpoint_has_at_most_its_own_number_of_requests(endpoints: Any, erred: Episode, tmp_path: Path) -> None:
    with endpoints.serving(answering(endpoints, erred, 0, after_s=0.01)) as endpoint:
        settings = settings_of([endpoint] * 2, {"in_flight": 3}, gate={"which": "all"}, consensus={"least": 1})
        written(different(erred, 8), settings, tmp_path / "p", 16)
        assert endpoint.most_at_once == 3, "two teachers behind one address share its limit"


def test_executed_pairs_are_the_same_with_one_session_and_with_several(
    endpoints: Any, url: str, erred: Episode, tmp_path: Path
) -> None:
    results = {}
    with (
        endpoints.serving(answering(endpoints, erred, 0, jitter_s=0.01)) as one,
        endpoints.serving(answering(endpoints, erred, 1)) as two,
    ):
        settings = settings_of([one, two], gate={"which": "all"}, value={"follow": 1}, consensus={"least": 1})
        for sessions in (1, 4):
            results[sessions] = written([erred] * 6, settings, tmp_path / f"{sessions}", 8, [url] * sessions)
    assert results[4] == results[1] and results[1][0].executed > 0 and results[1][0].not_executed == {}


@pytest.mark.parametrize("in_flight", [1, 8])
def test_cancelled_replay_leaves_no_task_and_resumes_with_its_answers(
    in_flight: int, endpoints: Any, erred: Episode, tmp_path: Path
) -> None:
    """The turns that were running are charged at their bound, and asked about again."""
    episodes = different(erred, 8)
    answers = answering(endpoints, erred, 0)

    def stalling(number: int, body: dict[str, Any]) -> Any:
        return answers(number, body) if number < 20 else endpoints.STALL

    async def interrupted(teachers: list[Teacher], settings: ReplaySettings, out: Path) -> int:
        asking = asyncio.create_task(replay(episodes, teachers, None, out, settings=settings, in_flight=in_flight))
        while len(endpoint.requests) < 20 + stalled or len(recorded.read_bytes().splitlines()) < 20:
            await asyncio.sleep(0.01)
            assert not asking.done()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await teachers[0].close()
        return len(asyncio.all_tasks())

    tables: dict[str, Any] = {"consensus": {"least": 1}, "gate": {"which": "all"}}
    charges = tmp_path / "charges.log"
    with endpoints.serving(answers) as endpoint:
        whole, pairs, log = written(episodes, settings_of([endpoint], **tables), tmp_path / "whole", 1)
    recorded, stalled = tmp_path / "answers.jsonl", 1 if in_flight == 1 else 5
    cassette = {"cassette": str(recorded)}
    with endpoints.serving(stalling) as endpoint:
        settings = settings_of([endpoint], cassette, **tables)
        teachers = open_teachers(settings, charges=charges)
        assert asyncio.run(interrupted(teachers, settings, tmp_path / "p")) == 1
        assert not list(tmp_path.glob("p*"))
        assert teachers[0].ledger.usd > 20 * whole.usd / len(episodes) / len(erred.turns)
    with endpoints.serving(answers) as endpoint:
        settings = settings_of([endpoint], cassette, **tables)
        report, again, log_again = written(episodes, settings, tmp_path / "p", in_flight)
        assert len(endpoint.requests) == len(episodes) * len(erred.turns) - 20, "no answer is paid for twice"
    assert again == pairs and report.pairs == whole.pairs
    assert [row["kind"] for row in map(json.loads, log.splitlines())] == [
        row["kind"] for row in map(json.loads, log_again.splitlines())
    ]


def test_decision_waits_for_all_but_the_last_quarter_of_the_turns() -> None:
    assert [learned_turns(number) for number in (0, 1, 3, 4, 32, 128, 1000)] == [0, 1, 3, 3, 24, 96, 968]


def test_number_of_turns_in_flight_is_checked(endpoints: Any, erred: Episode, tmp_path: Path) -> None:
    with endpoints.serving(answering(endpoints, erred, 0)) as endpoint:
        settings = settings_of([endpoint], consensus={"least": 1})
        with pytest.raises(ReplayError, match="in_flight must be 1 to 32, got 33"):
            written([erred], settings, tmp_path / "p", 33)
    assert list(tmp_path.iterdir()) == []
