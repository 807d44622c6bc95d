"""A module whose every line some test runs, and the lines that candidates change in it."""

from __future__ import annotations

import difflib
import textwrap
from types import SimpleNamespace

import pytest

from etude.generators import GENERATORS
from etude.generators.knob_parsing import parse_knobs

TESTS = [f"tests/test_module.py::test_{number}" for number in range(8)]


@pytest.fixture
def snapshot_of(tmp_path):
    """Return ``snapshot_of(source, untested=())``: two of eight tests run every line except those of ``untested``."""

    def write(source, untested=()):
        (tmp_path / "module.py").write_text(textwrap.dedent(source).lstrip("\n"))
        count = (tmp_path / "module.py").read_text().count("\n")
        lines = [line for line in range(1, count + 1) if line not in untested]
        covered = {test: {"module.py": lines if test in TESTS[:2] else []} for test in TESTS}
        baseline = SimpleNamespace(passed=TESTS, tests_of={}, at_import=[], covered=covered.__getitem__)
        verifier = SimpleNamespace(python_path=["."])
        return SimpleNamespace(tree=tmp_path, source_roots=["module.py"], verifier=verifier, baseline=baseline)

    return write


@pytest.fixture
def propose():
    """Return ``propose(snapshot, generator, seed, knob=value)``, which gives all candidates."""

    def run(snapshot, generator, seed=0, **knobs):
        maker = GENERATORS.load(generator)()
        return list(maker.candidates(snapshot, seed, parse_knobs(maker.knobs, knobs)))

    return run


@pytest.fixture
def changes(snapshot_of, propose):
    """Return ``changes(generator, kind, source)``: what each candidate has in place of what, without indentation."""

    def run(generator, kind, source, **more):
        snapshot = snapshot_of(source, **more)
        before = (snapshot.tree / "module.py").read_text().splitlines()
        result = set()
        for candidate in propose(snapshot, generator, kind=kind):
            after = candidate.exercise["module.py"].decode().splitlines()
            diff = [line for line in difflib.ndiff(before, after) if line[0] in "+-" and line[2:].strip()]
            removed = " / ".join(line[2:].strip() for line in diff if line[0] == "-")
            added = " / ".join(line[2:].strip() for line in diff if line[0] == "+")
            result.add(f"{removed} -> {added}".strip())
        return result

    return run
