"""The generator ``fd_exception_path``: checks that tests expect to raise are taken out; the statement names them."""

from __future__ import annotations

import ast
import textwrap
from types import SimpleNamespace

import pytest
from helpers.light_checks import LIGHT
from helpers.paths import DATA

from etude.generators import GENERATORS
from etude.generators.base import StatementContext
from etude.generators.generate import generate
from etude.generators.knob_parsing import parse_knobs
from etude.models import Task

SOURCE = textwrap.dedent('''\
    """Temperatures."""
    import re
    from .errors import BadScale, TooCold

    _NUMBER = re.compile("[0-9]+")
    TABLE = {"C": 0.0, "K": -273.15}


    def convert(value, scale, strict=True):
        """Return a temperature."""
        # Text is refused.
        if not isinstance(value, (int, float)):
            raise TypeError("a number, please")
        try:
            zero = TABLE[scale]
        except KeyError as error:
            message = f"no scale {scale}"
            raise BadScale(message) from error
        if strict:
            if value < 0 or value is None:
                raise TooCold(f"{value} is too cold")
        return value - zero


    def parse(text):
        if text.startswith("-"):
            sign = -1
        elif not _NUMBER.match(text):
            raise ValueError(text)
        else:
            sign = 1
        return sign


    def scale_of(text):
        if text in TABLE:
            result = """
    as it is"""
        else:
            raise LookupError
        try:
            int(text)
        except ValueError:
            raise BadScale(text) from None
        except TypeError:
            return None
        return result


    def chain(value):
        if value == 1:
            raise KeyError(value)
        elif value == 2:
            value = 3
        elif value == 4:
            raise IndexError(value)
        elif value == 5:
            value = 6
        if value == 7:
            raise OSError(value)
        else:
            # The rest.
            value = 8
        return value


    def unchecked(value):
        if value:
            raise RuntimeError
        if not value:
            raise StopIteration
''')
TESTS = textwrap.dedent("""\
    import pytest
    from temp import convert, parse, scale_of

    def test_text_is_refused():
        with pytest.raises(TypeError):
            convert("x", "C")

    def test_unknown_scale():
        with pytest.raises(BadScale, match="no scale"):
            convert(1, "X")

    def test_cold():
        pytest.raises(TooCold, convert, -1, "C")

    def test_words():
        with pytest.raises(ValueError):
            parse("x")

    def test_lookup():
        with pytest.raises(LookupError):
            scale_of("x")

    def test_scale():
        with pytest.raises(BadScale):
            scale_of("C")

    def test_chain():
        with pytest.raises((KeyError, IndexError, OSError)):
            chain(1)

    def test_unchecked():
        assert unchecked(0) is None

    def test_other():
        assert True
""")
RAISED = {
    "text_is_refused": ["raise TypeError"],
    "unknown_scale": ["raise BadScale(message)"],
    "cold": ["raise TooCold"],
    "words": ["raise ValueError(text)"],
    "lookup": ["raise LookupError"],
    "scale": ["raise BadScale(text)"],
    "chain": ["raise KeyError(v", "raise IndexError", "raise OSError"],
    "unchecked": ["raise RuntimeError", "raise StopIteration"],
    "other": [],
}
LINES = {
    name: [number for number, line in enumerate(SOURCE.splitlines(), 1) if any(text in line for text in texts)]
    for name, texts in RAISED.items()
}


@pytest.fixture
def snapshot(tmp_path):
    (tmp_path / "temp.py").write_text(SOURCE)
    (tmp_path / "errors.py").write_text("class BadScale(Exception): ...\nclass TooCold(Exception): ...\n")
    (tmp_path / "test_temp.py").write_text(TESTS)
    ids = [f"test_temp.py::test_{name}" for name in LINES]
    lines = {test: {"temp.py": LINES[test.partition("::test_")[2]]} for test in ids}
    baseline = SimpleNamespace(passed=ids, tests_of={}, at_import=[], covered=lines.__getitem__)
    roots = ["temp.py", "errors.py"]
    return SimpleNamespace(
        tree=tmp_path, source_roots=roots, verifier=SimpleNamespace(python_path=["."]), baseline=baseline
    )


def candidates(snapshot, seed=0, **knobs):
    maker = GENERATORS.load("fd_exception_path")()
    return list(maker.candidates(snapshot, seed, parse_knobs(maker.knobs, knobs)))


def one(snapshot, name, **knobs):
    return next(item for item in candidates(snapshot, **knobs) if item.entity == f"temp.py::{name}")


def code(candidate):
    return candidate.exercise["temp.py"].decode()


def statement(candidate):
    return candidate.statement.render(StatementContext("temp 1.0", candidate.hidden_tests.affected, []))


def test_functions_are_proposed_when_a_test_expects_their_exception(snapshot):
    assert {item.entity for item in candidates(snapshot)} == {
        "temp.py::convert",
        "temp.py::parse",
        "temp.py::scale_of",
        "temp.py::chain",
    }


def test_all_checks_of_a_function_go_with_their_comments(snapshot):
    after = code(one(snapshot, "convert"))
    body = after[after.index("def convert") : after.index("def parse")]
    assert body == (
        'def convert(value, scale, strict=True):\n    """Return a temperature."""\n    zero = TABLE[scale]\n'
        "    if strict:\n        pass\n    return value - zero\n\n\n"
    )
    assert "import BadScale" in after and "TooCold" not in after  # the import that only the checks needed goes


def test_a_branch_of_a_chain_goes_alone(snapshot):
    after = code(one(snapshot, "parse", keep_helpers=True))
    assert 'if text.startswith("-"):\n        sign = -1\n    else:\n        sign = 1\n    return sign' in after


def test_the_other_branches_of_a_chain_stay(snapshot):
    after = code(one(snapshot, "chain"))
    assert after[after.index("def chain") : after.index("def unchecked")] == (
        "def chain(value):\n    if value == 2:\n        value = 3\n    elif value == 5:\n        value = 6\n"
        "    # The rest.\n    value = 8\n    return value\n\n\n"
    )


def test_else_and_one_of_several_handlers_go_and_strings_keep_their_lines(snapshot):
    after = code(one(snapshot, "scale_of"))
    body = after[after.index("def scale_of") : after.index("def chain")]
    assert 'result = """\nas it is"""\n    try:' in body
    assert "except TypeError:" in body and "except ValueError" not in body and "raise" not in body


def test_single_checks_are_proposed_by_the_knob(snapshot):
    entities = {item.entity for item in candidates(snapshot, scope="check")}
    assert entities == {f"temp.py::{name}" for name in ("convert.1", "convert.2", "convert.3", "parse.1")} | {
        "temp.py::scale_of.1",
        "temp.py::scale_of.2",
        "temp.py::chain.1",
        "temp.py::chain.2",
        "temp.py::chain.3",
    }
    handlers = {item.entity for item in candidates(snapshot, scope="check", kinds="handler")}
    assert handlers == {"temp.py::convert.2", "temp.py::scale_of.2"}


def test_every_exercise_compiles_and_the_trivial_solution_always_raises(snapshot):
    for candidate in candidates(snapshot) + candidates(snapshot, scope="check"):
        ast.parse(code(candidate))
    probe = one(snapshot, "convert").probes["always"]["temp.py"].decode()
    assert probe.count("if True:") == 2
    assert not one(snapshot, "convert.2", scope="check").probes


def test_the_statement_names_exception_and_condition(snapshot):
    text = statement(one(snapshot, "convert"))
    for part in (
        "# Report errors in `temp.convert`",
        "It raises `TypeError` when `value` is not an instance of `(int, float)`",
        "It raises `BadScale` instead when `zero = TABLE[scale]` raises `KeyError`, chained to it",
        "its message is `f'no scale {scale}'`",
        "raises `TooCold` when `value` is less than `0` or `value` is `None`, where `strict` is truthy",
        "text is refused",
    ):
        assert part in text
    assert "except KeyError" not in text and "if not isinstance" not in text


def test_a_message_is_given_only_when_a_test_looks_at_it(snapshot):
    assert "message" not in statement(one(snapshot, "parse"))
    assert "message" not in statement(one(snapshot, "convert.1", scope="check"))


def test_the_order_depends_on_the_seed_alone(snapshot):
    orders = [tuple(item.entity for item in candidates(snapshot, seed, scope="check")) for seed in (0, 0, 1, 2)]
    assert orders[0] == orders[1] and len(set(orders)) > 1


def test_a_check_is_skipped_when_too_many_tests_reach_it(snapshot):
    assert {item.entity for item in candidates(snapshot, max_share=0.12)} == {
        "temp.py::chain",
        "temp.py::parse",
    }


@pytest.mark.slow
def test_a_check_of_a_package_becomes_a_task(tmp_path):
    report = generate(
        [str(DATA / "cellar")], generators=["fd_exception_path"], count=1, seed=1, out=tmp_path, knobs=LIGHT
    )
    assert report.tasks == 1, report.rejected
    task = Task.model_validate_json((tmp_path / "tasks.jsonl").read_text())
    assert task.FAIL_TO_PASS and "raises `" in task.problem_statement
