"""The generator ``add_types``: a typed module without annotations, and a type checker that decides."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from helpers.light_checks import LIGHT
from helpers.small_tasks import write_project

from etude.environments.grading import type_check
from etude.errors import GeneratorError
from etude.generators.base import StatementContext
from etude.generators.generate import generate
from etude.generators.knob_parsing import parse_knobs
from etude.generators.library.refactor.add_types import AddTypes
from etude.generators.library.refactor.annotations import annotated, count_shortcuts
from etude.generators.python.source import compile_error
from etude.models import Task

TYPED = '''\
"""Parcels."""


def weight(grams: int, *, boxed: bool = False) -> float:
    """Return kilograms."""
    return (grams + 100 * boxed) / 1000


def names(parcels: dict[str, int], least: int = 0) -> list[str]:
    return [name for name, grams in parcels.items() if grams >= least]


class Label:
    def __init__(self, text: str) -> None:
        self.text = text

    def shout(self) -> str:
        return self.text.upper()
'''
STRIPPED = '''\
"""Parcels."""


def weight(grams, *, boxed = False):
    """Return kilograms."""
    return (grams + 100 * boxed) / 1000


def names(parcels, least = 0):
    return [name for name, grams in parcels.items() if grams >= least]


class Label:
    def __init__(self, text):
        self.text = text

    def shout(self):
        return self.text.upper()
'''
TESTS = """\
from parcels.core import Label, names, weight


def test_weight():
    assert weight(900, boxed=True) == 1.0


def test_names():
    assert names({"a": 1, "b": 5}, 3) == ["b"]


def test_label():
    assert Label("x").shout() == "X"
"""
PROJECT = '[project]\nname = "parcels"\nversion = "1.0"\nlicense = "MIT"\n'
FILES = {
    "pyproject.toml": PROJECT + '[tool.pytest.ini_options]\npythonpath = ["src"]\n',
    "src/parcels/__init__.py": "",
    "src/parcels/core.py": TYPED,
    "src/parcels/loose.py": "def first(items):\n    return items[0]\n",
    "tests/test_core.py": TESTS,
}
CORE = "src/parcels/core.py"
FUNCTIONS = ["weight", "names", "Label.__init__", "Label.shout"]


@pytest.fixture
def snapshot(tmp_path):
    tests = [f"tests/test_core.py::test_{name}" for name in ("weight", "names", "label")]
    baseline = SimpleNamespace(passed=tests, at_import=[], tests_of={f"{CORE}::weight": tests[:1]})
    return SimpleNamespace(
        tree=write_project(tmp_path, FILES),
        source_roots=["src/parcels"],
        verifier=SimpleNamespace(python_path=["src"]),
        baseline=baseline,
    )


def candidates(snapshot, **knobs):
    return list(AddTypes().candidates(snapshot, 0, parse_knobs(AddTypes.knobs, knobs)))


def test_completely_annotated_modules_that_tests_run_are_proposed(snapshot):
    (candidate,) = candidates(snapshot)
    assert candidate.exercise == {CORE: STRIPPED.encode()}
    assert candidate.typed_files == (CORE,) and candidate.features == {"functions": 4, "shortcuts": 0}
    assert not candidates(snapshot, min_functions=5) and not candidates(snapshot, max_functions=3)


def test_what_is_proposed_compiles(snapshot):
    (candidate,) = candidates(snapshot)
    files = {**candidate.exercise, **candidate.hidden_tests.added, **candidate.probes["object everywhere"]}
    for path, text in files.items():
        assert text is not None and not compile_error(path, text)


@pytest.mark.parametrize(
    "source",
    [
        "def f(x: int):\n    return x\n",
        "def f(x) -> int:\n    return x\n",
        "class A:\n    @staticmethod\n    def f(x) -> int:\n        return x\n",
        "from typing import overload\n\n@overload\ndef f(x: int) -> int: ...\ndef f(x: int) -> int:\n    return x\n",
        "X = 1\n",
        "def f(:\n",
    ],
)
def test_a_module_that_lacks_an_annotation_or_is_overloaded_is_left_out(source):
    assert annotated(source.encode()) is None


def test_places_that_avoid_a_type_are_counted():
    assert count_shortcuts("x: Any = cast(int, y)  # type: ignore\n# mypy: ignore-errors\n@no_type_check\n") == 5
    assert count_shortcuts("Anything = broadcast(type)\n") == 0


def test_the_statement_names_the_functions_and_the_checker(snapshot):
    text = candidates(snapshot)[0].statement.render(StatementContext(package="parcels 1.0", failing=[], interface=[]))
    for part in (
        *(f"- `{name}`" for name in FUNCTIONS),
        "mypy --disallow-untyped-defs",
        "at most 0 times",
        f"`{CORE}`",
    ):
        assert part in text


def test_a_missing_checker_is_an_error_with_a_remedy(snapshot, monkeypatch):
    monkeypatch.setattr("etude.generators.library.refactor.add_types.is_available", lambda: False)
    with pytest.raises(GeneratorError, match=r"mypy is not installed; run `pip install 'etude\[types\]'`"):
        candidates(snapshot)


@pytest.mark.slow
def test_a_typed_module_becomes_a_task(tmp_path):
    project = write_project(tmp_path / "parcels", FILES)
    report = generate([str(project)], generators=["add_types"], count=1, seed=1, out=tmp_path / "out", knobs=LIGHT)
    assert report.tasks == 1, report.rejected
    task = Task.model_validate_json((tmp_path / "out" / "tasks.jsonl").read_text())
    assert type_check.COMPONENT in task.verifier.components and task.pytest.typed_files == [CORE]
    prefix = "tests/test_core.py::test_parcels_core_has_annotations"
    assert set(task.FAIL_TO_PASS) == {f"{prefix}[{name}]" for name in FUNCTIONS}
