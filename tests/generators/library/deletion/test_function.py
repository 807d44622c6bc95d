"""The proposals of ``fd_function`` on the sample package; no test is run here."""

import ast
from types import SimpleNamespace

import pytest
from helpers.paths import DATA

from etude.errors import GeneratorError
from etude.generators.base import StatementContext
from etude.generators.knob_parsing import parse_knobs
from etude.generators.library.deletion.function import FunctionDeletion
from etude.generators.library.deletion.knobs import Knobs
from etude.generators.python.hidden_tests import hide
from etude.generators.python.source import delete_spans
from etude.generators.python.source_tree import SourceTree
from etude.generators.statements.interface import interface_of
from etude.models import InterfaceItem

SAMPLE = DATA / "scales"
NOTES = "src/scales/notes.py"
FREQUENCY_TESTS = [
    "tests/test_notes.py::test_frequency_of_known_notes[A4]",
    "tests/test_notes.py::test_frequency_of_known_notes[A5]",
    "tests/test_notes.py::test_frequency_of_known_notes[C4]",
    "tests/test_notes.py::test_frequency_follows_the_concert_pitch",
    "tests/test_notes.py::test_frequency_needs_an_octave",
]
OTHER_TESTS = [
    "tests/test_notes.py::TestInterval::test_up_a_fifth",
    "tests/test_notes.py::test_chord_is_a_triad[C]",
    "tests/test_patterns.py::RelativeTest::test_there_and_back",
    "tests/test_patterns.py::RelativeTest::test_unknown_pattern",
    "tests/test_patterns.py::ScaleTest::test_major",
    "tests/test_patterns.py::ScaleTest::test_minor",
]


@pytest.fixture
def snapshot():
    """Return the parts of a Snapshot that a proposal needs; the test map is written by hand."""
    return SimpleNamespace(
        tree=SAMPLE,
        source_roots=["src/scales"],
        verifier=SimpleNamespace(python_path=["src"]),
        baseline=SimpleNamespace(
            passed=FREQUENCY_TESTS + OTHER_TESTS,
            at_import=[],
            tests_of={
                f"{NOTES}::frequency": FREQUENCY_TESTS,
                f"{NOTES}::_split": FREQUENCY_TESTS,
                f"{NOTES}::chord": OTHER_TESTS[1:2],
                "src/scales/patterns.py::relative": OTHER_TESTS[2:4],
                "src/scales/patterns.py::scale": OTHER_TESTS[4:6],
            },
        ),
    )


def candidates(snapshot, seed=0, **knobs):
    return FunctionDeletion().candidates(snapshot, seed, parse_knobs(Knobs, knobs))


def propose(snapshot, name, **knobs):
    return next(item for item in candidates(snapshot, **knobs) if item.entity.endswith(f"::{name}"))


def test_stub_mode_changes_only_the_body(snapshot):
    before = (SAMPLE / "src/scales/patterns.py").read_bytes()
    after = propose(snapshot, "relative").exercise["src/scales/patterns.py"]
    start, end = before.index(b'    if pattern == "major"'), len(before)
    assert after == before[:start] + b"    raise NotImplementedError\n"
    assert end > start


def test_stub_mode_deletes_helpers_and_imports_when_only_the_body_needs_them(snapshot):
    after = propose(snapshot, "frequency", docs="keep").exercise[NOTES].decode()
    for deleted in ("_split", "_OCTAVE", "import math", "import re\n", "Only frequency() needs this"):
        assert deleted not in after
    for text in ("from functools import lru_cache, reduce", "_FLATS", ">>> frequency"):
        assert text in after
    ast.parse(after)


def test_an_import_loses_one_name_when_the_others_are_used(snapshot):
    after = propose(snapshot, "chord", min_lines=1).exercise[NOTES].decode()
    assert "from functools import lru_cache\n" in after


def test_docstrings_and_documents_lose_their_examples(snapshot):
    exercise = propose(snapshot, "frequency").exercise
    assert b">>> frequency" not in exercise[NOTES] and b"A4" in exercise[NOTES]
    transposed = propose(snapshot, "scale", docs="redact").exercise
    assert "README.md" not in transposed


def test_the_order_of_candidates_depends_on_the_seed_alone(snapshot):
    def entities(seed):
        return [item.entity for item in candidates(snapshot, seed, min_lines=1)]

    assert entities(1) == entities(1)
    assert sorted(entities(1)) == sorted(entities(2))
    assert len({tuple(entities(seed)) for seed in range(8)}) > 1


def test_trivial_probes_are_valid_modules(snapshot):
    probes = propose(snapshot, "frequency").probes
    assert set(probes) == {"none", "true", "empty", "list", "first_argument"}
    for files in probes.values():
        ast.parse(files[NOTES])


@pytest.mark.parametrize(
    ("body", "tried"),
    [
        ("    return {1: '.', 2: ','}.get(n, ':')", set()),
        ("    try:\n        mark = MARKS[n]\n    except KeyError:\n        mark = '.'\n    return mark", {"'.'"}),
        ("    if n:\n        return 'a'\n    other = 'no'\n    return 7 or other", {"'a'"}),
        ("    if n:\n        return 'a'\n    if n > 2:\n        return 2.5\n    return 'b'", {"'a'", "'b'"}),
        ("    if n:\n        return None\n    return ''", set()),
    ],
)
def test_a_constant_that_a_function_returns_is_tried_as_its_only_answer(snapshot, tmp_path, body, tried):
    (tmp_path / "src/scales").mkdir(parents=True)
    (tmp_path / NOTES).write_text(f"MARKS = {{}}\n\n\ndef frequency(n):\n{body}\n")
    snapshot.tree = tmp_path
    probes = propose(snapshot, "frequency", min_lines=1).probes
    constants = [files[NOTES].decode() for name, files in probes.items() if name.startswith("own_constant_")]
    assert {text.rstrip().rpartition("return ")[2] for text in constants} == tried


@pytest.mark.parametrize(
    ("knob", "expected"),
    [
        ({"min_line": 3}, "unknown knob 'min_line'. Did you mean 'min_lines'?"),
        ({"tests": "some"}, "knob tests cannot be 'some'; choose one of hidden, visible, half"),
        ({"min_lines": "x"}, "knob min_lines must be an int, got 'x'"),
        ({"max_lines": 0}, "knob max_lines must be at least 1, got 0"),
        ({"max_share": "1.5"}, "knob max_share must be at most 1.0, got '1.5'"),
        ({"keep_helpers": "maybe"}, "knob keep_helpers must be true or false, got 'maybe'"),
    ],
)
def test_a_knob_is_refused_with_its_remedy_when_it_is_wrong(knob, expected):
    with pytest.raises(GeneratorError) as caught:
        parse_knobs(Knobs, knob)
    assert str(caught.value) == expected


def test_knobs_are_converted_when_they_are_text():
    knobs = parse_knobs(Knobs, {"min_lines": "3", "keep_helpers": "yes", "max_share": "0.25"})
    assert (knobs.min_lines, knobs.keep_helpers, knobs.max_share) == (3, True, 0.25)


def test_hidden_tests_leave_with_their_expected_values(snapshot):
    hidden = hide(SourceTree.of(snapshot), FREQUENCY_TESTS)
    text = hidden["tests/test_notes.py"].decode()
    for hidden_text in ("test_frequency", "HERTZ", "def close"):
        assert hidden_text not in text
    for visible_text in ("TestInterval", "TRIADS", "test_unknown_note"):
        assert visible_text in text
    ast.parse(text)


def test_a_test_class_is_hidden_when_all_its_tests_are(snapshot):
    hidden = hide(SourceTree.of(snapshot), OTHER_TESTS[2:4])
    assert b"RelativeTest" not in hidden["tests/test_patterns.py"]


def test_a_test_file_is_hidden_when_all_its_tests_are(snapshot):
    everything = [*OTHER_TESTS[2:6], "tests/test_patterns.py::ScaleTest::test_unknown_pattern"]
    assert hide(SourceTree.of(snapshot), everything) == {"tests/test_patterns.py": None}


def test_a_test_file_is_hidden_when_a_test_cannot_be_located(snapshot):
    assert hide(SourceTree.of(snapshot), ["tests/test_notes.py::test_made_at_import"]) == {"tests/test_notes.py": None}


def test_the_interface_lists_what_the_hidden_tests_use(snapshot):
    target = InterfaceItem(name="scales.notes.frequency", kind="function", signature="def frequency(text)")
    items = {(item.kind, item.name) for item in interface_of(SourceTree.of(snapshot), [target], FREQUENCY_TESTS)}
    assert ("keyword", "frequency(concert_pitch=)") in items
    assert ("exception", "scales.NoteError") in items and ("exception", "ValueError") in items
    assert ("message", "must be positive") in items
    assert target.name not in {name for _, name in items}


def test_the_statement_describes_the_function_and_shows_no_test(snapshot):
    candidate = propose(snapshot, "frequency")
    names = interface_of(SourceTree.of(snapshot), candidate.interface, FREQUENCY_TESTS)
    text = candidate.statement.render(StatementContext("scales 1.2.0", FREQUENCY_TESTS, names))
    for part in (
        "def frequency(text, *, concert_pitch=440.0)",
        "The frequency in hertz",
        "frequency of known notes (3 cases)",
        "`ValueError`",
        "frequency(concert_pitch=)",
    ):
        assert part in text
    assert "261.62" not in text and "_split" not in text


def test_blank_lines_shrink_to_two_when_code_between_them_is_deleted():
    source = b"a\n\n\nb\n\n\nc\n\n\nd\n"
    assert delete_spans(source, [(4, 6), (8, 10)]) == b"a\n\n\nd\n"


def test_a_table_that_only_the_function_needs_stays_and_a_helper_of_it_goes(project):
    module = """
        SIZES = 3
        _STEP = 2
        _NAMES = frozenset({"a": 1, "b": 2, "c": 3, "d": 4}.items())


        def name_of(number):
            return dict(_NAMES).get(number * _STEP)


        def other():
            return 1
    """
    tests = {"pkg/core.py::name_of": ["tests/test_core.py::test_name"]}
    source = project(
        {"pkg/__init__.py": "", "pkg/core.py": module, "tests/test_core.py": "def test_name():\n    pass\n"},
        tests,
        passed=[f"tests/test_core.py::test_{number}" for number in range(9)],
    )
    exercise = propose(source, "name_of", min_lines="1").exercise["pkg/core.py"].decode()
    assert "_NAMES = frozenset(" in exercise and "_STEP" not in exercise and "raise NotImplementedError" in exercise
