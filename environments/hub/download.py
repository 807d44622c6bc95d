"""A task set on the Hub as a folder: downloaded into the cache, and verified each time it is opened."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

from ...errors import HubError
from .address import HubAddress, is_address, parse_address
from .client import hub_cache, hub_client, reporting
from .manifest import MANIFEST, check_files, read_manifest

REPO_TYPE = "dataset"
_TASKS = "tasks.jsonl"
_PLAYED = (_TASKS, "report.json", "README.md", "blobs/*")
"""Files that a task set is played and checked from; tables for other tools are not downloaded."""


def task_folder(path: Path | str) -> Path:
    """Return the local folder of a task set: of an address on the Hub its verified copy, else the path itself.

    A branch or a tag is looked up each time; a full commit id is opened without the network once it was read. Raises
    HubError when the set cannot be read or is not the one that was pushed.
    """
    return open_address(parse_address(str(path))) if is_address(path) else Path(path)


def open_address(address: HubAddress) -> Path:
    """Return the folder of a verified task set in the cache. Raises HubError."""
    cache = hub_cache()
    with reporting(str(address), cache):
        folder = _download(address, cache)
    file = folder / MANIFEST
    if not file.is_file():
        raise HubError(f"{address} has no {MANIFEST}, so it cannot be verified; name a set that `etude push` wrote")
    manifest = read_manifest(file.read_bytes(), str(address))
    if manifest.kind != "tasks":
        raise HubError(f"{address} holds {manifest.kind}, not tasks; name a set of tasks")
    if _TASKS not in manifest.files:
        raise HubError(f"{address} holds tasks without {_TASKS}; name another revision")
    played = [name for name in manifest.files if any(fnmatch(name, pattern) for pattern in _PLAYED)]
    check_files(folder, manifest, played, str(address))
    return folder


def _download(address: HubAddress, cache: Path) -> Path:
    """Return the folder of the revision, after its files are in the cache; those that are there are not sent again."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    api = hub_client()

    def snapshot(revision: str | None, local: bool) -> Path:
        folder = api.snapshot_download(
            address.repo_id,
            revision=revision,
            repo_type=REPO_TYPE,
            cache_dir=cache,
            allow_patterns=[MANIFEST, *_PLAYED],
            local_files_only=local,
        )
        return Path(folder)

    if address.pinned:
        try:
            return snapshot(address.revision, local=True)
        except LocalEntryNotFoundError:
            pass
    return snapshot(api.repo_info(address.repo_id, repo_type=REPO_TYPE, revision=address.revision).sha, local=False)
