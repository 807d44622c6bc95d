"""A source becomes a snapshot: detected, locked, installed at fixed paths, measured, cached, built again exactly."""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from etude.environments.sandbox import SANDBOX_UID, open_sandbox
from etude.environments.snapshots import Snapshot, SnapshotOptions, build_snapshot, open_snapshot, run_tests
from etude.environments.snapshots.builder.interpreter import check_requires, find_interpreter
from etude.environments.snapshots.snapshot import load
from etude.environments.snapshots.store import trees
from etude.errors import (
    BadOptions,
    BuildFailed,
    CollectionFailed,
    DependencyFailed,
    NonePassing,
    NoTests,
    SnapshotError,
    SourceNotFound,
    SuiteTimeout,
    UnsupportedPython,
)
from etude.models import SnapshotRef


def make(folder: Path, **files: str) -> str:
    """A project without a build: ``a__b`` is the file ``a/b.py``."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(folder)


def inside(snapshot: Snapshot, command: str) -> str:
    async def run() -> str:
        sandbox = await open_sandbox(snapshot.layers(snapshot.tree))
        try:
            return (await sandbox.exec(command)).output.decode()
        finally:
            await sandbox.close()

    return asyncio.run(run())


def test_what_was_detected(sample: Snapshot) -> None:
    assert (sample.name, sample.version, sample.licence) == ("sample-thing", "1.4", "MIT")
    assert sample.source_roots == ["src/sample"]
    assert sample.source_globs == ["src/sample/**"]
    assert (sample.verifier.args, sample.verifier.python_path) == (["tests"], ["src"])
    assert sample.verifier.plugins == []
    assert sample.verifier.config_file == "pyproject.toml"
    assert sample.digest == sample.recipe.digest()


def test_the_baseline_keeps_what_passes_every_time_and_says_why_not(sample: Snapshot) -> None:
    prefix = "tests/test_shapes.py::test_"
    names = [test.removeprefix(prefix) for test in sample.baseline.passed]
    assert names == ["area", "negative", "square", "version_and_script", "comes_second"]
    dropped = {test.removeprefix(prefix): reason for test, reason in sample.baseline.dropped.items()}
    assert dropped["comes_first"] == "disagrees: passed, failed, passed"
    assert dropped["hash_order"] == "disagrees: passed, passed, failed"
    assert dropped["fails"] == "failed every time"
    assert dropped["skipped"] == "skipped every time"
    assert dropped["known"] == "xfailed every time"
    assert {reason for name, reason in dropped.items() if name.startswith("address")} == {
        "its id holds an address or a temporary path"
    }


def test_which_tests_run_which_function(sample: Snapshot) -> None:
    of = {entity.partition("::")[2]: tests for entity, tests in sample.baseline.tests_of.items()}
    prefix = "tests/test_shapes.py::test_"
    assert of["area"] == [prefix + "area", prefix + "negative", prefix + "square"]
    assert of["Square.area"] == [prefix + "square"]
    assert "unused" not in of
    assert sample.baseline.at_import == ["src/sample/shapes.py::_table"]
    covered = sample.baseline.covered(prefix + "negative")["src/sample/shapes.py"]
    source = (sample.tree / "src/sample/shapes.py").read_text().splitlines()
    assert [source[line - 1].strip() for line in covered] == ["if width < 0:", 'raise ValueError("width")']


def test_a_broken_test_requirement_is_dropped_and_noted(sample: Snapshot) -> None:
    assert any("no-such-distribution-of-etude==9.9 dropped" in note for note in sample.baseline.notes)
    names = {line.partition("==")[0] for line in sample.recipe.requirements}
    assert {"six", "pytest", "pytest-cov", "coverage", "iniconfig"} <= names  # plain pytest needs pytest-cov here
    assert not names & {"sample-thing", "pip", "setuptools"}
    assert all(" --hash=sha256:" in line for line in sample.recipe.requirements)


def test_the_tree_is_clean_and_holds_what_only_the_build_makes(sample: Snapshot) -> None:
    found = {path.as_posix() for path in trees.files_of(sample.tree)}
    assert "src/sample/_generated.py" in found
    assert not [path for path in found if "egg-info" in path or path.startswith("build/") or path.endswith(".pyc")]
    import os

    if os.geteuid() == 0:
        assert sample.tree.stat().st_uid == SANDBOX_UID


def test_no_second_copy_and_no_host_path_in_the_environment(sample: Snapshot, sample_source: Path) -> None:
    environment = sample.path / "env"
    assert not list(environment.rglob("shapes*"))
    info = next(environment.rglob("sample_thing-1.4.dist-info"))
    assert sorted(path.name for path in info.iterdir()) == [
        "INSTALLER",
        "METADATA",
        "WHEEL",
        "entry_points.txt",
        "top_level.txt",
    ]
    assert "README says" not in (info / "METADATA").read_text()
    for path in environment.rglob("*"):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            assert str(sample.cache).encode() not in data, path
            assert str(sample_source).encode() not in data, path
    assert "/opt/etude/" in (environment / "pyvenv.cfg").read_text() or find_interpreter().in_base


def test_inside_the_sandbox(sample: Snapshot) -> None:
    assert inside(sample, "sample") == "sample 6\n"
    where = inside(sample, 'python -c "import sample, sys; print(sample.__file__, sys.prefix)"')
    assert where == "/workspace/src/sample/__init__.py /opt/etude/env\n"
    assert inside(sample, "pytest --version").startswith("pytest 8.3.5")
    assert "No module named" in inside(sample, "python -m pip --version")


def test_the_cache_answers_without_building(sample: Snapshot, sample_source: Path, cache: Path, tmp_path: Path) -> None:
    said: list[str] = []
    assert build_snapshot(str(sample_source), cache=cache, progress=said.append).digest == sample.digest
    moved = tmp_path / "other"
    shutil.copytree(sample_source, moved / "sample")
    assert build_snapshot(str(moved / "sample"), cache=cache, progress=said.append) == sample
    assert said == []
    assert list((cache / "tmp").iterdir()) == []


def test_a_recipe_builds_the_same_snapshot_elsewhere(sample: Snapshot, sample_source: Path, tmp_path: Path) -> None:
    ref = SnapshotRef.model_validate_json(sample.ref.model_dump_json())
    text = sample.ref.model_dump_json()
    assert str(sample_source.parent) not in text
    assert str(sample.cache) not in text
    with pytest.raises(SourceNotFound, match="ETUDE_SOURCES"):
        open_snapshot(ref, cache=tmp_path)
    again = open_snapshot(ref, cache=tmp_path, sources=[sample_source.parent])
    assert again.digest == sample.digest
    assert again.baseline.passed == sample.baseline.passed
    assert again.baseline.tests_of == sample.baseline.tests_of
    assert trees.tree_hash(again.tree) == trees.tree_hash(sample.tree)
    assert open_snapshot(ref, cache=tmp_path).path == again.path


@pytest.mark.parametrize("damage", ["baseline.json", "recipe.json", "interpreter.json", "env", "tree"])
def test_a_damaged_snapshot_counts_as_absent(sample: Snapshot, tmp_path: Path, damage: str) -> None:
    copy = tmp_path / "snapshots" / sample.digest
    shutil.copytree(sample.path, copy, symlinks=True)
    assert load(tmp_path, sample.digest) is not None
    if (copy / damage).is_dir():
        shutil.rmtree(copy / damage)
    else:
        (copy / damage).write_bytes((copy / damage).read_bytes()[:60])
    assert load(tmp_path, sample.digest) is None


def test_a_changed_recipe_is_refused(sample: Snapshot, tmp_path: Path) -> None:
    recipe = {**sample.ref.recipe, "requirements": []}
    with pytest.raises(SnapshotError, match="has been changed"):
        open_snapshot(SnapshotRef(digest=sample.digest, recipe=recipe), cache=tmp_path)
    with pytest.raises(SnapshotError, match="no recipe"):
        open_snapshot(SnapshotRef(digest=sample.digest), cache=tmp_path)


def test_a_moved_cache_still_works(sample: Snapshot, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(sample.cache / "snapshots" / sample.digest, moved / "snapshots" / sample.digest, symlinks=True)
    found = open_snapshot(SnapshotRef(digest=sample.digest), cache=moved)
    layers = found.layers(found.tree)
    head = layers.unmapped["/opt/etude/env"]
    assert (head / "bin" / "pytest").read_text().startswith(f"#!{moved}")
    pytest_file = next((head / "lib").glob("*/site-packages/pytest/__init__.py"))
    assert pytest_file.stat().st_nlink > 1


def test_a_hanging_test_is_named(tmp_path: Path, cache: Path) -> None:
    spec = make(
        tmp_path / "hang",
        hang="X = 1\n",
        test_hang="import time\ndef test_ok(): pass\ndef test_stuck(): time.sleep(99)\n",
    )
    with pytest.raises(SuiteTimeout, match="while test_hang.py::test_stuck ran"):
        build_snapshot(spec, SnapshotOptions(timeout_s=4), cache=cache)
    found = build_snapshot(spec, SnapshotOptions(timeout_s=60, deselect=("test_hang.py::test_stuck",)), cache=cache)
    assert found.baseline.passed == ["test_hang.py::test_ok"]
    assert found.source_roots == ["hang.py"]


def test_a_suite_that_always_fails_is_refused(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(NonePassing, match="test_bad.py::test_one: AssertionError"):
        build_snapshot(
            make(tmp_path / "bad", bad="X = 1\n", test_bad="def test_one():\n    assert 1 == 2\n"), cache=cache
        )


def test_files_that_cannot_be_collected_are_quoted(tmp_path: Path, cache: Path) -> None:
    spec = make(tmp_path / "bad", bad="X = 1\n", test_bad="import module_that_nobody_has\ndef test_one(): pass\n")
    with pytest.raises(CollectionFailed, match="No module named 'module_that_nobody_has'"):
        build_snapshot(spec, cache=cache)


def test_no_tests(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(NoTests, match="holds no tests"):
        build_snapshot(make(tmp_path / "none", none="X = 1\n"), cache=cache)


def test_a_runtime_dependency_that_cannot_be_had(tmp_path: Path, cache: Path) -> None:
    spec = make(tmp_path / "dep", dep="X = 1\n", test_dep="def test_one(): pass\n")
    (tmp_path / "dep" / "requirements.txt").write_text("no-such-distribution-of-etude\n")
    with pytest.raises(DependencyFailed, match="No matching distribution found for no-such-distribution-of-etude"):
        build_snapshot(spec, cache=cache)


def test_a_build_that_fails(tmp_path: Path, cache: Path) -> None:
    spec = make(
        tmp_path / "broken", broken="X = 1\n", test_x="def test_one(): pass\n", setup="raise SystemExit('no luck')\n"
    )
    with pytest.raises(BuildFailed, match="no luck"):
        build_snapshot(spec, cache=cache)


def test_an_unsupported_python(tmp_path: Path, cache: Path) -> None:
    spec = make(tmp_path / "old", old="X = 1\n", test_x="def test_one(): pass\n")
    (tmp_path / "old" / "pyproject.toml").write_text('[project]\nname = "old"\nversion = "1"\nrequires-python = "<3"\n')
    with pytest.raises(UnsupportedPython, match="old needs Python <3; the interpreter is 3"):
        build_snapshot(spec, cache=cache)
    with pytest.raises(UnsupportedPython, match="Python 3.8 or later, not 3.7"):
        check_requires(dataclasses.replace(find_interpreter(), version="3.7.16"), "", "old")
    with pytest.raises(UnsupportedPython, match="Python 3.99 is needed .* found: "):
        build_snapshot(spec, SnapshotOptions(python="3.99"), cache=cache)


def test_a_pyproject_that_is_no_toml_is_not_passed_over(tmp_path: Path, cache: Path) -> None:
    spec = make(tmp_path / "bad", bad="X = 1\n", test_x="def test_one(): pass\n")
    (tmp_path / "bad" / "pyproject.toml").write_text("[project\n")
    with pytest.raises(BuildFailed, match="pyproject.toml is not TOML: .*: repair it"):
        build_snapshot(spec, cache=cache)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.12", "3.13"])
def test_other_pythons(tmp_path: Path, cache: Path, version: str) -> None:
    try:
        find_interpreter(version)
    except UnsupportedPython as error:
        pytest.skip(str(error))
    spec = make(
        tmp_path / "old",
        old="def one():\n    one = 1\n    return one\n",
        test_x="import random\nfrom old import one\ndef test_one(): assert one() == 1 and random.random() < 1\n",
    )
    found = build_snapshot(spec, SnapshotOptions(python=version), cache=cache)
    assert found.recipe.python.startswith(f"{version}.")
    assert found.baseline.tests_of == {"old.py::one": ["test_x.py::test_one"]}

    async def hostile() -> list[str]:
        sandbox = await open_sandbox(found.layers(found.tree))
        try:
            for name in ("json", "hmac", "__future__", "site", "sitecustomize", "encodings/__init__", "pytest"):
                await sandbox.write(f"/workspace/{name}.py", b"import os\nos._exit(0)\n")
            return (await run_tests(sandbox, found.verifier)).passed
        finally:
            await sandbox.close()

    assert asyncio.run(hostile()) == ["test_x.py::test_one"]


def test_named_tests_must_be_there(tmp_path: Path, cache: Path) -> None:
    spec = make(tmp_path / "named", named="X = 1\n", test_x="def test_one(): pass\n")
    with pytest.raises(BadOptions, match="checks is not in the source"):
        build_snapshot(spec, SnapshotOptions(test_args=("checks",)), cache=cache)


def test_a_missing_release_says_what_there_is(cache: Path) -> None:
    with pytest.raises(SourceNotFound, match="no source distribution iniconfig==99.0 .*2.0.0"):
        build_snapshot("pypi:iniconfig==99.0", cache=cache)


@pytest.mark.slow
def test_set_up_commands_and_options_take_part(tmp_path: Path, cache: Path) -> None:
    text = "import os\nfrom pathlib import Path\n"
    text += "def test_one(opt):\n    assert Path('made.txt').exists() and os.environ['A'] == '1'\n"
    spec = make(tmp_path / "opt", opt="X = 1\n", checks__test_x=text, other__test_y="def test_two(): pass\n")
    (tmp_path / "opt" / "conftest.py").write_text(
        "import pytest\ndef pytest_addoption(parser):\n    parser.addoption('--slow', action='store_true')\n"
        "@pytest.fixture\ndef opt(request):\n    assert request.config.getoption('--slow')\n"
    )
    options = SnapshotOptions(setup_cmds=("echo x > made.txt",), env={"A": "1"}, test_args=("checks", "--slow"))
    assert build_snapshot(spec, options, cache=cache).baseline.passed == ["checks/test_x.py::test_one"]
    with pytest.raises(BuildFailed, match="`echo why; false` ended with 1: why"):
        build_snapshot(spec, SnapshotOptions(setup_cmds=("echo why; false",), test_args=("checks",)), cache=cache)


_BUILD = """
import sys
from pathlib import Path
from etude.environments.snapshots import build_snapshot
print(build_snapshot(sys.argv[1], cache=Path(sys.argv[2]), progress=lambda text: print(text, flush=True)).digest)
"""


def start(spec: str, cache: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", _BUILD, spec, str(cache)], stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_concurrent_and_killed_builders(tmp_path: Path) -> None:
    spec = make(
        tmp_path / "many", many="def f():\n    return 1\n", test_x="import many\ndef test_one(): assert many.f()\n"
    )
    home = tmp_path / "cache"
    for phase in ("resolving", "installing", "baseline: run 2"):
        killed = start(spec, home)
        assert killed.stdout
        while phase not in (line := killed.stdout.readline()):
            assert line
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
    said = [process.communicate()[0].splitlines() for process in [start(spec, home) for _ in range(3)]]
    assert len({lines[-1] for lines in said}) == 1
    assert sum("resolving dependencies" in lines for lines in said) == 1
    assert list((home / "tmp").iterdir()) == []
    assert len(list((home / "snapshots").iterdir())) == 1
