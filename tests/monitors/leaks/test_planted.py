"""Planted leaks: each plant writes the removed code into a tree in another way, and the scanner finds it."""

from __future__ import annotations

import bz2
import gzip
import importlib.util
import io
import json
import lzma
import marshal
import sqlite3
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from html import escape
from pathlib import Path

import pytest

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from etude.monitors.leaks import Index, Leak, Needle, Needles, scan
from etude.monitors.leaks.needles import FEW

Plant = Callable[[Path, bytes], str]


def text_copy(tree: Path, code: bytes) -> str:
    (tree / "shapes.py.orig").write_bytes(b"# saved by an editor\n" + code)
    return "text"


def utf16_copy(tree: Path, code: bytes) -> str:
    (tree / "notes.txt").write_bytes(code.decode().encode("utf-16"))
    return "text"


def zlib_stream(tree: Path, code: bytes) -> str:
    (tree / "cache.bin").write_bytes(zlib.compress(code))
    return "zlib"


def sphinx_inventory(tree: Path, code: bytes) -> str:
    head = b"# Sphinx inventory version 2\n# Project: x\n# Version: 1\n# The remainder of this file is compressed.\n"
    (tree / "objects.inv").write_bytes(head + zlib.compress(b"shapes.quadrant_changes py:data 1 x -\n"))
    return "zlib"


def gzip_file(tree: Path, code: bytes) -> str:
    (tree / "old.gz").write_bytes(gzip.compress(b"padding\n") + gzip.compress(code))
    return "gzip"


def bzip2_file(tree: Path, code: bytes) -> str:
    (tree / "old.bz2").write_bytes(bz2.compress(code))
    return "bzip2"


def xz_file(tree: Path, code: bytes) -> str:
    (tree / "old.xz").write_bytes(lzma.compress(code))
    return "xz"


def zstd_file(tree: Path, code: bytes) -> str:
    """Write two frames and padding; the code is in the second one."""
    (tree / "old.zst").write_bytes(zstd.compress(b"padding\n") + zstd.compress(code) + b"\0\0")
    return "zstd"


def zipped(name: str, code: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, code)
    return target.getvalue()


def wheel(tree: Path, code: bytes) -> str:
    (tree / "shapes-1.0-py3-none-any.whl").write_bytes(zipped("shapes/core.py", code))
    return "zip"


def zip_in_zip(tree: Path, code: bytes) -> str:
    (tree / "bundle.egg").write_bytes(zipped("inner.zip", zipped("core.py", code)))
    return "zip"


def sdist(tree: Path, code: bytes) -> str:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        member = tarfile.TarInfo("shapes-1.0/shapes.py")
        member.size = len(code)
        archive.addfile(member, io.BytesIO(code))
    (tree / "shapes-1.0.tar.gz").write_bytes(target.getvalue())
    return "tar"


def git(tree: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0"]
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=tree, input=stdin, capture_output=True, check=True).stdout


def git_loose_object(tree: Path, code: bytes) -> str:
    """Write an unreachable object: no commit, ref or reflog names it."""
    git(tree, "init", "-q")
    git(tree, "hash-object", "-w", "--stdin", stdin=code)
    return "zlib"


def git_pack(tree: Path, code: bytes) -> str:
    """Pack an earlier commit: the blob is a delta of a larger one, or its base."""
    git(tree, "init", "-q")
    filler = b"".join(b"value_%d = %d\n" % (number, number) for number in range(400))
    for content in (filler + code, filler + REPLACED):
        (tree / "src" / "shapes.py").write_bytes(content)
        git(tree, "add", "-A")
        git(tree, "commit", "-q", "-m", "change")
    git(tree, "repack", "-a", "-d", "-f", "-q")
    return "git pack"


def git_stash(tree: Path, code: bytes) -> str:
    git(tree, "init", "-q")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "first")
    before = (tree / "src" / "shapes.py").read_bytes()
    (tree / "src" / "shapes.py").write_bytes(before + code)
    git(tree, "stash", "-q")
    git(tree, "gc", "-q", "--prune=now")
    return "git pack"


def pyc_of_another_name(tree: Path, code: bytes) -> str:
    """Write bytecode as pytest caches rewritten tests: only its strings give the code away."""
    compiled = marshal.dumps(compile(code, "conftest.py", "exec"))
    folder = tree / "__pycache__"
    folder.mkdir()
    magic = importlib.util.MAGIC_NUMBER
    (folder / "helpers.cpython-311-pytest-8.3.5.pyc").write_bytes(magic + b"\0" * 12 + compiled)
    return "bytecode"


def legacy_pyc(tree: Path, code: bytes) -> str:
    """Write bytecode of the edited module, which is a leak whatever its strings are."""
    compiled = marshal.dumps(compile(b"def f(x): return next(iter(x))", "shapes.py", "exec"))
    (tree / "src" / "shapes.pyc").write_bytes(importlib.util.MAGIC_NUMBER + b"\0" * 12 + compiled)
    return "bytecode"


def type_checker_database(tree: Path, code: bytes) -> str:
    folder = tree / ".mypy_cache" / "3.11"
    folder.mkdir(parents=True)
    with sqlite3.connect(folder / "cache.0.db") as database:
        database.execute("CREATE TABLE files2 (path TEXT, data BLOB)")
        cell = json.dumps({"names": {"winding_number": {"locals": ["quadrant_changes", "first_vertex"]}}}).encode()
        database.execute("INSERT INTO files2 VALUES (?, ?)", ("shapes.data.json", cell))
    database.close()
    return "sqlite"


def json_cache(tree: Path, code: bytes) -> str:
    (tree / ".cache.json").write_text(json.dumps({"source": code.decode()}))
    return "json"


def notebook(tree: Path, code: bytes) -> str:
    cell = {"cell_type": "code", "source": code.decode().splitlines(keepends=True)}
    (tree / "tour.ipynb").write_text(json.dumps({"cells": [cell], "nbformat": 4}))
    return "json"


def html_docs(tree: Path, code: bytes) -> str:
    spans = escape(code.decode()).replace("quadrant_changes", '<span class="n">quadrant</span>_changes')
    (tree / "module.html").write_text(f"<!DOCTYPE html><html><body><pre>{spans}</pre></body></html>")
    return "html"


def shared_object(tree: Path, code: bytes) -> str:
    strings = b"\0".join([b"crossing_direction", b"quadrant_changes", b"ValueError"])
    (tree / "src" / "_shapes.cpython-311-x86_64-linux-gnu.so").write_bytes(b"\x7fELF" + bytes(range(256)) + strings)
    return "text"


def type_stub(tree: Path, code: bytes) -> str:
    (tree / "src" / "shapes.pyi").write_text("quadrant_changes: int\nfirst_vertex: tuple[float, float]\n")
    return "text"


REPLACED = b"def winding_number(polygon, centre_point):\n    raise NotImplementedError\n"

PLANTS: list[Plant] = [
    text_copy,
    utf16_copy,
    zlib_stream,
    sphinx_inventory,
    gzip_file,
    bzip2_file,
    xz_file,
    zstd_file,
    wheel,
    zip_in_zip,
    sdist,
    git_loose_object,
    git_pack,
    git_stash,
    pyc_of_another_name,
    legacy_pyc,
    type_checker_database,
    json_cache,
    notebook,
    html_docs,
    shared_object,
    type_stub,
]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_leak_is_found_in_its_container(
    plant: Plant, workspace: Path, shape_needles: Needles, removed: bytes
):
    container = plant(workspace, removed)
    leaks = scan({"workspace": workspace}, shape_needles)
    assert leaks, "nothing found"
    assert container in {leak.container for leak in leaks}
    assert all(leak.path.startswith("workspace/") and leak.excerpt for leak in leaks)


def test_a_clean_workspace_has_no_leak(workspace: Path, shape_needles: Needles):
    git(workspace, "init", "-q")
    git(workspace, "add", "-A")
    git(workspace, "commit", "-q", "-m", "first")
    assert scan({"workspace": workspace}, shape_needles) == []


def test_the_path_leads_through_every_container(workspace: Path, shape_needles: Needles, removed: bytes):
    zip_in_zip(workspace, removed)
    assert {leak.path for leak in scan({"": workspace}, shape_needles)} == {"bundle.egg!inner.zip!core.py"}


def test_a_vendored_copy_in_a_shared_layer_is_found(tmp_path: Path, shape_needles: Needles, removed: bytes):
    layer = tmp_path / "site-packages"
    (layer / "other" / "_vendor").mkdir(parents=True)
    (layer / "other" / "_vendor" / "shapes.py").write_bytes(b"import math\n" + removed)
    (layer / "other" / "api.py").write_bytes(b"from ._vendor.shapes import winding_number\nprint(centre_point)\n")
    Index.build(tmp_path / "index", {"/env": layer})
    leaks = Index(tmp_path / "index").find(shape_needles)
    assert [leak.path for leak in leaks] == ["/env/other/_vendor/shapes.py"]


def test_bytecode_in_a_shared_layer_is_found(tmp_path: Path, shape_needles: Needles, removed: bytes):
    layer = tmp_path / "site-packages"
    layer.mkdir()
    pyc_of_another_name(layer, removed)
    Index.build(tmp_path / "index", {"/env": layer})
    assert [leak.container for leak in Index(tmp_path / "index").find(shape_needles)] == ["bytecode"]


def test_a_shared_layer_that_only_uses_the_names_is_clean(tmp_path: Path, shape_needles: Needles):
    layer = tmp_path / "site-packages"
    layer.mkdir()
    (layer / "user.py").write_bytes(b"first_vertex = winding_number(polygon, centre_point)\n")
    Index.build(tmp_path / "index", {"/env": layer})
    assert Index(tmp_path / "index").find(shape_needles) == []


def bomb(levels: int, size: int) -> bytes:
    data = bytes(size)
    for _ in range(levels):
        data = zlib.compress(data, 9)
    return data


@pytest.mark.parametrize("others", [0, 2 * FEW])
def test_a_word_that_only_the_reader_of_bytecode_sees_is_found(tmp_path: Path, others: int):
    """The byte of the string's length is a letter and stands before its first word, for few needles and for many."""
    message = "quenching_temperature is far too high for the alloy of this furnace, sir"
    assert chr(len(message)).isalpha()
    code = marshal.dumps(compile(f"raise ValueError({message!r})", "x.py", "exec"))
    (tmp_path / "x.pyc").write_bytes(b"\x00\x00\r\n" + bytes(12) + code)
    words = ["quenching_temperature", *(f"unrelated_{number}" for number in range(others))]
    wanted = Needles(tuple(Needle("name", (word.encode(),)) for word in words))
    assert wanted.are_few is (others == 0)
    assert chr(len(message)).encode() + b"quenching_temperature" in code
    assert [(leak.container, leak.excerpt) for leak in scan({"": tmp_path}, wanted)] == [
        ("bytecode", "quenching_temperature")
    ]


def test_a_bomb_is_reported_and_not_unfolded(workspace: Path, shape_needles: Needles):
    (workspace / "bomb.bin").write_bytes(bomb(2, 300 << 20))
    (leak,) = scan({"": workspace}, shape_needles)
    assert (leak.path, leak.needle) == ("bomb.bin", "size")


def test_a_nest_without_end_is_reported(workspace: Path, shape_needles: Needles):
    data = b"x"
    for number in range(10):
        data = zipped(f"{number}.zip", data)
    (workspace / "nest.zip").write_bytes(data)
    assert [leak.needle for leak in scan({"": workspace}, shape_needles)] == ["size"]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_damaged_containers_break_nothing(plant: Plant, workspace: Path, shape_needles: Needles, removed: bytes):
    before = set(workspace.rglob("*"))
    plant(workspace, removed)
    for file in sorted(set(workspace.rglob("*")) - before):
        if file.is_file():
            data = bytearray(file.read_bytes())
            file.chmod(0o644)
            for position in range(len(data) // 3, len(data), 97):
                data[position] ^= 0x55
            file.write_bytes(data[: len(data) - len(data) // 5])
    assert all(isinstance(leak, Leak) for leak in scan({"": workspace}, shape_needles))
