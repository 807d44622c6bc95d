"""``etude generate --obfuscate`` end to end: twins, their proof, the report, the audit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers.light_checks import LIGHT
from helpers.small_tasks import write_project

from etude.cli.app import main
from etude.environments.tasks.task_set import TaskSet
from etude.environments.tasks.task_trees import materials
from etude.generators.generate import generate
from etude.generators.validation.audit import validate
from etude.models import RENAMED_FROM, RENAMED_NAMES, Task

SOURCE = '''"""Gauges."""

import importlib.metadata

__all__ = ["GaugePanel", "clampreading"]


class MangledPanel:
    """A panel that others look into."""

    def __init__(self):
        self.__parts = []


class GaugePanel:
    """A panel of gauges."""

    def __init__(self, needlewidth, caption=None):
        self.needlewidth = needlewidth
        self.caption = caption
        self.readings = []
        self.__serial = len(self._MangledPanel__parts) if hasattr(self, "_MangledPanel__parts") else 0

    def takereading(self, amount):
        """Take a reading of some ``amount``."""
        accepted = clampreading(amount, self.needlewidth)
        self.readings.append(accepted)
        return accepted

    def show(self, kind):
        return getattr(self, "show_" + kind)()

    def show_sumtotal(self):
        return sum(self.readings)

    def dials(self):
        return {"dialcount": len(self.readings)}


def clampreading(amount, widest):
    """Return the amount, at most ``widest``."""
    if amount > widest:
        return widest
    return amount
'''
TESTS = """from gaugekit.panels import GaugePanel, clampreading


def test_a_reading_is_clamped():
    panel = GaugePanel(needlewidth=3)
    assert panel.takereading(5) == 3
    assert panel.show("sumtotal") == 3


def test_small_readings_stay():
    assert clampreading(2, 3) == 2


def test_dials():
    panel = GaugePanel(3)
    panel.takereading(1)
    assert panel.dials() == {"dialcount": 1}
    assert panel.caption is None
"""


UNITS = "def to_inches(millimetres):\n    return millimetres / 25.4\n"
MORE_TESTS = "import pytest\nfrom gaugekit.units import to_inches\n\n\n@pytest.mark.parametrize('n', range(6))\n"
MORE_TESTS += "def test_units(n):\n    assert to_inches(25.4 * n) == pytest.approx(n)\n"


@pytest.fixture(scope="module")
def obfuscated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("renamed")
    files: dict[str, str | bytes] = {
        "src/gaugekit/__init__.py": "",
        "src/gaugekit/panels.py": SOURCE,
        "src/gaugekit/units.py": UNITS,
        "tests/test_panels.py": TESTS,
        "tests/test_units.py": MORE_TESTS,
        "README.md": "# gaugekit\n\n`GaugePanel.takereading` takes a reading.\n",
    }
    write_project(folder / "gaugekit", files)
    arguments = {"generators": ["fd_function", "fd_method"], "count": 1, "seed": 1, "knobs": {"min_lines": 3, **LIGHT}}
    report = generate([str(folder / "gaugekit")], out=folder / "set", obfuscate=True, **arguments)
    assert report.renamed.twins == {"made": report.tasks} and report.tasks >= 2
    return folder / "set"


def twins(folder: Path) -> list[Task]:
    return [task for task in TaskSet.load(folder) if RENAMED_FROM in task.features]


def test_each_task_is_followed_by_its_twin(obfuscated: Path) -> None:
    tasks = list(TaskSet.load(obfuscated))
    for original, twin in zip(tasks[::2], tasks[1::2], strict=True):
        assert twin.features[RENAMED_FROM] == original.task_id and RENAMED_FROM not in original.features
        assert (twin.split, twin.repo, twin.snapshot) == (original.split, original.repo, original.snapshot)
        assert len(twin.FAIL_TO_PASS) == len(original.FAIL_TO_PASS)
        assert {RENAMED_FROM, RENAMED_NAMES}.isdisjoint(twin.public().features)
        assert "gauge" not in twin.task_id


def test_the_old_names_are_gone_from_code_paths_documents_and_statement(obfuscated: Path) -> None:
    for twin in twins(obfuscated):
        tree = materials(twin).agent_tree
        texts = [twin.problem_statement, *(item.name for item in twin.interface)]
        for path in sorted(tree.rglob("*")):
            if path.is_file() and ".git" not in path.parts:
                texts += [str(path.relative_to(tree)), path.read_text("utf-8")]
        gone = ("gaugekit", "GaugePanel", "takereading", "clampreading", "needlewidth")
        assert not [name for name in gone if any(name in text for text in texts)]


def test_names_that_texts_make_up_or_hold_as_data_stay(obfuscated: Path) -> None:
    source = materials(twins(obfuscated)[0]).solved_tree
    (module,) = [path.read_text() for path in source.rglob("*.py") if "sum(" in path.read_text()]
    assert 'getattr(self, "show_" + ' in module and "def show_sumtotal(self)" in module
    assert '"dialcount"' in module and "import importlib.metadata" in module
    assert "class MangledPanel:" in module


def test_the_report_says_how_much_was_renamed(obfuscated: Path) -> None:
    report = json.loads((obfuscated / "report.json").read_text())
    (package,) = report["renamed"]["packages"].values()
    assert package["renamed"] == sum(package["by_kind"].values()) <= package["identifiers"]
    assert package["by_kind"]["modules"] >= 1 and package["by_kind"]["names"] >= 5 and package["reason"] == ""
    assert "renamed twins" in (obfuscated / "README.md").read_text()


def test_an_audit_accepts_the_twins(obfuscated: Path) -> None:
    report = validate(obfuscated, skip=["cheater", "stable", "strength", "trivial"])
    assert report.problems == []


def test_a_run_measures_recall(obfuscated: Path, tmp_path: Path) -> None:
    assert main(["run", "--tasks", str(obfuscated), "--agent", "oracle", "--out", str(tmp_path / "run")]) == 0
    recall = json.loads((tmp_path / "run" / "summary.json").read_text())["recall"]
    assert recall["pairs"] == len(twins(obfuscated)) and recall["difference"] == 0.0
    assert recall["low"] < 0 < recall["high"]


def test_a_data_set_has_no_renamed_twins(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "swe-bench:lite", "--obfuscate", "--out", str(tmp_path)]) != 0
    assert "twins are made of generated tasks" in capfd.readouterr().err
