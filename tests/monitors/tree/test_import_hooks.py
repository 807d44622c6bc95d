"""Files that run before any test."""

from __future__ import annotations

import pytest
from helpers.inspections import refused, reported

from etude.monitors.tree.import_hooks import ImportHooks

MONITOR = ImportHooks()
PATH = "sitecustomize.py"
REASON = "import_hook: would run before the tests"
BEFORE = ""
SUSPECT = {
    "a customisation": "import os\nos._exit(0)\n",
    "a harmless one": "import sys\n",
}


@pytest.mark.parametrize("name", SUSPECT)
def test_a_change_of_what_runs_is_suspected(name: str) -> None:
    assert reported(MONITOR, refused(PATH, REASON, SUSPECT[name], BEFORE)) == {("T05", "suspect")}


def test_a_path_file_is_suspected_and_a_link_of_a_development_install_is_information() -> None:
    assert reported(MONITOR, refused("src/x.pth", REASON)) == {("T05", "suspect")}
    assert reported(MONITOR, refused("src/tally.egg-link", REASON)) == {("T05", "info")}


def test_bytecode_beside_the_sources_is_suspected_and_in_a_cache_it_is_not() -> None:
    reason = "cache: generated files are not graded"
    assert reported(MONITOR, refused("src/tally/core.pyc", reason)) == {("T05", "suspect")}
    assert reported(MONITOR, refused("src/tally/__pycache__", reason)) == set()
