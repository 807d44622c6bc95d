"""``etude bench``: the clock times what it says, and the results become a table, a plot and files."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest
from typer.testing import CliRunner

from etude.cli.app import app
from etude.cli.bench.campaign import make_tree
from etude.cli.bench.clock import measure
from etude.cli.bench.projects import PEERS, SCRIPTS, chosen, interpreter
from etude.cli.bench.table import Result, markdown, plot, results
from etude.errors import BenchError

SVG = "{http://www.w3.org/2000/svg}"


class LocalSide:
    """Commands of this machine in a copy of the tree."""

    folder = Path()

    async def start(self, tree: Path) -> None:
        self.folder = Path(tempfile.mkdtemp())
        shutil.copytree(tree, self.folder / "tree")

    async def run(self, command: str) -> str:
        process = await asyncio.create_subprocess_shell(command, cwd=self.folder / "tree", stdout=subprocess.PIPE)
        output, _ = await process.communicate()
        assert process.returncode == 0
        return output.decode()

    async def stop(self) -> None:
        shutil.rmtree(self.folder)


class Forgetful(LocalSide):
    """A sandbox whose reset does nothing."""

    async def reset(self) -> None:
        return None


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "tree", 1)


def test_clock_times_every_action_as_often_as_it_says(tree: Path) -> None:
    times = asyncio.run(measure(LocalSide, tree, 2))
    assert {name: len(values) for name, values in times.items()} == {
        "start": 2,
        "exec": 10,
        "reset": 2,
        "fork": 2,
        "grade": 2,
        "many": 3,
    }
    assert all(value > 0 for values in times.values() for value in values)


def test_clock_refuses_a_reset_that_leaves_files(tree: Path) -> None:
    with pytest.raises(AssertionError, match="the reset left"):
        asyncio.run(measure(Forgetful, tree, 1))


def test_clock_refuses_a_grade_whose_tests_pass_without_the_change(tree: Path) -> None:
    (tree / "bench_sum.py").write_text("def add(a, b):\n    return a + b\n")
    with pytest.raises(AssertionError, match="pass without the change"):
        asyncio.run(measure(LocalSide, tree, 1))


def test_results_have_ratios_to_the_first_sandbox_of_etude() -> None:
    times = {
        ("peer", "local", "none"): {"exec": [30.0, 10.0, 20.0], "step": [4.0]},
        ("etude", "bubblewrap", "namespaces"): {"exec": [10.0]},
        ("etude", "process", "Landlock"): {"exec": [5.0]},
    }
    rows = results(times)
    assert [(row.measure, row.name, row.median_ms, row.ratio, row.number) for row in rows] == [
        ("exec", "etude bubblewrap", 10.0, 1.0, 1),
        ("exec", "etude process", 5.0, 0.5, 1),
        ("exec", "peer local", 20.0, 2.0, 3),
        ("step", "peer local", 4.0, None, 1),
    ]
    assert "| exec | peer local | none | 20.00 | 2.00 | 3 |" in markdown(rows)


def test_plot_draws_a_bar_for_each_result_and_longer_ones_for_longer_times() -> None:
    rows = [Result("exec", "etude", "a<b", "", 2.0, 1.0, 1), Result("exec", "peer", "local", "", 500.0, 250.0, 1)]
    root = xml.fromstring(plot(rows))
    bars = [float(bar.get("width", "")) for bar in root.iter(f"{SVG}rect") if bar.get("width") != "100%"]
    assert len(bars) == 2 and bars[0] < bars[1]
    assert "etude a<b" in [text.text for text in root.iter(f"{SVG}text")]


def test_every_peer_has_a_pinned_version_and_a_script() -> None:
    assert all("==" in peer.requirement and (SCRIPTS / f"{peer.script}.py").is_file() for peer in PEERS.values())
    assert chosen(None) == list(PEERS) and chosen("") == []


def test_unknown_peer_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(BenchError, match="Did you mean 'swe-rex'"):
        chosen("swerex")
    result = CliRunner().invoke(app, ["bench", "--peers", "swerex"])
    assert result.exit_code != 0


def test_peer_that_cannot_be_installed_is_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETUDE_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(BenchError, match=r"cannot install swe-rex==.*--peers"):
        interpreter("swe-rex")
    assert list((tmp_path / "bench").iterdir()) == []


@pytest.mark.slow
def test_bench_measures_etude_alone_and_writes_its_files(tmp_path: Path) -> None:
    arguments = ["bench", "--peers", "", "--rounds", "1", "--files", "5", "--out", str(tmp_path), "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    rows = json.loads((tmp_path / "bench.json").read_text())
    assert {row["measure"] for row in rows} >= {"start", "exec", "reset", "fork", "grade", "many", "step"}
    assert {row["side"] for row in rows} == {"etude"}
    assert (tmp_path / "bench.md").read_text().count("\n") == len(rows) + 2
    assert (tmp_path / "bench.svg").read_text().startswith("<svg")
    assert json.loads(result.stdout) == rows


@pytest.mark.slow
@pytest.mark.parametrize("name", list(PEERS))
def test_peer_is_installed_and_measured(name: str, tmp_path: Path) -> None:
    arguments = ["bench", "--peers", name, "--rounds", "1", "--files", "5", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    sides = {row["side"] for row in json.loads((tmp_path / "bench.json").read_text())}
    assert sides == {"etude", name}
