"""Builds of Snapshots: detected, locked, installed at fixed paths, measured, cached, and built again exactly."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.sandboxes import in_sandbox

from etude.environments.sandbox import SANDBOX_UID, Sandbox
from etude.environments.snapshots import Snapshot, SnapshotOptions, build_snapshot, open_snapshot, run_tests
from etude.environments.snapshots.builder import build_steps
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
    """Write a project without a build, in which ``a__b`` is the file ``a/b.py``; return its path."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(folder)


def inside(snapshot: Snapshot, command: str) -> str:
    return in_sandbox(snapshot.layers(snapshot.tree), lambda sandbox: sandbox.exec(command)).output.decode()


def test_build_detects_the_project(sample: Snapshot) -> None:
    assert (sample.name, sample.version, sample.licence) == ("sample-thing", "1.4", "MIT")
    assert sample.source_roots == ["src/sample"]
    assert sample.source_globs == ["src/sample/**"]
    assert (sample.verifier.args, sample.verifier.python_path) == (["tests"], ["src"])
    assert sample.verifier.plugins == []
    assert sample.verifier.config_file == "pyproject.toml"
    assert sample.digest == sample.recipe.digest()


def test_baseline_keeps_tests_that_always_pass_and_gives_reasons_for_others(sample: Snapshot) -> None:
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


def test_baseline_maps_functions_to_tests(sample: Snapshot) -> None:
    of = {entity.partition("::")[2]: tests for entity, tests in sample.baseline.tests_of.items()}
    prefix = "tests/test_shapes.py::test_"
    assert of["area"] == [prefix + "area", prefix + "negative", prefix + "square"]
    assert of["Square.area"] == [prefix + "square"]
    assert "unused" not in of
    assert sample.baseline.at_import == ["src/sample/shapes.py::_table"]
    covered = sample.baseline.covered(prefix + "negative")["src/sample/shapes.py"]
    source = (sample.tree / "src/sample/shapes.py").read_text().splitlines()
    assert [source[line - 1].strip() for line in covered] == ["if width < 0:", 'raise ValueError("width")']


def test_build_drops_and_notes_a_test_requirement_when_it_does_not_exist(sample: Snapshot) -> None:
    assert any("no-such-distribution-of-etude==9.9 dropped" in note for note in sample.baseline.notes)
    names = {line.partition("==")[0] for line in sample.recipe.requirements}
    assert {"six", "pytest", "pytest-cov", "coverage", "iniconfig"} <= names  # plain pytest needs pytest-cov here
    assert not names & {"sample-thing", "pip", "setuptools"}
    assert all(" --hash=sha256:" in line for line in sample.recipe.requirements)


def test_tree_is_clean_and_contains_generated_files(sample: Snapshot) -> None:
    paths = {path.as_posix() for path in trees.files_of(sample.tree)}
    assert "src/sample/_generated.py" in paths
    assert not [path for path in paths if "egg-info" in path or path.startswith("build/") or path.endswith(".pyc")]
    if os.geteuid() == 0:
        assert sample.tree.stat().st_uid == SANDBOX_UID


def test_environment_contains_no_second_copy_and_no_host_path(sample: Snapshot, sample_source: Path) -> None:
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


def test_sandbox_has_the_script_the_package_and_pytest_but_no_pip(sample: Snapshot) -> None:
    assert inside(sample, "sample") == "sample 6\n"
    where = inside(sample, 'python -c "import sample, sys; print(sample.__file__, sys.prefix)"')
    assert where == "/workspace/src/sample/__init__.py /opt/etude/env\n"
    assert inside(sample, "pytest --version").startswith("pytest 8.3.5")
    assert "No module named" in inside(sample, "python -m pip --version")


def test_build_is_skipped_when_the_cache_has_the_snapshot(
    sample: Snapshot, sample_source: Path, cache: Path, tmp_path: Path
) -> None:
    messages: list[str] = []
    assert build_snapshot(str(sample_source), cache=cache, progress=messages.append).digest == sample.digest
    moved = tmp_path / "other"
    shutil.copytree(sample_source, moved / "sample")
    assert build_snapshot(str(moved / "sample"), cache=cache, progress=messages.append) == sample
    assert messages == []
    assert list((cache / "tmp").iterdir()) == []


def test_open_snapshot_builds_the_same_snapshot_in_another_cache(
    sample: Snapshot, sample_source: Path, tmp_path: Path
) -> None:
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
def test_load_returns_none_when_the_snapshot_is_damaged(sample: Snapshot, tmp_path: Path, damage: str) -> None:
    copy = tmp_path / "snapshots" / sample.digest
    shutil.copytree(sample.path, copy, symlinks=True)
    assert load(tmp_path, sample.digest) is not None
    if (copy / damage).is_dir():
        shutil.rmtree(copy / damage)
    else:
        (copy / damage).write_bytes((copy / damage).read_bytes()[:60])
    assert load(tmp_path, sample.digest) is None


def test_open_snapshot_refuses_a_changed_recipe(sample: Snapshot, tmp_path: Path) -> None:
    recipe = {**sample.ref.recipe, "requirements": []}
    with pytest.raises(SnapshotError, match="has been changed"):
        open_snapshot(SnapshotRef(digest=sample.digest, recipe=recipe), cache=tmp_path)
    with pytest.raises(SnapshotError, match="no recipe"):
        open_snapshot(SnapshotRef(digest=sample.digest), cache=tmp_path)


def test_open_snapshot_works_when_the_cache_has_moved(sample: Snapshot, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(sample.cache / "snapshots" / sample.digest, moved / "snapshots" / sample.digest, symlinks=True)
    built = open_snapshot(SnapshotRef(digest=sample.digest), cache=moved)
    layers = built.layers(built.tree)
    head = layers.unmapped["/opt/etude/env"]
    assert (head / "bin" / "pytest").read_text().startswith(f"#!{moved}")
    pytest_file = next((head / "lib").glob("*/site-packages/pytest/__init__.py"))
    assert pytest_file.stat().st_nlink > 1


def test_build_drops_a_test_when_it_hangs(tmp_path: Path, cache: Path) -> None:
    spec = make(
        tmp_path / "hang",
        hang="X = 1\n",
        test_hang="import time\ndef test_ok(): pass\ndef test_stuck(): time.sleep(99)\n",
    )
    built = build_snapshot(spec, SnapshotOptions(timeout_s=4), cache=cache)
    assert built.baseline.passed == ["test_hang.py::test_ok"]
    assert built.baseline.notes == ["test_hang.py::test_stuck dropped: it hangs"]
    assert (built.source_roots, built.source_globs) == (["hang.py"], ["hang.py"])


def test_build_drops_a_test_when_it_uses_too_much_cpu(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = make(
        tmp_path / "loop", loop="X = 1\n", test_loop="def test_ok(): pass\ndef test_endless():\n    while 1: 1\n"
    )
    monkeypatch.setattr(build_steps, "TEST_CPU_S", 1.0)
    built = build_snapshot(spec, cache=cache)
    assert built.baseline.passed == ["test_loop.py::test_ok"]
    assert built.baseline.notes == ["test_loop.py::test_endless dropped: it used more than 60 s of CPU time"]


def test_build_names_the_running_test_when_the_suite_is_too_slow(tmp_path: Path, cache: Path) -> None:
    spec = make(tmp_path / "slow", slow="X = 1\n", test_slow="def test_endless():\n    while 1: 1\n")
    with pytest.raises(SuiteTimeout, match="did not end within 2 s of CPU time.* while test_slow.py::test_endless ran"):
        build_snapshot(spec, SnapshotOptions(timeout_s=2), cache=cache)


HYPOTHESIS_SUITE = """
import pytest
from hypothesis import given, strategies
from twice import twice

@pytest.fixture
def two():
    return 2

@given(strategies.integers())
def test_twice(number):
    assert twice(number) == number + number

def test_fixture(two):
    assert twice(two) == 4
"""


def test_build_accepts_a_suite_when_it_uses_hypothesis(tmp_path: Path, cache: Path) -> None:
    # Hypothesis's plugin replaces a method of pytest, which must not count as tampering by the tests.
    spec = make(tmp_path / "prop", twice="def twice(x):\n    return x * 2\n", test_twice=HYPOTHESIS_SUITE)
    built = build_snapshot(spec, cache=cache)
    assert built.verifier.plugins == ["hypothesispytest"]
    assert built.baseline.passed == ["test_twice.py::test_twice", "test_twice.py::test_fixture"]
    run = in_sandbox(built.layers(built.tree), lambda sandbox: run_tests(sandbox, built.verifier))
    assert run.violations == []


def test_build_fails_when_the_unmodified_suite_changes_pytest(tmp_path: Path, cache: Path) -> None:
    text = "import _pytest.runner\ndef test_one():\n    _pytest.runner.show_test_item = print\n"
    spec = make(tmp_path / "odd", odd="X = 1\n", test_odd=f"{text}def test_two(): pass\n")
    with pytest.raises(SnapshotError, match=r"changes pytest itself \(_pytest.runner.show_test_item.*deselect"):
        build_snapshot(spec, cache=cache)


def test_build_resolves_warning_filters_when_they_name_the_projects_classes(tmp_path: Path, cache: Path) -> None:
    spec = make(tmp_path / "warns", warns="class Old(Warning): pass\n", test_warns="def test_one(): pass\n")
    (tmp_path / "warns" / "pytest.ini").write_text("[pytest]\nfilterwarnings = ignore::warns.Old\n")
    assert build_snapshot(spec, cache=cache).baseline.passed == ["test_warns.py::test_one"]


def test_build_refuses_parts_of_pytest_before_it_builds_them(cache: Path) -> None:
    messages: list[str] = []
    with pytest.raises(SnapshotError, match="pytest itself runs on iniconfig, so no task can be made of it"):
        build_snapshot("pypi:iniconfig==2.0.0", cache=cache, progress=messages.append)
    assert messages == ["fetching pypi:iniconfig==2.0.0"]


def test_build_fails_when_every_test_fails(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(NonePassing, match="test_bad.py::test_one: AssertionError"):
        build_snapshot(
            make(tmp_path / "bad", bad="X = 1\n", test_bad="def test_one():\n    assert 1 == 2\n"), cache=cache
        )


def test_build_quotes_the_error_when_no_file_can_be_collected(tmp_path: Path, cache: Path) -> None:
    spec = make(tmp_path / "bad", bad="X = 1\n", test_bad="import module_that_does_not_exist\ndef test_one(): pass\n")
    with pytest.raises(CollectionFailed, match="No module named 'module_that_does_not_exist'"):
        build_snapshot(spec, cache=cache)


def test_build_fails_when_there_are_no_tests(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(NoTests, match="holds no tests"):
        build_snapshot(make(tmp_path / "none", none="X = 1\n"), cache=cache)


def test_build_fails_when_a_runtime_dependency_does_not_exist(tmp_path: Path, cache: Path) -> None:
    spec = make(tmp_path / "dep", dep="X = 1\n", test_dep="def test_one(): pass\n")
    (tmp_path / "dep" / "requirements.txt").write_text("no-such-distribution-of-etude\n")
    with pytest.raises(DependencyFailed, match="no-such-distribution-of-etude was not found in the package registry"):
        build_snapshot(spec, cache=cache)


def test_build_quotes_the_error_when_the_project_does_not_build(tmp_path: Path, cache: Path) -> None:
    spec = make(
        tmp_path / "broken", broken="X = 1\n", test_x="def test_one(): pass\n", setup="raise SystemExit('no luck')\n"
    )
    with pytest.raises(BuildFailed, match="no luck"):
        build_snapshot(spec, cache=cache)


def test_build_names_a_remedy_when_the_python_is_unsupported(tmp_path: Path, cache: Path) -> None:
    spec = make(tmp_path / "old", old="X = 1\n", test_x="def test_one(): pass\n")
    (tmp_path / "old" / "pyproject.toml").write_text('[project]\nname = "old"\nversion = "1"\nrequires-python = "<3"\n')
    with pytest.raises(UnsupportedPython, match="old needs Python <3, the interpreter is 3"):
        build_snapshot(spec, cache=cache)
    with pytest.raises(UnsupportedPython, match="Python 3.8 or later, not 3.7"):
        check_requires(dataclasses.replace(find_interpreter(), version="3.7.16"), "", "old")
    with pytest.raises(UnsupportedPython, match=r"Python 3.99 is needed, this machine has 3\.\d"):
        build_snapshot(spec, SnapshotOptions(python="3.99"), cache=cache)


def test_build_fails_when_pyproject_is_not_toml(tmp_path: Path, cache: Path) -> None:
    spec = make(tmp_path / "bad", bad="X = 1\n", test_x="def test_one(): pass\n")
    (tmp_path / "bad" / "pyproject.toml").write_text("[project\n")
    with pytest.raises(BuildFailed, match=r"pyproject.toml is not TOML \(.*\); repair it"):
        build_snapshot(spec, cache=cache)


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.12", "3.13"])
def test_build_works_on_other_pythons(tmp_path: Path, cache: Path, version: str) -> None:
    try:
        find_interpreter(version)
    except UnsupportedPython as error:
        pytest.skip(str(error))
    spec = make(
        tmp_path / "old",
        old="def one():\n    one = 1\n    return one\n",
        test_x="import random\nfrom old import one\ndef test_one(): assert one() == 1 and random.random() < 1\n",
    )
    built = build_snapshot(spec, SnapshotOptions(python=version), cache=cache)
    assert built.recipe.python.startswith(f"{version}.")
    assert built.baseline.tests_of == {"old.py::one": ["test_x.py::test_one"]}

    async def hostile(sandbox: Sandbox) -> list[str]:
        for name in ("json", "hmac", "__future__", "site", "sitecustomize", "encodings/__init__", "pytest"):
            await sandbox.write(f"/workspace/{name}.py", b"import os\nos._exit(0)\n")
        return (await run_tests(sandbox, built.verifier)).passed

    assert in_sandbox(built.layers(built.tree), hostile) == ["test_x.py::test_one"]


def test_build_fails_when_named_tests_do_not_exist(tmp_path: Path, cache: Path) -> None:
    spec = make(tmp_path / "named", named="X = 1\n", test_x="def test_one(): pass\n")
    with pytest.raises(BadOptions, match="checks is not in the source"):
        build_snapshot(spec, SnapshotOptions(test_args=("checks",)), cache=cache)


def test_build_names_the_newest_release_when_the_version_does_not_exist(cache: Path) -> None:
    expected = r"no source distribution iniconfig==99.0 on the package index \(the newest is [2-9]\.\d"
    with pytest.raises(SourceNotFound, match=expected):
        build_snapshot("pypi:iniconfig==99.0", cache=cache)


@pytest.mark.slow
def test_build_uses_set_up_commands_and_options(tmp_path: Path, cache: Path) -> None:
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
def test_one_builder_builds_when_several_start_and_others_were_killed(tmp_path: Path) -> None:
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
    outputs = [process.communicate()[0].splitlines() for process in [start(spec, home) for _ in range(3)]]
    assert len({lines[-1] for lines in outputs}) == 1
    assert sum("resolving dependencies" in lines for lines in outputs) == 1
    assert list((home / "tmp").iterdir()) == []
    assert len(list((home / "snapshots").iterdir())) == 1
