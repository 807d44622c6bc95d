"""Clones of repositories by ``owner/name``: in a folder of the user, or cloned from the network into the cache."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from ....errors import SnapshotError, SourceNotFound
from ..store.cache import cache_folder, file_lock, temporary_folder
from .repositories import clone

HOST = "https://github.com"
FOLDER = "ETUDE_REPOS"
"""Environment variable that names the folder of clones where none is given."""


class Clones:
    """Finds local clones, bare or not: in ``folder``, or in the one that ``ETUDE_REPOS`` names.

    Without either, a repository is cloned once from the network, as a bare mirror in the cache.
    """

    def __init__(self, folder: Path | None = None, progress: Callable[[str], None] = lambda message: None) -> None:
        named = os.environ.get(FOLDER)
        folder = Path(named) if folder is None and named else folder
        if folder is not None and not folder.is_dir():
            raise SourceNotFound(f"{folder} is not a folder; name the folder that holds the clones with --repos")
        self.folder, self._progress = folder, progress
        self._places: dict[str, Path] = {}

    def find(self, repo: str) -> Path:
        """Return the clone of ``owner/name``. Raises SourceNotFound, which names the places that were tried."""
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", repo):
            raise SourceNotFound(f"{repo!r} is not a repository; a row names it as owner/name")
        if repo not in self._places:
            self._places[repo] = self._mirror(repo) if self.folder is None else self._local(self.folder, repo)
        return self._places[repo]

    @staticmethod
    def _local(folder: Path, repo: str) -> Path:
        owner, _, name = repo.partition("/")
        stems = (f"{owner}/{name}", f"{owner}__{name}", f"{owner}+{name}", f"{owner}-{name}", name)
        for stem in stems:
            for place in (folder / stem, folder / f"{stem}.git", folder / stem / "repo"):
                if (place / ".git").exists() or ((place / "objects").is_dir() and (place / "HEAD").is_file()):
                    return place
        raise SourceNotFound(
            f"{folder} has no clone of {repo}; put one there as {owner}__{name} (git clone --mirror {HOST}/{repo})"
        )

    def _mirror(self, repo: str) -> Path:
        """Clone a repository with its whole history into the cache."""
        home = cache_folder()
        target = home / "repositories" / repo.replace("/", "__")
        with file_lock(home, f"repository-{target.name}", lambda: self._progress(f"waiting for the clone of {repo}")):
            if not target.is_dir():
                self._progress(f"cloning {repo}")
                with temporary_folder(home) as staging:
                    try:
                        clone(f"{HOST}/{repo}", staging / "clone", "--mirror")
                    except SnapshotError as error:
                        raise SourceNotFound(
                            f"{repo} cannot be cloned ({error}); name a folder of clones with --repos"
                        ) from error
                    target.parent.mkdir(parents=True, exist_ok=True)
                    (staging / "clone").rename(target)
        return target
