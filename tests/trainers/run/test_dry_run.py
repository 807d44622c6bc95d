"""`etude train --dry-run`: what it asks the server and the model, and that it writes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.model_factory import qwen
from helpers.scripted_policy import base

from etude.cli import app as cli
from etude.trainers.run import model_loading


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return base(tmp_path_factory.mktemp("model"))


def checked(
    folder: Path, capsys: pytest.CaptureFixture[str], table: str, *changes: str
) -> tuple[int, dict[str, Any], list[str]]:
    """Return the code of `etude train --dry-run --json`, the checks that it prints, and the lines of its errors."""
    (folder / "r.toml").write_text(table)
    options = [word for change in changes for word in ("-o", change)]
    code = cli.main(["train", str(folder / "r.toml"), "--dry-run", "--json", f"-oout={folder / 'run'}", *options])
    shown = capsys.readouterr()
    checks = json.loads(shown.out)["checks"] if code == 0 else {}
    return code, checks, [line for line in shown.err.splitlines() if line.startswith("error: ")]


def test_dry_run_reports_tasks_model_and_memory_and_writes_nothing(
    model: Path, drill_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*arguments: Any, **more: Any) -> None:
        raise AssertionError("weights were loaded")

    monkeypatch.setattr(model_loading.AutoModelForCausalLM, "from_pretrained", never)
    before = sorted(model.iterdir())
    table = f'[model]\nname = "{model}"\n[environment]\nurl = "{drill_url}"\ntasks = 3\n'
    changes = ["channels.distillation=1", "train.evaluate_tasks=5", "generation.max_ids=2048"]
    code, checks, _ = checked(tmp_path, capsys, table, *changes)
    assert code == 0
    assert (checks["server"], checks["tasks"], checks["held_out_tasks"]) == (drill_url, 3, 5)
    parameters = sum(
        one.numel() for one in qwen(model_loading.AutoConfig.from_pretrained(model).vocab_size).parameters()
    )
    assert checks["parameters"] == parameters
    assert checks["gib_per_gpu"] == round(32 * parameters / 2**30, 2)
    assert checks["gib_per_gpu_counts"].startswith("32 bytes a parameter")
    assert sorted(model.iterdir()) == before and [path.name for path in tmp_path.iterdir()] == ["r.toml"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["environment.url=http://127.0.0.1:9"], "is the server running?"),
        (["environment.split=nonsense"], "nonsense"),
        (["generation.max_ids=999999"], "is more than the model's context"),
        (["model.template={no_such_argument = true}"], "the chat template does not read 'no_such_argument'"),
    ],
)
def test_dry_run_asks_the_server_and_the_model(
    changes: list[str],
    message: str,
    model: Path,
    drill_url: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = f'[model]\nname = "{model}"\n[environment]\nurl = "{drill_url}"\n'
    code, _, errors = checked(tmp_path, capsys, table, "generation.max_ids=2048", *changes)
    assert code == 1 and len(errors) == 1 and message in errors[0], errors


def test_dry_run_serves_the_environment_and_does_not_make_a_tiny_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, checks, _ = checked(tmp_path, capsys, '[model]\nmake = "drill"\n[environment]\nserve = "drill"\n')
    assert code == 0 and checks["model"] == "not checked: the run makes it first"
    assert checks["server"] == "started with drill" and checks["tasks"] > 0
    assert [path.name for path in tmp_path.iterdir()] == ["r.toml"]


def test_offline_is_refused_without_dry_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.toml").write_text('[model]\nname = "some/model"\n[environment]\nserve = "drill"\n')
    assert cli.main(["train", str(tmp_path / "r.toml"), "--offline"]) == 2
    assert "--dry-run" in capsys.readouterr().err
