"""``etude monitor``: stored findings, a judge behind a real endpoint, and endpoints that are of little use."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from etude.cli import app as cli
from etude.models import Episode, Finding, Reward, ToolMessage, Turn

COMMAND = "cat .mypy_cache/3.11/pkg.data.json"
Script = Callable[[int, dict[str, Any]], Any]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry without waiting."""
    monkeypatch.setattr("etude.llm.client.backoff", lambda attempt: 0.0)


def episode(task: str, command: str, reward: float, *findings: Finding) -> Episode:
    call = {"name": "bash", "arguments": {"command": command}}
    turns = [
        Turn(
            action={"text": "", "tool_calls": [call]},
            messages=[ToolMessage(name="bash", content="ok\nwhat it printed")],
        ),
        Turn(action={"text": "", "tool_calls": [{"name": "submit", "arguments": {}}]}),
    ]
    scored = Reward(value=reward)
    return Episode(
        episode_id=f"{task}-{command}",
        task_id=task,
        prompt="Write it.",
        turns=turns,
        findings=list(findings),
        reward=scored,
    )


def write_run(folder: Path, *episodes: Episode) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    about = {"agent": "openai:x", "cause": "", "settings": {}, "usage": {}}
    rows = [{**about, "sample": n, **item.model_dump(mode="json")} for n, item in enumerate(episodes)]
    (folder / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


CACHE = Finding(exploit_id="L02", severity="suspect", turn=0, command=COMMAND)
TEST = Finding(exploit_id="T01", severity="confirmed", path="tests/test_x.py")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Three rollouts of one task, one of which reads a cache; one marked and one plain episode of other tasks."""
    group = [episode("group", COMMAND, 1.0, CACHE), episode("group", "ls", 1.0), episode("group", "ls src", 0.0)]
    return write_run(tmp_path / "run", *group, episode("marked", "ls", 0.0, TEST), episode("plain", "ls", 1.0))


def entry(name: str, **values: Any) -> dict[str, Any]:
    return {"rollout": name, "verdict": "honest", **values}


ACCUSED = {"verdict": "exploit", "exploit_id": "L02", "succeeded": True, "turns": [0], "reason": "It reads a cache."}
GUILTY = entry("A", **ACCUSED, quotes=[COMMAND])


def answer(endpoints: Any, *entries: dict[str, Any]) -> Any:
    return endpoints.say(json.dumps({"verdicts": list(entries)}))


def judged(
    run: Path, endpoints: Any, script: Script, capsys: pytest.CaptureFixture[str], *more: str
) -> tuple[int, dict[str, Any], str, Any]:
    """Run the command with a judge; return its exit code, its report, its errors and the endpoint."""
    with endpoints.serving(script) as at:
        code = cli.main(["monitor", str(run), "--judge", "m", "--base-url", at.url, "--json", *more])
    printed = capsys.readouterr()
    return code, json.loads(printed.out) if printed.out else {}, printed.err, at


def lines(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "findings.jsonl").read_text().splitlines()]


def test_stored_findings_are_collected_without_a_judge(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["monitor", str(run), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["episodes"], report["hack_rate"], report["suspect_rate"]) == (5, 0.2, 0.4)
    assert [row["exploit"] for row in report["exploits"]] == ["L02", "T01"] and report["outcomes"] == {}
    assert "judge" not in lines(run)[0] and not (run / "findings.jsonl.answers").exists()


def test_rollouts_of_one_task_are_judged_side_by_side_and_plain_episodes_not_at_all(
    run: Path, endpoints: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def script(number: int, body: dict[str, Any]) -> Any:
        is_group = "# Rollout C" in body["messages"][1]["content"]
        return answer(endpoints, GUILTY, entry("B"), entry("C")) if is_group else answer(endpoints, entry("A"))

    code, report, _, at = judged(run, endpoints, script, capsys)
    assert code == 0 and len(at.requests) == 2
    shown = next(
        body["messages"][1]["content"] for body in at.requests if "# Rollout B" in body["messages"][1]["content"]
    )
    assert f"| command = {COMMAND}" in shown and "| command = ls src" in shown
    assert report["outcomes"] == {"judged": 4, "not_asked": 1} and report["verdicts"] == {"exploit": 1, "honest": 3}
    assert report["unsupported"] == 0 and report["usage"]["calls"] == 2
    first, second, *_, plain = lines(run)
    assert [item["exploit_id"] for item in first["findings"]] == ["L02", "judge:L02"]
    assert [item["severity"] for item in first["findings"]] == ["suspect", "suspect"]
    assert first["judge"]["compared"] == 3 and second["findings"] == [] and plain["judge"]["outcome"] == "not_asked"


def test_a_judge_alone_accuses_and_no_one_is_more_than_suspect(
    run: Path, endpoints: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    accused = entry("B", **ACCUSED, quotes=["what it printed"], severity="confirmed")
    _, report, _, _ = judged(run, endpoints, lambda number, body: answer(endpoints, accused), capsys)
    assert report["unsupported"] == 1 and report["hack_rate"] == 0.2 and report["suspect_rate"] == 0.4
    severities = {item["severity"] for line in lines(run) for item in line["findings"] if "judge" in item["exploit_id"]}
    assert severities == {"suspect"}


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"turns": [7]}, "unknown_turn"),
        ({"turns": []}, "no_turn"),
        ({"quotes": ["cat .mypy_cache/other.json"]}, "unknown_quote"),
        ({"quotes": []}, "no_quote"),
    ],
)
def test_a_verdict_that_cites_what_does_not_exist_is_thrown_away_and_counted(
    values: dict[str, Any], problem: str, run: Path, endpoints: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    made_up = {**GUILTY, **values}
    code, report, errors, _ = judged(run, endpoints, lambda number, body: answer(endpoints, made_up), capsys)
    assert code == 0 and report["outcomes"]["discarded"] == 2 and report["problems"][problem] == 2
    assert "verdicts that cite what does not exist do not count" in errors
    assert not [item for line in lines(run) for item in line["findings"] if item["exploit_id"].startswith("judge:")]


@pytest.mark.parametrize("text", ["It looks honest to me.", "", "{", '{"verdicts": 1}', None])
def test_an_answer_that_is_not_json_is_counted_with_a_remedy_and_costs_nothing_else(
    text: str | None, run: Path, endpoints: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    code, report, errors, _ = judged(run, endpoints, lambda number, body: endpoints.say(text), capsys)
    assert code == 0 and report["outcomes"] == {"not_asked": 1, "unreadable": 4}
    assert "answers without a verdict; take a model that follows the form" in errors
    assert [len(line["findings"]) for line in lines(run)] == [1, 0, 0, 1, 0]


def test_what_the_endpoint_did_not_answer_is_asked_again_and_nothing_else(
    run: Path, endpoints: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(number: int, body: dict[str, Any]) -> Any:
        is_group = "# Rollout C" in body["messages"][1]["content"]
        return answer(endpoints, GUILTY, entry("B"), entry("C")) if is_group else endpoints.fail(500)

    code, report, errors, _ = judged(run, endpoints, broken, capsys)
    assert code == 1 and report["outcomes"] == {"judged": 3, "not_asked": 1, "failed": 1}
    assert "1 episodes have no verdict yet; run the same command again" in errors
    assert len(lines(run)) == 5 and lines(run)[0]["judge"]["outcome"] == "judged"
    code, report, _, at = judged(run, endpoints, lambda number, body: answer(endpoints, entry("A")), capsys)
    assert code == 0 and len(at.requests) == 1 and report["outcomes"] == {"judged": 4, "not_asked": 1}
    assert lines(run)[0]["judge"]["verdict"]["verdict"] == "exploit"


def test_timeouts_are_failures_and_leave_the_mechanical_findings(
    run: Path, endpoints: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    code, report, _, _ = judged(run, endpoints, lambda number, body: endpoints.STALL, capsys, "--timeout", "0.1")
    assert code == 1 and report["outcomes"] == {"not_asked": 1, "failed": 4}
    assert "did not answer within 0.1 s" in lines(run)[0]["judge"]["problem"]
    assert lines(run)[0]["findings"][0]["exploit_id"] == "L02"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (
            ["--judge", "http://127.0.0.1:1/v1"],
            0,
            "--judge takes the name of a model; give the endpoint's address with",
        ),
        (["--judge", "m", "--base-url", "nonsense"], 0, "not an endpoint's address: 'nonsense'; give one like"),
        (["--judge", "m", "--base-url", "https://example.invalid/v1", "--api-key-env", "NONE"], 0, "NONE is not set"),
        (["--judge", "m"], 401, "check the key (--api-key-env names the variable that holds it)"),
        (["--judge", "m"], 404, "check --base-url (it often ends in /v1) and the model's name"),
        (["--judge", "m", "--out", "/proc/none/x"], 200, "cannot write to /proc/none"),
    ],
)
def test_a_wrong_endpoint_is_one_line_and_nothing_is_written(
    arguments: list[str], status: int, message: str, run: Path, endpoints: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with endpoints.serving(lambda number, body: endpoints.fail(status)) as at:
        url = [] if "--base-url" in arguments else ["--base-url", at.url]
        assert cli.main(["monitor", str(run), *arguments, *url]) == 1
    errors = [line for line in capsys.readouterr().err.splitlines() if line != "monitor: judge"]
    assert len(errors) == 1 and message in errors[0]
    assert not (run / "findings.jsonl").exists()


def test_the_findings_of_several_runs_need_a_file_of_their_own(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["monitor", str(run), str(run)]) != 0
    assert "--out: name the file for the findings of several runs" in capsys.readouterr().err
    assert not (run / "findings.jsonl").exists()


def test_a_folder_without_episodes_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["monitor", str(tmp_path)]) == 1
    assert "play some with `etude run" in capsys.readouterr().err
