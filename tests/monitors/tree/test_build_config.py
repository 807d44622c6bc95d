"""Configuration: settings of tests are suspected, dependencies are not."""

from __future__ import annotations

import pytest
from helpers.inspections import refused, reported

from etude.monitors.tree.build_config import BuildConfig

MONITOR = BuildConfig()
PATH = "pyproject.toml"
REASON = "config: comes from the task"
BEFORE = "[project]\nname = 'tally'\n"
SUSPECT = {
    "options": "[tool.pytest.ini_options]\naddopts = '-p tally.hook'\n",
    "a plugin": "[project.entry-points.pytest11]\nx = 'tally.hook'\n",
    "other names of tests": "[project]\nname = 'tally'\npython_files = 'check_*.py'\n",
    "an option beside how much is printed": "[pytest]\naddopts = -q --deselect tests/test_core.py\n",
    "a command of the build": "[options]\ncmdclass = evil\n",
}
ORDINARY = {
    "a dependency": "[project]\nname = 'tally'\ndependencies = ['attrs']\n",
    "how much is printed": "[pytest]\naddopts = -q\n",
    "how failures are printed": '[tool.pytest.ini_options]\naddopts = "-ra --tb=short -vv"\n',
    "a version": "[project]\nname = 'tally'\nversion = '2'\n",
}


@pytest.mark.parametrize("name", SUSPECT)
def test_a_change_of_what_runs_is_suspected(name: str) -> None:
    assert reported(MONITOR, refused(PATH, REASON, SUSPECT[name], BEFORE)) == {("T03", "suspect")}


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_change_is_information(name: str) -> None:
    assert reported(MONITOR, refused(PATH, REASON, ORDINARY[name], BEFORE)) == {("T03", "info")}


def test_what_was_there_before_is_not_suspected() -> None:
    text = SUSPECT[next(iter(SUSPECT))]
    assert reported(MONITOR, refused(PATH, REASON, text + "\n", text)) == {("T03", "info")}


def test_a_change_of_unknown_content_is_suspected() -> None:
    assert reported(MONITOR, refused(PATH, REASON)) == {("T03", "suspect")}
