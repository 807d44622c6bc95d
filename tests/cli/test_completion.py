"""Shell completion, and JSON alone on stdout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from etude.cli import app as cli

ETUDE = [sys.executable, "-m", "etude.cli"]


def printed(arguments: list[str], **variables: str) -> str:
    """Return what the command printed to stdout in a new process."""
    done = subprocess.run(
        [*ETUDE, *arguments], env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("etude resc", ["rescore"]),
        ("etude hints e", ["eval"]),
        ("etude play drill --no", ["--no-hints"]),
        ("etude init pages --kind mo", ["monitor"]),
        ("etude list log", ["log-formats"]),
        ("etude run --agent ora", ["oracle"]),
        ("etude run --sandbox bub", ["bubblewrap"]),
        ("etude serve --env dri", ["drill"]),
        ("etude export tasks --format nemo", ["nemo-gym"]),
        ("etude annotate log.json --format insp", ["inspect"]),
        ("etude redteam tasks --only os_exit,sitec", ["os_exit,sitecustomize"]),
        ("etude generate x --generators fd_func", ["fd_function"]),
    ],
)
def test_completion_offers_what_fits_when_a_word_is_begun(line: str, expected: list[str]) -> None:
    place = str(len(line.split()) - 1)
    shown = printed([], _ETUDE_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=place)
    assert shown.split() == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_install_completion_writes_a_script_when_a_shell_is_named(shell: str, tmp_path: Path) -> None:
    printed(["--install-completion", shell], HOME=str(tmp_path), _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    scripts = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert any("_ETUDE_COMPLETE" in script for script in scripts)


@pytest.mark.parametrize(
    "command",
    [
        ["list", "agents"],
        ["doctor"],
        ["run", "--tasks", "drill", "--limit", "1", "-o", "new"],
        ["report", "run", "-o", "report.html"],
        ["monitor", "run", "-o", "findings.jsonl"],
        ["rescore", "run"],
        ["hints", "eval", "run"],
        ["annotate", "run", "-o", "annotated"],
        ["init", "margins"],
    ],
    ids=lambda command: command[0],
)
def test_stdout_is_one_json_value_when_json_is_asked_for(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["run", "--tasks", "drill", "-a", "stumbler", "--limit", "2", "-o", "run"]) == 0
    capsys.readouterr()
    cli.main([*command, "--json"])
    assert isinstance(json.loads(capsys.readouterr().out), dict | list)
