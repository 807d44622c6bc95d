"""The generator ``history_revert``: one commit of the repository's history taken back."""

from __future__ import annotations

from collections.abc import Iterator

from .family import HistoryGenerator, Knobs
from .repository import Commit, Repository


class HistoryRevert(HistoryGenerator):
    """Take back one commit that changed code and tests, and ask for it by its message."""

    name = "history_revert"
    version = "1"

    def changes(self, repository: Repository, knobs: Knobs) -> Iterator[tuple[Commit, str]]:
        """Yield the commits with one parent that lead to the head."""
        for commit in repository.commits("--no-merges"):
            if len(commit.parents) == 1:
                yield commit, commit.message
