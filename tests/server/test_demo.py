"""The whole chain, as ``etude demo`` shows it, on a small local package."""

from __future__ import annotations

from pathlib import Path

import pytest

from etude.environments.tasks import TaskSet
from etude.generators.validate import EXPECTED
from etude.server.demo import DemoError, run_demo

SCALES = Path(__file__).parent.parent / "data" / "scales"


@pytest.mark.slow
def test_a_package_is_generated_served_played_and_graded(tmp_path: Path) -> None:
    phases: list[str] = []
    demo = run_demo(str(SCALES), count=3, out=tmp_path, progress=lambda phase, done, total: phases.append(phase))
    assert demo.ok
    assert {row.agent: row.mean_reward for row in demo.rows} == EXPECTED
    assert demo.tasks == len(TaskSet.load(tmp_path)) > 0
    assert demo.statement.startswith("sandbox: ")
    assert "playing over OpenEnv" in phases


@pytest.mark.slow
def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    from etude.server import demo

    with pytest.raises(DemoError, match="did not start"), demo._served(tmp_path, "auto"):
        pass
