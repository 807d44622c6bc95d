"""A task set that carries its Snapshots: ``DIR/blobs/<sha256>.tar.xz``, recorded in each row's ``blobs``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...environments.snapshots import open_snapshot
from ...environments.snapshots.store.cache import write_whole
from ...environments.snapshots.store.pack import pack
from ...environments.snapshots.store.unpack import unpack
from ...environments.tasks.task_set import BLOBS, FILE_NAME, TaskSet
from ...environments.tasks.task_trees import SNAPSHOT_BLOB, packed_snapshot
from ...errors import TaskSetError
from ...models import Task
from .card import replace_blobs

Progress = Callable[[str, int, int], None]


@dataclass
class PackReport:
    """``snapshots``: one row per Snapshot with its digest, the archive's name, sha256 and size in bytes."""

    tasks: int = 0
    snapshots: list[dict[str, Any]] = field(default_factory=list)


def pack_set(
    folder: Path, *, cache: Path | None = None, progress: Progress = lambda phase, done, total: None
) -> PackReport:
    """Pack every Snapshot of the set in ``folder``; each is built first when the cache lacks it.

    Archives come first, then the rows, in one step: a row never names an archive that is not there. But for ``blobs``
    the rows stay as they are, byte for byte. Raises TaskSetError and SnapshotError.
    """
    tasks = TaskSet.load(folder)
    if not folder.is_dir():
        raise TaskSetError(f"{folder} is no folder: name the one that holds {FILE_NAME}")
    by_digest = _by_digest(tasks)
    blobs = folder / BLOBS
    blobs.mkdir(exist_ok=True)
    report, shas = PackReport(len(tasks)), dict[str, str]()
    for done, (digest, task) in enumerate(by_digest.items()):
        assert task.snapshot is not None
        progress(f"packing {task.repo or digest[:12]} {task.version}".rstrip(), done, len(by_digest))
        snapshot = open_snapshot(task.snapshot, cache=cache, packed=packed_snapshot(task, blobs))
        packed = pack(snapshot, blobs)
        shas[digest] = packed.sha256
        row = {"source": f"{snapshot.name} {snapshot.version}", "digest": digest, "archive": packed.path.name}
        report.snapshots.append({**row, "sha256": packed.sha256, "bytes": packed.size})
    write_whole(folder / FILE_NAME, b"".join(_rows((folder / FILE_NAME).read_bytes(), shas)))
    _tell_card(folder, report)
    return report


def unpack_set(
    folder: Path, *, cache: Path | None = None, progress: Progress = lambda phase, done, total: None
) -> list[dict[str, Any]]:
    """Bring every archive of the set into the cache. Raises TaskSetError, SnapshotError."""
    tasks = TaskSet.load(folder)
    found = []
    for done, (digest, task) in enumerate(_by_digest(tasks).items()):
        packed = packed_snapshot(task, tasks.blobs)
        if packed is None:
            raise TaskSetError(f"{folder} carries no archive of snapshot {digest[:12]}: `etude snapshot pack {folder}`")
        progress(f"unpacking {task.repo or digest[:12]} {task.version}".rstrip(), done, len(tasks))
        snapshot = unpack(packed[0], sha256=packed[1], digest=digest, cache=cache)
        found.append({"source": f"{snapshot.name} {snapshot.version}", "digest": digest, "path": str(snapshot.path)})
    return found


def _by_digest(tasks: TaskSet) -> dict[str, Task]:
    """One task of each Snapshot. Raises TaskSetError when there is none."""
    found: dict[str, Task] = {}
    for task in tasks:
        if task.snapshot is not None:
            found.setdefault(task.snapshot.digest, task)
    if not found:
        raise TaskSetError("no task of the set is played on a snapshot: there is nothing to pack")
    return found


def _rows(data: bytes, shas: Mapping[str, str]) -> Iterator[bytes]:
    for line in data.split(b"\n")[:-1] if data.endswith(b"\n") else data.split(b"\n"):
        row = json.loads(line) if line.strip() else {}
        digest = str((row.get("snapshot") or {}).get("digest"))
        if digest in shas:
            line = with_field(line, "blobs", {**row.get("blobs", {}), SNAPSHOT_BLOB: shas[digest]})
        yield line + b"\n"


def with_field(line: bytes, name: str, value: Any) -> bytes:
    """A JSON object's text with one top-level field set, everything else as it was written."""
    text, new = line.decode(), json.dumps(value, ensure_ascii=False, sort_keys=True)
    decoder = json.JSONDecoder()
    place = text.index("{") + 1
    while True:
        place += len(text[place:]) - len(text[place:].lstrip(" \t\r\n,"))
        if text[place] == "}":
            comma = "" if text[:place].rstrip().endswith("{") else ", "
            return f"{text[:place]}{comma}{json.dumps(name)}: {new}{text[place:]}".encode()
        key, place = decoder.raw_decode(text, place)
        place += len(text[place:]) - len(text[place:].lstrip(" \t\r\n:"))
        _, end = decoder.raw_decode(text, place)
        if key == name:
            return f"{text[:place]}{new}{text[end:]}".encode()
        place = end


def _tell_card(folder: Path, report: PackReport) -> None:
    """The card's line about archives, when the card is one of ours."""
    card = folder / "README.md"
    if card.is_file():
        text = card.read_text("utf-8")
        told = replace_blobs(text, len(report.snapshots), sum(row["bytes"] for row in report.snapshots))
        if told != text:
            write_whole(card, told.encode())
