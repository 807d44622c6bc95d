"""Oracle 1, noop 0, cheater 0; each exploit alone 0 as well."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from etude.environments import agents
from etude.environments.agents.scripted import CHEATS
from etude.environments.coding.session import CodingSession
from etude.environments.runs.play import RunError, play, run_episodes
from etude.environments.tasks.task_set import TaskSet
from etude.errors import ConnectionLost, UnknownName
from etude.models import Episode, Task


def episode(tasks: TaskSet, name: str) -> Episode:
    async def run() -> Episode:
        session = CodingSession(tasks)
        try:
            task = next(iter(tasks))
            last = await play(task, agents.make(name, task), session)
            assert last.done
            return session.episode()
        finally:
            await session.close()

    return asyncio.run(run())


@pytest.mark.parametrize(("name", "value"), [("oracle", 1.0), ("noop", 0.0), ("cheater", 0.0)])
def test_oracle_scores_one_and_noop_and_cheater_score_zero(tasks: TaskSet, name: str, value: float) -> None:
    played = episode(tasks, name)
    assert played.reward is not None
    assert (played.reward.value, played.reward.valid, played.end) == (value, True, "submit")


def test_the_oracle_makes_no_error(tasks: TaskSet) -> None:
    played = episode(tasks, "oracle")
    assert played.error_turns == []
    assert played.findings == []


@pytest.mark.parametrize("name", CHEATS)
def test_each_exploit_alone_scores_zero(tasks: TaskSet, name: str) -> None:
    played = episode(tasks, f"cheater:{name}")
    assert played.reward is not None
    assert (played.reward.value, played.reward.valid) == (0.0, True)


def test_unknown_agents_and_exploits_offer_the_nearest_name(task: Task) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'oracle'"):
        agents.make("oracel", task)
    with pytest.raises(UnknownName, match="Did you mean 'conftest'"):
        agents.make("cheater:contest", task)


def copies(task: Task, count: int) -> TaskSet:
    return TaskSet(task.model_copy(update={"task_id": f"t{n}", "instance_id": f"t{n}"}) for n in range(count))


def test_a_run_writes_each_episode_and_a_summary(task: Task, tmp_path: Path) -> None:
    observed: list[tuple[str, int, int]] = []
    summary = asyncio.run(
        run_episodes(copies(task, 3), "oracle", jobs=2, out=tmp_path, progress=lambda *step: observed.append(step))
    )
    assert (summary.episodes, summary.valid, summary.reward, summary.solved, summary.ok) == (3, 3, 1.0, 3, True)
    assert summary.ends == {"submit": 3}
    assert observed[-1] == ("oracle", 3, 3)
    rows = [json.loads(line) for line in (tmp_path / "episodes.jsonl").read_text().splitlines()]
    assert {row["task_id"] for row in rows} == {"t0", "t1", "t2"}
    assert json.loads((tmp_path / "summary.json").read_text())["reward"] == 1.0


def test_a_run_resumes_where_it_stopped(task: Task, tmp_path: Path) -> None:
    asyncio.run(run_episodes(copies(task, 2), "noop", out=tmp_path))
    log = tmp_path / "episodes.jsonl"
    first = log.read_text().splitlines()[0]
    log.write_text(first + '\n{"task_id": "t1", "cut')
    summary = asyncio.run(run_episodes(copies(task, 2), "noop", out=tmp_path))
    assert (summary.episodes, summary.reward) == (2, 0.0)
    lines = log.read_text().splitlines()
    assert (len(lines), lines[0]) == (2, first)


def test_a_run_that_cannot_begin_says_why_and_writes_nothing(task: Task, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "strange").mkdir()
    (tmp_path / "strange" / "episodes.jsonl").write_text("no episode\n")
    for out, url, words in (
        ("file", None, "cannot write to .*; choose another --out"),
        ("file/x", None, "cannot write to .*; choose another --out"),
        ("strange", None, "episodes.jsonl:1 is not an episode; remove the line, or choose another --out"),
        ("new", "", "not a server's address"),
    ):
        with pytest.raises(RunError, match=words):
            asyncio.run(run_episodes(copies(task, 2), "noop", out=tmp_path / out, url=url))
    with pytest.raises(ConnectionLost, match="is the server running"):
        asyncio.run(run_episodes(copies(task, 2), "noop", out=tmp_path / "new", url="http://127.0.0.1:1"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "strange"]


def test_an_error_in_one_episode_is_raised_itself(task: Task, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="unknown sandbox"):
        asyncio.run(run_episodes(copies(task, 2), "noop", out=tmp_path, backend="no-such-sandbox", jobs=2))


def test_an_infrastructure_failure_is_recorded_and_not_averaged(task: Task, tmp_path: Path) -> None:
    broken = task.model_copy(
        update={"task_id": "bad", "instance_id": "bad", "test_patch": "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"}
    )
    summary = asyncio.run(run_episodes(TaskSet([task, broken]), "oracle", out=tmp_path))
    assert (summary.episodes, summary.valid, summary.reward, summary.ok) == (2, 1, 1.0, False)
    assert list(summary.failures) == ["bad"]
    assert "infrastructure" in summary.failures["bad"]
