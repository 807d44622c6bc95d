"""The generator ``fd_module``: which modules it takes, what the rest of the package loses, what the statement lists."""

from __future__ import annotations

import ast

import pytest
from helpers.light_checks import LIGHT
from helpers.paths import DATA

from etude.generators import GENERATORS
from etude.generators.base import StatementContext
from etude.generators.generate import generate
from etude.generators.knob_parsing import parse_knobs
from etude.models import Task

FILES = {
    "pkg/__init__.py": '''
        """Shapes."""
        from .area import circle, square
        from .edges import *
        from . import edges

        __all__ = ["circle", "square", "around"]
    ''',
    "pkg/area.py": '''
        """Areas of shapes.

        >>> square(3)
        9
        """
        import math
        from ._checks import positive, whole

        UNIT = "cm"

        def circle(radius):
            """Return the area of a circle.

            >>> circle(1) > 3
            True
            """
            if not positive(radius):
                raise ValueError("radius")
            return math.pi * radius**2

        def square(side, *, unit=UNIT):
            """Return the area of a square."""
            return _times(side)

        def _times(side):
            return side * side
    ''',
    "pkg/_checks.py": """
        def positive(number):
            return number > 0

        def whole(number):
            return int(number) == number
    """,
    "pkg/edges.py": """
        import pkg.area
        from pkg import area as areas

        def around(side):
            return 4 * side

        def describe(side):
            text = "a square"
            return f"{text} of {areas.square(side)} {pkg.area.UNIT}"
    """,
    "pkg/user.py": "from .area import math\n\ndef half():\n    return math.pi / 2\n",
    "tests/test_area.py": """
        import pkg.area
        from pkg.area import circle, square
        from pkg.edges import around

        def test_square_of_three():
            assert square(3) == 9

        def test_around():
            assert around(1) == 4
    """,
}
TESTS = [f"tests/test_area.py::test_{name}" for name in ("square_of_three", "around", "one", "two", "three")]
AREA = {"pkg/area.py::square": TESTS[:1], "pkg/area.py::_times": TESTS[:1], "pkg/edges.py::around": TESTS[1:2]}


@pytest.fixture
def shapes(project):
    def write(without=("pkg/user.py",), **more):
        files = {path: text for path, text in FILES.items() if path not in without}
        return project(files, {**AREA, "pkg/_checks.py::positive": TESTS}, passed=TESTS, **more)

    return write


def candidates(snapshot, seed=0, **knobs):
    maker = GENERATORS.load("fd_module")()
    return list(maker.candidates(snapshot, seed, parse_knobs(maker.knobs, {"min_lines": 1, **knobs})))


def one(snapshot, path, **knobs):
    return next(item for item in candidates(snapshot, **knobs) if item.entity.startswith(path))


def test_modules_are_proposed_when_a_minority_of_the_tests_runs_them(shapes):
    assert {item.entity for item in candidates(shapes())} == {"pkg/area.py::area", "pkg/edges.py::edges"}


def test_a_module_is_skipped_when_its_size_is_outside_the_knobs(shapes):
    assert {item.entity for item in candidates(shapes(), min_lines=5)} == {"pkg/area.py::area"}
    assert not candidates(shapes(), min_lines=30)


def test_the_order_depends_on_the_seed_alone(shapes):
    orders = [[item.entity for item in candidates(shapes(), seed)] for seed in (0, 0, 1, 2, 3)]
    assert orders[0] == orders[1] and len({tuple(order) for order in orders}) > 1


def test_the_file_goes_with_every_import_of_it(shapes):
    candidate = one(shapes(), "pkg/area.py")
    assert candidate.blocked is None and candidate.exercise["pkg/area.py"] is None
    package = candidate.exercise["pkg/__init__.py"].decode()
    assert "area" not in package and "circle" not in package and '"around"' in package
    edges = candidate.exercise["pkg/edges.py"].decode()
    assert "import pkg\n" in edges and "areas" not in edges and "raise NotImplementedError" in edges
    tests = candidate.hidden_tests.rewritten["tests/test_area.py"].decode()
    assert "import pkg\n" in tests and "square, circle" not in tests and "from pkg.edges import around" in tests
    for source in (package, edges, tests):
        ast.parse(source)


def test_star_imports_go_with_the_module(shapes):
    package = one(shapes(), "pkg/edges.py").exercise["pkg/__init__.py"].decode()
    assert "edges" not in package and "around" not in package and "circle" in package


def test_a_candidate_is_blocked_when_a_name_is_passed_on_through_the_module(shapes):
    blocked = one(shapes(without=()), "pkg/area.py").blocked
    assert (
        blocked is not None and blocked.reason == "v0_references" and "imports math through pkg.area" in blocked.detail
    )


def test_mode_stub_empties_every_function_except_those_that_run_at_import(shapes):
    snapshot = shapes(at_import=["pkg/area.py::circle"])
    source = one(snapshot, "pkg/area.py", mode="stub").exercise["pkg/area.py"].decode()
    functions = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    assert set(functions) == {"circle", "square"}  # only square() needed _times()
    assert "math.pi" in source and ast.unparse(functions["square"].body[-1]) == "raise NotImplementedError"
    assert ">>> circle" in source and 'UNIT = "cm"' in source


def test_the_statement_lists_the_interface_and_what_has_to_be_restored(shapes):
    candidate = one(shapes(), "pkg/area.py")
    text = candidate.statement.render(StatementContext("pkg 1.0", TESTS[:1], []))
    for part in (
        "# Write the module `pkg.area`",
        "the file `pkg/area.py` has been removed",
        "> Areas of shapes.",
        "def circle(radius)",
        "> Return the area of a square.",
        "It raises `ValueError` itself.",
        'UNIT = "cm"',
        "Tests use `circle`, `square` directly.",
        "square of three",
        "`pkg.square`, imported from `pkg.area`",
        "areas.square(side)",
    ):
        assert part in text
    assert ">>>" not in text and "_times" not in text and "side * side" not in text


def test_the_statement_gives_signatures_alone_when_docstrings_stay(shapes):
    text = one(shapes(), "pkg/area.py", mode="stub").statement.render(StatementContext("pkg 1.0", TESTS[:1], []))
    assert "def square(side, *, unit=UNIT)" in text and "Return the area" not in text and "no body" in text


def test_trivial_solutions_are_valid_modules(shapes):
    for mode in ("stub", "remove"):
        probes = one(shapes(), "pkg/area.py", mode=mode).probes
        assert {"none", "true", "empty"} <= set(probes)
        for files in probes.values():
            compile(files["pkg/area.py"], "area.py", "exec")


def test_a_module_of_a_package_becomes_a_task(tmp_path):
    knobs = {"min_lines": 3, "max_share": 0.9, **LIGHT}
    report = generate([str(DATA / "cellar")], generators=["fd_module"], count=1, seed=1, out=tmp_path, knobs=knobs)
    assert report.tasks == 1, report.rejected
    task = Task.model_validate_json((tmp_path / "tasks.jsonl").read_text())
    assert task.FAIL_TO_PASS and task.PASS_TO_PASS and task.generator.name == "fd_module"


@pytest.mark.slow
def test_a_module_without_bodies_becomes_a_task(tmp_path):
    knobs = {"mode": "stub", "min_lines": 3, "max_share": 0.9, **LIGHT}
    report = generate([str(DATA / "cellar")], generators=["fd_module"], count=1, seed=1, out=tmp_path, knobs=knobs)
    assert report.tasks == 1, report.rejected
