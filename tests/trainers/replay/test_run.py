"""Tests of a whole replay, from stored episodes to pairs: scripted teachers, a served drill."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from etude.client import Client
from etude.errors import ReplayError
from etude.models import Episode
from etude.trainers.replay.ask_policy import Gate
from etude.trainers.replay.external_models import open_teachers
from etude.trainers.replay.pairs import Pair, read_pairs
from etude.trainers.replay.run import Report, replay
from etude.trainers.replay.settings import ReplaySettings, parse_settings
from etude.trainers.replay.turns.action_equality import canonical, similarity

Script = Callable[[int, dict[str, Any]], Any]


def knowing(endpoints: Any, erred: Episode) -> Script:
    """Return a script that answers with the student's next action that worked: turn 1 is its error."""

    def script(number: int, body: dict[str, Any]) -> Any:
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        action = erred.turns[2 if turn == 1 else turn].action["tool_calls"][0]
        return endpoints.say(None, endpoints.call(action["name"], action["arguments"]), usage=(1000, 50))

    return script


def erring(endpoints: Any) -> Script:
    return lambda number, body: endpoints.say(None, endpoints.call("also_none", {}), usage=(1000, 50))


def settings_for(urls: list[str], folder: Path, **tables: Any) -> ReplaySettings:
    rows = [
        {
            "name": f"t{i}",
            "model": f"m{i}",
            "base_url": url,
            "price": [1 + i, 2 + i],
            "cassette": str(folder / f"{i}.jsonl"),
        }
        for i, url in enumerate(urls)
    ]
    return parse_settings({"teachers": rows, "gate": {"which": "all", "tiers": False}, **tables})


def run_replay(
    episodes: list[Episode], settings: ReplaySettings, url: str | None, out: Path, **options: Any
) -> tuple[Report, list[Pair]]:
    async def whole() -> Report:
        teachers = open_teachers(settings, **options)
        try:
            if url is None:
                return await replay(episodes, teachers, None, out, settings=settings)
            async with Client(url) as client:
                return await replay(episodes, teachers, client, out, settings=settings)
        finally:
            for teacher in teachers:
                await teacher.close()

    report = asyncio.run(whole())
    return report, read_pairs(out) if out.read_text() else []


@pytest.fixture
def serving(endpoints: Any) -> Any:
    """Return a function that starts endpoints for scripts; its ``requests`` counts the requests of all of them."""
    with ExitStack() as stack:
        running: list[Any] = []

        def start(*scripts: Script) -> list[str]:
            running.extend(stack.enter_context(endpoints.serving(script)) for script in scripts)
            return [endpoint.url for endpoint in running]

        start.requests = lambda: sum(len(endpoint.requests) for endpoint in running)  # type: ignore[attr-defined]
        yield start


def test_error_becomes_a_pair_in_the_state_before_it(
    endpoints: Any, serving: Any, url: str, erred: Episode, tmp_path: Path
) -> None:
    urls = serving(*[knowing(endpoints, erred)] * 3)
    report, (pair,) = run_replay([erred], settings_for(urls, tmp_path), url, tmp_path / "p.jsonl")
    assert (pair.kind, pair.turn, pair.error, pair.reason) == ("correct", 1, "tool_not_found", "consensus")
    right = erred.turns[2].action["tool_calls"][0]
    assert [(c["name"], c["arguments"]) for c in pair.chosen["tool_calls"]] == [(right["name"], right["arguments"])]
    assert pair.rejected["tool_calls"][0]["name"] == "no_such_tool" and pair.rejected["text"] == ""
    assert [message["role"] for message in pair.messages] == ["user", "assistant", "tool"]
    assert pair.values == {"student": -1.0, "t0": 0.0, "t1": 0.0, "t2": 0.0}
    assert (pair.how["student"], pair.how["t0"]) == ("recorded", "replay")
    assert pair.usd == {"t0": pytest.approx(0.0011), "t1": pytest.approx(0.00215), "t2": pytest.approx(0.0032)}
    assert (pair.share, pair.margin, pair.propensity) == (1.0, 1.0, 1.0)
    assert (report.turns, report.questioned) == (len(erred.turns), len(erred.turns))
    assert report.usd == pytest.approx(sum(pair.usd.values()) * len(erred.turns)) == report.usd_per_pair
    assert report.pairs_if_all[0] == 1.0 and report.regret == 0.0
    json.dumps(report.row())


def test_pair_says_so_when_agreement_alone_decided(
    endpoints: Any, serving: Any, erred: Episode, tmp_path: Path
) -> None:
    urls = serving(*[knowing(endpoints, erred)] * 3)
    report, (pair,) = run_replay([erred], settings_for(urls, tmp_path), None, tmp_path / "p.jsonl")
    assert pair.reason == "consensus, by agreement alone" and pair.values == {"student": -1.0}
    assert report.executed == 0


def test_unanimous_answer_makes_no_pair_when_it_errs_in_execution(
    endpoints: Any, serving: Any, url: str, erred: Episode, tmp_path: Path
) -> None:
    urls = serving(*[erring(endpoints)] * 3)
    report, pairs = run_replay([erred], settings_for(urls, tmp_path), url, tmp_path / "p.jsonl")
    assert pairs == [] and report.reasons["the consensus erred"] == len(erred.turns)
    assert all(accuracies[""] < 0.85 for accuracies in report.reliability.values())
    _, believed = run_replay([erred], settings_for(urls, tmp_path), None, tmp_path / "q.jsonl")
    assert believed, "without a server the error goes unnoticed"


def test_failed_outlier_makes_a_pair_for_the_student(
    endpoints: Any, serving: Any, url: str, erred: Episode, tmp_path: Path
) -> None:
    urls = serving(erring(endpoints), knowing(endpoints, erred), knowing(endpoints, erred))
    report, pairs = run_replay([erred] * 3, settings_for(urls, tmp_path), url, tmp_path / "p.jsonl")
    good = [pair for pair in pairs if pair.kind == "student_good"]
    assert good and report.pairs["student_good"] == len(good)
    assert {pair.rejected["tool_calls"][0]["name"] for pair in good} == {"also_none"}
    assert all(pair.values["student"] >= 0 > pair.values["t0"] for pair in good)
    assert good[0].turn > 0, "the outlier is outvoted once its reliability is low enough"


def test_pair_records_the_weights_that_its_share_was_computed_with(
    endpoints: Any, serving: Any, url: str, erred: Episode, tmp_path: Path
) -> None:
    """The weights are those from before this turn, not those that include its own executed answers."""
    urls = serving(erring(endpoints), knowing(endpoints, erred), knowing(endpoints, erred))
    _, pairs = run_replay([erred] * 3, settings_for(urls, tmp_path), url, tmp_path / "p.jsonl")
    assert {pair.reason for pair in pairs} >= {"consensus", "an outlier failed"}
    for pair in pairs:
        agreed = pair.weights["t1"] + pair.weights["t2"]
        assert pair.share == pytest.approx(agreed / sum(pair.weights.values()))


def test_one_word_fix_is_a_pair_and_teaches_the_gate(
    endpoints: Any, serving: Any, url: str, erred: Episode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned: list[tuple[bool, bool]] = []
    monkeypatch.setattr(
        Gate, "learn", lambda self, row, **result: learned.append((result["disagreed"], result["paired"]))
    )
    words = "the note says where the key to the door of the {} cellar is kept"
    wrong = {"tool_calls": [{"id": "x", "name": "submit", "arguments": {"answer": words.format("old")}}]}
    slipped = erred.model_copy(deep=True)
    slipped.turns[1].action = wrong
    fixed = endpoints.call("submit", {"answer": words.format("new")})
    urls = serving(*[lambda number, body: endpoints.say(None, fixed)] * 3)
    assert similarity(*(canonical(action, erred.tools) for action in (wrong, {"tool_calls": [fixed]}))) > 0.8
    _, pairs = run_replay([slipped], settings_for(urls, tmp_path), None, tmp_path / "p.jsonl")
    assert [(pair.kind, pair.error) for pair in pairs if pair.turn == 1] == [("correct", "tool_not_found")]
    assert learned[1] == (True, True)


def test_teachers_that_split_make_no_pair(endpoints: Any, serving: Any, erred: Episode, tmp_path: Path) -> None:
    def saying(name: str) -> Script:
        return lambda number, body: endpoints.say(None, endpoints.call(name, {}))

    urls = serving(saying("a"), saying("b"), saying("c"))
    report, pairs = run_replay([erred], settings_for(urls, tmp_path), None, tmp_path / "p.jsonl")
    assert pairs == [] and set(report.reasons) == {"teachers split"}


def test_failing_teacher_leaves_the_others_to_decide(
    endpoints: Any, serving: Any, url: str, erred: Episode, tmp_path: Path
) -> None:
    good = knowing(endpoints, erred)
    urls = serving(lambda number, body: endpoints.fail(401, "no"), good, good)
    report, (pair,) = run_replay([erred], settings_for(urls, tmp_path), url, tmp_path / "p.jsonl")
    assert "401" in report.teachers["t0"].out and report.teachers["t0"].questions == 1
    assert pair.turn == 1 and set(pair.values) == {"student", "t1", "t2"}


def test_replay_fails_when_no_teacher_answers(endpoints: Any, serving: Any, erred: Episode, tmp_path: Path) -> None:
    urls = serving(*[lambda number, body: endpoints.fail(401, "no")] * 2)
    with pytest.raises(ReplayError, match="no teacher answered: .*401"):
        run_replay([erred], settings_for(urls, tmp_path), None, tmp_path / "p.jsonl")
    assert list(tmp_path.glob("p.jsonl*")) == []


def test_replay_stops_at_the_budget_and_writes_its_pairs(
    endpoints: Any, serving: Any, url: str, erred: Episode, tmp_path: Path
) -> None:
    urls = serving(*[knowing(endpoints, erred)] * 3)
    settings = settings_for(urls, tmp_path, budget={"usd": 0.06})
    report, pairs = run_replay([erred] * 20, settings, url, tmp_path / "p.jsonl")
    assert report.stopped == "the budget is spent" and 0 < report.usd <= 0.06
    assert report.turns + report.unreached == 20 * len(erred.turns) and report.unreached and pairs


def test_budget_counts_over_all_starts(endpoints: Any, serving: Any, erred: Episode, tmp_path: Path) -> None:
    """The cheap teacher is down at first, and the dear one uses up the budget; then the cheap one is back."""
    knows, down, paid = knowing(endpoints, erred), [True], []

    def cheap(number: int, body: dict[str, Any]) -> Any:
        return endpoints.fail(401, "no key yet") if down[0] else charged(1e-6 * (1000 + 50 * 2), number, body)

    def dear(number: int, body: dict[str, Any]) -> Any:
        return charged(1e-6 * (1000 * 2 + 50 * 3), number, body)

    def charged(usd: float, number: int, body: dict[str, Any]) -> Any:
        paid.append(usd)
        return knows(number, body)

    gate, budget = {"which": "all", "tiers": True}, {"usd": 0.03}
    settings = settings_for(serving(cheap, dear), tmp_path, gate=gate, budget=budget)
    for start in range(3):
        out = tmp_path / f"p{start}.jsonl"
        report, _ = run_replay([erred] * 10, settings, None, out, charges=tmp_path / "charges.log")
        assert report.stopped == "the budget is spent" and 0.015 < report.usd <= 0.03
        assert report.usd == pytest.approx(sum(paid)) and len(paid) > 4 + start
        down[0] = False


def test_gate_closes_when_answers_cost_more_than_a_pair_is_worth(
    endpoints: Any, serving: Any, erred: Episode, tmp_path: Path
) -> None:
    def long(number: int, body: dict[str, Any]) -> Any:
        return endpoints.say(None, endpoints.call("look", {}), usage=(300, 20_000))

    settings = settings_for(serving(long, long, long), tmp_path, gate={"worth": 0.05, "explore": 0.01})
    report, _ = run_replay([erred] * 10, settings, None, tmp_path / "p.jsonl")
    assert report.turns == 10 * len(erred.turns) and 0 < report.questioned < 6


def test_report_says_why_questions_have_no_answer(endpoints: Any, serving: Any, erred: Episode, tmp_path: Path) -> None:
    """Two models are too small for the later turns, so another start would ask the same questions."""
    knows = knowing(endpoints, erred)

    def small(number: int, body: dict[str, Any]) -> Any:
        return knows(number, body) if len(body["messages"]) < 4 else endpoints.fail(400, "maximum context length")

    settings = settings_for(serving(small, small), tmp_path)
    report, pairs = run_replay([erred], settings, None, tmp_path / "p.jsonl")
    unanswered = len(erred.turns) - 2
    assert pairs and report.lacks == "" and report.unanswered == 0
    beginning = (
        f"the teacher t0 left {unanswered} of {unanswered + 2} questions without an answer, the last one: the endpoint "
    )
    assert report.warnings()[0].startswith(beginning) and '"maximum context length"' in report.warnings()[0]
    rows = [json.loads(line) for line in (tmp_path / "p.jsonl.turns.jsonl").read_text().splitlines()]
    assert [sorted(row["problems"]) for row in rows] == [[], [], *[["t0", "t1"]] * unanswered]


def test_report_is_incomplete_when_a_teacher_was_dropped(
    endpoints: Any, serving: Any, erred: Episode, tmp_path: Path
) -> None:
    knows = knowing(endpoints, erred)
    urls = serving(knows, knows, lambda number, body: endpoints.say("", finish="length"))
    report, pairs = run_replay([erred], settings_for(urls, tmp_path), None, tmp_path / "p.jsonl")
    assert len(erred.turns) > report.teachers["t2"].questions == 3 and len(pairs) == 1
    assert report.lacks == "t2 was dropped" and "raise max_tokens" in report.warnings()[0]


def test_replay_fails_when_the_budget_allows_no_question(
    endpoints: Any, serving: Any, erred: Episode, tmp_path: Path
) -> None:
    settings = settings_for(serving(*[knowing(endpoints, erred)] * 2), tmp_path, budget={"tokens": 10})
    with pytest.raises(ReplayError, match="no teacher answered: the budget is too small"):
        run_replay([erred], settings, None, tmp_path / "p.jsonl")
    assert serving.requests() == 0


def test_cassettes_give_the_same_pairs_without_a_request(
    endpoints: Any, serving: Any, url: str, erred: Episode, tmp_path: Path
) -> None:
    urls = serving(*[knowing(endpoints, erred)] * 3)
    settings = settings_for(urls, tmp_path)
    first, pairs = run_replay([erred], settings, url, tmp_path / "p.jsonl")
    number = serving.requests()
    again, same = run_replay([erred], settings, url, tmp_path / "q.jsonl", replayed=True)
    assert (serving.requests(), again.usd) == (number, 0.0) and first.usd > 0
    assert again.teachers == first.teachers and again.reliability == first.reliability
    assert (tmp_path / "p.jsonl").read_bytes() == (tmp_path / "q.jsonl").read_bytes() and pairs == same


def test_tiers_ask_fewer_teachers_for_the_same_pair(
    endpoints: Any, serving: Any, url: str, erred: Episode, tmp_path: Path
) -> None:
    urls = serving(*[knowing(endpoints, erred)] * 3)
    whole, pairs = run_replay([erred], settings_for(urls, tmp_path), url, tmp_path / "p.jsonl")
    tiered = settings_for(urls, tmp_path, gate={"which": "all", "tiers": True})
    less, same = run_replay([erred], tiered, url, tmp_path / "q.jsonl")
    assert [(p.turn, p.chosen) for p in same] == [(p.turn, p.chosen) for p in pairs]
    assert less.usd < whole.usd and less.teachers["t2"].questions < whole.teachers["t2"].questions


def test_closed_gate_explores_and_logs_the_propensities(
    endpoints: Any, serving: Any, erred: Episode, tmp_path: Path
) -> None:
    urls = serving(*[knowing(endpoints, erred)] * 3)
    settings = settings_for(urls, tmp_path, gate={"worth": 1e-9, "explore": 0.1, "seed": 3})
    episodes = [erred.model_copy(update={"episode_id": str(number)}) for number in range(40)]
    report, pairs = run_replay(episodes, settings, None, tmp_path / "p.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "p.jsonl.turns.jsonl").read_text().splitlines()]
    assert len(rows) == report.turns and {row["propensity"] for row in rows} == {0.1}
    assert 0 < report.questioned < 0.25 * report.turns
    assert report.pairs_if_all[0] == pytest.approx(10 * len(pairs))
    assert report.pairs_if_all[1] <= 40 <= report.pairs_if_all[2]


def test_replay_overwrites_no_file(endpoints: Any, serving: Any, erred: Episode, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text("")
    urls = serving(*[knowing(endpoints, erred)] * 2)
    with pytest.raises(ReplayError, match="exists already; remove it, or choose another --out"):
        run_replay([erred], settings_for(urls, tmp_path), None, tmp_path / "p.jsonl")
    assert serving.requests() == 0


def test_read_pairs_refuses_a_file_without_pairs(tmp_path: Path) -> None:
    (tmp_path / "pairs.jsonl").write_text("")
    with pytest.raises(ReplayError, match="holds no pair"):
        read_pairs(tmp_path / "pairs.jsonl")
