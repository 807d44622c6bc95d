"""Task sets at ``hub:USER/NAME@REVISION``: what is read back, what is verified, and what is refused."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import huggingface_hub.file_download
import pytest
from helpers.hub_server import Repository
from helpers.task_folders import run_folder, task_folder

import etude
from etude.cli import app as cli
from etude.environments.hub.address import HubAddress, parse_address
from etude.environments.hub.download import task_folder as opened
from etude.environments.hub.manifest import MANIFEST
from etude.environments.tasks.task_set import TaskSet
from etude.errors import HubError

REPO = "ada/counting"
ADDRESS = f"hub:{REPO}"


@pytest.fixture
def folder(hub: Any, tmp_path: Path) -> Path:
    """Return a folder that was pushed."""
    folder = task_folder(tmp_path / "set")
    assert cli.main(["push", str(folder), REPO]) == 0
    return folder


def refusal(address: str = ADDRESS) -> str:
    with pytest.raises(HubError) as error:
        etude.load_tasks(address)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hub:ada/counting", HubAddress("ada/counting", "main")),
        ("hub:ada/counting@v1.0", HubAddress("ada/counting", "v1.0")),
        ("hub:a.b-c/d_e@refs/pr/1", HubAddress("a.b-c/d_e", "refs/pr/1")),
    ],
)
def test_an_address_names_a_repository_and_a_revision(text: str, expected: HubAddress) -> None:
    assert parse_address(text) == expected == parse_address(str(Path(text)))


@pytest.mark.parametrize(
    "text", ["hub:", "hub:ada", "hub:ada/a/b", "hub:../x", "hub:ada/..", "hub:ada/x@", "hub:a b/c"]
)
def test_a_malformed_address_is_refused(text: str) -> None:
    with pytest.raises(HubError, match="write (USER/NAME|hub:USER/NAME@REVISION)"):
        parse_address(text)


def test_a_pushed_set_is_read_back_with_the_same_bytes(folder: Path) -> None:
    local = opened(ADDRESS)
    for path in folder.rglob("*"):
        if path.is_file():
            assert (local / path.relative_to(folder)).read_bytes() == path.read_bytes()
    assert list(etude.load_tasks(f"{ADDRESS}@main")) == list(TaskSet.load(folder))
    assert not (local / "data").exists(), "tables for other tools are not downloaded"


def test_a_second_open_sends_no_file_again(hub: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    etude.load_tasks(ADDRESS)

    def no_download(*arguments: Any, **options: Any) -> None:
        raise AssertionError("a file was downloaded again")

    monkeypatch.setattr(huggingface_hub.file_download, "http_get", no_download)
    assert len(etude.load_tasks(ADDRESS)) == 3


def test_a_commit_is_opened_without_the_network_once_it_was_read(
    hub: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = hub.repositories["dataset", REPO].branches["main"]
    etude.load_tasks(f"{ADDRESS}@{commit}")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert len(etude.load_tasks(f"{ADDRESS}@{commit}")) == 3
    assert "the Hub cannot be reached" in refusal(ADDRESS), "a branch may have moved, so it is not read from the cache"
    assert "the Hub cannot be reached" in refusal(f"{ADDRESS}@{'0' * 40}")


def test_offline_mode_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert refusal() == f"{ADDRESS}@main: HF_HUB_OFFLINE is set; unset it, or name a commit that was read before"


@pytest.mark.parametrize("path", ["tasks.jsonl", "report.json", "blobs"])
def test_a_changed_file_is_refused(hub: Any, folder: Path, path: str) -> None:
    name = next(name for name in hub.files(REPO) if name.startswith(path))
    hub.replace(REPO, name, hub.files(REPO)[name].replace(b"e", b"f", 1))
    assert f"{name} is not the file that was pushed (its sha256 is not the manifest's)" in refusal()


def test_a_file_changed_in_the_cache_is_refused(folder: Path) -> None:
    local = opened(ADDRESS)
    with (local / "tasks.jsonl").open("ab") as file:
        file.write(b"\n")
    assert f"or delete {local} if the copy here is damaged" in refusal()


def test_a_removed_file_is_refused(hub: Any, folder: Path) -> None:
    files = hub.files(REPO)
    blob = next(name for name in files if name.startswith("blobs/"))
    hub.repositories["dataset", REPO].commit("main", {name: data for name, data in files.items() if name != blob})
    assert f"lacks {blob}, which its manifest lists" in refusal()


def test_an_edited_card_changes_nothing(hub: Any, folder: Path) -> None:
    hub.replace(REPO, "README.md", b"# Better words\n")
    assert len(etude.load_tasks(ADDRESS)) == 3


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (b"{", "etude-manifest.json cannot be read"),
        (b'{"kind": "tasks", "files": {"../x": {"sha256": "%s", "bytes": 1}}}' % (b"0" * 64), "not a path within"),
        (b'{"kind": "tasks", "files": {}}', "holds tasks without tasks.jsonl"),
        (b'{"kind": "tasks", "files": {}, "schema_version": 2}', "etude-manifest.json cannot be read"),
    ],
)
def test_a_damaged_manifest_is_refused(hub: Any, folder: Path, manifest: bytes, expected: str) -> None:
    hub.replace(REPO, MANIFEST, manifest)
    assert expected in refusal()


def test_other_content_is_refused(hub: Any, tmp_path: Path) -> None:
    assert cli.main(["push", str(run_folder(tmp_path / "run")), "ada/run"]) == 0
    assert refusal("hub:ada/run") == "hub:ada/run@main holds episodes, not tasks; name a set of tasks"
    hub.repositories["dataset", "ada/csv"] = Repository(private=False)
    hub.repositories["dataset", "ada/csv"].commit("main", {"train.csv": b"a\n"})
    assert "has no etude-manifest.json, so it cannot be verified" in refusal("hub:ada/csv")


def test_a_repository_that_cannot_be_read_is_named(hub: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no such revision; name a branch, a tag or a commit" in refusal(f"{ADDRESS}@v9")
    assert "no such repository, or a private one; check the name" in refusal("hub:ada/none")
    for token, expected in (("hf_bob", "or a private one; check"), ("", "or a private one; check"), ("x", "the token")):
        monkeypatch.setenv("HF_TOKEN", token)
        assert expected in refusal()
    monkeypatch.setenv("HF_TOKEN", "hf_bob")
    hub.repositories["dataset", REPO].private, hub.repositories["dataset", REPO].gated = False, True
    assert "the repository is gated; ask for access on its page" in refusal()


def test_a_public_set_is_read_without_a_token(hub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli.main(["push", str(task_folder(tmp_path / "set")), REPO, "--public"]) == 0
    monkeypatch.setenv("HF_TOKEN", "")
    assert len(etude.load_tasks(ADDRESS)) == 3


def test_a_full_disk_is_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(huggingface_hub.file_download, "http_get", full)
    place = (tmp_path / "cache" / "hub").resolve()
    assert refusal() == (
        f"{ADDRESS}@main: no space left on {place}; free some, or set ETUDE_CACHE to a folder on another disk"
    )


@pytest.mark.parametrize(
    "command",
    [
        ["serve", ADDRESS, "--port", "0"],
        ["serve", "--tasks", ADDRESS, "--port", "0"],
        ["run", "--tasks", ADDRESS, "--out", "runs"],
        ["validate", ADDRESS],
        ["export", ADDRESS, "-f", "swe-bench", "-o", "rows"],
        ["snapshot", "unpack", ADDRESS],
        ["sandbox", "shell", "one", "--tasks", ADDRESS],
    ],
)
def test_every_command_verifies_the_set_that_it_opens(
    hub: Any,
    folder: Path,
    command: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    hub.replace(REPO, "tasks.jsonl", b"{}\n")
    capsys.readouterr()
    assert cli.main(command) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1 and "tasks.jsonl is not the file that was pushed" in lines[0]


def test_export_of_a_set_on_the_hub_equals_that_of_its_folder(folder: Path, tmp_path: Path) -> None:
    for source, out in ((str(folder), "local"), (ADDRESS, "hub")):
        assert cli.main(["export", source, "-f", "swe-bench", "-o", str(tmp_path / out)]) == 0
    local, remote = ((tmp_path / out / "swe-bench.jsonl").read_bytes() for out in ("local", "hub"))
    assert local == remote and len(json.loads(local.splitlines()[0])) > 5
