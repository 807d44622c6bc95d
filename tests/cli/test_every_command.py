"""Rules that hold for every command: --json, one line for bad input, nothing written by a command that fails."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from helpers.viewer_runs import TASKS, marked_row, written

from etude.cli import app as cli
from etude.environments.drill.tasks import DrillTasks
from etude.environments.runs.writer import FILE_NAME

WITHOUT_RESULT = {"serve", "view", "sandbox shell"}
"""Commands that talk until they are interrupted, and print no result."""
MODEL = ["--model", "m", "--base-url", "http://127.0.0.1:1/v1"]
VALID: dict[str, list[str]] = {
    "generate": ["nowhere", "--out", "new"],
    "import": ["rows.jsonl", "--out", "new"],
    "validate": ["tasks"],
    "export": ["tasks", "--format", "messages", "--out", "new"],
    "push": ["run", "user/name", "--dry-run", "new"],
    "serve": ["--port", "0"],
    "run": ["--tasks", "drill", "--limit", "1"],
    "play": ["drill"],
    "annotate": ["run"],
    "view": ["run", "--port", "0"],
    "report": ["run"],
    "fork": ["run", "--episode", "0", "--turn", "0"],
    "monitor": ["run"],
    "redteam": ["tasks", "--limit", "1"],
    "bench": ["--peers", "", "--rounds", "1"],
    "rescore": ["run"],
    "train": ["recipe.toml"],
    "plan": ["recipe.toml", "--gpus", "1"],
    "replay": ["run", "--teachers", "teachers.toml"],
    "hints causal": ["run", "--k", "1"],
    "hints write": ["run", *MODEL],
    "hints eval": ["run"],
    "init": ["a_new_name"],
    "sandbox check": ["process", "--times"],
    "sandbox shell": ["drill-choose-0"],
    "snapshot pack": ["tasks"],
    "snapshot unpack": ["x"],
}
"""Arguments of each command; the parameter under test replaces its own."""
OUTPUTS = {"out", "report", "dry_run"}
INPUTS = {"missing", "empty.txt", "text.txt", "list.json", "binary.bin", "empty"}
"""Paths that no command can read: see ``folder``."""
TARGETS = {"text.txt/x", "/proc/none/x"}
"""Paths that nothing can be written to."""
WAITING = {("view", "runs", "empty"), ("view", "runs", "empty.txt")}
"""What a command waits for: a run that has written no episode yet."""
LEFT_OUT = {("import", "out"), ("import", "repos")}
"""Parameters that are read after the rows of a data set, which these cases do not have."""


def commands() -> Iterator[tuple[str, Any]]:
    """Yield the name and the object of every command of the application."""
    todo: list[tuple[str, Any]] = [("", typer.main.get_command(cli.app))]
    while todo:
        name, command = todo.pop()
        inner = getattr(command, "commands", None)
        if inner is None:
            yield name, command
        else:
            todo += [(f"{name} {one}".strip(), inner[one]) for one in inner]


COMMANDS = dict(sorted(commands()))


def paths(command: Any) -> list[Any]:
    """Return the parameters of a command that are paths."""
    names = {"rows", "sources", "target", "tasks"}
    return [one for one in command.params if "Path" in str(one.type_descriptor.annotation) or one.name in names]


def bad_paths() -> list[Any]:
    """Return a command, a parameter that is a path, and a path that it cannot take, for every such case."""
    cases = []
    for name, command in COMMANDS.items():
        for parameter in paths(command):
            if (name, parameter.name) in LEFT_OUT:
                continue
            for bad in sorted(TARGETS if parameter.name in OUTPUTS else INPUTS):
                if (name, parameter.name, bad) not in WAITING:
                    cases.append(pytest.param(name, parameter, bad, id=f"{name}-{parameter.name}-{bad}"))
    return cases


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with valid inputs and with files and folders that no command can read."""
    drill = TASKS.by_id(next(iter(DrillTasks(["choose"], level=2))).task_id)
    written(tmp_path / "run", marked_row(task_id=drill.task_id))
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "tasks.jsonl").write_text(drill.model_dump_json() + "\n")
    (tmp_path / "recipe.toml").write_text('[model]\nmake = "drill"\n[environment]\nserve = "drill"\n')
    (tmp_path / "teachers.toml").write_text("")
    (tmp_path / "rows.jsonl").write_text("{}\n")
    (tmp_path / "empty").mkdir()
    for name, content in (("empty.txt", b""), ("text.txt", b"own\n"), ("list.json", b"[1]\n")):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "binary.bin").write_bytes(bytes(range(256)))
    monkeypatch.chdir(tmp_path)
    for variable in ("ETUDE_TASKS", "ETUDE_ENV", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("ETUDE_STORE", "none")
    return tmp_path


def arguments(name: str, parameter: Any, value: str) -> list[str]:
    """Return the arguments of a command with one parameter replaced by ``value``."""
    rest = list(VALID.get(name, []))
    options = [option for option in parameter.opts if option.startswith("-")]
    if not options:
        return [*name.split(), value, *(rest if rest[0].startswith("-") else rest[1:])]
    for option in options:
        if option in rest:
            del rest[rest.index(option) : rest.index(option) + 2]
    return [*name.split(), *rest, options[0], value]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_every_command_that_prints_a_result_has_a_json_option() -> None:
    without = {name for name, command in COMMANDS.items() if not any("--json" in one.opts for one in command.params)}
    assert len(COMMANDS) > 25
    assert without == WITHOUT_RESULT


def test_commands_that_resume_after_an_interrupt_exist() -> None:
    assert set(COMMANDS) > cli.RESUMED


def test_every_option_and_argument_has_a_help_text() -> None:
    silent = [
        f"{name} {parameter.name}"
        for name, command in COMMANDS.items()
        for parameter in command.params
        if not getattr(parameter, "help", None) and parameter.name != "help"
    ]
    assert silent == []


@pytest.mark.parametrize(("name", "parameter", "bad"), bad_paths())
def test_bad_path_gives_one_line_and_changes_nothing(
    folder: Path, name: str, parameter: Any, bad: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(folder)
    assert cli.main(arguments(name, parameter, bad)) not in (0, None)
    shown = capsys.readouterr()
    errors = [line for line in shown.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, shown.err
    assert "Traceback" not in shown.out + shown.err and "Errno" not in errors[0]
    assert files(folder) == before


@pytest.mark.parametrize(
    "name", ["list", "doctor", "run", "annotate", "report", "monitor", "hints eval", "export", "push", "init"]
)
def test_json_is_the_only_text_on_stdout(folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main([*name.split(), *VALID.get(name, []), "--json"])
    shown = capsys.readouterr()
    assert isinstance(json.loads(shown.out), (dict, list))
    assert code == 0 or name == "doctor", shown.err


def test_annotate_writes_no_run_when_its_report_cannot_be_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["annotate", "run", "--out", "new", "--report", "empty"]) == 1
    assert "cannot write empty: Is a directory; name another file" in capsys.readouterr().err
    assert cli.main(["annotate", "run", "--out", "new", "--report", "page.html"]) == 0
    assert (folder / "new" / FILE_NAME).is_file() and (folder / "page.html").is_file()


def test_export_refuses_episodes_that_its_format_does_not_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["export", "tasks", "--format", "nemo-gym", "--out", "new", "--episodes", "run"]) == 1
    assert "takes no --episodes; export as sft or messages" in capsys.readouterr().err
    assert not (folder / "new").exists()


def test_demo_says_at_once_that_its_folder_cannot_be_written(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from etude.cli.demo import tour

    def too_late(*_: object, **__: object) -> None:
        raise AssertionError("the package was built first")

    monkeypatch.setattr(tour, "build_snapshot", too_late)
    assert cli.main(["demo", "--out", "text.txt/x"]) == 1
    assert "cannot write to text.txt/x: Not a directory; choose another --out" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["monitor", "hints write"])
def test_commands_that_ask_a_model_refuse_a_folder_as_their_file_before_they_ask(
    folder: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(folder / "empty")
    (folder / "empty").mkdir()
    assert cli.main([*option.split(), *VALID[option], "--out", "empty"]) == 1
    assert "cannot write to empty: it is a folder; name a file with --out" in capsys.readouterr().err
    assert list((folder / "empty").iterdir()) == []
