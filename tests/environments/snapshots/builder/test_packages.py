"""Packages through uv: resolved with hashes for an interpreter; errors of uv as one line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from etude.environments.snapshots.builder.interpreter import Interpreter, find_interpreter
from etude.environments.snapshots.builder.packages import Resolution, failed_builds, install_locked, resolve
from etude.environments.snapshots.builder.uv_command import UvResult, run_uv
from etude.errors import DependencyFailed, UnsupportedPython

CONFLICT = """error: No solution found when resolving dependencies
  cause: Because pytest==8.3.5 depends on pluggy>=1.5,<2 and you require pytest==8.3.5, we can conclude that you require pluggy>=1.5,<2.
         And because you require pluggy==0.13, we can conclude that your requirements are unsatisfiable.
"""  # noqa: E501
BROKEN_BUILD = """Building wheel...
no luck
error: Failed to build `/tmp/tree`
  cause: The build backend returned an error
  cause: Call to `setuptools.build_meta:__legacy__.get_requires_for_build_wheel` failed (exit status: 1)

hint: Build failures usually indicate a problem with the package or the build environment
"""


def test_error_text_gives_the_resolvers_explanation() -> None:
    assert UvResult(False, CONFLICT).error_text() == (
        "Because pytest==8.3.5 depends on pluggy>=1.5,<2 and you require pytest==8.3.5, we can conclude that you "
        "require pluggy>=1.5,<2. And because you require pluggy==0.13"
    )


def test_error_text_gives_the_end_of_the_log_when_a_build_fails() -> None:
    assert UvResult(False, BROKEN_BUILD).error_text() == (
        "no luck | Call to `setuptools.build_meta:__legacy__.get_requires_for_build_wheel` failed (exit status: 1)"
    )


def test_failed_builds_names_the_distributions() -> None:
    log = "error: Failed to build `Foo_Bar==1.0`\n  cause: Failed to download and build `greenlet @ file:///x`\n"
    assert failed_builds(log) == {"greenlet", "foo-bar"}


def test_lines_are_sorted_and_leave_out_names() -> None:
    resolution = Resolution({"c": "c==1", "b": "b==1", "a": "a==1"})
    assert resolution.lines(["B"]) == ["a==1", "c==1"]


def other_interpreter() -> Interpreter:
    for version in ("3.12", "3.13", "3.10"):
        try:
            interpreter = find_interpreter(version)
        except UnsupportedPython:
            continue
        if interpreter.short != find_interpreter().short:
            return interpreter
    pytest.skip("this machine has one version of Python only")


def test_resolve_locks_the_file_that_fits_the_interpreter(tmp_path: Path) -> None:
    current, other = find_interpreter(), other_interpreter()
    requirements = ["coverage", "iniconfig"]  # one with compiled wheels, one without
    first, second = resolve(current, requirements, tmp_path), resolve(other, requirements, tmp_path)
    assert first.locked["iniconfig"] == second.locked["iniconfig"]
    assert first.locked["coverage"] != second.locked["coverage"]
    for interpreter, resolution in ((current, first), (other, second)):
        folder = tmp_path / interpreter.short
        run_uv("venv", "--python", str(interpreter.executable), str(folder))
        assert install_locked(folder / "bin" / "python", resolution.lines(), tmp_path).ok
        subprocess.run([folder / "bin" / "python", "-c", "import coverage.tracer"], check=True)


def test_install_locked_refuses_a_file_with_another_hash(tmp_path: Path) -> None:
    run_uv("venv", "--python", str(find_interpreter().executable), str(tmp_path / "env"))
    result = install_locked(tmp_path / "env" / "bin" / "python", [f"iniconfig==2.0.0 --hash=sha256:{0:064}"], tmp_path)
    assert not result.ok and "iniconfig" in result.error_text()


def test_resolve_explains_a_conflict(tmp_path: Path) -> None:
    with pytest.raises(DependencyFailed, match="cannot resolve .*Because .*pluggy.*; change the requirements"):
        resolve(find_interpreter(), ["pytest==8.3.5", "pluggy==0.13"], tmp_path)


def test_resolve_uses_no_index_when_pip_is_configured_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(DependencyFailed, match="iniconfig was not found in the provided package locations"):
        resolve(find_interpreter(), ["iniconfig"], tmp_path)


def test_a_users_constraints_bound_what_is_resolved_and_do_not_stop_the_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "constraints.txt").write_text("iniconfig<2\npackaging<=24.1\n")
    (tmp_path / "pip.conf").write_text(f"[global]\nconstraint = {tmp_path / 'constraints.txt'}\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    current = find_interpreter()
    resolution = resolve(current, ["iniconfig"], tmp_path)
    assert resolution.locked["iniconfig"].startswith("iniconfig==1.")
    run_uv("venv", "--python", str(current.executable), str(tmp_path / "env"))
    result = install_locked(tmp_path / "env" / "bin" / "python", resolution.lines(), tmp_path)
    assert result.ok, result.log
