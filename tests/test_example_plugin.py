"""The package in examples/plugin: it is installed as users install it, and every command uses all of its parts."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.paths import DATA, ROOT

from etude.client import Client

NAMES = {"generators": "off_by_one", "environments": "guess", "hints": "halve", "monitors": "unchecked_answer"}


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment variables of a process in which the example is installed."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(ROOT / "examples" / "plugin", folder / "source")
    install = "pip install --quiet --no-deps --no-build-isolation --target".split()
    subprocess.run([sys.executable, "-m", *install, str(folder / "site"), str(folder / "source")], check=True)
    return {**os.environ, "PYTHONPATH": str(folder / "site")}


def etude(variables: dict[str, str], *arguments: str) -> str:
    """Return what a command printed to stdout; fail with its stderr when it failed."""
    command = [sys.executable, "-m", "etude.cli", *arguments]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout


@pytest.fixture(scope="module")
def tasks(variables: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("set") / "tasks"
    etude(
        variables,
        "generate",
        str(DATA / "cellar"),
        "-g",
        "off_by_one",
        "--count",
        "2",
        "--any-licence",
        "-o",
        str(folder),
    )
    return folder


@pytest.fixture(scope="module")
def url(variables: dict[str, str]) -> Iterator[str]:
    command = [sys.executable, "-m", "etude.cli", "serve", "--env", "guess", "--port", "0", "--knob", "highest=50"]
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().split()[1]
        finally:
            server.kill()


@pytest.mark.parametrize("kind", NAMES)
def test_list_shows_each_part_with_its_description(kind: str, variables: dict[str, str]) -> None:
    listed = json.loads(etude(variables, "list", kind, "--json"))[kind]
    assert listed[NAMES[kind]]["path"].startswith("etude_example.")
    assert listed[NAMES[kind]]["description"].endswith(".")


def test_every_file_of_the_example_has_less_than_100_lines() -> None:
    files = sorted((ROOT / "examples" / "plugin" / "etude_example").glob("*.py"))
    assert len(files) == 5
    assert max(len(file.read_text().splitlines()) for file in files) < 100


def test_generate_and_validate_accept_the_generators_tasks(variables: dict[str, str], tasks: Path) -> None:
    rows = [json.loads(line) for line in (tasks / "tasks.jsonl").read_text().splitlines()]
    assert rows
    assert {row["generator"]["name"] for row in rows} == {"off_by_one"}
    assert json.loads(etude(variables, "validate", str(tasks), "--json"))["ok"]


def test_run_and_report_show_the_environment_and_the_monitor(variables: dict[str, str], tmp_path: Path) -> None:
    for agent, reward in (("oracle", 1.0), ("noop", 0.0)):
        out = etude(variables, "run", "--tasks", "guess", "-a", agent, "-o", str(tmp_path / agent), "--json")
        assert json.loads(out)["reward"] == reward
    etude(variables, "report", str(tmp_path / "noop"), "-o", str(tmp_path / "report.html"))
    assert "unchecked_answer" in (tmp_path / "report.html").read_text()


def test_run_scores_the_generators_tasks(variables: dict[str, str], tasks: Path, tmp_path: Path) -> None:
    for agent, reward in (("oracle", 1.0), ("noop", 0.0)):
        out = etude(variables, "run", "--tasks", str(tasks), "-a", agent, "-o", str(tmp_path / agent), "--json")
        assert json.loads(out)["reward"] == reward


def test_serve_plays_the_environment_with_the_hint_and_the_monitor(url: str) -> None:
    async def play() -> tuple[Any, Any]:
        async with Client(url) as client:
            await client.reset(task_id="guess-50-0")
            await client.step({"tool": "compare", "arguments": {"number": 51}})
            await client.step({"tool": "submit", "arguments": {"answer": "51"}})
            return await client.state(), await client.episode()

    state, episode = asyncio.run(play())
    assert [hint.template for error in state.error_turns for hint in error.hints] == ["invalid_args", "halve"]
    assert [(finding.exploit_id, finding.severity) for finding in state.findings] == [("unchecked_answer", "suspect")]
    assert episode.reward is not None
    assert episode.reward.value == 0.0
