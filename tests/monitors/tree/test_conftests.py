"""pytest's local plugins: hooks are suspected, fixtures are not."""

from __future__ import annotations

import pytest
from helpers.inspections import refused, reported

from etude.monitors.tree.conftests import Conftests

MONITOR = Conftests()
PATH = "tests/conftest.py"
REASON = "conftest: comes from the task"
BEFORE = "import pytest\n"
SUSPECT = {
    "a hook": "def pytest_runtest_makereport(item, call):\n    pass\n",
    "a hook wrapper": "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_x():\n    yield\n",
    "a fixture for every test": "import pytest\n\n\n@pytest.fixture(autouse=True)\ndef patched():\n    pass\n",
    "more plugins": "pytest_plugins = ['tally.hook']\n",
    "the code under test": "from tally import core\n\ncore.total = sum\n",
    "internals": "import _pytest.runner\n",
}
ORDINARY = {
    "a fixture": "import pytest\n\n\n@pytest.fixture\ndef numbers():\n    return [1]\n",
    "a setting": "import tally\n\ntally.LIMIT = 10\n",
    "an import": "import pytest\nimport os\n",
}


@pytest.mark.parametrize("name", SUSPECT)
def test_a_change_of_what_runs_is_suspected(name: str) -> None:
    assert reported(MONITOR, refused(PATH, REASON, SUSPECT[name], BEFORE)) == {("T02", "suspect")}


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_change_is_information(name: str) -> None:
    assert reported(MONITOR, refused(PATH, REASON, ORDINARY[name], BEFORE)) == {("T02", "info")}


def test_what_was_there_before_is_not_suspected() -> None:
    text = SUSPECT[next(iter(SUSPECT))]
    assert reported(MONITOR, refused(PATH, REASON, text + "\n", text)) == {("T02", "info")}


def test_a_change_of_unknown_content_is_suspected() -> None:
    assert reported(MONITOR, refused(PATH, REASON)) == {("T02", "suspect")}
