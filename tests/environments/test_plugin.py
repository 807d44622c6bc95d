"""A third party's environment, verifier and monitor, found through entry points alone and played on every face."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from helpers.paths import DATA

from etude.client import Client
from etude.errors import ServerError, ServerInfrastructureError

ENTRY_POINTS = """[etude.environments]
boxes = boxes:BoxSession
[etude.verifiers]
box = boxes:verify
[etude.monitors]
shouting = boxes:Shouting
"""


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment variables of a process in which the plug-in is installed."""
    site = tmp_path_factory.mktemp("site")
    info = site / "boxes-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: boxes\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (site / "boxes.py").write_text((DATA / "plugin" / "boxes.py").read_text())
    return {**os.environ, "PYTHONPATH": str(site)}


@pytest.fixture(scope="module")
def url(variables: dict[str, str]) -> Iterator[str]:
    command = [sys.executable, "-m", "etude.cli", "serve", "--env", "boxes", "--port", "0", "--knob", "words=3"]
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().split()[1]
        finally:
            server.kill()


def etude(variables: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "etude.cli", *arguments]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def put(word: str) -> dict[str, Any]:
    return {"tool": "put", "arguments": {"word": word}}


SUBMIT = {"tool": "submit", "arguments": {}}
RIGHT = [put(f"word1{place}") for place in range(3)]


def played(url: str, actions: Sequence[dict[str, Any]], **arguments: Any) -> dict[str, Any]:
    """Return the episode of these actions over the socket, with its state."""

    async def run() -> dict[str, Any]:
        async with Client(url) as client:
            await client.reset(**{"task_id": "box-1", **arguments})
            for action in actions:
                last = await client.step(action)
            episode, state = await client.episode(), await client.state()
            return {**episode.model_dump(), "state": state.model_dump(), "last": last.model_dump()}

    return asyncio.run(run())


def test_etude_run_plays_it_with_the_oracle_and_the_stumbler(variables: dict[str, str], tmp_path: Path) -> None:
    for agent, reward in (("oracle", 1.0), ("stumbler", 1.0), ("noop", 0.0)):
        run = ["run", "--tasks", "boxes", "-a", agent, "-o", str(tmp_path / agent), "--json"]
        done = etude(variables, *run)
        assert done.returncode == 0, done.stderr
        summary = json.loads(done.stdout)
        assert (summary["episodes"], summary["valid"], summary["reward"]) == (3, 3, reward)


def test_etude_run_plays_it_on_a_server(variables: dict[str, str], url: str, tmp_path: Path) -> None:
    done = etude(variables, "run", "--tasks", "boxes", "--url", url, "-a", "noop", "-o", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["reward"] == 0.0


def test_openenv_plays_it_and_its_verifier_grades_it(url: str) -> None:
    episode = played(url, [*RIGHT, SUBMIT])
    assert episode["reward"]["value"] == 1.0
    assert episode["reward"]["components"] == {"right_words": 1.0, "no_confirmed_finding": 1.0}
    assert played(url, [RIGHT[0], SUBMIT])["reward"]["value"] == 0.0
    assert [tool["function"]["name"] for tool in episode["tools"]] == ["put", "look", "submit"]


def test_its_errors_are_annotated_and_its_stated_faults_are_injected(url: str) -> None:
    episode = played(url, [put(" "), put("stuck"), *RIGHT, SUBMIT])
    errors = [(error["turn"], error["kind"], error["injected"]) for error in episode["error_turns"]]
    assert errors[:2] == [(0, "invalid_args", False), (1, "transport_error", True)]


def test_faults_tools_and_forks_work_as_in_every_environment(url: str) -> None:
    struck = played(url, [*RIGHT, SUBMIT], faults="transient@1")
    assert [fault["kind"] for fault in struck["injected"]] == ["transient"] and struck["reward"]["value"] == 0.0

    async def fork() -> None:
        async with Client(url) as client:
            await client.reset(task_id="box-1", tools=["put", "submit"])
            for action in [*RIGHT, put("too much")]:
                await client.step(action)
            source = await client.state()
            first = await client.reset(fork_of=source.episode_id, turn=3)
            assert len(first.messages) == 3
            assert [tool["function"]["name"] for tool in first.tools or []] == ["put", "submit"]
            assert (await client.step(SUBMIT)).reward == 1.0
            with pytest.raises(ServerError, match="Did you mean 'look'"):
                await client.reset(task_id="box-1", tools=["lok"])

    asyncio.run(fork())


def test_rest_plays_it_from_an_exported_row(url: str) -> None:
    with httpx.Client(base_url=url) as http:
        row = http.get("/rows").json()["rows"][1]
        assert "in this order: word10" in row["responses_create_params"]["input"][0]["content"]
        assert http.post("/seed_session", json=row).status_code == 200
        for action in RIGHT:
            assert http.post("/put", json=action["arguments"]).status_code == 200
        answer = http.post("/verify", json={**row, "response": {"output": []}}).json()
    assert (answer["reward"], answer["right_words"]) == (1.0, 1.0)


def test_etude_export_writes_its_rows(variables: dict[str, str], tmp_path: Path) -> None:
    make = (
        "import sys; from pathlib import Path; import boxes\n"
        "from etude.environments.tasks.task_set import write_tasks\n"
        "write_tasks(Path(sys.argv[1]), boxes.BoxSession.tasks())"
    )
    subprocess.run([sys.executable, "-c", make, str(tmp_path / "tasks")], env=variables, check=True)
    done = etude(variables, "export", str(tmp_path / "tasks"), "-f", "nemo-gym", "-o", str(tmp_path / "rows"), "--json")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "rows" / "nemo-gym.jsonl").read_text().splitlines()]
    assert [row["task_id"] for row in rows] == ["box-0", "box-1", "box-2"]
    assert [tool["name"] for tool in rows[0]["responses_create_params"]["tools"]] == ["put", "look", "submit"]


def test_its_monitor_reports_in_state_and_episode_and_only_confirmed_findings_cost_the_reward(url: str) -> None:
    loud = played(url, [{"tool": "look", "arguments": {"x": "LOUD"}}, *RIGHT, SUBMIT])
    assert loud["reward"]["value"] == 1.0
    for findings in (loud["findings"], loud["state"]["findings"]):
        assert [(result["exploit_id"], result["severity"], result["turn"]) for result in findings] == [
            ("X01", "suspect", 0)
        ]
    cheat = played(url, [{"tool": "look", "arguments": {"x": "CHEAT"}}, *RIGHT, SUBMIT])
    assert cheat["reward"]["value"] == 0.0
    assert cheat["reward"]["components"] == {"right_words": 1.0, "no_confirmed_finding": 0.0}


def test_its_monitor_inspects_the_episodes_of_other_environments(variables: dict[str, str], tmp_path: Path) -> None:
    done = etude(variables, "run", "--tasks", "drill", "-a", "oracle", "--limit", "1", "-o", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    play = (
        "import asyncio; from etude.environments.drill.session import DrillSession\n"
        "async def main():\n"
        "    session = DrillSession()\n"
        "    await session.reset(task_id='drill-choose-1')\n"
        "    await session.step({'tool': 'submit', 'arguments': {'answer': 'LOUD'}})\n"
        "    print(session.episode().findings[0].exploit_id)\n"
        "asyncio.run(main())"
    )
    result = subprocess.run([sys.executable, "-c", play], env=variables, capture_output=True, text=True, check=True)
    assert result.stdout == "X01\n"


def test_a_monitor_that_fails_voids_the_episode_and_is_named(url: str) -> None:
    with pytest.raises(ServerInfrastructureError, match="the monitor 'shouting' failed") as raised:
        played(url, [{"tool": "look", "arguments": {"x": "BREAK"}}, SUBMIT])
    assert "RuntimeError: cannot read this turn" in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serve", "--env", "boxs", "--port", "0"], "unknown environment 'boxs'. Did you mean 'boxes'?"),
        (["serve", "--env", "boxes", "--knob", "word=1", "--port", "0"], "unknown knob 'word'. Did you mean 'words'?"),
        (["serve", "--env", "boxes", "--knob", "words=x", "--port", "0"], "knob words must be a valid integer"),
    ],
)
def test_a_mistyped_name_offers_the_nearest_name(arguments: list[str], message: str, variables: dict[str, str]) -> None:
    done = etude(variables, *arguments)
    assert done.returncode != 0 and message in done.stderr and done.stderr.count("\n") == 1


def test_a_row_with_an_unknown_verifier_is_refused_before_it_is_played(
    variables: dict[str, str], tmp_path: Path
) -> None:
    task = {"task_id": "t", "environment": "boxes", "problem_statement": "s", "split": "train"}
    task |= {"generator": {"name": "g", "version": "1", "seed": 0}}
    task |= {"verifier": {"kind": "bax", "settings": {}, "components": ["right_words"]}}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(task) + "\n")
    done = etude(variables, "run", "--tasks", str(tmp_path), "-a", "noop", "-o", str(tmp_path / "out"))
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert "unknown verifier 'bax'. Did you mean 'box'?" in last
