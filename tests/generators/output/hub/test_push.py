"""``etude push`` against a stand-in of the Hub, through huggingface_hub's own client."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.hub_server import Repository
from helpers.task_folders import ARCHIVES, run_folder, task_folder

from etude.cli import app as cli
from etude.generators.output.hub import repo_tree

REPO = "ada/counting"


def push(*arguments: Any) -> int:
    return cli.main(["push", *map(str, arguments)])


def error_line(capsys: pytest.CaptureFixture[str]) -> str:
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("push: ")]
    assert len(lines) == 1, lines
    return lines[0].removeprefix("error: ")


def test_push_makes_one_private_commit_that_holds_the_folders_bytes(hub: Any, tmp_path: Path) -> None:
    folder = task_folder(tmp_path / "set")
    assert push(folder, REPO) == 0
    assert hub.repositories["dataset", REPO].private
    assert len(hub.commits) == 1
    files = hub.files(REPO)
    local = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {path: files[path] for path in local} == local
    assert set(files) - set(local) - {".gitattributes"} == {
        "README.md",
        "etude-manifest.json",
        "data/train.parquet",
        "data/eval.parquet",
    }


def test_push_is_public_only_on_request(hub: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = task_folder(tmp_path / "set")
    assert push(folder, REPO, "--public") == 0
    assert not hub.repositories["dataset", REPO].private
    capsys.readouterr()
    assert push(folder, REPO) == 1
    assert error_line(capsys) == f"{REPO} exists and is public; give --public, or change that in its settings"


def test_push_sends_nothing_when_the_branch_holds_the_same(hub: Any, tmp_path: Path) -> None:
    folder = task_folder(tmp_path / "set")
    assert push(folder, REPO) == 0
    sent = list(hub.sent)
    assert push(folder, REPO) == 0
    assert (hub.sent, len(hub.commits)) == (sent, 1)


def test_push_to_a_branch_leaves_main_alone(hub: Any, tmp_path: Path) -> None:
    assert push(task_folder(tmp_path / "set"), REPO, "--branch", "v2") == 0
    assert list(hub.files(REPO)) == [".gitattributes"]
    assert "tasks.jsonl" in hub.files(REPO, "v2")


def test_update_replaces_the_set_and_removes_what_it_no_longer_has(
    hub: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert push(task_folder(tmp_path / "set"), REPO) == 0
    smaller = task_folder(tmp_path / "smaller", names=("one",))
    capsys.readouterr()
    assert push(smaller, REPO) == 1
    assert "holds another push of tasks; choose another name, or give --update" in error_line(capsys)
    before = list(hub.sent)
    assert push(smaller, REPO, "--update") == 0
    files = hub.files(REPO)
    assert files["tasks.jsonl"] == (smaller / "tasks.jsonl").read_bytes()
    assert not {path for path in files if path.startswith("data/train")}
    assert sum(path.startswith("blobs/") for path in files) == 1
    assert hub.sent == before, "the archive and the table that were there are not sent again"


def test_a_killed_push_has_no_commit_and_resumes_without_sending_again(hub: Any, tmp_path: Path) -> None:
    folder = task_folder(tmp_path / "set")
    hub.stall_after = 1
    command = [sys.executable, "-m", "etude.cli", "push", str(folder), REPO]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        assert hub.stalled.wait(60)
        process.kill()
    assert (len(hub.sent), hub.commits) == (1, [])
    assert list(hub.files(REPO)) == [".gitattributes"]
    hub.stall_after = None
    assert push(folder, REPO) == 0
    large = [*ARCHIVES, hub.files(REPO)["data/train.parquet"], hub.files(REPO)["data/eval.parquet"]]
    assert sorted(hub.sent) == sorted(repo_tree.hash_of(data).sha256 for data in large), "each was sent once"
    assert len(hub.commits) == 1


def test_a_dropped_connection_is_tried_again(hub: Any, tmp_path: Path) -> None:
    hub.drops = 1
    assert push(task_folder(tmp_path / "set"), REPO) == 0
    assert len(hub.sent) == len(set(hub.sent)) == 4
    assert len(hub.commits) == 1


def test_push_says_how_to_resume_when_the_hub_stays_away(
    hub: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert push(task_folder(tmp_path / "set"), REPO) == 1
    shown = error_line(capsys)
    assert shown.startswith(f"cannot push to {REPO}: the Hub cannot be reached")
    assert shown.endswith("and run the same command again to resume")


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("hf_wrong", "the Hub does not accept the token; set HF_TOKEN, or run `hf auth login` again"),
        ("", "no token; set HF_TOKEN, or run `hf auth login`"),
        ("hf_bob", "the token may not do this; take one with the right to write to the repository"),
    ],
)
def test_push_needs_a_token_that_may_write(
    hub: Any,
    tmp_path: Path,
    token: str,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    assert push(task_folder(tmp_path / "set"), REPO) == 1
    assert error_line(capsys).startswith(f"cannot push to {REPO}: {expected}")
    assert hub.repositories == {}


def test_push_refuses_a_repository_that_holds_something_else(
    hub: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = hub.repositories["dataset", REPO] = Repository(private=True)
    repository.commit("main", {"train.csv": b"a,b\n", "README.md": b"# Mine\n"})
    assert push(task_folder(tmp_path / "set"), REPO) == 1
    assert error_line(capsys) == f"{REPO} exists and holds other files (README.md, train.csv); choose another name"
    assert push(run_folder(tmp_path / "run"), "ada/other") == 0
    capsys.readouterr()
    assert push(task_folder(tmp_path / "set"), "ada/other", "--update") == 1
    assert error_line(capsys) == "ada/other exists and holds episodes, not tasks; choose another name"
    assert list(hub.files(REPO)) == ["train.csv", "README.md"]


def test_push_refuses_to_write_over_a_commit_made_meanwhile(
    hub: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.before_commit = lambda: hub.replace(REPO, "notes.txt", b"by someone else")
    assert push(task_folder(tmp_path / "set"), REPO) == 1
    assert "the repository was changed at the same time; run the same command again" in error_line(capsys)
    assert "tasks.jsonl" not in hub.files(REPO)


def test_push_refuses_a_file_that_changes_while_it_is_sent(
    hub: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = task_folder(tmp_path / "set")
    real = repo_tree.sha256_of

    def hash_then_change(path: Path) -> str:
        digest = real(path)
        if path.name == "report.json":
            path.write_text("{}\n")
        return digest

    monkeypatch.setattr(repo_tree, "sha256_of", hash_then_change)
    assert push(folder, REPO) == 1
    assert error_line(capsys) == "report.json changed while it was pushed; run the same command again"
    assert hub.commits == []


def test_push_reports_a_storage_that_is_used_up(hub: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hub.full = True
    assert push(task_folder(tmp_path / "set"), REPO) == 1
    assert "the Hub refuses a file for its size" in error_line(capsys)
    assert hub.commits == []


def test_dry_run_writes_the_tree_that_a_push_commits(hub: Any, tmp_path: Path) -> None:
    folder, out = task_folder(tmp_path / "set"), tmp_path / "out"
    assert push(folder, REPO, "--dry-run", out) == 0
    assert hub.repositories == {}
    assert push(folder, REPO) == 0
    files = {path: data for path, data in hub.files(REPO).items() if path != ".gitattributes"}
    assert {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()} == files


def test_dry_run_leaves_nothing_when_the_disk_is_full(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: Any, target: Any) -> None:
        Path(target).write_bytes(b"part")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))

    monkeypatch.setattr(repo_tree.shutil, "copyfile", full)
    assert push(task_folder(tmp_path / "set"), REPO, "--dry-run", tmp_path / "out") == 1
    assert error_line(capsys) == (
        f"cannot write {tmp_path / 'out'}: No space left on device; free some space, or choose another folder"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["set"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["set", "counting"], "'counting' is not the name of a repository; write USER/NAME"),
        (["nowhere", REPO], "nowhere is not a folder; name one that holds tasks.jsonl, episodes.jsonl or a model"),
        (["empty", REPO], "empty holds no tasks.jsonl, no episodes.jsonl and no config.json with weights"),
        (["both", REPO], "both holds tasks and episodes; move one of them to another folder"),
        (["set", REPO, "--pairs", "p.jsonl"], "set holds tasks, and pairs belong to episodes; leave --pairs out"),
        (["set", REPO, "--dry-run", "both"], "both is not empty; choose another folder for --dry-run"),
        (["run", REPO, "--pairs", "none.jsonl"], "cannot read none.jsonl"),
        (["unpacked", REPO], "is missing, and rows need it; run etude snapshot pack unpacked"),
    ],
)
def test_push_explains_a_wrong_argument(
    arguments: list[str],
    expected: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    task_folder(Path("set"))
    run_folder(Path("run"))
    run_folder(task_folder(Path("both")))
    Path("empty").mkdir()
    for file in (task_folder(Path("unpacked")) / "blobs").iterdir():
        file.unlink()
    assert push(*arguments) == 1
    assert expected in error_line(capsys)


def test_equal_folders_have_equal_manifests(tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert push(task_folder(tmp_path / name), REPO, "--dry-run", tmp_path / f"{name}-out") == 0
    first, second = ((tmp_path / f"{name}-out" / "etude-manifest.json").read_bytes() for name in ("a", "b"))
    assert first == second
    assert set(json.loads(first)["files"]) == {
        "tasks.jsonl",
        "report.json",
        "data/eval.parquet",
        "data/train.parquet",
        *(f"blobs/{hashlib.sha256(data).hexdigest()}.tar.xz" for data in ARCHIVES),
    }
