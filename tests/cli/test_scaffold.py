"""``etude init``: every kind of package is listed and passes its own test once it is importable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from etude.cli import app as cli
from etude.cli.scaffold.package_files import KINDS

ETUDE = [sys.executable, "-m", "etude.cli"]


def printed(command: list[str], folder: Path, variables: dict[str, str]) -> str:
    """Return what a command printed to stdout; fail with its output when it failed."""
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def installed(folder: Path, site: Path) -> dict[str, str]:
    """Install the package in ``folder`` as users do, and return the environment variables that make it importable."""
    install = "pip install --quiet --no-deps --no-build-isolation --target".split()
    subprocess.run([sys.executable, "-m", *install, str(site), str(folder)], check=True)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}


@pytest.mark.parametrize(
    "kind", [kind if kind == "monitor" else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
)
def test_a_new_package_is_listed_and_passes_its_test_when_it_is_installed(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["init", f"own-{kind}", "--kind", kind]) == 0
    package = tmp_path / f"own-{kind}"
    variables = installed(package, tmp_path / "site")
    registry = KINDS[kind].registry
    entry = json.loads(printed([*ETUDE, "list", registry, "--json"], tmp_path, variables))[registry][f"own_{kind}"]
    assert entry["path"].startswith(f"own_{kind}.{kind}:")
    assert entry["description"].endswith(".")
    assert " passed" in printed([sys.executable, "-m", "pytest", "-q"], package, variables)


@pytest.mark.slow
def test_a_new_environment_is_played_when_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["init", "pages"]) == 0
    variables = installed(tmp_path / "pages", tmp_path / "site")
    for agent, reward in (("oracle", 1.0), ("noop", 0.0)):
        command = [*ETUDE, "run", "--tasks", "pages", "-a", agent, "-o", agent, "--json"]
        assert json.loads(printed(command, tmp_path, variables))["reward"] == reward


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["Pages"], "use lower-case letters, digits and hyphens"),
        (["class"], "use lower-case letters, digits and hyphens"),
        (["../pages"], "use lower-case letters, digits and hyphens"),
        (["json"], "a package 'json' is installed already; choose another name"),
        (["drill"], "environments has 'drill' already; choose another name"),
        (["pages", "--kind", "enviroment"], "--kind"),
        (["pages", "--out", "full"], "full is not an empty folder; choose another --out"),
        (["pages", "--out", "/proc/none/x"], "cannot write to /proc/none"),
    ],
)
def test_init_writes_nothing_when_it_cannot_start(
    arguments: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("own\n")
    assert cli.main(["init", *arguments]) != 0
    assert expected in capsys.readouterr().err
    assert [path.name for path in tmp_path.rglob("*")] == ["full", "notes.txt"]


def test_init_names_the_files_when_json_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["init", "margins", "--kind", "hint", "--out", str(tmp_path / "new"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert sorted(shown["files"]) == sorted(
        str(path.relative_to(tmp_path / "new")) for path in (tmp_path / "new").rglob("*") if path.is_file()
    )
