"""A task set that carries its Snapshots: ``DIR/blobs/<sha256>.tar.xz``, recorded in each row's ``blobs``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
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
from ..base import Progress, ProgressUpdate, no_progress
from .card import replace_blobs


@dataclass
class PackReport:
    """What was packed."""

    tasks: int = 0
    """Tasks of the set."""
    snapshots: list[dict[str, Any]] = field(default_factory=list)
    """Per Snapshot: source, digest, and name, sha256 and size in bytes of its archive."""


def pack_set(folder: Path, *, progress: Progress = no_progress) -> PackReport:
    """Pack every Snapshot of the set in ``folder``; one that the cache lacks is built first.

    Archives come first, then all rows in one step: a row never names an archive that does not exist. Except for
    ``blobs`` the rows stay byte for byte. Raises TaskSetError and SnapshotError.
    """
    tasks = TaskSet.load(folder)
    if not folder.is_dir():
        raise TaskSetError(f"{folder} is not a folder; name the one that holds {FILE_NAME}")
    by_digest = _by_digest(tasks)
    blobs = folder / BLOBS
    blobs.mkdir(exist_ok=True)
    report, hashes = PackReport(len(tasks)), dict[str, str]()
    for done, (digest, task) in enumerate(by_digest.items()):
        assert task.snapshot is not None
        progress(ProgressUpdate(f"packing {_label(task, digest)}", done, len(by_digest)))
        snapshot = open_snapshot(task.snapshot, packed=packed_snapshot(task, blobs))
        packed = pack(snapshot, blobs)
        hashes[digest] = packed.sha256
        row = {"source": f"{snapshot.name} {snapshot.version}", "digest": digest, "archive": packed.path.name}
        report.snapshots.append({**row, "sha256": packed.sha256, "bytes": packed.size})
    write_whole(folder / FILE_NAME, b"".join(_rows_with_blobs((folder / FILE_NAME).read_bytes(), hashes)))
    _update_card(folder / "README.md", report)
    return report


def unpack_set(folder: Path, *, cache: Path | None = None, progress: Progress = no_progress) -> list[dict[str, Any]]:
    """Unpack every archive of the set into the cache; return source, digest and path of each.

    Raises TaskSetError, SnapshotError.
    """
    tasks = TaskSet.load(folder)
    by_digest = _by_digest(tasks)
    unpacked = []
    for done, (digest, task) in enumerate(by_digest.items()):
        packed = packed_snapshot(task, tasks.blobs)
        if packed is None:
            raise TaskSetError(
                f"{folder} carries no archive of snapshot {digest[:12]}; run etude snapshot pack {folder}"
            )
        progress(ProgressUpdate(f"unpacking {_label(task, digest)}", done, len(by_digest)))
        snapshot = unpack(packed[0], sha256=packed[1], digest=digest, cache=cache)
        row = {"source": f"{snapshot.name} {snapshot.version}", "digest": digest, "path": str(snapshot.path)}
        unpacked.append(row)
    return unpacked


def _label(task: Task, digest: str) -> str:
    return f"{task.repo or digest[:12]} {task.version}".rstrip()


def _by_digest(tasks: TaskSet) -> dict[str, Task]:
    """Return one task of each Snapshot. Raises TaskSetError when no task has one."""
    by_digest: dict[str, Task] = {}
    for task in tasks:
        if task.snapshot is not None:
            by_digest.setdefault(task.snapshot.digest, task)
    if not by_digest:
        raise TaskSetError("no task of the set is played on a snapshot, so there is nothing to pack; name another set")
    return by_digest


def _rows_with_blobs(data: bytes, hashes: Mapping[str, str]) -> Iterator[bytes]:
    for line in data.split(b"\n")[:-1] if data.endswith(b"\n") else data.split(b"\n"):
        row = json.loads(line) if line.strip() else {}
        digest = str((row.get("snapshot") or {}).get("digest"))
        if digest in hashes:
            line = with_field(line, "blobs", {**row.get("blobs", {}), SNAPSHOT_BLOB: hashes[digest]})
        yield line + b"\n"


def with_field(line: bytes, name: str, value: Any) -> bytes:
    """Return the text of a JSON object with one top-level field set and everything else unchanged."""
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


def _update_card(card: Path, report: PackReport) -> None:
    """Update the line about archives in a card that Etude wrote."""
    if card.is_file():
        text = card.read_text("utf-8")
        updated = replace_blobs(text, len(report.snapshots), sum(row["bytes"] for row in report.snapshots))
        if updated != text:
            write_whole(card, updated.encode())
