"""The generator ``fd_parameter``: which parameters it takes, what remains, what the statement says."""

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
    "pkg/__init__.py": "",
    "pkg/prices.py": '''
        import math

        def show(price, *, currency=None, digits=2):
            """Return a price as text.

            Args:
                price: the price
                currency: put in front of it

            >>> show(1, currency="EUR")
            'EUR 1.00'
            """
            text = f"{price:.2f}"
            if currency is not None:
                if not currency:
                    raise ValueError("no currency")
                text = _with_currency(text, currency)
            return text if digits else str(math.floor(price))

        def _with_currency(text, currency):
            return f"{currency} {text}"

        def total(prices, start=0, factor=1):
            """Return a sum; `start` is added, `factor` multiplies.

            With `start=`, the sum begins there.
            """
            return (sum(prices) + start) * factor

        def report(prices):
            return total(prices, factor=2)

        class Basket:
            """A basket.

            :param limit: the most items
            """

            def __init__(self, items, limit=None):
                self.items = items
                if limit is not None:
                    self.items = items[:limit]
    ''',
    "tests/test_prices.py": """
        from pkg.prices import Basket, show, total

        def test_currency():
            assert show(1, currency="EUR") == "EUR 1.00"

        def test_digits():
            assert show(1.5, digits=0) == "1"

        def test_start():
            assert total([1], start=2) == 3
            assert total([1], factor=2) == 2

        def test_limit():
            assert Basket([1, 2], limit=1).items == [1]

        def test_plain():
            assert show(1) == "1.00"
    """,
}
TESTS = [f"tests/test_prices.py::test_{name}" for name in ("currency", "digits", "start", "limit", "plain")]
RUN = {
    "pkg/prices.py::show": [TESTS[0], TESTS[1], TESTS[4]],
    "pkg/prices.py::total": [TESTS[2]],
    "pkg/prices.py::Basket.__init__": [TESTS[3]],
}


@pytest.fixture
def prices(project):
    return project(FILES, RUN)


def candidates(snapshot, seed=0, **knobs):
    maker = GENERATORS.load("fd_parameter")()
    return list(maker.candidates(snapshot, seed, parse_knobs(maker.knobs, knobs)))


def one(snapshot, name, **knobs):
    return next(item for item in candidates(snapshot, **knobs) if item.entity == f"pkg/prices.py::{name}")


def names(items):
    return {item.entity.partition("::")[2] for item in items}


def test_parameters_are_proposed_when_tests_pass_them_and_a_docstring_describes_them(prices):
    assert names(candidates(prices)) == {"show.currency", "total.start", "Basket.__init__.limit"}
    assert names(candidates(prices, documented=False)) - names(candidates(prices)) == {"show.digits"}


def test_a_parameter_is_skipped_when_the_package_passes_it_itself(prices):
    assert "total.factor" not in names(candidates(prices, documented=False))


def test_small_changes_are_skipped_by_the_knob(prices):
    assert names(candidates(prices, min_lines=4)) == {"show.currency"}


def test_the_order_depends_on_the_seed_alone(prices):
    orders = [tuple(item.entity for item in candidates(prices, seed)) for seed in (0, 0, 1, 2, 3)]
    assert orders[0] == orders[1] and len(set(orders)) > 1


def test_the_parameter_goes_with_its_code_its_helper_and_its_documentation(prices):
    after = one(prices, "show.currency").exercise["pkg/prices.py"].decode()
    function = after[after.index("def show") : after.index("def total")]
    assert "currency" not in function and "def show(price, *, digits=2):" in function
    assert '    text = f"{price:.2f}"\n    return text if digits' in function
    assert "price: the price" in function and "import math" in after
    ast.parse(after)


def test_an_initializer_is_called_by_the_name_of_its_class(prices):
    candidate = one(prices, "Basket.__init__.limit")
    after = candidate.exercise["pkg/prices.py"].decode()
    assert "def __init__(self, items):\n        self.items = items\n" in after and "limit" not in after
    assert candidate.hidden_tests.affected == [TESTS[3]]


def test_the_trivial_solution_accepts_the_parameter_and_ignores_it(prices):
    probe = one(prices, "show.currency").probes["ignored"]["pkg/prices.py"].decode()
    assert "currency=None" in probe and "if currency" not in probe
    ast.parse(probe)


def test_the_statement_gives_name_default_documentation_and_calls(prices):
    candidate = one(prices, "show.currency")
    text = candidate.statement.render(StatementContext("pkg 1.0", candidate.hidden_tests.affected, []))
    for part in (
        "# Add the parameter `currency` to `pkg.prices.show`",
        "default `None`",
        "def show(price, *, currency=None, digits=2)",
        "> currency: put in front of it",
        "Values that it refuses raise `ValueError`.",
        "`show(1, currency='EUR')`",
        "- currency",
    ):
        assert part in text
    assert "_with_currency" not in text and ">>>" not in text and "is not None" not in text


@pytest.mark.slow
def test_a_parameter_of_a_package_becomes_a_task(tmp_path):
    knobs = {"documented": False, **LIGHT}
    report = generate([str(DATA / "cellar")], generators=["fd_parameter"], count=1, seed=1, out=tmp_path, knobs=knobs)
    assert report.tasks == 1, report.rejected
    task = Task.model_validate_json((tmp_path / "tasks.jsonl").read_text())
    assert task.FAIL_TO_PASS and "the parameter `upper`" in task.problem_statement
