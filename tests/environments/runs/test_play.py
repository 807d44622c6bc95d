"""Runs of an agent that asks a model, on drills: samples, costs, failures, resumed runs."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from helpers.model_runs import TASKS, rows, run, solver

from etude.cli import app as cli
from etude.environments.drill.tasks import DrillTasks
from etude.environments.runs.play import run_episodes
from etude.errors import EndpointRefused, RunError, ServerInfrastructureError
from etude.llm import Budget, Price
from etude.models import Task

KEY = "sk-very-secret"


def test_samples_are_played_counted_and_paid_for(
    endpoints: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    solve = solver(endpoints)
    observed: Counter[str] = Counter()
    lock = threading.Lock()

    def script(number: int, body: dict[str, Any]) -> Any:
        """Right in every other sample of a task."""
        first = body["messages"][0]["content"]
        if len(body["messages"]) > 1:
            return solve(number, body)
        with lock:
            observed[first] += 1
        return (
            solve(number, body) if observed[first] % 2 else endpoints.say("", endpoints.call("submit", {"answer": "?"}))
        )

    with endpoints.serving(script) as endpoint:
        summary = run(endpoint.url, tmp_path, n=4, limit=3, model={"price": Price(1.0, 10.0)})
    assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"
    assert (summary.episodes, summary.valid, summary.solved, summary.samples) == (12, 12, 6, 4)
    assert {k: at["value"] for k, at in summary.pass_at.items()} == pytest.approx({"1": 0.5, "2": 5 / 6, "4": 1.0})
    played = rows(tmp_path)
    assert sorted((row["task_id"], row["sample"]) for row in played) == sorted(
        (TASKS.get_task("train", index).task_id, sample) for index in range(3) for sample in range(4)
    )
    assert summary.usage["calls"] == len(endpoint.requests) == sum(row["usage"]["calls"] for row in played)
    assert summary.usage["usd"] == pytest.approx(len(endpoint.requests) * (10 * 1.0 + 5 * 10.0) / 1e6)
    assert KEY not in (tmp_path / "episodes.jsonl").read_text() + (tmp_path / "summary.json").read_text()


def test_a_run_with_more_samples_plays_only_the_new_ones(endpoints: Any, tmp_path: Path) -> None:
    with endpoints.serving(solver(endpoints)) as endpoint:
        run(endpoint.url, tmp_path)
        before = len(endpoint.requests)
        summary = run(endpoint.url, tmp_path, n=2)
        assert (len(rows(tmp_path)), summary.episodes, summary.reward) == (4, 4, 1.0)
        assert len(endpoint.requests) == 2 * before
        run(endpoint.url, tmp_path, n=2)
        assert len(endpoint.requests) == 2 * before


@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_every_episode_is_accounted_for_when_the_endpoint_fails_at_random(
    count: int, endpoints: Any, tmp_path: Path
) -> None:
    solve, healed = solver(endpoints), threading.Event()
    often = [
        endpoints.fail(500),
        endpoints.fail(429, Retry_After="0"),
        endpoints.fail(400, "odd"),
        endpoints.RESET,
        endpoints.GARBAGE,
        endpoints.EMPTY,
        endpoints.TRUNCATED,
    ]
    faults = [*often, *often, *often, endpoints.STALL]

    def script(number: int, body: dict[str, Any]) -> Any:
        chance = random.Random(number)
        return (
            chance.choice(faults) if number and not healed.is_set() and chance.random() < 0.4 else solve(number, body)
        )

    with endpoints.serving(script) as endpoint:
        first = run(endpoint.url, tmp_path, limit=count, jobs=32, model={"timeout_s": 1.0})
        played = rows(tmp_path)
        assert (first.episodes, len(played)) == (count, count)
        assert 0 < first.valid < count
        assert first.valid + len(first.failures) == count
        for row in played:
            assert row["reward"]["valid"] == (row["cause"] == "")
            assert row["reward"]["valid"] or row["end"] == "closed"
        assert first.reward == 1.0
        kinds = ("500", "429", "400: ", "broke off", "without a message", "did not answer within")
        assert sum(any(kind in cause for cause in first.failures.values()) for kind in kinds) >= 2
        healed.set()
        second = run(endpoint.url, tmp_path, limit=count, jobs=32)
    assert (second.episodes, second.valid, second.reward, second.ok) == (count, count, 1.0, True)
    assert len(rows(tmp_path)) == count + len(first.failures)
    assert second.usage["calls"] > first.usage["calls"]


def test_a_spent_budget_ends_the_run_and_every_episode_says_so(endpoints: Any, tmp_path: Path) -> None:
    with endpoints.serving(solver(endpoints)) as endpoint:
        budget = {"budget": Budget(tokens=100), "max_tokens": 5}
        spent = run(endpoint.url, tmp_path, limit=50, jobs=8, model=budget)
        assert len(endpoint.requests) == 7  # of 15 tokens each: one more than fits
        assert spent.episodes == 50
        assert all("the budget is spent" in cause for cause in spent.failures.values())
        assert spent.usage["prompt_tokens"] + spent.usage["completion_tokens"] == 105
        assert run(endpoint.url, tmp_path, limit=50, jobs=8, model={"max_tokens": 5}).ok


def test_an_endpoint_that_only_refuses_ends_the_run(endpoints: Any, tmp_path: Path) -> None:
    with (
        endpoints.serving(lambda number, body: endpoints.fail(401, "bad key")) as endpoint,
        pytest.raises(EndpointRefused, match="401: .*bad key.*check the key"),
    ):
        run(endpoint.url, tmp_path, limit=50, jobs=8)
    assert len(endpoint.requests) <= 8


@pytest.mark.parametrize(
    ("again", "words"),
    [
        ({"agent": "openai:other"}, "was played with the model m, not the model other"),
        ({"base_url": "http://127.0.0.1:1/v1"}, "not --base-url http://127.0.0.1:1/v1"),
        ({"model": {"tool_format": "text"}}, "was played with --tool-format native, not --tool-format text"),
        ({"model": {"temperature": 0.5}}, "was played with no --temperature, not --temperature 0.5"),
        ({"url": "http://127.0.0.1:1/"}, "was played with no --url, not --url http://127.0.0.1:1;"),
        ({"backend": "process"}, "was played with --sandbox auto, not --sandbox process"),
        ({"faults": "timeout@0"}, "was played with no --faults, not --faults timeout@0"),
        ({"annotate": "observation"}, "was played with --annotate state, not --annotate observation"),
    ],
)
def test_a_run_is_not_resumed_with_other_settings(
    again: dict[str, Any], words: str, endpoints: Any, tmp_path: Path
) -> None:
    with endpoints.serving(solver(endpoints)) as endpoint:
        run(endpoint.url, tmp_path, limit=1)
        before = (tmp_path / "episodes.jsonl").read_bytes()
        with pytest.raises(RunError, match="give the same, or choose another --out") as refused:
            run(again.pop("base_url", endpoint.url), tmp_path, **again)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
    assert (tmp_path / "episodes.jsonl").read_bytes() == before


def test_a_repeated_run_says_that_it_played_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["run", "--tasks", "drill", "--limit", "2", "--out", str(tmp_path / "run")]
    assert cli.main(command) == 0
    assert "were not played again" not in capsys.readouterr().err
    assert cli.main(command) == 0
    assert "2 of 2 episodes are in" in capsys.readouterr().err


def test_agents_of_other_kinds_share_a_folder(tmp_path: Path) -> None:
    for agent, value in (("oracle", 1.0), ("noop", 0.0), ("oracle", 1.0)):
        assert run("http://h/v1", tmp_path, agent).reward == value
    assert len(rows(tmp_path)) == 4


def test_what_happened_before_the_endpoint_failed_is_kept(endpoints: Any, tmp_path: Path) -> None:
    solve = solver(endpoints)
    with endpoints.serving(lambda number, body: endpoints.fail(500) if number else solve(number, body)) as endpoint:
        run(endpoint.url, tmp_path, limit=1)
    [row] = rows(tmp_path)
    assert len(row["turns"]) == row["usage"]["calls"] == 1
    assert (row["reward"]["valid"], row["end"]) == (False, "closed")
    assert "answered 500" in row["cause"]


def test_the_command_plays_a_model(endpoints: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = lambda number, body: endpoints.say("", endpoints.call("submit", {"answer": "?"}))  # noqa: E731
    with endpoints.serving(script) as endpoint:
        questions = [
            "run",
            "--agent",
            "openai:m",
            "--base-url",
            endpoint.url,
            "--n",
            "2",
            "--limit",
            "3",
            "--temperature",
            "0.5",
        ]
        where = ["--tasks", "drill", "--price", "1,10", "--token-budget", "1000", "--out", str(tmp_path / "out")]
        assert cli.main([*questions, *where, "--json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert cli.main([*questions, *where]) == 0
    assert (shown["episodes"], shown["valid"], shown["pass_at"]["2"]["value"]) == (6, 6, 0.0)
    assert shown["usage"]["usd"] == pytest.approx(6 * 60e-6)
    assert len(endpoint.requests) == 6
    assert {body["temperature"] for body in endpoint.requests} == {0.5}
    table = capsys.readouterr().out
    assert "pass@2" in table
    assert "0.00036" in table


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--agent", "openai"], "give --agent openai:MODEL"),
        (["--agent", "openai:m", "--base-url", "nowhere"], "not an endpoint's address: 'nowhere'"),
        (["--agent", "openai:m", "--base-url", "http://h.example/v1", "--api-key-env", "NO_KEY"], "NO_KEY is not set"),
        (["--agent", "openai:m", "--price", "cheap"], "not a price: 'cheap'"),
        (["--agent", "openai:m", "--budget", "1", "--base-url", "http://127.0.0.1:1"], "give --price IN,OUT"),
        (["--agent", "opnai:m"], "Did you mean 'openai'?"),
        (["--faults", "timeot@0"], "faults: unknown fault 'timeot'. Did you mean 'timeout'?"),
        (["--annotate", "state."], "--annotate: unknown value 'state.'. Did you mean 'state'?"),
        (["--agent", "stumbler:twice"], "the agent stumbler has no variants: leave out ':twice'"),
    ],
)
def test_a_mistake_in_the_command_gets_one_line_and_writes_nothing(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", "--tasks", "drill", "--out", str(tmp_path / "out"), *arguments]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: ")
    assert words in last
    assert not (tmp_path / "out").exists()


def test_a_player_that_breaks_voids_its_episode(endpoints: Any, tmp_path: Path) -> None:
    class Broken:
        def __init__(self, task: Task) -> None:
            pass

        async def __aenter__(self) -> Any:
            raise ServerInfrastructureError("infrastructure: no space left")

        async def __aexit__(self, *error: object) -> None: ...

    summary = run("http://h/v1", tmp_path, "oracle", players=Broken)
    assert (summary.valid, set(summary.failures.values())) == (0, {"infrastructure: no space left"})


def test_a_random_agent_gets_another_seed_in_each_sample(tmp_path: Path) -> None:
    asyncio.run(run_episodes(DrillTasks(), "noisy:0.5,0", out=tmp_path / "a", n=16, limit=1))
    asyncio.run(run_episodes(DrillTasks(), "noisy:0.5,0", out=tmp_path / "b", n=16, limit=1))
    first, again = ([row["reward"]["value"] for row in rows(tmp_path / name)] for name in ("a", "b"))
    assert first == again
    assert set(first) == {0.0, 1.0}


# --- Faults, and who sees annotations ---------------------------------------------------------------------------


def test_faults_are_put_into_every_episode_and_the_rows_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = ["run", "--tasks", "drill", "--limit", "3", "--faults", "transient@0", "--out", str(tmp_path)]
    assert cli.main(questions) == 0
    for row in rows(tmp_path):
        assert [(fault["kind"], fault["turn"]) for fault in row["injected"]] == [("transient", 0)]
        assert [error["kind"] for error in row["error_turns"] if error["injected"]] == ["transport_error"]
        assert (row["settings"]["faults"], row["settings"]["annotate"]) == ("transient@0", "state")
    settings = json.loads((tmp_path / "summary.json").read_text())["settings"]
    assert (settings["faults"], settings["annotate"]) == ("transient@0", "state")
    capsys.readouterr()
    assert cli.main(["hints", "eval", str(tmp_path), "--json"]) == 0
    assert {row["shown"] for row in json.loads(capsys.readouterr().out)["kinds"]} == {"no"}
    assert cli.main([*questions[:-4], "--out", str(tmp_path)]) == 1
    assert "was played with --faults transient@0, not no --faults" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("mode", ["state", "observation"])
@pytest.mark.parametrize("tool_format", ["native", "text"])
def test_a_model_reads_hints_only_when_annotations_are_in_the_observation(
    mode: str, tool_format: str, endpoints: Any, tmp_path: Path
) -> None:
    script = lambda number, body: endpoints.say("", endpoints.call(("look", "submit")[number], {"answer": "?"}))  # noqa: E731
    with endpoints.serving(script) as endpoint:
        run(endpoint.url, tmp_path, limit=1, annotate=mode, model={"tool_format": tool_format})
    [row] = rows(tmp_path)
    hint = row["error_turns"][0]["hints"][0]["text"]
    assert row["error_turns"][0]["kind"] == "tool_not_found"
    last = endpoint.requests[1]["messages"][-1]
    assert (last == {"role": "user", "content": hint}) == (mode == "observation")
    assert (hint in json.dumps(endpoint.requests[1], ensure_ascii=False)) == (mode == "observation")
