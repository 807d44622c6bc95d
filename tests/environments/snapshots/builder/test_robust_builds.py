"""Builds of sources that need a general rule: odd plugins, later pytests, slow suites, builds that fail."""

from __future__ import annotations

from pathlib import Path

from etude.environments.snapshots import SnapshotOptions, build_snapshot, open_snapshot


def make(folder: Path, **files: str) -> str:
    """Write a project without a build, in which ``a__b`` is the file ``a/b.py``; return its path."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(folder)


def test_build_resolves_warning_filters_when_a_plugin_warns_while_it_is_loaded(tmp_path: Path, cache: Path) -> None:
    # The plugin is called "socket": pytest warns that this module cannot be rewritten, because it is imported already.
    spec = make(tmp_path / "early", early="class Old(Warning): pass\n", test_early="def test_one(): pass\n")
    (tmp_path / "early" / "requirements.txt").write_text("pytest-socket\n")
    (tmp_path / "early" / "pytest.ini").write_text("[pytest]\nfilterwarnings = ignore::early.Old\n")
    assert build_snapshot(spec, cache=cache).baseline.passed == ["test_early.py::test_one"]


def test_build_takes_a_later_pytest_when_the_project_needs_it(tmp_path: Path, cache: Path) -> None:
    spec = make(tmp_path / "new", new="X = 1\n", test_new="def check_one(): pass\n")
    (tmp_path / "new" / "pyproject.toml").write_text('[tool.pytest]\npython_functions = ["check_*"]\n')
    built = build_snapshot(spec, cache=cache)
    assert (built.recipe.pytest, built.baseline.passed) == ("9.1.1", ["test_new.py::check_one"])


def test_build_drops_a_plugin_when_it_is_not_installed(tmp_path: Path, cache: Path) -> None:
    spec = make(tmp_path / "plug", plug="X = 1\n", test_plug="def test_one(): pass\n")
    (tmp_path / "plug" / "pytest.ini").write_text("[pytest]\naddopts = -p no_such_plugin\n")
    built = build_snapshot(spec, cache=cache)
    assert (built.verifier.plugins, built.baseline.passed) == ([], ["test_plug.py::test_one"])
    assert built.baseline.notes == ["pytest plugin no_such_plugin dropped: it is not installed"]


def test_build_keeps_the_first_files_when_the_suite_takes_too_long(tmp_path: Path, cache: Path) -> None:
    files = {f"tests__test_{name}": "def test_one(): pass\ndef test_two(): pass\n" for name in "abc"}
    burn = "import time\nT = time.process_time\ndef test_burn(): \n    while T() < 60: pass\n"
    spec = make(tmp_path / "long", long="X = 1\n", **files, tests__test_d=burn)
    built = build_snapshot(spec, SnapshotOptions(timeout_s=3), cache=cache)
    assert built.baseline.passed == ["tests/test_a.py::test_one", "tests/test_a.py::test_two"]
    assert built.verifier.args == ["tests/test_a.py"]
    assert built.baseline.notes == ["the suite takes too long: only the tests in tests/test_a.py are used"]


def test_build_accepts_a_suite_when_it_uses_subtests(tmp_path: Path, cache: Path) -> None:
    text = "def test_parts(subtests):\n    with subtests.test(msg='a'):\n        assert True\n"
    text += "def test_bad(subtests):\n    with subtests.test(msg='a'):\n        assert False\n"
    spec = make(tmp_path / "parts", parts="X = 1\n", test_parts=text)
    (tmp_path / "parts" / "requirements-test.txt").write_text("pytest-subtests\n")
    built = build_snapshot(spec, cache=cache)
    assert (built.recipe.pytest, built.baseline.passed) == ("9.1.1", ["test_parts.py::test_parts"])


def test_build_accepts_a_suite_when_a_library_replaces_dir(tmp_path: Path, cache: Path) -> None:
    spec = make(tmp_path / "fruit", fruit="X = 1\n", test_fruit="import forbiddenfruit\ndef test_one(): pass\n")
    (tmp_path / "fruit" / "requirements.txt").write_text("forbiddenfruit\n")
    assert build_snapshot(spec, cache=cache).baseline.passed == ["test_fruit.py::test_one"]


def test_build_uses_the_carried_metadata_when_a_source_distribution_does_not_build(tmp_path: Path, cache: Path) -> None:
    text = "import six\nfrom importlib.metadata import entry_points, version\nimport stuck\n"
    text += "def test_one(): assert (version('stuck-up'), len(entry_points(group='up'))) == ('2.1', 1)\n"
    spec = make(tmp_path / "stuck", src__stuck__core="X = 1\n", tests__test_stuck=text)
    (tmp_path / "stuck" / "src" / "stuck" / "__init__.py").write_text("from .core import X\n")
    project = '[project]\nname = "stuck-up"\ndynamic = ["version"]\n[project.entry-points.up]\na = "stuck:X"\n'
    system = '[build-system]\nrequires = ["no-such-distribution-of-etude"]\nbuild-backend = "none"\n'
    (tmp_path / "stuck" / "pyproject.toml").write_text(project + system)
    carried = "Metadata-Version: 2.1\nName: stuck-up\nVersion: 2.1\nRequires-Dist: six\n\nThe description.\n"
    (tmp_path / "stuck" / "PKG-INFO").write_text(carried)
    built = build_snapshot(spec, cache=cache)
    assert (built.name, built.version, built.source_roots) == ("stuck-up", "2.1", ["src/stuck"])
    assert built.baseline.passed == ["tests/test_stuck.py::test_one"]
    assert "stuck-up does not build" in built.baseline.notes[0]
    assert open_snapshot(built.ref, cache=tmp_path / "other", sources=[tmp_path / "stuck"]).digest == built.digest


def test_build_does_not_load_the_projects_own_pytest_plugin(tmp_path: Path, cache: Path) -> None:
    spec = make(tmp_path / "own", own="X = 1\n", test_own="def test_one(): pass\n")
    project = '[project]\nname = "own"\nversion = "1"\n[project.entry-points.pytest11]\nmine = "own"\n'
    (tmp_path / "own" / "pyproject.toml").write_text(f'{project}[tool.setuptools]\npy-modules = ["own"]\n')
    built = build_snapshot(spec, cache=cache)
    assert (built.verifier.plugins, built.baseline.passed) == ([], ["test_own.py::test_one"])
    assert built.baseline.notes == ["the project's own pytest plugins are not loaded: mine, own"]
