"""Each generator on a package that indents with tabs: what it proposes compiles, and is the same as with blanks."""

from __future__ import annotations

import ast
import re
from collections import Counter
from typing import get_args, get_type_hints

import pytest
from helpers.light_checks import LIGHT
from helpers.small_tasks import write_project

from etude.environments.snapshots import build_snapshot
from etude.errors import NotApplicable
from etude.generators import GENERATORS
from etude.generators.generate import generate
from etude.generators.knob_parsing import parse_knobs, select_knobs
from etude.generators.model_endpoint import AsksModel
from etude.generators.python.source import compile_error
from etude.models import Task

STORE = '''
"""A store of numbers that threads share."""

import functools
import threading

from .parts import Part


class Locked:
    """Opens and closes."""

    def __init__(self):
        self.open = False
        self.events = []

    def __enter__(self):
        self.open = True
        return self

    def __exit__(self, kind, error, trace):
        self.open = False
        self.events.append("closed")


class Store:
    """Numbers by name, in the order in which they were put."""

    def __init__(self, limit=3):
        self.lock = threading.Lock()
        self.names = []
        self.numbers = {}
        self.limit = limit

    def put_number(self, name, number, times=1):
        """Put a number, ``times`` times as large, and return how many there are."""
        if not isinstance(number, int):
            raise TypeError(f"no number: {number!r}")
        number = number * times
        with self.lock:
            if name not in self.numbers:
                if len(self.names) >= self.limit:
                    raise ValueError("the store is full")
                self.names.append(name)
            self.numbers[name] = number
        return len(self.names)

    def take_number(self, name):
        """Return a number and forget it."""
        try:
            number = self.numbers.pop(name)
        except KeyError as error:
            raise LookupError(name) from error
        else:
            self.names.remove(name)
        finally:
            self.last = name
        return number

    def total(self):
        """Return the sum of all numbers."""
        total = 0
        for name in self.names:
            if self.numbers[name] < 0:
                continue
            total += self.numbers[name]
        return total

    @functools.lru_cache  # each store has its own
    def largest(self):
        """Return the largest number, or None without any.

        >>> Store().largest()
        """
        largest = None
        for name in self.names:
            # the first one counts
            if largest is None or self.numbers[name] > largest:
                largest = self.numbers[name]
            else:
                largest = max(largest,
            largest)
        return largest


def find_pairs(numbers):
    """Return the pairs of neighbours that differ.

    >>> find_pairs([1, 2])
    [(1, 2)]
    """
    pairs = []
    for first, second in zip(numbers, numbers[1:]):
        pair = []
        pair.append(first)
        if first != second:
            pair.append(second)
            pairs.append(tuple(pair))
        else:
            pair.clear()
    return pairs


def scaled(number: int, factor: int = 2, offset: int = 0) -> int:
    """Return a number times a factor.

    With an ``offset``, add it first.
    """
    if offset:
        number += offset
        if number < 0:
            number = 0
    return number * factor


def first_negative(numbers):
    """Return the first negative number, or zero."""
    for number in numbers:
        if number < 0:
            return number
    return 0


def count_names(text): return len(make_parts(text))


def make_parts(text):
    """Return the parts of a text."""
    return [Part(word) for word in text.split()]
'''
PARTS = '''
"""Parts of a text."""

import re


class Part:
    """A word with its length."""

    def __init__(self, word: str) -> None:
        self.word = word

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Part):
            return NotImplemented
        return self.word == other.word

    def __len__(self) -> int:
        return len(self.word)


def split_words(text: str, separator: str = " ") -> list[str]:
    """Return the words of a text."""
    if separator == "":
        raise ValueError("no separator")
    words = re.split(re.escape(separator), text)
    words = [word for word in words if word]
    return words
'''
TEST_STORE = """
import pytest

from depot.store import Locked, Store, count_names, find_pairs, first_negative, make_parts, scaled


class TestStore:
    def test_put(self):
        store = Store()
        assert store.put_number("a", 1) == 1
        assert store.put_number("b", 2, times=3) == 2
        assert store.numbers["b"] == 6
        assert store.total() == 7

    @pytest.mark.parametrize("number", [1, 2, 3, 4])
    def test_take(self, number):
        store = Store()
        store.put_number("a", number)
        assert store.take_number("a") == number
        assert store.last == "a"
        with pytest.raises(LookupError):
            store.take_number("a")

    def test_refused(self):
        store = Store(limit=1)
        store.put_number("a", 1)
        with pytest.raises(ValueError, match="full"):
            store.put_number("b", 1)
        with pytest.raises(TypeError):
            store.put_number("c", "x")

    def test_largest(self):
        store = Store()
        assert store.largest() is None

    def test_total_without_negative_numbers(self):
        store = Store()
        store.put_number("a", -1)
        store.put_number("b", 2)
        assert store.total() == 2


def test_largest_of_some():
    store = Store()
    store.put_number("a", 3)
    store.put_number("b", 2)
    assert store.largest() == 3


def test_locked():
    with Locked() as locked:
        assert locked.open
    assert locked.events == ["closed"]


def test_pairs():
    assert find_pairs([1, 1, 2]) == [(1, 2)]


def test_scaled():
    assert scaled(3) == 6


def test_scaled_with_offset():
    assert scaled(3, offset=1) == 8
    assert scaled(-3, offset=1) == 0


def test_first_negative():
    assert first_negative([1, -2, -3]) == -2
    assert first_negative([1]) == 0


def test_count():
    assert count_names("a b") == 2
    assert [part.word for part in make_parts("a b")] == ["a", "b"]
"""
TEST_PARTS = """
import pytest


def test_words():
    from depot.parts import Part, split_words
    assert split_words("a b") == ["a", "b"]
    assert split_words("a,b", separator=",") == ["a", "b"]
    assert Part("a") == Part("a") and len(Part("abc")) == 3


def test_no_separator():
    from depot.parts import split_words
    with pytest.raises(ValueError):
        split_words("a", separator="")


@pytest.mark.parametrize("number", range(12))
def test_nothing(number):
    assert number >= 0
"""
FILES = {
    "src/depot/__init__.py": '"""A depot."""\n',
    "src/depot/store.py": STORE,
    "src/depot/parts.py": PARTS,
    "tests/test_store.py": TEST_STORE,
    "tests/test_parts.py": TEST_PARTS,
}
FREE = {"min_lines": 1, "max_share": 0.9, **LIGHT}
UNINDENTED = {"fd_cli_option", "history_revert", "history_pr", "migrate_dependency", "repair_packaging"}
"""Generators for which the package has nothing, or that change no indented code."""
NAMES = [
    name for name in GENERATORS.names() if name not in UNINDENTED and not issubclass(GENERATORS.load(name), AsksModel)
]


def with_tabs(text):
    return re.sub(r"(?m)^( {4})+", lambda match: "\t" * (len(match[0]) // 4), text)


def with_odd_spaces(text):
    """Return a text with tabs and blanks in turn as its indentation, and form feeds before definitions and blocks."""
    steps = ["\t", "   ", "\t", " "] * 3
    text = re.sub(r"(?m)^( {4})+", lambda match: "".join(steps[: len(match[0]) // 4]), text)
    return re.sub(r"(?m)^(\t?)(?=class |def |@|with |for )", "\f\\1", text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    files = {path: with_tabs(text) for path, text in FILES.items()}
    return write_project(tmp_path_factory.mktemp("tabs") / "depot", files)


@pytest.fixture(scope="module")
def tabs(folder):
    return build_snapshot(str(folder))


@pytest.fixture(scope="module")
def blanks(tmp_path_factory):
    return build_snapshot(str(write_project(tmp_path_factory.mktemp("blanks") / "depot", FILES)))


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    files = {path: with_odd_spaces(text) for path, text in FILES.items()}
    return build_snapshot(str(write_project(tmp_path_factory.mktemp("odd") / "depot", files)))


def propose(snapshot, name, knobs):
    maker = GENERATORS.load(name)()
    try:
        return list(maker.candidates(snapshot, 5, parse_knobs(maker.knobs, select_knobs(maker.knobs, knobs))))
    except NotApplicable:
        return []


def files_of(candidate):
    tests = candidate.hidden_tests
    groups = [candidate.exercise, candidate.solution, tests.rewritten, tests.added, *candidate.probes.values()]
    groups += [*getattr(candidate.deliverable, "right", ()), *getattr(candidate.deliverable, "wrong", ())]
    return [(path, text) for files in groups for path, text in files.items() if text and path.endswith(".py")]


def meaning(candidate):
    """Return the syntax trees of a candidate's files, in whose texts all white space is one blank."""
    return tuple(
        (path, re.sub(r"(\\[tf]|\\x0c| )+", " ", ast.dump(ast.parse(text)))) for path, text in files_of(candidate)
    )


def modes(name):
    """Return the values of a generator's knob ``mode``; one empty text for a generator without it."""
    return get_args(get_type_hints(GENERATORS.load(name).knobs).get("mode")) or ("",)


def check(snapshot, blanks, name, knobs):
    """Check that what is proposed for a Snapshot compiles, and is what is proposed for the one with blanks."""
    candidates = propose(snapshot, name, knobs)
    assert candidates, "the package has something for each generator"
    for candidate in candidates:
        for path, text in files_of(candidate):
            assert not compile_error(path, text), text.decode()
    assert Counter(map(meaning, candidates)) == Counter(map(meaning, propose(blanks, name, knobs)))


@pytest.mark.parametrize(("name", "mode"), [(name, mode) for name in NAMES for mode in modes(name)])
def test_what_is_proposed_compiles_and_means_the_same_as_with_blanks(tabs, blanks, name, mode):
    check(tabs, blanks, name, {**FREE, **({"mode": mode} if mode else {})})


@pytest.mark.parametrize("name", ["fd_method", "bug_control_flow", "bug_exception", "bug_concurrency", "rename_api"])
def test_mixed_indentation_and_form_feeds_change_nothing(odd, blanks, name):
    check(odd, blanks, name, FREE)


def test_a_deletion_and_a_mistake_become_tasks(folder, tmp_path):
    names, knobs = ["fd_method", "bug_control_flow"], {**FREE, "kind": "return_in_loop"}
    report = generate([str(folder)], generators=names, count=1, seed=2, out=tmp_path, knobs=knobs)
    assert (report.candidates, report.tasks, report.failed) == (2, 2, {}), report.rejected
    deletion, mistake = map(Task.model_validate_json, (tmp_path / "tasks.jsonl").read_text().splitlines())
    assert "\n+\t\traise NotImplementedError\n" in deletion.workspace_patch
    assert re.search(r"\n[+]\t+return \w+\n", mistake.workspace_patch)
