"""Command line: exit codes, help, and one-line errors with a remedy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import etude.cli
from etude.cli import app as cli
from etude.cli.commands import catalogue
from etude.cli.options import key_values
from etude.errors import UnknownName

COMMANDS = (
    "doctor list init demo generate import validate export push serve run play annotate report monitor redteam rescore "
    "train plan replay".split()
)
GROUP_COMMANDS = ("hints causal", "hints eval", "hints write", "sandbox check", "sandbox cleanup", "snapshot pack")


def error_line(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one error line of the command; progress lines may come before it."""
    shown = capsys.readouterr()
    lines = shown.err.splitlines()
    assert [line.startswith("error: ") for line in lines].count(True) == 1, shown.err
    assert lines[-1].startswith("error: ")
    assert "Traceback" not in shown.out + shown.err
    return lines[-1]


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert [name for name in COMMANDS if name not in shown] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_names_its_json_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert ("--json" in shown) == (command != "serve")


@pytest.mark.parametrize("command", [*GROUP_COMMANDS, "snapshot unpack"])
def test_help_of_a_command_of_a_group_names_its_json_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*command.split(), "--help"]) == 0
    assert "--json" in capsys.readouterr().out


def test_main_shows_help_and_fails_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) != 0
    shown = capsys.readouterr()
    assert "Usage" in shown.out + shown.err
    assert "error" not in shown.err


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    import etude

    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == etude.__version__


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["genrate"], "Did you mean 'generate'?"),
        (["list", "generatrs"], "unknown kind 'generatrs'. Did you mean 'generators'?"),
        (["hints", "evl"], "Did you mean 'eval'?"),
        (["train", "tyni.toml"], "unknown recipe 'tyni.toml'. Did you mean 'tiny.toml'?"),
        (["train", "no/such.toml"], "no/such.toml"),
        (["run", "--tasks", "drill", "--agent", "oracel"], "Did you mean 'oracle'?"),
        (["run", "--tasks", "drill", "--faults", "timout"], "Did you mean 'timeout'?"),
        (["serve", "--env", "dril"], "Did you mean 'drill'?"),
        (["sandbox", "check", "bubblewrp"], "Did you mean 'bubblewrap'?"),
        (["generate"], "Missing argument"),
        (["generate", "x", "--coutn", "3"], "--count"),
        (["generate", "x", "--count", "many"], "--count"),
        (["generate", "x", "--count", "0"], "--count"),
        (["generate", "x", "--knob", "docs"], "'docs' is not KEY=VALUE"),
        (["serve", "--port", "70000"], "--port"),
        (["validate", "no/such/folder"], "no/such/folder"),
        (["run", "--tasks", "no/such/folder"], "no/such/folder"),
        (["generate", "no/such/folder"], "no/such/folder"),
        (["generate", "pypi:cachetools"], "=="),
        (["generate", ""], "the source is an empty name"),
        (["generate", "cachetools==5.5.0"], "Did you mean pypi:cachetools==5.5.0?"),
        (["generate", "x", "--sandbox", "bubblewrp"], "Did you mean 'bubblewrap'?"),
        (["run", "--tasks", "drill", "--limit", "1", "--out", "/proc/none/x"], "cannot write to /proc/none/x"),
        (["run", "--sandbox", "bubblewrp"], "Did you mean 'bubblewrap'?"),
        (["serve", "--sandbox", "bubblewrp"], "Did you mean 'bubblewrap'?"),
        (["generate", "x", "--recipe", "no-such.toml"], "cannot read the recipe no-such.toml"),
        (["generate", "x", "-g", "fd_functoin"], "Did you mean 'fd_function'?"),
        (["generate", "x", "--rewrite"], "name the model that rewrites: --llm URL --model NAME"),
        (["generate", "x", "--rewrite", "--llm", "http://127.0.0.1:1/v1"], "--llm URL --model NAME"),
        (["generate", "swe-bench:lite", "--rewrite"], "statements of a data set stay as they are"),
        (["snapshot", "pakc"], "No such command 'pakc'. Did you mean 'pack'"),
        (["snapshot", "pack", "no/such/folder"], "no/such/folder"),
        (["snapshot", "pack", "cachetools"], "give 6 to 64 hex digits"),
        (["snapshot", "pack", "./", "--out", "x"], "--out"),
        (["snapshot", "unpack", "no-such.tar.xz"], "no-such.tar.xz cannot be read"),
        (["snapshot", "unpack", ".", "--sha256", "x"], "--sha256"),
        (["export", "no/such/folder", "--format", "sft", "--out", "x"], "no/such/folder"),
        (["export", "x", "--out", "y"], "--format"),
        (["export", "x", "--format", "swebench", "--out", "y"], "Did you mean 'swe-bench'?"),
        (["export", "x", "--format", "harbor", "--out", "y", "-k", "z"], "--option"),
    ],
)
def test_main_prints_one_line_when_the_user_makes_a_mistake(
    arguments: list[str],
    expected: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments) != 0
    assert expected in error_line(capsys)


def test_main_names_the_variable_when_it_holds_a_misspelt_sandbox(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ETUDE_SANDBOX", "bubblewrp")
    assert cli.main(["generate", "x"]) == 1
    assert "ETUDE_SANDBOX: unknown sandbox 'bubblewrp'. Did you mean 'bubblewrap'?" in error_line(capsys)


def test_main_says_how_to_go_on_when_it_is_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(kinds: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(catalogue, "catalogue", interrupt)
    assert cli.main(["list"]) == 130
    assert error_line(capsys) == "error: Interrupted. Run the same command again to start over."


@pytest.mark.parametrize(
    ("arguments", "ending"),
    [
        (["run", "--tasks", "drill"], "resume."),
        (["--json", "generate", "x"], "resume."),
        (["hints", "causal", "runs/x"], "resume."),
        (["hints", "eval", "runs/x"], "start over."),
        (["report", "run"], "start over."),
        ([], "start over."),
    ],
)
def test_interrupted_command_says_whether_it_resumes(arguments: list[str], ending: str) -> None:
    assert cli.interrupted_text(arguments).endswith(ending)


def test_main_prints_no_traceback_when_it_is_interrupted_while_it_loads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "main", interrupt)
    assert etude.cli.main(["list"]) == 130
    assert error_line(capsys) == "error: Interrupted. Run the same command again to start over."


def test_generate_leaves_no_folder_when_the_source_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README.md").write_text("own\n")
    assert cli.main(["generate", "no/such/folder", "--out", "new", "--json"]) == 1
    shown = capsys.readouterr()
    assert (shown.out, "does not exist" in shown.err) == ("", True)
    assert cli.main(["generate", "no/such/folder", "--out", "."]) == 1
    assert "already holds a README.md that no run of etude wrote; choose another --out" in error_line(capsys)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("README.md", "own\n")]


def test_generate_prints_one_line_when_a_recipe_is_not_toml(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "recipe.toml").write_text("python = \n")
    assert cli.main(["generate", "x", "--recipe", str(tmp_path / "recipe.toml")]) == 1
    assert "the recipe recipe.toml is not TOML" in error_line(capsys)


def test_generate_names_the_nearest_option_of_a_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "recipe.toml").write_text("pyhton = '3.12'\n")
    assert cli.main(["generate", "x", "--recipe", str(tmp_path / "recipe.toml")]) == 1
    assert "Did you mean 'python'?" in error_line(capsys)


def test_main_raises_the_error_when_debugging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETUDE_DEBUG", "1")
    with pytest.raises(UnknownName):
        cli.main(["list", "nothing"])


def test_key_values_parse_json_and_keep_other_text() -> None:
    assert key_values(["docs=redact", "count=3", "dead=true", "note=a=b"]) == {
        "docs": "redact",
        "count": 3,
        "dead": True,
        "note": "a=b",
    }


def test_main_prints_no_traceback_when_the_reader_of_stdout_is_gone() -> None:
    code = "import sys\nfrom etude.cli.app import main\nsys.exit(main(['list', '--json']))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
    process.wait()
