"""A workspace without one function, and the source of that function."""

from __future__ import annotations

from pathlib import Path

import pytest

from etude.monitors.leaks import Needles, needles

REMOVED = b'''
def winding_number(polygon, centre_point):
    """Count how often a closed polygon turns around one fixed point in the plane."""
    quadrant_changes = 0
    for first_vertex, second_vertex in zip(polygon, polygon[1:] + polygon[:1]):
        quadrant_changes += crossing_direction(first_vertex, second_vertex, centre_point)
    if quadrant_changes % 4:
        raise ValueError("the polygon passes through its centre point")
    return quadrant_changes // 4
'''
STATEMENT = b"# Implement `shapes.winding_number`\n\n```python\ndef winding_number(polygon, centre_point)\n```\n"
REMAINING = b"""def crossing_direction(a, b, centre):
    return a < b


def winding_number(polygon, centre_point):
    raise NotImplementedError
"""


@pytest.fixture
def removed() -> bytes:
    return REMOVED


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Return the tree as the agent gets it: clean."""
    tree = tmp_path / "workspace"
    (tree / "src").mkdir(parents=True)
    (tree / "src" / "shapes.py").write_bytes(REMAINING)
    (tree / "README.md").write_bytes(b"Shapes: `winding_number` and others, for every polygon.\n")
    return tree


@pytest.fixture
def shape_needles() -> Needles:
    return needles([REMOVED], visible=[STATEMENT, REMAINING], prose=[b"Shapes for every polygon"], stems=["shapes"])
