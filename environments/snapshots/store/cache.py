"""Cache shared by many builders: locks that end with their process, files and folders that appear atomically."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ....errors import SnapshotError


def cache_folder(cache: Path | None = None) -> Path:
    """Return the cache: the argument, else ``ETUDE_CACHE``, else ``~/.cache/etude``; an absolute real path.

    Root's is ``/var/cache/etude``: without mounts, the sandbox's user cannot reach files below a closed home.
    """
    default = Path("/var/cache/etude") if os.geteuid() == 0 else Path.home() / ".cache" / "etude"
    chosen = cache or Path(os.environ.get("ETUDE_CACHE") or default)
    with _writing(chosen):
        chosen.mkdir(parents=True, exist_ok=True)
    return chosen.resolve()


@contextmanager
def _writing(cache: Path) -> Iterator[None]:
    """Turn an OSError within the block into a SnapshotError with the remedy."""
    try:
        yield
    except OSError as error:
        raise SnapshotError(
            f"the cache {cache} cannot be written ({error.strerror}); set ETUDE_CACHE to a folder that you may write"
        ) from error


@contextmanager
def file_lock(cache: Path, name: str, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock ``name`` for a ``with`` block; ``waiting`` is called once when another process holds it.

    The kernel drops the lock when its process ends, so a killed builder blocks no other.
    """
    path = cache / "locks" / f"{name}.lock"
    with _writing(cache):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting:
                waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def temporary_folder(cache: Path) -> Iterator[Path]:
    """Make a folder on the cache's own filesystem for a ``with`` block; also remove those of killed builders.

    Each folder has a lock file, which its builder holds while it lives: a free lock means a killed builder.
    """
    home = cache / "tmp"
    with _writing(cache):
        home.mkdir(parents=True, exist_ok=True)
        _reap(home)
        handle, lock = tempfile.mkstemp(prefix="build-", suffix=".lock", dir=home)
    folder = Path(lock).with_suffix("")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        folder.mkdir(mode=0o755)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        Path(lock).unlink(missing_ok=True)
        os.close(handle)


def _reap(home: Path) -> None:
    for lock in home.glob("build-*.lock"):
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            # A builder between mkstemp and flock has no folder yet: its lock file stays for the next call.
            folder = lock.with_suffix("")
            if folder.is_dir():
                shutil.rmtree(folder, ignore_errors=True)
                lock.unlink(missing_ok=True)
        finally:
            os.close(handle)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically: a reader sees the old or the new content, also after a crash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as sink:
            sink.write(data)
            sink.flush()
            os.fsync(sink.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def check_writable(folder: Path) -> None:
    """Raise OSError when ``folder`` is not, or cannot become, a folder to write into.

    A command calls it before long work, so that nothing is lost at its end.
    """
    existing = folder.absolute()
    while not os.path.lexists(existing):
        existing = existing.parent
    if not existing.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    # Permissions alone do not show it: root may write to a folder that a read-only filesystem refuses.
    with tempfile.TemporaryFile(dir=existing):
        pass


def check_new_file(path: Path) -> None:
    """Raise OSError when ``path`` is a folder, or is in one that cannot be written."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    check_writable(path.parent)


def publish_folder(staging: Path, target: Path) -> None:
    """Flush and move ``staging`` to ``target`` in one step; the caller holds the target's lock."""
    target.parent.mkdir(parents=True, exist_ok=True)
    os.sync()  # one flush of everything is faster than one for each of thousands of small files
    if target.exists():  # damaged, as the caller found under the lock
        shutil.rmtree(target)
    staging.rename(target)
    handle = os.open(target.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
