"""Rows in, verdicts and playable tasks out: each verdict is provoked by a repository that deserves it."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest
from helpers.row_repository import FILES, TESTS, RowRepository, make_repository

from etude.environments.grading import grade
from etude.environments.sandbox import Change
from etude.environments.snapshots import make_workspace, open_snapshot
from etude.environments.snapshots.source.clones import Clones
from etude.environments.swe_bench.session import SweBenchSession
from etude.environments.tasks.task_set import TaskSet
from etude.errors import GeneratorError, TaskSetError
from etude.generators.library.rows.formats import read_instances
from etude.generators.library.rows.importing import Settings, import_instances
from etude.generators.library.rows.instance import Instance
from etude.generators.library.rows.revalidation import Revalidated, revalidate
from etude.generators.validation.audit import validate

NETWORK = TESTS.replace(
    "assert shapes.area",
    "import urllib.request\n    urllib.request.urlopen('http://localhost:9')\n    assert shapes.area",
)
FILE = "shapes/__init__.py"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> RowRepository:
    return make_repository(tmp_path_factory.mktemp("clones"))


def check(repository: RowRepository, instance: Instance) -> Revalidated:
    return asyncio.run(revalidate(instance, Clones(repository.folder), timeout_s=60))


def test_a_fix_whose_labels_reproduce_is_valid(repository: RowRepository) -> None:
    verdict = check(repository, repository.instance()).verdict
    assert (verdict.verdict, verdict.evidence) == ("valid", "")
    assert verdict.fail_to_pass == ["tests/test_shapes.py::test_area"]
    assert verdict.pass_to_pass == ["tests/test_shapes.py::test_name"]
    assert verdict.environment.startswith("example/shapes 1.0 on Python 3.11")


def test_wrong_official_labels_are_replaced_and_named(repository: RowRepository) -> None:
    wrong = {"fail_to_pass": ("tests/test_shapes.py::test_name",), "pass_to_pass": ("tests/test_shapes.py::test_gone",)}
    verdict = check(repository, repository.instance(**wrong)).verdict
    assert verdict.verdict == "relabelled"
    assert verdict.fail_to_pass == ["tests/test_shapes.py::test_area"]
    assert "test_name: before: passed; after: passed" in verdict.evidence
    assert "test_gone: no such test" in verdict.evidence


def test_a_bug_that_the_row_writes_into_the_commit_is_where_the_agent_starts(
    repository: RowRepository, tmp_path: Path
) -> None:
    bug = repository.diff({"shapes/__init__.py": FILES["shapes/__init__.py"].replace("'shape'", "'form'")})
    row = {
        "instance_id": f"example__shapes.{repository.base_commit[:8]}.func_pm_op_swap__a1b2",
        "repo": "swesmith/example__shapes",
        "patch": bug,
        "problem_statement": "name() is wrong.",
        "FAIL_TO_PASS": ["tests/test_shapes.py::test_name"],
        "PASS_TO_PASS": [],
        "install_config": {"python": "3.11", "install": "pip install -e .", "test_cmd": "pytest"},
    }
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row))
    instance = read_instances(str(path)).instances[0]
    report = import_instances([instance], tmp_path / "out", Settings(repository.folder), source="rows")
    assert (report.verdicts, report.tasks) == ({"valid": 1}, 1)
    task = next(iter(TaskSet.load(tmp_path / "out")))
    assert (task.workspace_patch, task.FAIL_TO_PASS) == (bug, ["tests/test_shapes.py::test_name"])
    assert "return 'form'" in (make_workspace(open_snapshot(task.snapshot), bug, git=False).path / FILE).read_text()


def test_a_solution_that_fixes_nothing_fails(repository: RowRepository) -> None:
    verdict = check(repository, repository.instance(patch=repository.diff({"NEWS": "news\n"}))).verdict
    assert verdict.verdict == "gold_fails"
    assert "with the solution, tests/test_shapes.py::test_area failed AssertionError" in verdict.evidence


def test_a_patch_that_does_not_apply_is_gold_fails(repository: RowRepository) -> None:
    verdict = check(repository, repository.instance(patch=repository.patch.replace("width + height", "width"))).verdict
    assert verdict.verdict == "gold_fails" and "does not fit" in verdict.evidence


def test_a_test_whose_outcome_depends_on_the_order_is_flaky(repository: RowRepository) -> None:
    text = TESTS.replace("def test_name():", "def test_name():\n    shapes.seen = True").replace(
        "def test_area():", "def test_area():\n    assert shapes.seen"
    )
    verdict = check(repository, repository.instance(test_patch=repository.diff({"tests/test_shapes.py": text}))).verdict
    assert verdict.verdict == "flaky" and verdict.flaky == ["tests/test_shapes.py::test_area"]
    assert "test_area depends on the order of the tests" in verdict.evidence
    assert "after passes fails passes" in verdict.evidence


def test_a_test_that_needs_a_connection_is_told_apart(repository: RowRepository) -> None:
    verdict = check(
        repository, repository.instance(test_patch=repository.diff({"tests/test_shapes.py": NETWORK}))
    ).verdict
    assert verdict.verdict == "needs_network"


@pytest.mark.parametrize(
    ("changes", "evidence"),
    [
        ({"base_commit": "0" * 40}, "has no commit 0000"),
        ({"repo": "example/unknown"}, "has no clone of example/unknown"),
        ({"repo": "no-owner"}, "'no-owner' is not a repository"),
        ({"specification": None, "repo": "example/shapes"}, "no environment is known for example/shapes"),
        ({"test_patch": ""}, "the test patch changes no Python test file"),
    ],
)
def test_what_an_instance_lacks_is_said_in_one_line(
    repository: RowRepository, changes: dict[str, object], evidence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("etude.generators.library.rows.specifications._table", lambda name: {})
    verdict = check(repository, repository.instance(**changes)).verdict
    assert verdict.verdict == "needs_build"
    assert evidence in verdict.evidence and "\n" not in verdict.evidence


def test_tests_that_hang_are_stopped(repository: RowRepository) -> None:
    text = TESTS.replace("assert shapes.area(3, 4) == 12", "while True: pass")
    instance = repository.instance(test_patch=repository.diff({"tests/test_shapes.py": text}))
    verdict = asyncio.run(revalidate(instance, Clones(repository.folder), timeout_s=1)).verdict
    assert verdict.verdict == "needs_build" and "timeout after" in verdict.evidence


def test_tests_that_hang_before_the_fix_make_no_labels(repository: RowRepository) -> None:
    text = TESTS.replace("assert shapes.area(3, 4) == 12", "while shapes.area(3, 4) != 12: pass")
    instance = repository.instance(test_patch=repository.diff({"tests/test_shapes.py": text}))
    verdict = asyncio.run(revalidate(instance, Clones(repository.folder), timeout_s=1)).verdict
    assert verdict.verdict == "needs_build"
    assert verdict.evidence.startswith("a run of the code before the solution does not end: timeout after")


@pytest.fixture(scope="module")
def imported(repository: RowRepository, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("imported") / "set"
    instances = [
        repository.instance(),
        repository.instance("example__shapes-2", patch=repository.diff({"NEWS": "news\n"})),
        repository.instance("example__shapes-3", fail_to_pass=("tests/test_shapes.py::test_other",)),
    ]
    report = import_instances(instances, out, Settings(repository.folder, jobs=2, timeout_s=60), source="rows")
    assert report.verdicts == {"valid": 1, "gold_fails": 1, "relabelled": 1}
    assert (report.instances, report.tasks) == (3, 2)
    assert [entry["instances"] for entry in report.environments.values()] == [3]
    return out


def test_an_import_writes_the_tasks_the_verdicts_and_a_table(imported: Path) -> None:
    tasks = TaskSet.load(imported)
    assert [task.task_id for task in tasks] == ["example__shapes-1", "example__shapes-3"]
    assert {task.environment for task in tasks} == {"swe_bench"}
    table = (imported / "instances.md").read_text().splitlines()
    assert len(table) == 5 and "| example__shapes-2 | gold_fails | 1 / 0 |" in table[3]


def test_the_solution_scores_1_and_an_empty_patch_0_on_a_fresh_cache_of_trees(imported: Path) -> None:
    report = validate(imported, skip=["cheater", "trivial", "leaks", "statement", "strength", "duplicates"], runs=2)
    assert report.ok, report.problems


def test_what_equals_everything_is_not_paid_for_a_row(imported: Path) -> None:
    task = next(iter(TaskSet.load(imported)))
    assert (task.features["controls"], "controls" in task.verifier.components) == (1, True)
    text = FILES["shapes/__init__.py"] + (
        "\n\nclass _Any(float):\n    def __eq__(self, other):\n        return True\n\n    __hash__ = float.__hash__\n"
        "\n\ndef area(*sides):\n    return _Any()\n"
    )
    content = text.encode()
    change = Change(path="shapes/__init__.py", kind="file", size=len(content), content=content)
    result = asyncio.run(grade(task, [change]))
    assert result.reward.components["fail_to_pass"] == 1.0
    assert (result.reward.components["controls"], result.reward.value) == (0.0, 0.0)


def test_the_workspace_is_one_commit_without_the_future(imported: Path) -> None:
    task = TaskSet.load(imported).by_id("example__shapes-1")
    assert task.snapshot is not None
    tree = make_workspace(open_snapshot(task.snapshot), task.workspace_patch, git=True).path
    log = subprocess.run(
        ["git", "-c", "safe.directory=*", "log", "--all", "--format=%s"], cwd=tree, capture_output=True, text=True
    )
    assert log.stdout.splitlines() == ["Initial commit"]
    assert not (tree / ".git" / "logs").exists() and not list((tree / ".git" / "refs" / "tags").iterdir())
    readable = b"".join(path.read_bytes() for path in tree.rglob("*.py"))
    assert b"width * height" not in readable and b"test_area" not in readable


def test_tests_of_the_row_cannot_be_changed_by_the_agent(imported: Path) -> None:
    from etude.environments.sandbox import Change

    task = TaskSet.load(imported).by_id("example__shapes-1")
    data = b"def test_area(): pass\n\ndef test_name(): pass\n"
    change = Change(path="tests/test_shapes.py", kind="file", size=len(data), content=data)
    result = asyncio.run(grade(task, [change]))
    assert result.reward.value == 0.0
    assert [(refused.path, refused.reason.partition(":")[0]) for refused in result.refused] == [
        ("tests/test_shapes.py", "test")
    ]


def test_run_tests_names_no_hidden_file_and_asks_for_a_selector(imported: Path) -> None:
    async def play() -> list[str]:
        session = SweBenchSession(SweBenchSession.tasks(imported))
        first = await session.reset(task_id="example__shapes-1")
        shown = {tool["function"]["name"]: tool["function"]["parameters"] for tool in first.tools or []}
        assert shown["run_tests"]["required"] == ["selector"]
        assert first.prompt is not None and first.prompt.endswith("the tests of the fix replace them.\n")
        texts = []
        for arguments in ({}, {"selector": "tests/test_shapes.py"}):
            observation = await session.step({"tool_calls": [{"name": "run_tests", "arguments": arguments}]})
            texts.append(observation.messages[0].content)
        await session.close()
        return texts

    without, chosen = asyncio.run(play())
    assert without.startswith("error invalid_args: run_tests needs the argument 'selector'")
    assert chosen.startswith("ok") and "1 passed" in chosen


def test_an_import_that_was_killed_goes_on(repository: RowRepository, imported: Path, tmp_path: Path) -> None:
    out = tmp_path / "set"
    out.mkdir()
    first = (imported / "instances.jsonl").read_text().strip().splitlines()[0]
    (out / "instances.jsonl").write_text(first + '\n{"verdict": {"instance_id"')
    name = json.loads(first)["verdict"]["instance_id"]
    examined = []
    report = import_instances(
        [repository.instance(name), repository.instance("example__shapes-9")],
        out,
        Settings(repository.folder, timeout_s=60),
        progress=lambda update: examined.append(update.last_rejection),
    )
    assert report.instances == 2 and [text for text in examined if text] == ["example__shapes-9 valid"]


def test_a_folder_of_other_rows_is_refused(imported: Path, repository: RowRepository, tmp_path: Path) -> None:
    with pytest.raises(GeneratorError, match="already holds a set made from other rows; choose another --out"):
        import_instances([repository.instance()], imported, Settings(repository.folder), source="others")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(GeneratorError, match="is not empty and holds no import"):
        import_instances([repository.instance()], tmp_path, Settings(repository.folder))


def test_a_set_without_measured_labels_is_not_served(imported: Path, tmp_path: Path) -> None:
    row = json.loads((imported / "tasks.jsonl").read_text().splitlines()[0])
    (tmp_path / "tasks.jsonl").write_text(json.dumps({**row, "FAIL_TO_PASS": []}) + "\n")
    with pytest.raises(TaskSetError, match="has no test that must pass; make a set of them with `etude import"):
        SweBenchSession.tasks(tmp_path)
