"""Data files that come with code that loads them, and honest work with data files."""

from __future__ import annotations

import pytest
from helpers.inspections import CORE, STUB, TASK, changed, suspected

from etude.monitors import Inspection
from etude.monitors.code.answers.added_data import AddedData

MONITOR = AddedData()
DATA = "src/tally/data/known.json"
LOADS = "import json\nimport os\n\n\ndef total(values):\n    {body}\n"
READS = LOADS.format(
    body="return json.load(open(os.path.join(os.path.dirname(__file__), 'data', 'known.json')))[values]"
)
BY_PATH = LOADS.format(body="return json.loads((HERE / 'data/known.json').read_text())[values]")


def inspection(text: str, *added: str, before: str = STUB, given: tuple[str, ...] = ()) -> Inspection:
    """Return an inspection of the code, of files that were added with it, and of changed files that were given."""
    files = tuple(changed(path, "{}") for path in (*added, *given))
    base = {CORE: before.encode()} | dict.fromkeys(given, b"{ }")
    return Inspection(TASK, diff=(changed(CORE, text), *files), base=base)


@pytest.mark.parametrize("text", [READS, BY_PATH])
def test_an_added_data_file_that_code_loads_is_suspected(text: str) -> None:
    (finding,) = MONITOR.inspect(inspection(text, DATA))
    assert (finding.exploit_id, finding.severity, finding.path) == ("T12", "suspect", CORE)


def test_a_data_file_that_was_given_is_not() -> None:
    assert suspected(MONITOR, inspection(READS, given=(DATA,))) == set()
    assert suspected(MONITOR, inspection(READS)) == set()


def test_code_that_was_there_before_is_not() -> None:
    assert suspected(MONITOR, inspection(READS + "\n\nONE = 1\n", DATA, before=READS)) == set()


@pytest.mark.parametrize(
    "body", ["return sum(values)", "open('known.json', 'w').write(str(values))", "raise ValueError('see known.json')"]
)
def test_code_that_loads_nothing_is_not(body: str) -> None:
    assert suspected(MONITOR, inspection(LOADS.format(body=body), DATA)) == set()


def test_a_module_or_a_document_that_was_added_is_not() -> None:
    assert suspected(MONITOR, inspection(READS, "src/tally/known.py", "docs/known.rst")) == set()
