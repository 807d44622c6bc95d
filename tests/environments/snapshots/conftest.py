"""One small project, built once for all tests of snapshots."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from etude.environments.snapshots import Snapshot, build_snapshot

FILES = {
    "pyproject.toml": """
        [build-system]
        requires = ["setuptools>=61"]
        build-backend = "setuptools.build_meta"
        [project]
        name = "sample-thing"
        version = "1.4"
        license = {text = "MIT"}
        dependencies = ["iniconfig"]
        optional-dependencies.test = ["six", "no-such-distribution-of-etude==9.9", "pytest-cov"]
        scripts.sample = "sample.shapes:main"
        [tool.setuptools.packages.find]
        where = ["src"]
        [tool.pytest.ini_options]
        addopts = "-ra --cov=sample --strict-markers"
        filterwarnings = ["error"]
        timeout = 30
        """,
    "setup.py": """
        from pathlib import Path
        from setuptools import setup
        from setuptools.command.build_py import build_py

        class Build(build_py):
            def run(self):
                super().run()
                Path(self.build_lib, "sample", "_generated.py").write_text("NAME = 'from the build'\\n")

        setup(cmdclass={"build_py": Build})
        """,
    "README.md": "The README says how area works.\n",
    "src/sample/__init__.py": "from .shapes import area\nfrom ._generated import NAME\n",
    "src/sample/shapes.py": '''
        import iniconfig

        def area(width, height):
            """Docstring."""
            if width < 0:
                raise ValueError("width")
            return width * height

        class Square:
            def __init__(self, side):
                self.side = side

            @property
            def area(self):
                return area(self.side, self.side)

        def unused():
            return 0

        def main():
            print("sample", area(2, 3))

        def _table():
            return {1: 2}

        TABLE = _table()
        ''',
    "tests/test_shapes.py": """
        import os
        import subprocess

        import pytest
        import six
        from importlib.metadata import version

        import sample
        from sample.shapes import Square, area

        SEEN = []

        def test_area():
            assert area(2, 3) == 6

        def test_negative():
            with pytest.raises(ValueError):
                area(-1, 1)

        def test_square():
            assert Square(3).area == 9

        def test_version_and_script():
            assert version("sample-thing") == "1.4"
            assert subprocess.check_output(["sample"]) == b"sample 6\\n"
            assert sample.NAME == "from the build"

        def test_comes_first():
            assert not SEEN

        def test_comes_second():
            SEEN.append(1)

        def test_hash_order():
            assert os.environ["PYTHONHASHSEED"] == "0"

        @pytest.mark.parametrize("thing", [object()], ids=repr)
        def test_address(thing):
            pass

        def test_fails():
            assert area(1, 1) == 2

        @pytest.mark.skip
        def test_skipped():
            pass

        @pytest.mark.xfail
        def test_known():
            assert False
        """,
    "src/sample.egg-info/SOURCES.txt": "src/sample/shapes.py\n",
    "build/lib/sample/shapes.py": "def area(width, height): ...\n",
}


def write_files(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(textwrap.dedent(text).lstrip("\n"))
    return folder


@pytest.fixture(scope="session")
def sample_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("sources") / "sample", FILES)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def sample(sample_source: Path, cache: Path) -> Snapshot:
    return build_snapshot(str(sample_source), cache=cache)
