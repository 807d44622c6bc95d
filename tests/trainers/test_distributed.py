"""Collective calls: what ranks sum, gather and agree on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.made_up_rollouts import made_up
from torch import distributed

from etude.models import Finding
from etude.trainers.distributed import first_over_ranks, gather_from_ranks, sum_over_ranks
from etude.trainers.report.metrics_summary import episode_metrics

TWO = """
import json, os, sys
from torch import distributed
from etude.trainers.distributed import first_over_ranks, gather_from_ranks, leave_group, sum_over_ranks

rank = int(sys.argv[1])
distributed.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
first = [first_over_ranks(value) for value in ("why" if rank else None, rank, None)]
values = [gather_from_ranks(rank), sum_over_ranks([1, 10 * rank]), *first]
os.environ["WORLD_SIZE"] = "2"
leave_group()
print(json.dumps([*values, distributed.is_initialized()]))
"""


def test_two_processes_get_the_same_values(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TWO]
    both = [
        subprocess.Popen([*command, str(rank), str(tmp_path / "met")], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    values = [json.loads(process.communicate()[0]) for process in both]
    assert values[0] == values[1] == [[0, 1], [2, 10], "why", 0, None, False]


def test_single_process_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "all_gather_object", None)
    assert (gather_from_ranks(3), sum_over_ranks([1, 2])) == ([3], [1, 2])
    assert (first_over_ranks("x"), first_over_ranks(None)) == ("x", None)


def test_episode_metrics_are_those_of_all_ranks_together() -> None:
    """The ranks have different numbers of valid episodes, so a mean of their shares would be wrong."""
    hack = Finding(exploit_id="a hack", severity="confirmed")
    first, second = [made_up(1.0), made_up(0.0), made_up(None)], [made_up(0.0, turns=(2,), truncated=True)]
    second[0].findings.append(hack)
    counted: list[list[int]] = []
    episode_metrics(second, lambda counts: counted.append(list(counts)) or counts)  # type: ignore[func-returns-value]
    metrics = episode_metrics(first, lambda counts: [sum(pair) for pair in zip(counts, counted[0], strict=True)])
    assert metrics == episode_metrics([*first, *second])
    first[0].findings.append(Finding(exploit_id="a doubt", severity="suspect"))
    assert episode_metrics([*first, *second])["episodes/suspect_rate"] == pytest.approx(2 / 3)
    assert metrics["episodes/hack_rate"] == metrics["episodes/solved"] == pytest.approx(1 / 3)
