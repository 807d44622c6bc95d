"""Tests of `etude replay` on the command line: a served drill, a run with errors, teachers, and training."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from helpers.replay_files import command, erring, error_line, etude, failing, knowing, rows, teachers_file
from helpers.scripted_policy import base

from etude.cli import app as cli
from etude.environments.runs.reader import stored_episodes
from etude.trainers.run.callbacks import read_metrics

ALL = {"which": "all", "tiers": False}
AHEAD = {"gate": ALL, "consensus": {"least": 1}, "value": {"follow": 3}}
"""Tables that ask every teacher about every turn, and let the cheapest play three more turns after an answer."""
SLIP = 2


@pytest.fixture(scope="module")
def played(url: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of two drills with a mistake of every kind, then solved."""
    run = tmp_path_factory.mktemp("runs") / "stumbler"
    options = ["--tasks", "drill", "-a", "stumbler", "--limit", "2", "--url", url, "-o", str(run)]
    assert cli.main(["run", *options]) == 0
    return run


@dataclass(frozen=True)
class Replayed:
    """Files and report of a replay, and the endpoints that answered it: right, wrong, failing."""

    out: Path
    teachers: Path
    report: dict[str, Any]
    endpoints: list[Any]

    @property
    def pairs(self) -> dict[tuple[str, int], dict[str, Any]]:
        """Return the pairs by task and turn."""
        return {(pair["task_id"], pair["turn"]): pair for pair in rows(self.out)}

    @property
    def turns(self) -> list[dict[str, Any]]:
        return rows(self.out.with_name(self.out.name + ".turns.jsonl"))


@pytest.fixture(scope="module")
def replayed(endpoints: Any, played: Path, url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replayed]:
    """Replay with execution, by a teacher that errs once, one that always errs, and one that fails."""
    folder = tmp_path_factory.mktemp("replayed")
    scripts = {
        "right": knowing(endpoints, played, SLIP),
        "wrong": erring(endpoints),
        "failing": failing(endpoints),
    }
    with ExitStack() as stack:
        running = [stack.enter_context(endpoints.serving(script)) for script in scripts.values()]
        urls = {name: endpoint.url for name, endpoint in zip(scripts, running, strict=True)}
        file = teachers_file(folder / "t.toml", urls, cassettes=True, budget={"usd": 5.0}, **AHEAD)
        done = etude("replay", played, "--teachers", file, "--out", folder / "p.jsonl", "--url", url, "--json")
        assert done.returncode == 0, done.stderr
        yield Replayed(folder / "p.jsonl", file, json.loads(done.stdout), running)


def test_every_error_that_a_teacher_corrects_becomes_a_pair(replayed: Replayed, played: Path) -> None:
    errors = {
        (one.episode.task_id, error.turn): error.kind
        for one in stored_episodes(played)
        for error in one.episode.error_turns
        if error.kind != "false_claim"  # its call is right; only the words beside it are wrong
    }
    corrected = {place: pair["error"] for place, pair in replayed.pairs.items() if pair["kind"] == "correct"}
    assert corrected == {place: kind for place, kind in errors.items() if place[1] != SLIP}
    assert len(corrected) == 6 and replayed.report["pairs"]["correct"] == 6


def test_pair_records_its_origin(replayed: Replayed, played: Path) -> None:
    pair = replayed.pairs["drill-choose-0", 1]
    episode = next(one.episode for one in stored_episodes(played) if one.episode.task_id == "drill-choose-0")
    assert (pair["episode_id"], pair["turn"], pair["propensity"]) == (episode.episode_id, 1, 1.0)
    assert [message["role"] for message in pair["messages"]] == ["user", "assistant", "tool"]
    assert pair["messages"][0]["content"] == episode.prompt and pair["tools"] == episode.tools
    assert pair["messages"][2]["content"] == episode.turns[0].messages[0].content
    assert pair["rejected"]["tool_calls"][0]["arguments"] == {"no_such_argument": "README.md"}
    assert pair["chosen"] == pair["teachers"]["right"] and pair["teachers"]["failing"] is None
    assert pair["teachers"]["wrong"]["tool_calls"][0]["name"] == "none_of_these"
    assert pair["tokens"] == {"right": [1000, 50], "wrong": [1000, 50], "failing": [0, 0]}
    assert pair["usd"]["right"] == pytest.approx((1000 * 0.1 + 50 * 0.4) / 1e6) and pair["usd"]["failing"] == 0


def test_executed_values_decide(replayed: Replayed) -> None:
    corrected = [pair for pair in replayed.pairs.values() if pair["kind"] == "correct"]
    assert {pair["reason"] for pair in corrected} == {"proved by execution"}
    assert all(pair["values"] == {"student": -1.0, "right": 1.0, "wrong": -1.0} for pair in corrected)
    assert {pair["how"]["student"] for pair in corrected} == {"recorded"}
    assert {pair["how"][name] for pair in corrected for name in ("right", "wrong")} == {"replay", "fork"}
    assert replayed.report["not_executed"] == {}


def test_reliability_reflects_the_executed_answers(replayed: Replayed) -> None:
    accuracies = {name: accuracy[""] for name, accuracy in replayed.report["reliability"].items()}
    # Two slips in twelve turns; the initial estimate counts as ten answers.
    expected = {"right": (0.85 * 10 + 10) / (10 + 12), "wrong": 0.85 * 10 / (10 + 12), "failing": 0.85}
    assert accuracies == pytest.approx(expected, abs=1e-4)


def test_every_turn_is_logged_with_its_propensity_and_cost(replayed: Replayed) -> None:
    turns = replayed.turns
    assert len(turns) == replayed.report["turns"] == 12
    assert all(row["ask"] and row["propensity"] == 1.0 and row["reason"] for row in turns)
    assert sum(bool(row["kind"]) for row in turns) == len(replayed.pairs)
    # The report also counts the answers of the continuations, which belong to no turn.
    assert 0 < sum(sum(row["usd"].values()) for row in turns) < replayed.report["usd"] <= 5.0
    assert replayed.report["pairs_if_all"][0] == len(replayed.pairs) and replayed.report["regret"] == 0


def test_second_replay_gives_the_same_pairs_at_no_cost(
    replayed: Replayed, played: Path, url: str, tmp_path: Path
) -> None:
    right, wrong, _ = replayed.endpoints
    before = len(right.requests), len(wrong.requests)
    done = etude("replay", played, "--teachers", replayed.teachers, "--out", tmp_path / "p.jsonl", "--url", url)
    assert done.returncode == 0, done.stderr
    assert (len(right.requests), len(wrong.requests)) == before
    assert (tmp_path / "p.jsonl").read_bytes() == replayed.out.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.jsonl", "p.jsonl.turns.jsonl"]


def test_replay_warns_when_a_teacher_is_dropped(
    endpoints: Any, played: Path, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refusing = endpoints.serving(lambda number, body: endpoints.fail(401, "who are you?"))
    with endpoints.serving(knowing(endpoints, played)) as right, refusing as other:
        file = teachers_file(tmp_path / "t.toml", {"right": right.url, "other": other.url}, **AHEAD)
        code = cli.main(["replay", str(played), "--teachers", str(file), "-o", str(tmp_path / "p"), "--url", url])
    assert code == 0 and len(other.requests) == 1
    warning, last = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
    assert "the teacher other was dropped" in warning and "check the key (api_key_env names" in warning
    assert (
        "the replay is incomplete (1 questions have no answer); the answers are kept; to resume, fix the cause, delete"
        in last
    )
    assert (tmp_path / "p.answers").exists()


def test_replay_resumes_with_its_answers_after_the_credit_ended(endpoints: Any, played: Path, tmp_path: Path) -> None:
    knows, paid = knowing(endpoints, played), threading.Event()

    def running_dry(number: int, body: dict[str, Any]) -> Any:
        return knows(number, body) if number < 4 or paid.is_set() else endpoints.fail(429, "insufficient_quota")

    def replay() -> dict[str, Any]:
        for path in (tmp_path / "p.jsonl", tmp_path / "p.jsonl.turns.jsonl"):
            path.unlink(missing_ok=True)
        done = etude("replay", played, "--teachers", file, "--out", tmp_path / "p.jsonl", "--json")
        assert done.returncode == 0, done.stderr
        assert ("the replay is incomplete (no teacher is left to ask, 6 turns" in done.stderr) != paid.is_set()
        return dict(json.loads(done.stdout))

    with endpoints.serving(running_dry) as one, endpoints.serving(running_dry) as two:
        file = teachers_file(tmp_path / "t.toml", {"one": one.url, "two": two.url}, gate=ALL)
        cut = replay()
        assert len(one.requests) == len(two.requests) == 5, "a teacher without credit is dropped"
        assert not cut["complete"] and cut["unanswered"] == 2 and sum(cut["pairs"].values()) > 0
        assert all("no credit left" in cut["teachers"][name]["out"] for name in ("one", "two"))
        paid.set()
        whole = replay()
        assert whole["complete"] and whole["turns"] == 12 and not (tmp_path / "p.jsonl.answers").exists()
        assert len(one.requests) == len(two.requests) == 5 + 8, "no answer was paid for twice"


def test_replay_stops_at_the_budget_and_resumes_with_a_larger_one(endpoints: Any, played: Path, tmp_path: Path) -> None:
    def replay(usd: float) -> dict[str, Any]:
        tables = {"gate": ALL, "budget": {"usd": usd}, "consensus": {"least": 1}}
        file = teachers_file(tmp_path / "t.toml", {"one": one.url, "two": two.url}, **tables)
        done = etude("replay", played, "--teachers", file, "--out", tmp_path / "p.jsonl", "--json")
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    with endpoints.serving(knowing(endpoints, played)) as one, endpoints.serving(knowing(endpoints, played)) as two:
        less = replay(0.0018)
        assert less["stopped"] == "the budget is spent" and 0 < less["usd"] <= 0.0018 and less["turns"] < 12
        assert two.requests == [], "its bound never fitted into the budget"
        paid = len(one.requests)
        for path in tmp_path.glob("p.jsonl*"):
            if path.is_file():
                path.unlink()
        whole = replay(1.0)
        assert whole["stopped"] == "" and whole["turns"] == 12
        assert len(one.requests) == 12 and paid < 12
    assert not (tmp_path / "p.jsonl.answers").exists()


def test_closed_gate_explores_with_the_logged_propensity(endpoints: Any, played: Path, tmp_path: Path) -> None:
    gate = {"worth": 1e-9, "explore": 0.4, "seed": 1}
    with endpoints.serving(knowing(endpoints, played)) as one, endpoints.serving(knowing(endpoints, played)) as two:
        file = teachers_file(tmp_path / "t.toml", {"one": one.url, "two": two.url}, gate=gate)
        done = etude("replay", played, "--teachers", file, "--out", tmp_path / "p.jsonl", "--json")
        report, turns = json.loads(done.stdout), rows(tmp_path / "p.jsonl.turns.jsonl")
    assert {row["propensity"] for row in turns} == {0.4} and len(turns) == 12
    assert 0 < len(one.requests) == report["questioned"] == sum(row["ask"] for row in turns) < 12
    assert report["pairs_if_all"][0] == pytest.approx(sum(report["pairs"].values()) / 0.4)


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_replay_resumes_after_a_signal(
    sent: signal.Signals, code: int, endpoints: Any, replayed: Replayed, played: Path, url: str, tmp_path: Path
) -> None:
    right, reached, gone = knowing(endpoints, played, SLIP), threading.Event(), threading.Event()

    def stalling(number: int, body: dict[str, Any]) -> Any:
        if number < 7 or gone.is_set():
            return right(number, body)
        reached.set()
        return endpoints.STALL

    def run() -> list[str]:
        return command("replay", played, "--teachers", file, "--out", tmp_path / "p.jsonl", "--url", url)

    wrong, dead = endpoints.serving(erring(endpoints)), endpoints.serving(failing(endpoints))
    with endpoints.serving(stalling) as one, wrong as two, dead as three:
        urls = {"right": one.url, "wrong": two.url, "failing": three.url}
        file = teachers_file(tmp_path / "t.toml", urls, budget={"usd": 5.0}, **AHEAD)
        with subprocess.Popen(run(), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
            assert reached.wait(60)
            process.send_signal(sent)
            assert process.stderr is not None
            stderr = process.stderr.read()
        assert process.returncode == code and "Traceback" not in stderr
        assert not (tmp_path / "p.jsonl").exists() and not (tmp_path / "p.jsonl.turns.jsonl").exists()
        *_, charge = rows(tmp_path / "p.jsonl.answers" / "charges.log")
        if sent == signal.SIGINT:
            assert "Run the same command again to resume." in stderr and not list(tmp_path.glob("*.part"))
        gone.set()
        report = json.loads(subprocess.run([*run(), "--json"], check=True, capture_output=True).stdout)
        requests = [len(one.requests) - 1, len(two.requests)]
    assert requests == [len(endpoint.requests) for endpoint in replayed.endpoints[:2]], "no question was asked twice"
    assert (tmp_path / "p.jsonl").read_bytes() == replayed.out.read_bytes()
    assert charge["usd"] > 0 and report["usd"] == pytest.approx(replayed.report["usd"] + charge["usd"])
    assert report["tokens"] == replayed.report["tokens"] + charge["tokens"], "the running attempt may be charged for"
    assert not report["complete"] and (tmp_path / "p.jsonl.answers").exists(), "one teacher failed"


def test_replay_resumes_with_its_answers_after_the_server_was_killed(
    endpoints: Any, played: Path, url: str, tmp_path: Path
) -> None:
    knows = knowing(endpoints, played)
    serve = [sys.executable, "-u", "-m", "etude.cli", "serve", "--env", "drill", "--port", "0"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        own_url = server.stdout.readline().removeprefix("serving ").strip()

        def ending(number: int, body: dict[str, Any]) -> Any:
            if number == 4:
                server.kill()
                server.wait()
            return knows(number, body)

        with endpoints.serving(ending) as one, endpoints.serving(erring(endpoints)) as two:
            file = teachers_file(tmp_path / "t.toml", {"right": one.url, "wrong": two.url}, **AHEAD)
            call = ["replay", played, "--teachers", file, "--out", tmp_path / "p.jsonl", "--url"]
            assert "start it again and run the same command" in error_line(etude(*call, own_url))
            assert sorted(path.name for path in tmp_path.iterdir()) == ["p.jsonl.answers", "t.toml"]
            assert len(one.requests) == 5 and etude(*call, url).returncode == 0
            together = len(one.requests)
            call[-2] = tmp_path / "whole.jsonl"
            assert etude(*call, url).returncode == 0
            assert len(one.requests) == 2 * together, "there are as many questions as without the lost server"
    assert (tmp_path / "p.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no such run": ({"run": "none"}, "cannot read none: No such file or directory; play some with `etude run"),
    "a run without episodes": ({"run": "empty"}, "holds no valid episode; play some with `etude run"),
    "no file of teachers": (
        {"teachers": "none.toml"},
        "cannot find none.toml; write a file that lists the teachers as",
    ),
    "an unknown key": ({"row": {"modle": "m"}}, "[teachers]: unknown key 'modle'. Did you mean 'model'?"),
    "no key": (
        {"row": {"base_url": "https://example.com/v1", "api_key_env": "NO_SUCH_KEY"}},
        "the teacher one: NO_SUCH_KEY is not set: put the key for https://example.com/v1 there, or name another with "
        "api_key_env",
    ),
    "no address": ({"row": {"base_url": "nonsense"}}, "the teacher one: not an endpoint's address: 'nonsense'; give"),
    "one cassette for two": ({"row": {"cassette": "a"}, "second": {"cassette": "a"}}, "have the same cassette; give"),
    "a broken cassette": ({"row": {"cassette": "empty/episodes.jsonl"}, "broken": True}, "read (Expecting value"),
    "out is there": ({"out": "empty/episodes.jsonl"}, "exists already; remove it, or choose another --out"),
    "out is a folder": ({"out": "empty"}, "empty is a folder; choose another --out"),
    "out has no name": ({"out": ""}, ". is a folder; choose another --out"),
    "out is a cassette": (
        {"out": "c", "row": {"cassette": "c"}},
        "c would overwrite the cassette of one; choose",
    ),
    "execution without a server": (
        {"more": "[value]\nfollow = 2\n"},
        "t.toml: [value] needs a server that executes answers; give",
    ),
    "out in a file": ({"out": "t.toml/p.jsonl"}, "cannot write to t.toml/p.jsonl: "),
    "no server": ({"url": "http://127.0.0.1:9"}, "is the server running? `etude serve` starts one"),
    "no server's address": ({"url": "foo:bar"}, "not a server's address: 'foo:bar'; give one like http://"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_is_a_one_line_error_and_leaves_no_files(
    mistake: str, endpoints: Any, played: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    parts, message = MISTAKES[mistake]
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "episodes.jsonl").write_text("torn\n" if parts.get("broken") else "")
    with endpoints.serving(knowing(endpoints, played)) as endpoint:
        teachers: list[dict[str, Any]] = [
            {"name": "one", **parts.get("row", {})},
            {"name": "two", **parts.get("second", {})},
        ]
        lines = [{"model": "m", "base_url": endpoint.url, **row} for row in teachers]
        tables = ["[[teachers]]", *(f"{key} = {json.dumps(value)}" for key, value in lines[0].items())]
        tables += ["[[teachers]]", *(f"{key} = {json.dumps(value)}" for key, value in lines[1].items())]
        (tmp_path / "t.toml").write_text("\n".join([*tables, parts.get("more", "")]))
        before = sorted(tmp_path.rglob("*"))
        options = ["--teachers", parts.get("teachers", "t.toml"), "--out", parts.get("out", "p.jsonl")]
        options += ["--url", parts["url"]] if "url" in parts else []
        assert cli.main(["replay", parts.get("run", str(played)), *options]) == 1
        assert endpoint.requests == []
    shown = [line for line in capsys.readouterr().err.splitlines() if line != "replay: turns"]
    assert len(shown) == 1 and shown[0].startswith("error: ") and message in shown[0], shown
    assert sorted(tmp_path.rglob("*")) == before


def test_server_of_other_tasks_is_refused_before_any_question(
    endpoints: Any, played: Path, url: str, tmp_path: Path
) -> None:
    other = tmp_path / "run"
    other.mkdir()
    text = (played / "episodes.jsonl").read_text()
    (other / "episodes.jsonl").write_text(text.replace('"drill-choose-0"', '"drill-choose-1"'))
    with endpoints.serving(knowing(endpoints, played)) as one, endpoints.serving(knowing(endpoints, played)) as two:
        file = teachers_file(tmp_path / "t.toml", {"one": one.url, "two": two.url})
        message = error_line(etude("replay", other, "--teachers", file, "--out", tmp_path / "p.jsonl", "--url", url))
        assert one.requests == two.requests == []
    assert "the server cannot play 'drill-choose-1' of this run" in message and "or omit --url" in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "t.toml"]


def test_dead_endpoints_are_a_one_line_error(
    played: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("etude.llm.client.backoff", lambda attempt: 0.0)
    dead = dict.fromkeys(("one", "two"), "http://127.0.0.1:9/v1")
    file = teachers_file(tmp_path / "t.toml", dead)
    assert cli.main(["replay", str(played), "--teachers", str(file), "-o", str(tmp_path / "p.jsonl")]) == 1
    *_, message = capsys.readouterr().err.splitlines()
    assert "no teacher answered: cannot connect to the endpoint http://127.0.0.1:9/v1" in message
    assert "3 questions in a row; check base_url" in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.toml"]


def test_replay_without_a_pair_fails_and_keeps_its_answers(
    endpoints: Any, played: Path, url: str, tmp_path: Path
) -> None:
    with endpoints.serving(erring(endpoints)) as one, endpoints.serving(erring(endpoints)) as two:
        file = teachers_file(tmp_path / "t.toml", {"one": one.url, "two": two.url}, gate=ALL)
        message = error_line(etude("replay", played, "--teachers", file, "--out", tmp_path / "p.jsonl", "--url", url))
    assert "no turn became a pair (the consensus erred 12); see " in message and "p.jsonl.turns.jsonl" in message
    assert len(rows(tmp_path / "p.jsonl.turns.jsonl")) == 12
    recorded = {path.name for path in (tmp_path / "p.jsonl.answers").iterdir()}
    assert recorded == {"one.jsonl", "two.jsonl", "charges.log"}, "other rules may make pairs of the same answers"


RECIPE = """
out = "{folder}/run"
[model]
name = "{folder}/model"
template = {{ enable_thinking = false }}
[environment]
url = "{url}"
tasks = 4
[train]
steps = 2
prompts = 1
group = 2
micro = 2
learning_rate = 1e-2
save_every = 2
evaluate_tasks = 1
[channels]
rlvr = 0.0
replay = 1.0
[replay]
pairs = "{pairs}"
batch = 8
[generation]
max_ids = 6000
max_turn_ids = 8
"""


def test_model_learns_from_the_pairs(
    replayed: Replayed, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base(tmp_path / "model")
    recipe = tmp_path / "r.toml"
    recipe.write_text(RECIPE.format(folder=tmp_path, url=url, pairs=replayed.out))
    assert cli.main(["train", str(recipe), "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["channels"] == ["replay"] and not (tmp_path / "run").exists()
    assert cli.main(["train", str(recipe)]) == 0
    measured = read_metrics(tmp_path / "run" / "metrics.jsonl")
    losses = [row["replay/loss"] for row in measured]
    assert len(losses) == 2 and all(map(math.isfinite, losses)) and losses[1] < losses[0]
    assert measured[0]["replay/margin"] == pytest.approx(0, abs=1e-4) and measured[1]["replay/margin"] > 0
    assert "pairs left out" not in capsys.readouterr().err
