"""Package metadata: a plugin is suspected, an installer's files are not."""

from __future__ import annotations

import pytest
from helpers.inspections import refused, reported

from etude.monitors.tree.package_metadata import PackageMetadata

MONITOR = PackageMetadata()
PATH = "src/zz.dist-info/entry_points.txt"
REASON = "entry_point: package metadata comes from the task"
BEFORE = ""
SUSPECT = {
    "a plugin": "[pytest11]\nx = tally.hook\n",
    "with spaces": "[ pytest11 ]\nx = tally.hook\n",
    "a command of setuptools": "[distutils.commands]\nbuild = tally.hook:Build\n",
}
ORDINARY = {
    "a program": "[console_scripts]\ntally = tally:main\n",
    "a name": "Metadata-Version: 2.1\nName: tally\n",
}


@pytest.mark.parametrize("name", SUSPECT)
def test_a_change_of_what_runs_is_suspected(name: str) -> None:
    assert reported(MONITOR, refused(PATH, REASON, SUSPECT[name], BEFORE)) == {("T04", "suspect")}


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_change_is_information(name: str) -> None:
    assert reported(MONITOR, refused(PATH, REASON, ORDINARY[name], BEFORE)) == {("T04", "info")}


def test_what_was_there_before_is_not_suspected() -> None:
    text = SUSPECT[next(iter(SUSPECT))]
    assert reported(MONITOR, refused(PATH, REASON, text + "\n", text)) == {("T04", "info")}


def test_metadata_of_unknown_content_is_information() -> None:
    assert reported(MONITOR, refused("src/tally.egg-info/PKG-INFO", REASON)) == {("T04", "info")}
