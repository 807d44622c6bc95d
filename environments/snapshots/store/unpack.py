"""Unpacking of an archive into a Snapshot of the cache: checked, completed with this machine's interpreter."""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

from packaging.version import Version
from pydantic import ValidationError

from ....errors import BrokenArchive, SnapshotError, UnsupportedPython
from .. import snapshot
from ..builder import environment
from ..builder.interpreter import Interpreter, find_interpreter, installed_versions
from ..recipe import BUILDER, Recipe, base_id
from ..snapshot import Snapshot
from ..source import archives
from ..test_run.baseline import Baseline
from . import trees
from .cache import cache_folder, temporary_folder
from .pack import BASE, BASELINE, FORMAT, RECIPE, TREES, libc

_MEMORY = 256 << 20  # limit of the decompressor; preset 6 needs 9 MiB
_BLOCK = 1 << 20
_CONTENT = {RECIPE, BASELINE, BASE, *TREES}


def unpack(
    archive: Path,
    *,
    sha256: str = "",
    digest: str = "",
    cache: Path | None = None,
    progress: Callable[[str], None] = lambda message: None,
) -> Snapshot:
    """Put the archive's snapshot into the cache atomically, unless it is there; return it.

    ``sha256`` of the archive and ``digest`` of the snapshot are compared unless empty; without ``sha256`` the content
    is not authenticated. The cache's copy never has bytecode or paths from the archive. Raises BrokenArchive,
    UnsupportedPython or SnapshotError, and then leaves nothing behind.
    """
    home = cache_folder(cache)
    progress(f"unpacking {archive.name}")
    with temporary_folder(home) as staging:
        tar, folder = staging / f"{archive.name}.tar", staging / "snapshot"
        _decompress(archive, tar, sha256)
        archives.unpack(tar, folder)
        tar.unlink()
        recipe, baseline = _read(archive, folder, digest)
        interpreter = check_machine(recipe, _base(folder))
        if cached := snapshot.load(home, recipe.digest()):
            return cached
        (folder / BASE).unlink()
        environment.finish(folder / "env", interpreter)
        trees.normalise(folder / "tree")
        trees.give_to_sandbox(folder / "tree")
        # The suite was not measured on this machine: a twentieth of its limit gives grading the full limit.
        baseline = baseline.model_copy(update={"seconds": recipe.verifier.timeout_s / 20})
        return snapshot.publish(home, folder, recipe, baseline, interpreter)


def _decompress(archive: Path, target: Path, sha256: str) -> None:
    """Check the hash, then decompress within bounds of memory and size. Raises BrokenArchive."""
    stream, written = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY), 0
    limit = trees.MAX_BYTES + 2048 * trees.MAX_FILES  # contents and headers
    try:
        with archive.open("rb") as source, target.open("wb") as sink:
            actual = hashlib.file_digest(source, "sha256").hexdigest()
            if sha256 and actual != sha256:
                raise BrokenArchive(f"{archive.name} has sha256 {actual[:12]}, not {sha256[:12]}; {_REMEDY}")
            source.seek(0)
            while not stream.eof:
                block = source.read(_BLOCK) if stream.needs_input else b""
                if stream.needs_input and not block:
                    break
                piece = stream.decompress(block, _BLOCK)
                written += len(piece)
                if written > limit:
                    raise BrokenArchive(f"{archive.name} unpacks to more than {limit >> 20} MiB; do not trust it")
                sink.write(piece)
            if not stream.eof or stream.unused_data or source.read(1):
                raise BrokenArchive(f"{archive.name} is cut short, or has data after its end; {_REMEDY}")
    except lzma.LZMAError as error:
        raise BrokenArchive(f"{archive.name} is damaged or not a snapshot ({error}); {_REMEDY}") from error
    except OSError as error:
        raise BrokenArchive(
            f"{archive} cannot be read or unpacked ({error.strerror}); check the file and the disk"
        ) from error


_REMEDY = "download it again, or pack it again"


def _read(archive: Path, folder: Path, digest: str) -> tuple[Recipe, Baseline]:
    """Return the recipe and the baseline in the archive. Raises BrokenArchive."""
    try:
        if {entry.name for entry in folder.iterdir()} != _CONTENT:
            raise BrokenArchive(f"{archive.name} is not an archive of a snapshot; make one with `etude snapshot pack`")
        recipe = Recipe.model_validate_json((folder / RECIPE).read_bytes())
        baseline = Baseline.load((folder / BASELINE).read_text("utf-8"))
        Baseline.model_validate(baseline.model_dump())
    except (OSError, ValueError, LookupError, TypeError, ValidationError) as error:
        raise BrokenArchive(
            f"{archive.name} contains no recipe and baseline that this version reads; use the Etude that packed it"
        ) from error
    if digest and recipe.digest() != digest:
        raise BrokenArchive(f"{archive.name} contains snapshot {recipe.digest()[:12]}, not {digest[:12]}; {_REMEDY}")
    return recipe, baseline


def _base(folder: Path) -> dict[str, Any]:
    """Return what the archive requires of a machine. Raises BrokenArchive when it has another format."""
    try:
        table = json.loads((folder / BASE).read_text("ascii"))
        if table["format"] == FORMAT:
            return dict(table)
        version = table["format"]
    except (OSError, ValueError, LookupError, TypeError):
        version = "unknown"
    raise BrokenArchive(f"the archive has format {version}, this version reads {FORMAT}; use the Etude that packed it")


def check_machine(recipe: Recipe, base: dict[str, Any]) -> Interpreter:
    """Return the interpreter to use. Raises SnapshotError or UnsupportedPython when this machine does not fit."""
    check_base(recipe)
    required = str(base.get("libc", ""))
    (kind, _, oldest), (present, _, version) = required.partition(" "), libc().partition(" ")
    if kind != present or Version(oldest or "0") > Version(version or "0"):
        raise SnapshotError(
            f"the snapshot was made for {required}, this machine has {libc() or 'another libc'}; {_OTHER_MACHINE}"
        )
    try:
        interpreter = find_interpreter(recipe.python)
    except UnsupportedPython as error:
        raise UnsupportedPython(
            f"the snapshot was made for Python {recipe.python}, this machine has {installed_versions()}; install that "
            f"version (on PATH, under pyenv or uv)"
        ) from error
    if interpreter.platform != recipe.platform:
        raise SnapshotError(
            f"the snapshot was made for {recipe.platform}, this machine is {interpreter.platform}; {_OTHER_MACHINE}"
        )
    return interpreter


_OTHER_MACHINE = "use such a machine, or generate the tasks again on this one"


def check_base(recipe: Recipe) -> None:
    """Raise SnapshotError when the snapshot has another builder version or base layer than this machine."""
    for what, packed, here in (("builder", recipe.builder, BUILDER), ("base", recipe.base, base_id())):
        if packed != here:
            raise SnapshotError(f"the snapshot was made for {what} {packed}, this machine has {here}; {_OTHER_MACHINE}")
