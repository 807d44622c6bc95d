"""The optional API key: which keys are usable, and whether a request carries the key.

The key is sent as ``X-API-Key: KEY`` or ``Authorization: Bearer KEY``. ``GET /episodes/...`` takes the session's token
as Bearer, so there the key must be in ``X-API-Key``. ``/view`` is opened in browsers, which ask for the key as the
password of HTTP's basic authentication; the name is not looked at.
"""

from __future__ import annotations

import base64
import hmac

from starlette.datastructures import Headers

from ...client import KEY_VARIABLE

MIN_KEY = 16
"""Characters of the shortest key that is accepted."""


def check_key(key: str) -> str:
    """Return a usable key. Raises ValueError for one that is short or that no header can carry."""
    if key and (len(key) < MIN_KEY or not key.isascii() or not key.isprintable() or " " in key):
        raise ValueError(
            f"{KEY_VARIABLE} must have {MIN_KEY} printable ASCII characters or more, and no space; "
            "`openssl rand -hex 32` makes one"
        )
    return key


def has_key(headers: Headers, path: str, key: bytes) -> bool:
    """Return whether a request to ``path`` carries the key. Keys are compared in constant time."""
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    candidates = [headers.get("x-api-key", "")]
    if scheme.lower() == "bearer" and not path.startswith("/episodes/"):
        candidates.append(bearer.strip())
    if scheme.lower() == "basic" and is_view(path):
        candidates.append(_password(bearer))
    return any(hmac.compare_digest(text.encode("utf-8", "replace"), key) for text in candidates)


def is_view(path: str) -> bool:
    """Return whether a path is the viewer's, where a browser asks for the key."""
    return path == "/view" or path.startswith("/view/")


def _password(credentials: str) -> str:
    """Return the password in the credentials of basic authentication; empty for anything else."""
    try:
        return base64.b64decode(credentials.strip(), validate=True).decode("utf-8", "replace").partition(":")[2]
    except ValueError:
        return ""
