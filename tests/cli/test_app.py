"""The command line: exit codes, one-line errors with a remedy, JSON where a result is printed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from etude.cli import app as cli
from etude.cli import console, doctor
from etude.errors import UnknownName

COMMANDS = ["doctor", "list", "generate", "validate", "serve", "run", "export", "report", "demo"]


def error_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that says what is wrong; progress may stand before it."""
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
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert ("--json" in shown) == (command != "serve")


@pytest.mark.parametrize("command", ["pack", "unpack"])
def test_snapshots_commands_have_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["snapshot", command, "--help"]) == 0
    assert "--json" in capsys.readouterr().out


def test_no_command_shows_help_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) != 0
    shown = capsys.readouterr()
    assert "Usage" in shown.out + shown.err
    assert "error" not in shown.err


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    import etude

    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == etude.__version__


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["genrate"], "Did you mean 'generate'?"),
        (["list", "generatrs"], "unknown kind 'generatrs'. Did you mean 'generators'?"),
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
        (["run", "--sandbox", "bubblewrp"], "Did you mean 'bubblewrap'?"),
        (["serve", "--sandbox", "bubblewrp"], "Did you mean 'bubblewrap'?"),
        (["generate", "x", "--recipe", "no-such.toml"], "cannot read the recipe no-such.toml"),
        (["generate", "x", "-g", "fd_functoin"], "Did you mean 'fd_function'?"),
        (["snapshot", "pakc"], "No such command 'pakc'. Did you mean 'pack'"),
        (["snapshot", "pack", "no/such/folder"], "no/such/folder"),
        (["snapshot", "pack", "cachetools"], "give 6 to 64 hex digits"),
        (["snapshot", "pack", "./", "--out", "x"], "--out"),
        (["snapshot", "unpack", "no-such.tar.xz"], "no-such.tar.xz cannot be read"),
        (["snapshot", "unpack", ".", "--sha256", "x"], "--sha256"),
        (["export", "no/such/folder", "--format", "sft", "--out", "x"], "no/such/folder"),
        (["export", "x", "--out", "y"], "--format"),
        (["export", "x", "--format", "swebench", "--out", "y"], "Did you mean 'swe-bench'?"),
    ],
)
def test_a_mistake_gets_one_line(
    arguments: list[str],
    expected: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments) != 0
    assert expected in error_line(capsys)


def test_a_misspelt_sandbox_of_the_environment_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ETUDE_SANDBOX", "bubblewrp")
    assert cli.main(["generate", "x"]) == 1
    assert "ETUDE_SANDBOX: unknown sandbox 'bubblewrp'. Did you mean 'bubblewrap'?" in error_line(capsys)


def test_an_interrupt_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(kinds: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "catalogue", interrupted)
    assert cli.main(["list"]) == 130
    assert "interrupted" in error_line(capsys)


def test_a_source_that_fails_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README.md").write_text("mine\n")
    assert cli.main(["generate", "no/such/folder", "--out", "new", "--json"]) == 1
    shown = capsys.readouterr()
    assert (shown.out, "does not exist" in shown.err) == ("", True)
    assert cli.main(["generate", "no/such/folder", "--out", "."]) == 1
    assert "already holds a README.md of its own; choose another --out" in error_line(capsys)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("README.md", "mine\n")]


def test_a_broken_recipe_gets_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "recipe.toml").write_text("python = \n")
    assert cli.main(["generate", "x", "--recipe", str(tmp_path / "recipe.toml")]) == 1
    assert "the recipe recipe.toml is not TOML" in error_line(capsys)


def test_a_recipe_with_an_unknown_option_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "recipe.toml").write_text("pyhton = '3.12'\n")
    assert cli.main(["generate", "x", "--recipe", str(tmp_path / "recipe.toml")]) == 1
    assert "Did you mean 'python'?" in error_line(capsys)


def test_debugging_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETUDE_DEBUG", "1")
    with pytest.raises(UnknownName):
        cli.main(["list", "nothing"])


def test_list_names_what_is_built_in(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == set(cli.CATALOGUE)
    assert "fd_function" in found["generators"]
    assert "coding" in found["environments"]
    assert {"bubblewrap", "process"} <= set(found["sandboxes"])
    assert {"oracle", "noop", "cheater"} <= set(found["agents"])


def test_list_one_kind_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["list", "generators"]) == 0
    shown = capsys.readouterr().out
    assert "fd_function" in shown
    assert "bubblewrap" not in shown


def test_doctor_says_what_works_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["doctor", "--json"])
    diagnosis = json.loads(capsys.readouterr().out)
    assert code == (0 if diagnosis["ok"] else 1)
    assert {check["area"] for check in diagnosis["checks"]} == {"python", "tools", "sandbox", "package", "gpu"}
    assert [check["name"] for check in diagnosis["checks"] if not check["ok"] and not check["remedy"]] == []


def test_doctor_finds_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ETUDE_CACHE", str(tmp_path / "file" / "cache"))
    diagnosis = doctor.examine()
    cache = next(check for check in diagnosis.checks if check.name == "cache")
    assert not diagnosis.ok
    assert (cache.ok, cache.required) == (False, True)
    assert "ETUDE_CACHE" in cache.remedy


def test_doctor_imports_nothing_that_it_reports() -> None:
    code = (
        "import sys\nfrom etude.cli.doctor import OPTIONAL, examine\nexamine()\n"
        "print([name for name in OPTIONAL if name.replace('-', '_') in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_knobs_are_json_or_text() -> None:
    assert cli.knobs(["docs=redact", "count=3", "dead=true", "note=a=b"]) == {
        "docs": "redact",
        "count": 3,
        "dead": True,
        "note": "a=b",
    }


def test_a_reader_that_leaves_is_no_traceback() -> None:
    code = "import sys\nfrom etude.cli.app import main\nsys.exit(main(['list', '--json']))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
    process.wait()


class Row(BaseModel):
    number: int
    name: str


def test_explain_a_record_that_does_not_validate() -> None:
    with pytest.raises(ValidationError) as caught:
        Row.model_validate({"number": "x"})
    line = console.explain(caught.value)
    assert line is not None
    assert line.startswith("Row: number: ")
    assert line.endswith("(and 1 more)")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (UnknownName("unknown task 'x'"), "unknown task 'x'"),
        (FileNotFoundError(2, "No such file or directory", "tasks"), "No such file or directory: tasks"),
        (OSError("port in use"), "port in use"),
        (ModuleNotFoundError("No module named 'openenv'", name="openenv.core"), "pip install 'etude[server]'"),
        (ModuleNotFoundError("No module named 'etude.nope'", name="etude.nope"), None),
        (ZeroDivisionError("a defect of ours"), None),
    ],
)
def test_explain_what_a_person_can_act_on(error: Exception, expected: str | None) -> None:
    line = console.explain(error)
    assert (line is None) if expected is None else (line is not None and expected in line)


def test_a_table_needs_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    console.show_table([{"agent": "oracle", "mean_reward": 1.0, "ok": True}, {"agent": "noop", "mean_reward": 0.0}])
    shown = capsys.readouterr().out
    assert "mean reward" in shown
    assert "oracle" in shown
    assert "yes" in shown


def test_progress_elsewhere_than_on_a_terminal_is_a_line_per_step(capsys: pytest.CaptureFixture[str]) -> None:
    with console.progress_bar("generate") as progress:
        progress("baseline", 0, 0)
        progress("cachetools", 0, 2)
        progress("cachetools", 1, 2)
    assert capsys.readouterr().err.splitlines() == ["generate: baseline", "generate: cachetools"]
