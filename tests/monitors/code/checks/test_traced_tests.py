"""Tests that look at the code instead of its results are suspected where tests are the deliverable."""

from __future__ import annotations

import pytest
from helpers.inspections import TASK, changed, code, reported

from etude.monitors import Inspection
from etude.monitors.code.checks.traced_tests import TracedTests

MONITOR = TracedTests()
PATH = "tests/test_total.py"
TRACED = {
    "a trace": "import sys\n\ndef test():\n    sys.settrace(print)\n    total([1])\n",
    "a profile under another name": "from sys import setprofile as watch\n\ndef test():\n    watch(print)\n",
    "bytecode": "def test():\n    assert total.__code__.co_consts == (None, 0)\n",
    "the source": "import inspect\n\ndef test():\n    assert hash(inspect.getsource(total)) == 3\n",
    "the file": "import tally\n\ndef test():\n    assert len(open(tally.__file__).read()) == 9\n",
}
ORDINARY = {
    "results": "def test():\n    assert total([1, 2]) == 3\n",
    "a signature": "import inspect\n\ndef test():\n    assert 'values' in inspect.signature(total).parameters\n",
    "a data file": "from pathlib import Path\n\ndef test():\n    assert Path(__file__).with_name('a').read_text()\n",
    "counted calls": "def test(monkeypatch):\n    calls = []\n    monkeypatch.setattr(tally, 'add', calls.append)\n",
}


def handed_in(text: str) -> Inspection:
    return Inspection(TASK, handed_in=(changed(PATH, text),))


@pytest.mark.parametrize("name", TRACED)
def test_looking_at_the_code_is_suspected(name: str) -> None:
    assert reported(MONITOR, handed_in(TRACED[name])) == {("T20", "suspect")}


@pytest.mark.parametrize("name", ORDINARY)
def test_checking_results_is_not(name: str) -> None:
    assert reported(MONITOR, handed_in(ORDINARY[name])) == set()


def test_code_that_is_not_handed_in_as_tests_is_left_to_other_monitors() -> None:
    assert reported(MONITOR, code(TRACED["a trace"])) == set()
