"""What ``fd_function`` proposes, on the sample package; nothing is run here."""

import ast
from types import SimpleNamespace

import pytest
from helpers.paths import DATA

from etude.errors import GeneratorError
from etude.generators.library.deletion.function import FunctionDeletion
from etude.generators.library.deletion.statement import deletion_statement
from etude.generators.python.hidden_tests import hide
from etude.generators.python.source_tree import SourceTree
from etude.generators.statements.interface import interface
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
    """The parts of a Snapshot that proposing needs, with a test map written by hand."""
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


def propose(snapshot, name, **knobs):
    found = FunctionDeletion().candidates(snapshot, 0, knobs)
    return next(candidate for candidate in found if candidate.entity.endswith(f"::{name}"))


def test_the_body_goes_and_everything_else_stays_to_the_byte(snapshot):
    before = (SAMPLE / "src/scales/patterns.py").read_bytes()
    after = propose(snapshot, "relative").exercise["src/scales/patterns.py"]
    start, end = before.index(b'    if pattern == "major"'), len(before)
    assert after == before[:start] + b"    raise NotImplementedError\n"
    assert end > start


def test_helpers_and_imports_that_only_the_body_needed_go_too(snapshot):
    after = propose(snapshot, "frequency", docs="keep").exercise[NOTES].decode()
    for gone in ("_split", "_OCTAVE", "import math", "import re\n", "Only frequency() needs this"):
        assert gone not in after
    for kept in ("from functools import lru_cache, reduce", "_FLATS", ">>> frequency"):
        assert kept in after
    ast.parse(after)


def test_one_name_of_an_import_list_goes_alone(snapshot):
    after = propose(snapshot, "chord", min_lines=1).exercise[NOTES].decode()
    assert "from functools import lru_cache\n" in after


def test_examples_are_redacted_in_docstrings_and_documents(snapshot):
    exercise = propose(snapshot, "frequency").exercise
    assert b">>> frequency" not in exercise[NOTES] and b"A4" in exercise[NOTES]
    transposed = propose(snapshot, "scale", docs="redact").exercise
    assert "README.md" not in transposed


def test_candidates_come_in_an_order_drawn_from_the_seed(snapshot):
    def entities(seed):
        return [item.entity for item in FunctionDeletion().candidates(snapshot, seed, {"min_lines": 1})]

    assert entities(1) == entities(1)
    assert sorted(entities(1)) == sorted(entities(2))
    assert len({tuple(entities(seed)) for seed in range(8)}) > 1


def test_trivial_probes_are_valid_modules(snapshot):
    probes = propose(snapshot, "frequency").probes
    assert set(probes) == {"none", "true", "empty", "list", "first_argument"}
    for files in probes.values():
        ast.parse(files[NOTES])


def test_an_unknown_knob_names_the_nearest(snapshot):
    with pytest.raises(GeneratorError, match="Did you mean 'min_lines'"):
        next(FunctionDeletion().candidates(snapshot, 0, {"min_line": 3}))
    with pytest.raises(GeneratorError, match="choose one of hidden, visible, half"):
        next(FunctionDeletion().candidates(snapshot, 0, {"tests": "some"}))


def test_hidden_tests_take_their_expected_values_along(snapshot):
    hidden = hide(SourceTree.of(snapshot), FREQUENCY_TESTS)
    text = hidden["tests/test_notes.py"].decode()
    for gone in ("test_frequency", "HERTZ", "def close"):
        assert gone not in text
    for kept in ("TestInterval", "TRIADS", "test_unknown_note"):
        assert kept in text
    ast.parse(text)


def test_a_class_without_tests_left_goes_whole(snapshot):
    hidden = hide(SourceTree.of(snapshot), OTHER_TESTS[2:4])
    assert b"RelativeTest" not in hidden["tests/test_patterns.py"]


def test_a_file_of_which_nothing_is_left_is_deleted(snapshot):
    everything = [*OTHER_TESTS[2:6], "tests/test_patterns.py::ScaleTest::test_unknown_pattern"]
    assert hide(SourceTree.of(snapshot), everything) == {"tests/test_patterns.py": None}


def test_a_test_that_cannot_be_located_hides_its_file(snapshot):
    assert hide(SourceTree.of(snapshot), ["tests/test_notes.py::test_made_at_import"]) == {"tests/test_notes.py": None}


def test_interface_lists_what_the_hidden_tests_touch(snapshot):
    target = InterfaceItem(name="scales.notes.frequency", kind="function", signature="def frequency(text)")
    found = {(item.kind, item.name) for item in interface(SourceTree.of(snapshot), [target], FREQUENCY_TESTS)}
    assert ("keyword", "frequency(concert_pitch=)") in found
    assert ("exception", "scales.NoteError") in found and ("exception", "ValueError") in found
    assert ("message", "must be positive") in found


def test_the_statement_says_what_is_needed_and_shows_no_test(snapshot):
    facts = propose(snapshot, "frequency").facts
    target = InterfaceItem(name="scales.notes.frequency", kind="function", signature=facts["signature"])
    names = interface(SourceTree.of(snapshot), [target], FREQUENCY_TESTS)
    text = deletion_statement("scales 1.2.0", facts, FREQUENCY_TESTS, names)
    for part in (
        "def frequency(text, *, concert_pitch=440.0)",
        "The frequency in hertz",
        "frequency of known notes (3 cases)",
        "`ValueError`",
        "frequency(concert_pitch=)",
    ):
        assert part in text
    assert "261.62" not in text and "_split" not in text


def test_blank_lines_left_by_deletions_shrink():
    from etude.generators.python.source import delete_spans

    source = b"a\n\n\nb\n\n\nc\n\n\nd\n"
    assert delete_spans(source, [(4, 6), (8, 10)]) == b"a\n\n\nd\n"
