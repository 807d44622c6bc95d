"""The generator ``history_pr``: one whole pull request of the repository's history taken back."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .family import HistoryGenerator, Knobs
from .message import describe
from .repository import Commit, Repository
from .usefulness import useless

_SQUASHED = re.compile(r"\(#\d+\)\s*$")
_MERGED = re.compile(r"^Merge (pull request|branch|remote-tracking branch|[\w-]+/)|\(#\d+\)\s*$")


class HistoryPullRequest(HistoryGenerator):
    """Take back one pull request, merged or squashed, and ask for it by its title and text."""

    name = "history_pr"
    version = "1"

    def changes(self, repository: Repository, knobs: Knobs) -> Iterator[tuple[Commit, str]]:
        """Yield the merges of pull requests, and squashed ones, on the main line.

        A merge without a title or text takes those of the commits that it brings.
        """
        for commit in repository.commits("--first-parent"):
            title = commit.message.partition("\n")[0]
            if len(commit.parents) == 2 and _MERGED.search(title):
                yield commit, _text(repository, commit)
            elif len(commit.parents) == 1 and _SQUASHED.search(title):
                yield commit, commit.message


def _text(repository: Repository, merge: Commit) -> str:
    """Return the text of a merge, or that of its only or first useful commit where it has none."""
    brought = (item.message for item in reversed(list(repository.brought_by(merge))))
    return next((text for text in (merge.message, *brought) if _is_useful(text)), merge.message)


def _is_useful(text: str) -> bool:
    description = describe(text)
    return not useless(description.title, description.body)
