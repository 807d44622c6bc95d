"""What a pushed repository holds: typed tables that ``datasets`` loads, and cards that say what is in them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from datasets import Json, List, Value, load_dataset
from helpers.task_folders import episode, run_folder, task, task_folder

from etude.cli import app as cli
from etude.environments.runs.reader import Stored
from etude.environments.tasks.task_set import TaskSet, write_tasks
from etude.errors import HubError
from etude.generators.output.hub.episodes_repo import episode_features, episode_row
from etude.generators.output.hub.model_repo import model_repo
from etude.generators.output.hub.tasks_repo import task_features, tasks_repo
from etude.models import Task

REPO = "ada/counting"


def dry_run(folder: Path, out: Path, *more: str) -> Path:
    assert cli.main(["push", str(folder), REPO, "--dry-run", str(out), *more]) == 0
    return out


def load(folder: Path, tmp_path: Path, *name: str, split: str) -> Any:
    return load_dataset(str(folder), *name, split=split, cache_dir=str(tmp_path / "datasets"))


def test_the_table_has_a_typed_column_for_each_field_of_a_task() -> None:
    features = task_features()
    assert set(features) == set(Task.model_fields)
    assert features["patch"] == Value("string")
    assert features["FAIL_TO_PASS"] == List(Value("string"))
    assert features["verifier"] == Json()


def test_datasets_loads_the_rows_of_each_split_as_they_are(tmp_path: Path) -> None:
    folder = task_folder(tmp_path / "set")
    out = dry_run(folder, tmp_path / "out")
    tasks = TaskSet.load(folder)
    for split in ("train", "eval"):
        table = load(out, tmp_path, split=split)
        assert dict(table.features) == dict(task_features())
        assert [Task.model_validate(row) for row in table] == [task for task in tasks if task.split == split]


def test_datasets_own_client_loads_what_was_pushed(hub: Any, tmp_path: Path) -> None:
    assert cli.main(["push", str(run_folder(tmp_path / "run")), "ada/run"]) == 0
    code = "import datasets; print({name: len(rows) for name, rows in datasets.load_dataset('ada/run').items()})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "{'train': 3, 'unsolved': 2}\n", done.stderr[-2000:]


def test_split_names_become_names_of_the_hub(tmp_path: Path) -> None:
    write_tasks(tmp_path, [task("a", split="held-out")])
    assert "data/held_out.parquet" in tasks_repo(tmp_path, REPO).files
    write_tasks(tmp_path, [task("a", split="held-out"), task("b", split="held_out")])
    with pytest.raises(HubError, match="have the same name on the Hub; rename one"):
        tasks_repo(tmp_path, REPO)


def test_the_card_says_what_is_in_the_set_and_that_solutions_are(tmp_path: Path) -> None:
    text = tasks_repo(task_folder(tmp_path), REPO).card
    assert text.startswith("---\nlicense: mit\n")
    for line in (
        "| pkg 1.0 | MIT | fd_function 2 | 3 |",
        "| yield | 75% |",
        "| rejected: v1_no_test_fails | 1 |",
        "## Solutions are in it",
        "- Snapshots packed: 2. The set is played without a package index.",
        f"etude serve hub:{REPO}@main",
    ):
        assert line in text.splitlines()
    assert "a public set reveals them all" in text


def test_the_card_keeps_the_folders_own_text_and_is_the_same_when_pushed_again(tmp_path: Path) -> None:
    folder = task_folder(tmp_path / "set")
    (folder / "README.md").write_text("---\nlicense: mit\npretty_name: Counting\n---\n\n# Counting\n\nBy hand.\n")
    first = tasks_repo(folder, REPO).card
    assert "pretty_name: Counting" in first and "# Counting\n\nBy hand.\n" in first
    (folder / "README.md").write_text(first)
    assert tasks_repo(folder, REPO).card == first


def test_the_card_shows_the_audit_that_was_stored(tmp_path: Path) -> None:
    folder = task_folder(tmp_path)
    report = json.loads((folder / "report.json").read_text())
    checks = [{"check": "oracle", "tasks": 4, "ok": 3, "failed": 1, "mean_reward": 0.75}]
    (folder / "report.json").write_text(json.dumps({**report, "checks": checks}))
    assert "| oracle | 4 | 1 |" in tasks_repo(folder, REPO).card.splitlines()


def test_a_set_without_a_report_has_no_numbers_of_its_generation(tmp_path: Path) -> None:
    write_tasks(tmp_path, [task("a")])
    text = tasks_repo(tmp_path, REPO).card
    assert "| yield |" not in text and "report.json" not in text and "`blobs/`" not in text.partition("## Files")[2]
    (tmp_path / "report.json").write_text("{")
    with pytest.raises(HubError, match="report.json is not JSON .*; restore it, or remove it"):
        tasks_repo(tmp_path, REPO)


def test_a_run_becomes_rows_with_messages_rewards_error_turns_and_hints(tmp_path: Path) -> None:
    out = dry_run(run_folder(tmp_path / "run"), tmp_path / "out")
    solved, unsolved = (load(out, tmp_path, split=split) for split in ("train", "unsolved"))
    assert dict(solved.features) == dict(episode_features())
    assert (solved["reward"], unsolved["reward"]) == ([1.0] * 3, [0.0] * 2)
    row = solved[0]
    assert [message["role"] for message in row["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "assistant",
    ]
    assert row["messages"][3]["tool_calls"][0]["function"] == {
        "name": "read_file",
        "arguments": {"path": "a.py", "start_line": 2},
    }
    errors = {error["kind"]: error for error in row["error_turns"]}
    assert errors["malformed_call"]["turn"] == 0
    assert errors["tool_not_found"]["text"] == "no such tool"
    assert row["messages"][errors["tool_not_found"]["message"]]["content"] == "Now raed."
    (hint,) = row["hints"]
    assert (hint["turn"], hint["text"], hint["source"]) == (1, "The tool is named read_file.", "template")
    assert not {"grade", "diff", "files"} & set(row)


def test_an_error_turn_without_a_message_has_no_place() -> None:
    row = episode_row(Stored(episode(0), "oracle", 0, {}))
    places = {error["kind"]: error["message"] for error in row["error_turns"]}
    assert places == {"malformed_call": None, "tool_not_found": 1}


def test_the_card_of_a_run_counts_what_is_in_it(tmp_path: Path) -> None:
    text = (dry_run(run_folder(tmp_path / "run"), tmp_path / "out") / "README.md").read_text()
    for line in (
        "| episodes | 5 |",
        "| agents | oracle 5 |",
        "| mean reward | 0.600 |",
        "| splits | train 3, unsolved 2 |",
        "| error turns | malformed_call 5, tool_not_found 5 |",
        "| hints | 5 |",
        "| preference pairs | 0 |",
    ):
        assert line in text.splitlines()


def model(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text('{"model_type": "qwen3"}')
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "optimizer.pt").write_bytes(b"state")
    return folder


def test_a_model_is_pushed_without_its_training_state(hub: Any, tmp_path: Path) -> None:
    assert cli.main(["push", str(model(tmp_path / "m")), "ada/small"]) == 0
    assert set(hub.files("ada/small", repo_type="model")) == {
        ".gitattributes",
        "config.json",
        "model.safetensors",
        "README.md",
        "etude-manifest.json",
    }
    assert "so base, recipe and scores are not known" in hub.files("ada/small", repo_type="model")["README.md"].decode()


def test_an_adapter_is_pushed_with_a_card_that_loads_it(hub: Any, tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    (tmp_path / "adapter_model.safetensors").write_bytes(b"weights")
    assert cli.main(["push", str(tmp_path), "ada/adapter"]) == 0
    files = hub.files("ada/adapter", repo_type="model")
    assert {"adapter_config.json", "adapter_model.safetensors", "README.md"} < set(files)
    assert "peft.AutoPeftModelForCausalLM" in files["README.md"].decode()


def test_a_models_own_card_is_kept(tmp_path: Path) -> None:
    (model(tmp_path) / "README.md").write_text("# Mine\n")
    assert model_repo(tmp_path, "# Other\n").card == "# Mine\n"


def test_weights_that_are_a_pickle_are_refused(tmp_path: Path) -> None:
    (model(tmp_path) / "pytorch_model.bin").write_bytes(b"\x80")
    with pytest.raises(HubError, match="is a pickle, which runs code when it is loaded; save the model as safetensors"):
        model_repo(tmp_path, "")
