"""Imports and plugin marks of test files."""

from __future__ import annotations

from pathlib import Path

from etude.environments.snapshots.project import imports


def test_imports_distinguish_required_from_optional_ones(tmp_path: Path) -> None:
    text = "import os, yaml\nfrom . import x\ntry:\n    import numpy\nexcept ImportError:\n    pass\n"
    text += 'def test_a(mocker):\n    import six\npytest.importorskip("attr.x")\n'
    (tmp_path / "test_a.py").write_text(text)
    (tmp_path / "broken.py").write_text("def (\n")
    files = sorted(tmp_path.iterdir())
    assert imports.required_imports(files) == {"yaml"}
    assert imports.all_imports(files) == {"yaml", "numpy", "six", "attr"}
    assert imports.marked_plugins(files) == ["pytest-mock"]
    assert imports.missing_modules(["E   ModuleNotFoundError: No module named 'yaml.x'"]) == {"yaml"}
