"""Tests of what prime-rl does with the taskset, with verifiers' own environment server: groups of rollouts, and the
fields that its algorithms read. prime-rl itself needs GPUs and is not run."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def source(root: Path) -> dict[str, Any]:
    """Return the training source in the TOML of the adapter's README."""
    readme = (root / "trainers/integrations/packages/verifiers/README.md").read_text()
    (block,) = [part.split("```")[0] for part in readme.split("```toml\n")[1:] if "orchestrator.train" in part]
    (source,) = tomllib.loads(block)["orchestrator"]["train"]["source"]
    return dict(source)


def test_group_is_played_as_the_orchestrator_requests(bench: Any, source: dict[str, Any]) -> None:
    env = source["env"]
    env["taskset"]["task"]["resources_url"] = bench.ground.url
    env["taskset"]["split"] = "eval" if bench.ground.options else None
    config = bench.out / "env.json"
    config.write_text(json.dumps(env))
    script = Path(__file__).parents[3] / "helpers" / "adapter_group.py"
    output = bench.run([bench.bin / "python", script, config, bench.policy.url, "3"])
    groups = json.loads(next(line for line in reversed(output.splitlines()) if line.startswith("[{")))
    assert {group["key"] for group in groups} <= bench.ground.task_ids and len(groups) == 2
    for group in groups:
        assert group["rewards"] == [1.0] * 3
        for trace in group["traces"]:
            info = trace["info"]
            assert trace["ok"] and isinstance(info["hints"], str)  # opsd reads it with demo_key = "hints"
            assert all(reward["reward"] in (0.0, -1.0) for reward in info["turn_rewards"]) and info["turn_rewards"]
            assert all(0 <= error["node"] < trace["nodes"] for error in info["error_turns"])
            bench.assert_reported_but_not_shown(info["error_turns"], info["hints"], info["etude"]["episode_id"])
        assert len({trace["info"]["etude"]["episode_id"] for trace in group["traces"]}) == 3
