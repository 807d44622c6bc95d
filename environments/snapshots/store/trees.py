"""Trees of files: hash, permissions, removal of leftovers, cheap copies."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from ....errors import BadSource
from ...sandbox import SANDBOX_UID

CACHE_FOLDERS = frozenset(
    ".git .hg .svn __pycache__ .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis .tox .nox .eggs .pytype .pyre "
    ".ipynb_checkpoints .benchmarks htmlcov node_modules __pypackages__".split()
)
_CACHE_SUFFIXES = (".pyc", ".pyo", ".orig", ".rej", "~", ".swp", ".egg-link")
_CACHE_FILES = frozenset({".coverage", ".DS_Store", "coverage.xml", "objects.inv", "PKG-INFO"})
_TAG_FILES = frozenset({"tags", "TAGS", ".tags", "GTAGS", "GRTAGS", "GPATH"})
MAX_FILES = 100_000
MAX_BYTES = 1 << 30
FILE_DATE = 946_684_800
"""Date of the files of a workspace, in seconds since 1970: the first day of 2000, like its commit."""
_BUILD_FOLDERS = frozenset({"build", "dist", "wheelhouse"})


def files_of(tree: Path) -> Iterator[Path]:
    """Yield every file and symlink below ``tree``, as sorted relative paths; symlinked folders are not entered."""
    paths: list[Path] = []
    for folder, names, files in os.walk(tree):
        here = Path(folder)
        paths.extend((here / name).relative_to(tree) for name in names if (here / name).is_symlink())
        paths.extend((here / name).relative_to(tree) for name in files)
    yield from sorted(paths, key=lambda path: path.as_posix())


def tree_hash(tree: Path) -> str:
    """Return a sha256 over paths, executable bits, link targets and contents."""
    digest = hashlib.sha256()
    for path in files_of(tree):
        full = tree / path
        status = full.lstat()
        if stat.S_ISLNK(status.st_mode):
            kind, content = "link", os.fsencode(os.readlink(full))
        elif stat.S_ISREG(status.st_mode):
            kind, content = ("exec" if status.st_mode & 0o100 else "file"), full.read_bytes()
        else:
            continue
        digest.update(f"{kind} {path.as_posix()}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
        digest.update(content)
    return digest.hexdigest()


def copy_source(origin: Path, target: Path) -> None:
    """Copy a folder without version control, caches, virtual environments, devices and pipes.

    Raises BadSource for a link that leaves the folder, because its target would differ on another machine, and for
    more files or bytes than an archive may hold.
    """
    count = size = 0

    def ignored(folder: str, names: list[str]) -> set[str]:
        nonlocal count, size
        unwanted = {name for name in names if _is_unwanted(Path(folder, name))}
        for name in sorted(set(names) - unwanted):
            status = Path(folder, name).lstat()
            count, size = count + 1, size + (0 if stat.S_ISDIR(status.st_mode) else status.st_size)
            if count > MAX_FILES:
                raise BadSource(f"{origin} contains more than {MAX_FILES} files; give a folder of the project alone")
            if size > MAX_BYTES:
                place = Path(folder, name).relative_to(origin)
                raise BadSource(f"{origin} contains more than {MAX_BYTES >> 20} MiB, {place} included; remove data")
        return unwanted

    shutil.copytree(origin, target, symlinks=True, ignore=ignored, dirs_exist_ok=True)
    check_links(target)


def _is_unwanted(path: Path) -> bool:
    kind = stat.S_IFMT(path.lstat().st_mode)
    ordinary = kind in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
    return not ordinary or path.name in CACHE_FOLDERS or path.suffix in (".pyc", ".pyo") or _is_virtualenv(path)


def _is_virtualenv(folder: Path) -> bool:
    return (folder / "pyvenv.cfg").is_file()


def check_links(tree: Path) -> None:
    """Raise BadSource when a symlink is absolute or leads outside ``tree``."""
    root = os.path.realpath(tree)
    for path in files_of(tree):
        full = tree / path
        if full.is_symlink():
            real = os.path.realpath(full)
            if os.path.isabs(os.readlink(full)) or os.path.commonpath([root, real]) != root:
                raise BadSource(f"{path.as_posix()} is a link out of the source; replace it by the file it points to")


def normalise(tree: Path) -> None:
    """Set fixed permissions (755 or 644), so that two machines and two umasks give the same tree.

    Files that have them already are not written: a hard link may share them with another tree.
    """
    for path in (tree, *tree.rglob("*")):
        mode = path.lstat().st_mode
        fixed = 0o755 if stat.S_ISDIR(mode) or mode & 0o100 else 0o644
        if not stat.S_ISLNK(mode) and stat.S_IMODE(mode) != fixed:
            path.chmod(fixed)


def clean(tree: Path, packages: frozenset[str] = frozenset()) -> None:
    """Remove the leftovers of builds and tools, which can show solutions: bytecode, second copies, lists of names.

    ``packages`` are top-level package names: a ``build`` folder that is one of them, has its own ``__init__.py`` or
    contains other source stays.
    """
    for folder, names, files in os.walk(tree):
        here = Path(folder)
        for name in list(names):
            if _is_leftover_folder(here / name, here == tree, packages):
                names.remove(name)
                remove(here / name)
        for name in files:
            if _is_leftover_file(here / name, here == tree):
                (here / name).unlink()


def _is_leftover_file(file: Path, at_root: bool) -> bool:
    name = file.name
    if name.endswith(_CACHE_SUFFIXES) or name.startswith((".coverage.", "__editable__")):
        return True
    if name in _TAG_FILES:
        return at_root or _has_tag_header(file)
    return name in _CACHE_FILES and (at_root or name != "PKG-INFO")


def _has_tag_header(file: Path) -> bool:
    """Return whether a file starts like an index of ctags (``!_TAG_``) or etags (form feed)."""
    if file.is_symlink() or not file.is_file():
        return False
    with file.open("rb") as stream:
        return stream.read(6).startswith((b"!_TAG_", b"\x0c\n"))


def _is_leftover_folder(folder: Path, at_root: bool, packages: frozenset[str]) -> bool:
    name = folder.name
    if name in CACHE_FOLDERS:
        return True
    if name.endswith((".egg-info", ".dist-info")):
        return at_root or folder.parent.name in ("src", "lib", "python")
    if name in _BUILD_FOLDERS and at_root:
        return name not in packages and not (folder / "__init__.py").exists() and not _is_source(folder)
    return _is_virtualenv(folder)


def _is_source(folder: Path) -> bool:
    """Return whether a ``build`` or ``dist`` folder contains scripts or docs, and nothing that a build leaves."""
    of_builds = ("lib", "lib.", "bdist.", "temp.", "scripts-", "sphinx", "html", "doctrees")
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() and not folder.is_symlink() else []
    leftovers = [n for n in names if n.startswith(of_builds) or n.endswith((".whl", ".tar.gz", ".zip", ".egg"))]
    return bool(names) and not leftovers


def remove(path: Path) -> None:
    """Remove a file, link or whole folder."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path)


def link_tree(origin: Path, target: Path) -> None:
    """Copy a tree with hard links to its files; neither copy may be written in place."""
    shutil.copytree(origin, target, symlinks=True, copy_function=_link, dirs_exist_ok=True)


def _link(origin: str, target: str) -> None:
    try:
        os.link(origin, target, follow_symlinks=False)
    except OSError:  # another filesystem, or too many links to one file
        shutil.copy2(origin, target, follow_symlinks=False)


def hide_changes(tree: Path) -> None:
    """Make the files that a patch changed look like the others: same date, and Python files with one name each.

    Otherwise a newer date, or a file that shares no inode with other trees, would show an agent where the exercise is.
    Python files are written again in the order of their paths, so that the order of their inodes shows nothing either.
    """
    for path in map(tree.joinpath, files_of(tree)):
        if path.suffix == ".py" and not path.is_symlink():
            copy = path.with_name(f"{path.name}.copy~")
            shutil.copy(path, copy)
            copy.replace(path)
        os.utime(path, (FILE_DATE, FILE_DATE), follow_symlinks=False)
    for folder, _, _ in os.walk(tree, topdown=False):
        os.utime(folder, (FILE_DATE, FILE_DATE))


def give_to_sandbox(tree: Path) -> None:
    """Make the sandbox's user the owner of ``tree`` when run as root: an overlay lets it write only its own files."""
    if os.geteuid() == 0:
        for path in (tree, *tree.rglob("*")):
            os.chown(path, SANDBOX_UID, SANDBOX_UID, follow_symlinks=False)
