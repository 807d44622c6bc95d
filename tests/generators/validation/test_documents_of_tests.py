"""Documents from which tests read their cases: redacted for the agent, and back at grading as hidden tests are."""

from __future__ import annotations

from helpers.light_checks import LIGHT
from helpers.small_tasks import write_project

from etude.environments.grading.collect import collect
from etude.environments.sandbox import Change
from etude.generators.generate import generate
from etude.generators.validation.checks.exercise import patched_files
from etude.models import Task

MODULE = '''
def doubled(number):
    """Return a number times two."""
    if not isinstance(number, int):
        raise TypeError("no number")
    result = number + number
    return result


def tripled(number):
    """Return a number times three."""
    if not isinstance(number, int):
        raise TypeError("no number")
    result = number + number + number
    return result
'''
DOCUMENT = "src/factors/cases.md"
"""Within the package, where an agent may otherwise change files."""
CASES = """# Factors

```python
doubled(2) == 4
```

```python
tripled(2) == 6
```
"""
TEST = """
from pathlib import Path

import pytest

from factors import doubled, tripled

CASES = Path(__file__, "../../src/factors/cases.md").resolve().read_text()
LINES = [line for line in CASES.splitlines() if "==" in line]


@pytest.mark.parametrize("line", LINES)
def test_case(line):
    assert eval(line)


def test_doubled():
    assert doubled(4) == 8
    with pytest.raises(TypeError):
        doubled("x")


def test_tripled():
    assert tripled(4) == 12
"""
NUMBERS = """
import pytest


@pytest.mark.parametrize("number", range(12))
def test_nothing(number):
    assert number >= 0
"""
FILES = {
    "src/factors/__init__.py": MODULE,
    DOCUMENT: CASES,
    "tests/test_factors.py": TEST,
    "tests/test_numbers.py": NUMBERS,
}


def test_a_document_with_the_cases_of_tests_comes_back_at_grading(tmp_path):
    folder = write_project(tmp_path / "factors", FILES)
    knobs = {"min_lines": 1, "max_share": 0.9, "docs": "redact", **LIGHT}
    report = generate([str(folder)], generators=["fd_function"], count=4, seed=1, out=tmp_path / "set", knobs=knobs)
    assert (report.candidates, report.tasks, report.rejected) == (2, 2, {})
    for line in (tmp_path / "set" / "tasks.jsonl").read_text().splitlines():
        task = Task.model_validate_json(line)
        name = "doubled" if "doubled" in task.task_id else "tripled"
        assert f"-{name}(2)" in task.workspace_patch, "the agent does not read the example"
        assert DOCUMENT in patched_files(task.test_patch) and f"+{name}(2)" in task.test_patch
        forged = Change(path=DOCUMENT, kind="file", size=9, content=b"1 == 1   ")
        accepted, refused = collect([forged], task)
        assert not accepted and refused[0].reason.startswith("test: "), "the agent's cases are not graded"
        assert any(test.startswith(f"tests/test_factors.py::test_case[{name}") for test in task.FAIL_TO_PASS)
