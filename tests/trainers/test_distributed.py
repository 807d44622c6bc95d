"""What ranks agree on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.made_up_rollouts import made_up

from etude.models import Finding
from etude.trainers import distributed as ranks
from etude.trainers.run.metrics_summary import of_episodes

TWO = """
import json, sys
from torch import distributed
from etude.trainers.distributed import agreed, gathered, summed

rank = int(sys.argv[1])
distributed.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
found = [gathered(rank), summed([1, 10 * rank]), agreed("why" if rank else None), agreed(rank), agreed(None)]
print(json.dumps(found))
"""


def test_two_processes_agree(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TWO]
    both = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "met")], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    said = [json.loads(process.communicate()[0]) for process in both]
    assert said[0] == said[1] == [[0, 1], [2, 10], "why", 0, None]


def test_one_alone_agrees_with_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """And sends nothing."""
    monkeypatch.setattr(ranks.distributed, "all_gather_object", None)
    assert (ranks.gathered(3), ranks.summed([1, 2]), ranks.agreed("x"), ranks.agreed(None)) == ([3], [1, 2], "x", None)


def test_episodes_of_all_ranks_are_measured_together() -> None:
    """Ranks with unequal numbers of valid episodes: a mean of their shares would be another one."""
    hack = Finding(exploit_id="a hack", severity="confirmed")
    mine, theirs = [made_up(1.0), made_up(0.0), made_up(None)], [made_up(0.0, turns=(2,), truncated=True)]
    theirs[0].findings.append(hack)
    counted: list[list[int]] = []
    of_episodes(theirs, lambda counts: counted.append(list(counts)) or counts)  # type: ignore[func-returns-value]
    found = of_episodes(mine, lambda counts: [sum(pair) for pair in zip(counts, counted[0], strict=True)])
    assert found == of_episodes([*mine, *theirs])
    assert found["episodes/hack_rate"] == found["episodes/solved"] == pytest.approx(1 / 3)
