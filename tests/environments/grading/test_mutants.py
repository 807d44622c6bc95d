"""Tests that an agent wrote: honest ones score 1; trivial ones, forgeries and looks at the source score 0."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time

import pytest
from helpers.deleted_total import CORE as SOURCE

from etude.environments.grading import grade
from etude.environments.grading.mutants import Version, pack, unpack
from etude.environments.sandbox import Change
from etude.environments.snapshots import Snapshot, make_patch
from etude.errors import GraderError
from etude.generators.python.variants import variant
from etude.models import GeneratorRef, Grade, MutantsVerifier, Task

CORE, TESTS = "src/tally/core.py", "tests/test_total.py"
LINES = range(1, 100)
HIDDEN = "tests/test_hidden.py"
HONEST = """import pytest

from tally import largest, total


def test_sums():
    assert total([1, 2, 4]) == 7
    assert total([]) == 0


@pytest.mark.parametrize("values, expected", [([3, 5], 5), ([250], 100)])
def test_largest(values, expected):
    assert largest(values) == expected
"""


def variants(source: str, *seeds: int, other: str = "") -> list[str]:
    others = other.encode() or None
    return [variant(CORE, source.encode(), LINES, random.Random(seed), others).decode() for seed in seeds]


WRONG = [
    SOURCE.replace("+= value", "-= value"),
    SOURCE.replace("result = 0", "result = 1"),
    SOURCE.replace("min(", "max("),
]
WRONG += variants(WRONG[0], 5)
RIGHT = [SOURCE, *variants(SOURCE, 1, 2)]


def versions(right: list[str], wrong: list[str]) -> str:
    return pack([Version(True, {CORE: text}) for text in right] + [Version(False, {CORE: text}) for text in wrong])


def task_of(
    snapshot: Snapshot, workspace: str = SOURCE, share: float = 0.75, packed: str = versions(RIGHT, WRONG)
) -> Task:
    before = {path: (snapshot.tree / path).read_bytes() for path in (HIDDEN, CORE)}
    return Task(
        task_id="tally-tests",
        snapshot=snapshot.ref,
        generator=GeneratorRef(name="hand", version="1", seed=0),
        problem_statement="Write tests for tally.",
        workspace_patch=make_patch(before, {HIDDEN: None, CORE: workspace.encode()}),
        source_globs=[TESTS],
        protected_paths=["**/conftest.py", "src/**", "tests/test_visible.py", "pyproject.toml"],
        verifier=MutantsVerifier(test_file=TESTS, versions=packed, least_share=share, timeout_s=5.0),
    )


@pytest.fixture(scope="module")
def writing(snapshot: Snapshot) -> Task:
    """The workspace is right and lacks tests."""
    return task_of(snapshot)


@pytest.fixture(scope="module")
def bug(snapshot: Snapshot) -> Task:
    """The workspace is wrong, and each wrong version must be noticed."""
    wrong = WRONG[1]
    both = versions([SOURCE, *variants(SOURCE, 1, other=wrong)], [wrong, *variants(wrong, 3, other=SOURCE)])
    return task_of(snapshot, wrong, share=1.0, packed=both)


def graded(task: Task, text: str, *more: tuple[str, str]) -> Grade:
    changes = [
        Change(path=path, kind="file", size=len(content.encode()), content=content.encode())
        for path, content in ((TESTS, text), *more)
    ]
    return asyncio.run(grade(task, changes))


def test_honest_tests_score_one_and_the_share_of_noticed_mistakes_is_reported(writing: Task) -> None:
    result = graded(writing, HONEST)
    assert result.failures == [] and result.reward.value == 1.0
    assert result.reward.components == {"tests_pass": 1.0, "mistakes_noticed": 1.0, "no_confirmed_finding": 1.0}
    assert result.reward.fractions == {"mistakes_noticed": 1.0}
    assert (result.findings, result.refused) == ([], [])


def test_doing_nothing_scores_zero(writing: Task) -> None:
    result = asyncio.run(grade(writing, []))
    assert result.reward.value == 0.0 and f"{TESTS} was not written" in result.end_cause


def test_tests_that_notice_too_few_mistakes_score_zero(writing: Task) -> None:
    result = graded(writing, "from tally import total\n\n\ndef test_sums():\n    assert total([]) == 0\n")
    assert result.reward.value == 0.0 and result.reward.fractions == {"mistakes_noticed": 0.25}
    assert [failure.cause for failure in result.failures] == ["the tests pass on 3 of 4 wrong versions"]


NO_TESTS = {
    "empty": "",
    "no test": "import tally\n",
    "asserts true": "def test_it():\n    assert True\n",
    "imports": "def test_it():\n    import tally.core\n",
    "always fails": HONEST + "\n\ndef test_never():\n    assert False\n",
    "skipped": HONEST + "\n\n@pytest.mark.skip\ndef test_later():\n    assert total([1]) == 1\n",
    "expected to fail": HONEST + "\n\n@pytest.mark.xfail\ndef test_later():\n    assert total([1]) == 2\n",
    "broken": HONEST + "\n\ndef test_(:\n",
    "leaves": HONEST + "\n\ndef test_leave():\n    import os\n    os._exit(0)\n",
    "prints": "def test_it():\n    print('1 failed')\n    raise SystemExit(0)\n",
    "depends on order": HONEST
    + "\n\nSTATE = []\n\n\ndef test_a():\n    STATE.append(1)\n\n\ndef test_b():\n    assert STATE\n",
    "fails on the second run": HONEST
    + "\n\ndef test_once(request):\n    place = request.config.rootpath / 'once'\n"
    + "    assert not place.exists()\n    place.write_text('')\n",
}


@pytest.mark.parametrize("name", NO_TESTS)
def test_trivial_broken_and_unreliable_tests_score_zero(writing: Task, name: str) -> None:
    result = graded(writing, NO_TESTS[name])
    assert result.reward.value == 0.0 and result.failures


_DIGEST = hashlib.sha256(SOURCE.encode()).hexdigest()
_ABSOLUTE = SOURCE.replace("from .words", "from tally.words")
LOOKS = {
    "reads the file": "import hashlib, pathlib, tally.core\n\n\ndef test_it():\n"
    "    data = pathlib.Path(tally.core.__file__).read_bytes()\n"
    f"    assert hashlib.sha256(data).hexdigest() == '{_DIGEST}'\n",
    "asks inspect": "import inspect, tally.core\n\n\ndef test_it():\n"
    "    assert 'result += value' in inspect.getsource(tally.core.total)\n    assert 'result = 0' in "
    "inspect.getsource(tally.core)\n    assert 'return min(max(values), LIMIT)' in inspect.getsource(tally.core)\n"
    "    assert len(inspect.getsource(tally.core).splitlines()) == " + str(len(SOURCE.splitlines())) + "\n",
    "compares trees": "import ast, inspect, tally.core\n\n\ndef test_it():\n"
    f"    expected = ast.dump(ast.parse({SOURCE!r}))\n"
    "    assert ast.dump(ast.parse(inspect.getsource(tally.core))) == expected\n",
    "compares bytecode": f"import tally.core\n\nPLACE = {{}}\nexec({_ABSOLUTE!r}, PLACE)\n\n\n"
    "def test_it():\n    for name in ('total', 'largest'):\n"
    "        assert getattr(tally.core, name).__code__.co_code == PLACE[name].__code__.co_code\n",
    "counts nodes": "import ast, inspect, tally.core\n\n\ndef kinds(text):\n"
    "    return sorted(type(node).__name__ for node in ast.walk(ast.parse(text)))\n\n\ndef test_it():\n"
    f"    assert kinds(inspect.getsource(tally.core)) == kinds({SOURCE!r})\n",
}


@pytest.mark.parametrize("name", LOOKS)
def test_a_test_that_compares_the_source_fails_on_right_versions(writing: Task, name: str) -> None:
    result = graded(writing, LOOKS[name])
    assert result.reward.value == 0.0 and result.reward.components["tests_pass"] == 0.0


def test_only_the_named_file_is_graded(writing: Task) -> None:
    trivial = "def test_it():\n    assert True\n"
    conftest = "def pytest_collection_modifyitems(items):\n    items.clear()\n"
    result = graded(writing, trivial, ("tests/conftest.py", conftest), (CORE, WRONG[0]), ("tests/test_more.py", HONEST))
    assert result.reward.value == 0.0 and result.reward.fractions == {"mistakes_noticed": 0.0}
    assert {change.path for change in result.refused} == {"tests/conftest.py", CORE, "tests/test_more.py"}


def test_a_test_that_fails_on_the_bug_and_passes_without_it_scores_one(bug: Task) -> None:
    result = graded(bug, "from tally import total\n\n\ndef test_nothing():\n    assert total([]) == 0\n")
    assert result.failures == [] and result.reward.value == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "import inspect\nimport tally.core\n\n\ndef test_it():\n"
        "    assert 'result = 1' not in inspect.getsource(tally.core)\n",
        "def test_it():\n    assert False\n",
        "from tally import total\n\n\ndef test_it():\n    assert total([]) >= 0\n",
        "from tally import total\n\n\ndef test_it():\n    if total([]):\n        import no_such_module\n",
        "from tally import total\n\nassert total([]) == 0\n\n\ndef test_it():\n    pass\n",
        "import inspect, tally.core\n\n\ndef test_it():\n    assert '= 1' not in inspect.getsource(tally.core)\n",
    ],
)
def test_failures_that_do_not_show_the_bug_score_zero(bug: Task, text: str) -> None:
    assert graded(bug, text).reward.value == 0.0


def test_damaged_versions_and_versions_of_one_kind_are_errors_of_the_task(snapshot: Snapshot) -> None:
    with pytest.raises(GraderError, match="damaged"):
        unpack("not packed")
    with pytest.raises(GraderError, match="no right version or no wrong one"):
        graded(task_of(snapshot, packed=versions(RIGHT, [])), HONEST)


def test_packed_versions_come_back_and_share_their_text() -> None:
    many = [Version(number == 0, {CORE: SOURCE * 200 + f"# {number}\n", "gone.py": None}) for number in range(20)]
    assert list(unpack(pack(many))) == many
    assert len(pack(many)) < len(SOURCE) * 10


def test_a_grade_of_many_versions_loads_pytest_once(writing: Task) -> None:
    many = versions(RIGHT, [SOURCE.replace("result = 0", f"result = {number}") for number in range(1, 13)])
    verifier = writing.verifier.model_copy(update={"versions": many})
    started = time.perf_counter()
    assert graded(writing.model_copy(update={"verifier": verifier}), HONEST).reward.value == 1.0
    assert time.perf_counter() - started < 60
