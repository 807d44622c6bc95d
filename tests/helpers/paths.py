"""Where the tests find their data."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The checkout: the folder that is the package."""

DATA = ROOT / "tests" / "data"
