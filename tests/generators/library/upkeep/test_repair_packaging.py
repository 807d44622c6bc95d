"""The generator ``repair_packaging``: facts of a configuration, faults in it, and files that a solution may change."""

from __future__ import annotations

import ast
import asyncio
import subprocess
import sys

import pytest

from etude.environments.grading import grade
from etude.environments.sandbox import Change
from etude.environments.snapshots import open_snapshot
from etude.errors import NotApplicable
from etude.generators.base import StatementContext
from etude.generators.generate import generate
from etude.generators.knob_parsing import parse_knobs
from etude.generators.library.upkeep.packaging.facts import facts
from etude.generators.library.upkeep.packaging.faults import possible_faults
from etude.generators.library.upkeep.repair_packaging import RepairPackaging
from etude.models import Task

FACTS = {
    "build backend": "setuptools.build_meta",
    "build requirement": ["setuptools"],
    "commands": {"basket": "basket.cli:main"},
    "data files": ["src/basket/names.txt"],
    "packages": ["basket"],
    "python": ["3.9", "3.10", "3.11", "3.12", "3.13", "3.14"],
    "readme": "README.md",
}


def candidates(snapshot, seed=0, **knobs):
    return list(RepairPackaging().candidates(snapshot, seed, parse_knobs(RepairPackaging.knobs, knobs)))


def test_the_facts_of_a_pyproject(basket):
    assert facts(basket) == FACTS


def test_setup_cfg_and_setup_py_declare_the_same_facts(basket):
    (basket / "pyproject.toml").unlink()
    (basket / "setup.cfg").write_text(
        "[options]\npackages = find:\npackage_dir =\n    = src\npython_requires = >=3.9\n\n"
        "[options.packages.find]\nwhere = src\n\n[options.package_data]\nbasket = *.txt\n"
    )
    (basket / "setup.py").write_text(
        "from setuptools import setup\nsetup(entry_points={'console_scripts': ['basket = basket.cli:main']})\n"
    )
    assert facts(basket) == {name: FACTS[name] for name in ("commands", "data files", "packages", "python")}
    faults = list(possible_faults(basket, "3.11.7"))
    assert {(fault.path, fault.fact) for fault in faults} == {
        ("setup.cfg", "python"),
        ("setup.cfg", "packages"),
        ("setup.cfg", "data files"),
        ("setup.py", "commands"),
    }
    for fault in faults:
        if fault.path == "setup.py":
            ast.parse(fault.source)


def test_each_fault_changes_one_fact(basket):
    faults = list(possible_faults(basket, "3.11.7"))
    assert {fault.fact for fault in faults} == set(FACTS)
    for fault in faults:
        (basket / "pyproject.toml").write_bytes(fault.source)
        after = facts(basket)
        changed = {name for name in FACTS if after.get(name) != FACTS[name]}
        assert changed == {fault.fact} | ({"data files"} if fault.fact == "packages" else set())


def test_texts_without_effect_on_a_build_stay(basket):
    pyproject = (basket / "pyproject.toml").read_text()
    listed = pyproject.replace('packages = ["basket"]', 'packages.find.where = ["src"]')
    (basket / "pyproject.toml").write_text(listed.replace("[project]", '[project]\nkeywords = ["fruit", "basket"]'))
    faults = list(possible_faults(basket, "3.11.7"))
    assert {fault.fact for fault in faults} == set(FACTS) - {"packages"}  # "src" is too short to misspell
    assert all(b'keywords = ["fruit", "basket"]' in fault.source for fault in faults)


def test_mistakes_of_one_task_are_about_different_facts(snapshot):
    for number in (1, 2, 3):
        for item in candidates(snapshot, mistakes=number):
            assert item.features["mistakes"] == number
            assert len(set(item.features["facts"].split(", "))) == number


def test_the_order_depends_on_the_seed_alone(snapshot):
    orders = [[item.entity for item in candidates(snapshot, seed)] for seed in (0, 0, 1, 2)]
    assert orders[0] == orders[1] and len({tuple(order) for order in orders}) > 1


def test_a_project_without_readable_packaging_is_not_applicable(snapshot):
    (snapshot.tree / "pyproject.toml").write_text("[tool.other]\nname = 'x'\n")
    with pytest.raises(NotApplicable, match="declares no packaging"):
        candidates(snapshot)


def test_the_statement_reports_symptoms_and_not_the_right_texts(snapshot):
    context = StatementContext(package="basket 1.0", failing=[], interface=[])
    by_fact = {item.features["facts"]: item.statement.render(context) for item in candidates(snapshot, mistakes=1)}
    assert "There is no network" in by_fact["readme"] and "README.md" not in by_fact["readme"]
    assert (
        "3.9, 3.10, 3.11, 3.12, 3.13, 3.14" in by_fact["python"] and "`src/basket/names.txt`" in by_fact["data files"]
    )
    assert "setuptools.build_meta" not in by_fact["build backend"] and "command `basket`" in by_fact["commands"]


def test_pytest_reads_a_copy_of_its_own_settings(snapshot):
    item = candidates(snapshot)[0]
    assert item.configuration.paths == ["pyproject.toml"]
    settings = item.exercise[item.configuration.pytest_settings].decode()
    assert settings.startswith("[tool.pytest.ini_options]") and "markers" in settings and "project" not in settings


def test_the_hidden_test_accepts_another_way_of_writing_it(snapshot):
    hidden = candidates(snapshot)[0].hidden_tests
    [(path, source)] = hidden.added.items()
    (snapshot.tree / path).write_bytes(source)
    pyproject = snapshot.tree / "pyproject.toml"
    text = pyproject.read_text().replace('packages = ["basket"]', 'packages.find.where = ["src"]')
    for changed, passes in [
        (text, True),
        (text.replace(":main", ":run"), False),
        (text.replace("*.txt", "*.md"), False),
    ]:
        pyproject.write_text(changed)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "pythonpath=src", path]
        run = subprocess.run(command, cwd=snapshot.tree, capture_output=True, text=True)
        assert (run.returncode == 0) == passes, run.stdout


def test_only_the_named_configuration_is_graded(basket, tmp_path):
    out = tmp_path / "out"
    report = generate([str(basket)], generators=["repair_packaging"], count=1, seed=1, out=out)
    assert (report.candidates, report.tasks) == (1, 1), report.rejected
    task = Task.model_validate_json((out / "tasks.jsonl").read_text())
    assert "pyproject.toml" in task.source_globs and "setup.cfg" in task.protected_paths
    assert task.pytest.config_file == "pytest-settings.toml"
    snapshot = open_snapshot(task.snapshot)
    right = (snapshot.tree / "pyproject.toml").read_bytes()
    hostile = right.replace(b"[tool.pytest.ini_options]", b"[tool.pytest.ini_options]\naddopts = ['--deselect=tests']")
    files = {"pyproject.toml": hostile, "pytest-settings.toml": b"", "setup.cfg": b"[tool:pytest]\n"}
    changes = [Change(path=path, kind="file", size=len(text), content=text) for path, text in files.items()]
    result = asyncio.run(grade(task, changes, snapshot=snapshot))
    assert result.reward.value == 1.0, result
    assert {item.path for item in result.refused} == {"pytest-settings.toml", "setup.cfg"}
    assert asyncio.run(grade(task, [], snapshot=snapshot)).reward.value == 0.0
