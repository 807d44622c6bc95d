"""From a source to a Snapshot: fetch, detect, resolve, install, measure, publish; or from a recipe, exactly again."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from ....errors import SnapshotError
from ....models import SnapshotRef
from .. import snapshot
from ..recipe import BUILDER, Recipe, SnapshotOptions, base_id, canonical_json
from ..snapshot import Snapshot
from ..source import source
from ..store.cache import cache_folder, file_lock, temporary_folder, write_whole
from ..store.unpack import check_base, unpack
from .build_steps import Build, Progress
from .interpreter import find_interpreter


def silent(message: str) -> None:
    """No progress."""


def build_snapshot(
    spec: str,
    options: SnapshotOptions = SnapshotOptions(),
    *,
    cache: Path | None = None,
    progress: Progress = silent,
    backend: str = "auto",
) -> Snapshot:
    """The Snapshot of a source, built unless the cache has it (milliseconds then).

    ``spec``: ``pypi:name==version``, ``git+URL@revision``, a folder or an archive. The project's own build and the
    set-up commands run on this machine; its tests run in a sandbox. ``progress`` gets short phase messages. Raises a
    SnapshotError that says what is wrong and the remedy, and SandboxError when no sandbox works.
    """
    home = cache_folder(cache)
    request = source.request_of(spec)
    pointer = home / "requests" / _request_key(request, options) if request else None
    if found := _known(home, pointer):
        return found
    name = pointer.name if pointer else hashlib.sha256(spec.encode()).hexdigest()
    with file_lock(home, f"request-{name[:32]}", lambda: progress("another process builds this snapshot: waiting")):
        if found := _known(home, pointer):
            return found
        with temporary_folder(home) as staging:
            built = Build(home, staging, progress, backend).from_source(spec, options)
        if pointer:
            write_whole(pointer, built.digest.encode())
    return built


def _request_key(request: str, options: SnapshotOptions) -> str:
    version = find_interpreter(options.python).version if options.python else ".".join(map(str, sys.version_info[:3]))
    parts = [request, options.model_dump(mode="json"), BUILDER, version, base_id(), os.uname().machine]
    return hashlib.sha256(canonical_json(parts).encode()).hexdigest()


def _known(home: Path, pointer: Path | None) -> Snapshot | None:
    if pointer is None or not pointer.is_file():
        return None
    return snapshot.load(home, pointer.read_text("ascii"))


def open_snapshot(
    ref: SnapshotRef,
    *,
    cache: Path | None = None,
    progress: Progress = silent,
    sources: Iterable[Path] = (),
    backend: str = "auto",
    packed: tuple[Path, str] | None = None,
) -> Snapshot:
    """The Snapshot that a task records: from the cache, else unpacked, else built again with the same packages.

    ``packed`` is an archive (see ``pack``) and its sha256; where there is no such file the recipe is followed. A source
    that was a folder or archive is looked up by content in ``sources`` and in the folders of ``ETUDE_SOURCES``. Raises
    SnapshotError when the recipe cannot be followed here, or gives something else.
    """
    home = cache_folder(cache)
    if found := snapshot.load(home, ref.digest):
        return found
    try:
        recipe = Recipe(**ref.recipe)
    except ValidationError as error:
        raise SnapshotError(
            f"snapshot {ref.digest[:12]} has no recipe that this version reads: {error.errors()[0]['msg']}"
        ) from error
    if recipe.digest() != ref.digest:
        raise SnapshotError(
            f"the recipe of snapshot {ref.digest[:12]} has been changed, its digest is {recipe.digest()[:12]}: "
            f"restore the task's row, or generate it again"
        )
    check_base(recipe)
    with file_lock(
        home, f"snapshot-{ref.digest[:32]}", lambda: progress("another process builds this snapshot: waiting")
    ):
        if found := snapshot.load(home, ref.digest):
            return found
        if packed and packed[0].is_file():
            return unpack(packed[0], sha256=packed[1], digest=ref.digest, cache=home, progress=progress)
        try:
            with temporary_folder(home) as staging:
                return Build(home, staging, progress, backend).from_recipe(recipe, source.source_places(sources))
        except SnapshotError as error:
            if packed:
                raise SnapshotError(f"{error} (and the set's archive {packed[0]} is not there)") from error
            raise
