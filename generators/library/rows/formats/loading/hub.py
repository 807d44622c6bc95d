"""Rows on the Hub, read with the library ``datasets``; each failure is one line with its remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ......errors import RowError
from .files import choose_split


def rows(name: str, revision: str, split: str | None, limit: int | None) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield place and columns of each row of ``USER/NAME``; with a limit, rows are streamed. Raises RowError.

    ``revision`` is a branch, tag or commit, or empty. A token is taken from ``HF_TOKEN`` or the Hub's own login.
    """
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise RowError(f"hub:{name} is not a data set; write hub:USER/NAME or hub:USER/NAME@REVISION")
    try:
        import datasets
    except ImportError as error:
        raise RowError(f"hub:{name} needs the package datasets; run: pip install 'etude[hub]'") from error
    place = f"hub:{name}" + (f"@{revision}" if revision else "")
    try:
        names = [str(item) for item in datasets.get_dataset_split_names(name, revision=revision or None)]
        chosen = choose_split(names, split)
        if not chosen:
            raise RowError(
                f"{place} has no split {split or 'test'!r}; its splits are {', '.join(names)}: name one with --split"
            )
        loaded = datasets.load_dataset(name, split=chosen, revision=revision or None, streaming=limit is not None)
        for number, row in enumerate(loaded, start=1):
            yield f"{place} {chosen} row {number}", row
    except RowError:
        raise
    except Exception as error:  # datasets raises its own, huggingface_hub's, httpx's, fsspec's and Arrow's errors
        raise RowError(_explained(place, revision, error)) from error


def _explained(place: str, revision: str, error: BaseException) -> str:
    """Return one line for an error of the library: what is wrong and what to do."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and cause not in chain:
        chain.append(cause)
    names = {type(item).__name__ for item in chain}
    text = " ".join(str(error).split())
    if "GatedRepoError" in names or "gated" in text:
        return f"{place} is gated; accept its terms on its page and set HF_TOKEN to your token"
    if "RevisionNotFoundError" in names or (revision and "evision" in text):
        return f"{place} has no revision {revision!r}; name a branch, a tag or a whole commit behind the @"
    if "OfflineModeIsEnabled" in {*names, *re.findall(r"\w+", text)}:
        return f"{place} is not cached and HF_HUB_OFFLINE is set; unset it, or name a folder with the data set's files"
    if names & {"RepositoryNotFoundError", "DatasetNotFoundError"}:
        return f"{place} does not exist or is private; check its name, or set HF_TOKEN to a token that may read it"
    if names & {"ConnectionError", "ConnectError", "ConnectTimeout", "ReadTimeout", "TimeoutException"}:
        return f"{place} cannot be reached; connect to the network, or name a folder with the data set's files"
    return f"{place} cannot be loaded ({type(error).__name__}: {text[:200]}); name a folder with the data set's files"
