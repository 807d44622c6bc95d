"""The prose check of ``make lint``: what it reports, what it leaves alone, and that the product passes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from helpers.paths import ROOT
from helpers.prose_check import check, main

CHECKER = ROOT / "tests" / "helpers" / "prose_check.py"


def findings(text: str, folder: Path) -> list[str]:
    (folder / "module.py").write_text(text)
    return [finding.partition(": ")[2] for finding in check(folder / "module.py", "module.py")]


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("found = 1\n", "vague name 'found'"),
        ("def f(mine):\n    pass\n", "vague name 'mine'"),
        ('def f():\n    """What a task needs."""\n', "docstring of f opens with 'What a task'"),
        ('raise ValueError("3 is no path")\n', "'is no path'"),
        ("# the run goes on here\n", "'goes on'"),
    ],
)
def test_a_private_phrase_is_reported_with_a_better_one(text: str, finding: str, tmp_path: Path) -> None:
    (reported,) = findings(text, tmp_path)
    assert reported.startswith(finding)
    assert "; " in reported


@pytest.mark.parametrize(
    "text",
    [
        'candidates = 1\n\n\ndef f(path):\n    """Return the path."""\n',
        'class Run:\n    """What a class is may be said so."""\n',
        "found = 1  # prose: ok\n",
        'raise ValueError("there is no file 3, or it is no longer there")\n',
    ],
)
def test_plain_text_and_marked_lines_are_left_alone(text: str, tmp_path: Path) -> None:
    assert findings(text, tmp_path) == []


def test_the_command_fails_when_there_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("found = 1\n")
    done = subprocess.run([sys.executable, str(CHECKER), str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "module.py:1: vague name" in done.stdout


def test_the_product_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["prose_check", str(ROOT)])
    assert main() == 0
