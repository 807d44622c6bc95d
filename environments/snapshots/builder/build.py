"""Entry points: build a Snapshot from a source, or open the one that a task records."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path

from pydantic import ValidationError

from ....errors import SnapshotError
from ....models import SnapshotRef
from .. import snapshot
from ..recipe import BUILDER, Recipe, SnapshotOptions, base_id, canonical_json
from ..snapshot import Snapshot
from ..source import history, source
from ..store.cache import cache_folder, file_lock, temporary_folder, write_whole
from ..store.unpack import check_base, unpack
from .build_steps import Build, Progress
from .interpreter import find_interpreter

WAITING = "waiting for another process that builds this snapshot"
"""Progress message of a request that another process may be carrying out."""


def build_snapshot(
    spec: str,
    options: SnapshotOptions = SnapshotOptions(),
    *,
    cache: Path | None = None,
    progress: Progress = lambda message: None,
    backend: str = "auto",
) -> Snapshot:
    """Return the Snapshot of a source; it is built unless the cache contains it, which takes milliseconds.

    ``spec`` is ``pypi:name==version``, ``git+URL@revision``, a folder or an archive. The project's own build and the
    set-up commands run on this machine; its tests run in a sandbox. ``progress`` receives short messages. Raises a
    subclass of SnapshotError for each step that can fail, and SandboxError when no sandbox works.
    """
    home = cache_folder(cache)
    built = _requested(home, spec, options, progress, backend)
    history.remember(home, built.digest, spec)
    return built


def _requested(home: Path, spec: str, options: SnapshotOptions, progress: Progress, backend: str) -> Snapshot:
    """Return the snapshot from the cache, or build it under the lock of the request."""
    content = source.content_key(spec)
    pointer = home / "requests" / _request_key(content, options) if content else None
    if cached := _cached(home, pointer):
        return cached
    name = pointer.name if pointer else hashlib.sha256(spec.encode()).hexdigest()
    with _building(home, f"request-{name[:32]}", progress):
        if cached := _cached(home, pointer):
            return cached
        with temporary_folder(home) as staging:
            built = Build(home, staging, progress, backend).from_source(spec, options)
        if pointer:
            write_whole(pointer, built.digest.encode())
    return built


def _building(home: Path, lock: str, progress: Progress) -> AbstractContextManager[None]:
    return file_lock(home, lock, lambda: progress(WAITING))


def _request_key(content: str, options: SnapshotOptions) -> str:
    version = find_interpreter(options.python).version if options.python else ".".join(map(str, sys.version_info[:3]))
    parts = [content, options.model_dump(mode="json"), BUILDER, version, base_id(), os.uname().machine]
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()


def _cached(home: Path, pointer: Path | None) -> Snapshot | None:
    if pointer is None or not pointer.is_file():
        return None
    return snapshot.load(home, pointer.read_text("ascii"))


def open_snapshot(
    ref: SnapshotRef,
    *,
    cache: Path | None = None,
    progress: Progress = lambda message: None,
    sources: Iterable[Path] = (),
    backend: str = "auto",
    packed: tuple[Path, str] | None = None,
) -> Snapshot:
    """Return the Snapshot that a task records: from the cache, else unpacked, else built with the same packages.

    ``packed`` is an archive (see ``pack``) and its sha256; where the file is missing the recipe is followed. A source
    that was a folder or archive is found by content in ``sources`` and in the folders of ``ETUDE_SOURCES``. Raises
    SnapshotError when the recipe cannot be followed here, or gives another result.
    """
    home = cache_folder(cache)
    if cached := snapshot.load(home, ref.digest):
        return cached
    try:
        recipe = Recipe(**ref.recipe)
    except ValidationError as error:
        raise SnapshotError(
            f"snapshot {ref.digest[:12]} has no recipe that this version reads ({error.errors()[0]['msg']}); use the "
            f"version of Etude that made the task"
        ) from error
    if recipe.digest() != ref.digest:
        raise SnapshotError(
            f"the recipe of snapshot {ref.digest[:12]} has been changed, its digest is {recipe.digest()[:12]}; restore "
            f"the task's row, or generate it again"
        )
    check_base(recipe)
    with _building(home, f"snapshot-{ref.digest[:32]}", progress):
        if cached := snapshot.load(home, ref.digest):
            return cached
        if packed and packed[0].is_file():
            return unpack(packed[0], sha256=packed[1], digest=ref.digest, cache=home, progress=progress)
        try:
            with temporary_folder(home) as staging:
                return Build(home, staging, progress, backend).from_recipe(recipe, source.source_places(sources))
        except SnapshotError as error:
            if packed:
                raise SnapshotError(f"{error} (the archive {packed[0]} does not exist either)") from error
            raise
