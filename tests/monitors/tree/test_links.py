"""Links, special files and odd names."""

from __future__ import annotations

import pytest
from helpers.inspections import refused, reported

from etude.monitors.tree.links import Links

MONITOR = Links()
REASON = "link: only regular files are graded"


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("src/tally/core.py", "/etc/passwd"),
        ("src/tally/data", "/proc/self/mem"),
        ("src/tally/data", "../../../proc/1/environ"),
        ("data", "/root/secret"),
        ("src/tally/other.py", "core.py"),
        ("pyproject.toml", "other.toml"),
    ],
)
def test_a_link_out_or_in_the_place_of_a_source_is_suspected(path: str, target: str) -> None:
    assert reported(MONITOR, refused(path, REASON, target)) == {("S07", "suspect")}


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("venv/bin/python", "/usr/bin/python3"),
        ("latest", "build/1"),
        ("docs/core", "/workspace/src/tally"),
        ("out", "/tmp/out"),
        (".venv/lib64", "lib"),
    ],
)
def test_an_ordinary_link_is_information(path: str, target: str) -> None:
    assert reported(MONITOR, refused(path, REASON, target)) == {("S07", "info")}


def test_a_link_in_the_place_of_a_file_is_suspected() -> None:
    assert reported(MONITOR, refused("data.txt", REASON, "other.txt", "text\n")) == {("S07", "suspect")}


@pytest.mark.parametrize("reason", ["special: only regular files are graded", "path: holds control characters"])
def test_a_special_file_and_an_odd_name_are_suspected(reason: str) -> None:
    assert reported(MONITOR, refused("pipe", reason)) == {("S07", "suspect")}
