"""The parts of the host that every sandbox sees: an allow-list, without any installed Python package. Stdlib only."""

from __future__ import annotations

import os
from pathlib import Path

SANDBOX_UID = 65532
PYTHON_PREFIX = "/opt/etude/python"
ROOT_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

HIDDEN_PROC = ("cmdline", "diskstats", "loadavg", "version", "sys/kernel/random/boot_id")
"""Files of /proc that differ from machine to machine, or from hour to hour; a sandbox sees them empty.

Each costs every command of bubblewrap a part of a millisecond, so the list is short."""

# Copied, so that a sandbox sees nothing else of the host's /etc.
_COPIED = ("ld.so.cache", "ld.so.conf", "localtime", "mime.types", "services", "protocols")
_WRITTEN = {
    "passwd": (
        f"root:x:0:0:root:/root:/usr/sbin/nologin\netude:x:{SANDBOX_UID}:{SANDBOX_UID}:etude:/tmp:/bin/bash\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"  # prose: ok
    ),
    "group": f"root:x:0:\netude:x:{SANDBOX_UID}:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost etude\n::1 localhost\n",
    "hostname": "etude\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n",
    "resolv.conf": "",
}

# Wherever a distribution keeps Python packages: an agent could read the answer of its task in an installed copy.
PACKAGE_FOLDERS = (
    "lib*/python*/site-packages",
    "lib*/python*/dist-packages",
    "lib*/python*/ensurepip/_bundled",
    "lib*/pypy*/site-packages",
    "lib*/pypy*/dist-packages",
    "share/python-wheels",
)


# What commands need of /usr. Everything else stays out: other programs bring whole Python packages with them.
_USR = (
    "bin sbin lib32 lib64 libx32 lib/*-linux-gnu* lib/python3.* lib/git-core lib/locale lib/ssl lib/terminfo "
    "share/git-core share/i18n share/misc share/perl* share/terminfo share/zoneinfo"
).split()


def shown_below_usr(usr: Path = Path("/usr")) -> list[str]:
    """Return the folders of /usr that a sandbox sees, relative to it; ``.`` where /usr/lib itself holds libraries."""
    if not any(usr.glob("lib/*-linux-gnu*")):
        return ["."]
    folders = {path for pattern in _USR for path in usr.glob(pattern) if path.is_dir() and not path.is_symlink()}
    return sorted(str(path.relative_to(usr)) for path in folders)


def etc_files() -> dict[str, bytes]:
    """Return the files of the sandbox's /etc."""
    files = {name: text.encode() for name, text in _WRITTEN.items()}
    for name in _COPIED:
        try:
            files[name] = Path("/etc", name).read_bytes()
        except OSError:
            continue
    return files


def hidden_below(prefix: Path) -> list[str]:
    """Return the folders below ``prefix`` (a Python prefix such as /usr) that hold Python packages, relative to it."""
    folders = {path for pattern in PACKAGE_FOLDERS for path in prefix.glob(pattern) if path.is_dir()}
    local = prefix / "local"
    if any(any(path.iterdir()) for pattern in PACKAGE_FOLDERS for path in local.glob(pattern) if path.is_dir()):
        folders.add(local)
    # A link to a folder hides what it points to, and only there.
    real = {Path(os.path.realpath(path)) for path in folders}
    inside = {path.relative_to(os.path.realpath(prefix)) for path in real if _is_below(path, prefix)}
    return sorted(str(path) for path in inside if not any(str(other) in map(str, path.parents) for other in inside))


def _is_below(path: Path, prefix: Path) -> bool:
    return path.is_relative_to(os.path.realpath(prefix))
