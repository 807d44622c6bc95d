"""Folders of the host in a container, without their paths on the host.

A plain bind shows its source in the container's table of mounts: the name of a cache's folder, which holds the digest
of what is played. An overlay of one folder shows the path that it was given, so it is given a link with a number.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

from ..kernel import linux

_EMPTY = "empty"
_lock = threading.Lock()
_links: dict[str, str] = {}
_folder: tuple[int, Path] | None = None


def mount_without_path(host: str, inside: str) -> dict[str, Any]:
    """Return the engine's description of ``host``, a folder, read-only at ``inside``. It goes with its container."""
    link = _link_to(os.path.realpath(host))
    lower = f"lowerdir={link}:{os.path.dirname(link)}/{_EMPTY}"
    options = {"type": "overlay", "device": "overlay", "o": f"{lower},ro"}
    driver = {"Name": "local", "Options": options}
    return {"Type": "volume", "Target": inside, "VolumeOptions": {"NoCopy": True, "DriverConfig": driver}}


def _link_to(host: str) -> str:
    """Return this process's link to a folder, the same one each time."""
    with _lock:
        folder = _own_folder()
        if host not in _links:
            path = folder / str(len(_links) + 1)
            path.symlink_to(host)
            _links[host] = str(path)
        return _links[host]


def _own_folder() -> Path:
    """Return this process's folder of links; a forked child makes its own."""
    global _folder
    if _folder is None or _folder[0] != os.getpid() or not _folder[1].is_dir():
        # When this process cannot remove it, a later one does.
        path = Path(tempfile.mkdtemp(prefix=linux.own_prefix()))
        path.chmod(0o755)
        (path / _EMPTY).mkdir()
        _links.clear()
        _folder = (os.getpid(), path)
        atexit.register(_remove, os.getpid(), path)
    return _folder[1]


def _remove(owner: int, folder: Path) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
