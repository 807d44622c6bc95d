"""Patches: ``git apply`` accepts all that make_patch writes, and nothing outside the tree changes."""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path

import pytest

from etude.environments.snapshots.store.patches import apply_patch, make_patch
from etude.errors import PatchError

Contents = dict[str, bytes | None]


def write(tree: Path, files: Contents) -> None:
    for name, data in files.items():
        if data is not None:
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes(data)


def read(tree: Path) -> Contents:
    return {path.relative_to(tree).as_posix(): path.read_bytes() for path in tree.rglob("*") if path.is_file()}


def existing(files: Contents) -> Contents:
    return {name: data for name, data in files.items() if data is not None}


def round_trip(tmp_path: Path, old: Contents, new: Contents) -> str:
    tree = tmp_path / "tree"
    tree.mkdir()
    write(tree, old)
    patch = make_patch(old, new)
    apply_patch(tree, patch)
    assert read(tree) == existing(new)
    apply_patch(tree, make_patch(new, old))
    assert read(tree) == existing(old)
    return patch


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"a.py": b"x = 1\n"}, {"a.py": b"x = 2\n"}),
        ({"a.py": b"x = 1"}, {"a.py": b"x = 1\n"}),
        ({"a.py": b"x = 1\n"}, {"a.py": b"x = 1"}),
        ({"a.py": b"a\nb"}, {"a.py": b"a\nc"}),
        ({}, {"new/deep/a.py": b"x\n"}),
        ({"a.py": b"x\n"}, {"a.py": None}),
        ({}, {"empty.py": b""}),
        ({"empty.py": b""}, {"empty.py": None}),
        ({"empty.py": b""}, {"empty.py": b"x\n"}),
        ({"a.py": b"x\n"}, {"a.py": b""}),
        ({"a.txt": b"a\r\nb\r\n"}, {"a.txt": b"a\r\nc\r\n"}),
        ({"a.txt": b"a\x0cb\x0b\n\xe2\x80\xa8x\n"}, {"a.txt": b"a\x0cb\x0b\n\xe2\x80\xa8y\n"}),
        ({"latin.py": b"# \xe9\n"}, {"latin.py": b"# \xe8\n"}),
        ({"b.bin": bytes(range(256))}, {"b.bin": bytes(range(256)) * 9}),
        ({}, {"b.bin": b"\0"}),
        ({"b.bin": b"\0\1\2"}, {"b.bin": None}),
        ({"with space.py": b"x\n"}, {"with space.py": b"y\n"}),
        ({"\u00fcml\u00e4ut.py": b"x\n"}, {"\u00fcml\u00e4ut.py": b"y\n"}),
        ({'quo"te\\.py': b"x\n"}, {'quo"te\\.py': None}),
        ({"tab\there.py": b"x\n"}, {"tab\there.py": b"y\n"}),
        ({"dash.sql": b"-- a\n++ b\n"}, {"dash.sql": b"-- c\n++ d\n"}),
    ],
)
def test_make_patch_applies_and_reverts_each_kind_of_change(tmp_path: Path, old: Contents, new: Contents) -> None:
    round_trip(tmp_path, old, new)


@pytest.mark.parametrize("seed", range(40))
def test_make_patch_applies_and_reverts_random_edits(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)

    def lines(count: int) -> list[str]:
        return [rng.choice(["", "x", "  y = 1", "def f():", "\t", "é", "# -", "+++", "\\"]) for _ in range(count)]

    old: Contents = {}
    new: Contents = {}
    for number in range(rng.randint(1, 4)):
        before = lines(rng.choice([0, 1, 5, 40, 300]))
        after = list(before)
        for _ in range(rng.randint(0, 8)):
            at = rng.randint(0, len(after))
            after[at : at + rng.choice([0, 0, 1, 3, 20])] = lines(rng.choice([0, 1, 2, 9]))
        ends = rng.choice(["", "\n"]), rng.choice(["", "\n"])
        old[f"d{number % 2}/f{number}.py"] = ("\n".join(before) + ends[0]).encode()
        new[f"d{number % 2}/f{number}.py"] = ("\n".join(after) + ends[1]).encode()
    patch = round_trip(tmp_path, old, new)
    assert patch == make_patch(dict(reversed(old.items())), dict(reversed(new.items())))


def test_make_patch_is_empty_when_nothing_changes() -> None:
    assert make_patch({"a": b"x", "b": None}, {"a": b"x"}) == ""


def test_make_patch_is_small_when_a_large_file_changes_little() -> None:
    old = "".join(f"line {n % 7}\n" for n in range(20_000))
    new = old.replace("line 3\n", "changed\n", 1)
    assert len(make_patch({"a": old.encode()}, {"a": new.encode()}).splitlines()) < 15


def test_apply_patch_changes_nothing_when_one_file_does_not_fit(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": b"other\n", "b.py": b"x\n"})
    patch = make_patch({"a.py": b"x\n", "b.py": b"x\n"}, {"a.py": b"y\n", "b.py": b"y\n"})
    with pytest.raises(PatchError, match="does not apply"):
        apply_patch(tmp_path, patch)
    assert read(tmp_path) == {"a.py": b"other\n", "b.py": b"x\n"}


@pytest.mark.parametrize("path", ["../a.py", "/a.py", "a/../../b", ".git/config", "a//b"])
def test_make_patch_refuses_paths_outside_the_tree(path: str) -> None:
    with pytest.raises(PatchError, match="not a path inside"):
        make_patch({}, {path: b"x"})


def test_apply_patch_refuses_to_write_outside_the_tree(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    patch = make_patch({}, {"x.py": b"x\n"}).replace("x.py", "../x.py")
    with pytest.raises(PatchError):
        apply_patch(tmp_path / "tree", patch)
    assert not (tmp_path / "x.py").exists()


def test_apply_patch_works_inside_another_repository(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    tree = tmp_path / "inner" / "tree"
    tree.mkdir(parents=True)
    apply_patch(tree, make_patch({}, {"a.py": b"x\n"}))
    assert (tree / "a.py").read_bytes() == b"x\n"


def test_apply_patch_replaces_hard_linked_files(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "one" / "a.py").write_bytes(b"x\n")
    os.link(tmp_path / "one" / "a.py", tmp_path / "two" / "a.py")
    apply_patch(tmp_path / "two", make_patch({"a.py": b"x\n"}, {"a.py": b"y\n"}))
    assert (tmp_path / "one" / "a.py").read_bytes() == b"x\n"
    assert (tmp_path / "two" / "a.py").read_bytes() == b"y\n"
