"""huggingface_hub's client, and one line for each way in which a request fails."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...errors import HubError
from ..snapshots.store.cache import cache_folder

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_LOG_IN = "set HF_TOKEN, or run `hf auth login`"
_BY_STATUS = {
    401: f"the Hub does not accept the token; {_LOG_IN} again",
    403: "the token may not do this; take one with the right to write to the repository",
    409: "the repository was changed at the same time; run the same command again",
    412: "the repository was changed at the same time; run the same command again",
    413: "the Hub refuses a file for its size; push a smaller folder",
    429: "the Hub refuses more requests for now; wait, and run the same command again to resume",
}


def hub_client() -> Any:
    """Return huggingface_hub's client for ``HF_ENDPOINT``, without bars and remarks of its own.

    Its token is HF_TOKEN, or the one of `hf auth login`.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.utils import logging
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    logging.set_verbosity_error()
    warnings.filterwarnings("ignore", "Not enough free disk space")  # the error says it
    return HfApi(endpoint=os.environ.get("HF_ENDPOINT"), library_name="etude")


def hub_cache() -> Path:
    """Return the folder that downloads go to, within Etude's cache. Raises SnapshotError when it cannot be written."""
    return cache_folder() / "hub"


@contextmanager
def reporting(place: str, folder: Path | None = None, resume: str = "") -> Iterator[None]:
    """Raise HubError, with one line, for what huggingface_hub and the disk of ``folder`` raise within the block.

    ``place`` is what is read or written; ``resume`` says how to resume after a lost connection.
    """
    try:
        yield
    except (OSError, ValueError, RuntimeError, _http_error()) as error:
        lines = (_line(cause, folder, resume) for cause in _causes(error))
        line = next((line for line in lines if line), None)
        if line is None:
            raise
        raise HubError(f"{place}: {line}") from error


def _http_error() -> type[Exception]:
    """Return the base of the HTTP client's errors, which depends on the version of huggingface_hub."""
    from huggingface_hub.errors import HfHubHTTPError

    base: type[Exception] = HfHubHTTPError.__bases__[0]
    return base


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what caused it: an upload's failure is wrapped in a RuntimeError."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _line(error: BaseException, folder: Path | None, resume: str) -> str | None:
    """Return what is wrong and what to do; None for an error that says neither."""
    from huggingface_hub import errors as hub

    lines: list[tuple[Any, str]] = [
        (hub.LocalTokenNotFoundError, f"no token; {_LOG_IN}"),
        (hub.OfflineModeIsEnabled, "HF_HUB_OFFLINE is set; unset it, or name a commit that was read before"),
        (hub.GatedRepoError, "the repository is gated; ask for access on its page, and log in with that account"),
        (hub.RepositoryNotFoundError, f"no such repository, or a private one; check the name, or {_LOG_IN}"),
        (hub.RevisionNotFoundError, "no such revision; name a branch, a tag or a commit of the repository"),
        (hub.HFValidationError, "not a name of the Hub; write USER/NAME"),
    ]
    for kind, line in lines:
        if isinstance(error, kind):
            return line
    if isinstance(error, hub.HfHubHTTPError):
        return _of_status(error)
    if isinstance(error, _http_error()):
        return f"the Hub cannot be reached ({type(error).__name__}); check the connection{resume}"
    if isinstance(error, OSError) and error.errno in _DISK_FULL:
        return f"no space left on {folder or hub_cache()}; free some, or set ETUDE_CACHE to a folder on another disk"
    if isinstance(error, OSError) and error.filename:
        return f"cannot use {error.filename}: {error.strerror}; fix that and run the same command again"
    if isinstance(error, ConnectionError):
        return f"the connection failed ({' '.join(str(error).split())[:200]}); check it{resume}"
    return None


def _of_status(error: Any) -> str:
    status = error.response.status_code
    said_by_hub = " ".join(str(error.server_message or "").split())[:200]
    more = f" (it says: {said_by_hub})" if said_by_hub else ""
    return _BY_STATUS.get(status, f"the Hub answers {status}; run the same command again later") + more
