"""Documents from which tests read their cases: redacted for the agent, and back at grading as hidden tests are."""

from __future__ import annotations

from helpers.light_checks import LIGHT
from helpers.small_tasks import write_project

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
README = """# Factors

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

LINES = [line for line in Path(__file__, "../../README.md").resolve().read_text().splitlines() if "==" in line]


@pytest.mark.parametrize("line", LINES)
def test_readme(line):
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
    "README.md": README,
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
        assert "README.md" in patched_files(task.test_patch) and f"+{name}(2)" in task.test_patch
        assert any(test.startswith(f"tests/test_factors.py::test_readme[{name}") for test in task.FAIL_TO_PASS)
