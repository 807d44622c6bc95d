"""Addresses of endpoints, and the keys they ask for."""

from __future__ import annotations

import ipaddress
import os
import re
from functools import lru_cache
from urllib.parse import urlsplit, urlunsplit

from ..errors import EndpointRefused, LLMError

BASE_URL = "https://api.openai.com/v1"
_SHORT = 12
"""Letters below which a key is no secret but a placeholder (``EMPTY``), which a model may well say itself."""


def address(url: str) -> str:
    """The base of an endpoint's address. Raises LLMError for what is none."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port >= 0)
    except ValueError:
        good = False
    if not (good and url.isprintable()):
        raise LLMError(f"not an endpoint's address: {shown(url)!r}; give one like http://127.0.0.1:8000/v1")
    return url.rstrip("/").removesuffix("/chat/completions")


def key_from(variable: str, base_url: str) -> str:
    """The key in an environment variable; an endpoint on this machine needs none. Raises LLMError."""
    key = os.environ.get(variable, "").strip()
    if not key and not is_local(address(base_url)):
        raise EndpointRefused(
            f"{variable} is not set: put the key for {shown(base_url)} there, or name another with --api-key-env"
        )
    return usable(key, f"the key in {variable}")


def usable(key: str, name: str = "the key") -> str:
    """The key, if a header can carry it. Raises EndpointRefused, which calls it ``name``."""
    if key.isascii() and key.isprintable():
        return key
    raise EndpointRefused(f"{name} is not one line of printable ASCII: put it there again, without anything around it")


def masked(text: str, key: str) -> str:
    """``text`` without the key, also where JSON has escaped it; as it is without a key."""
    return _written(key).sub("***", text) if key else text


def secret_in(key: str) -> str:
    """What a model's answer must not hold: the key, or the header with it where the key is a mere word."""
    return key if len(key) >= _SHORT or not key else f"Bearer {key}"


@lru_cache(maxsize=8)
def _written(key: str) -> re.Pattern[str]:
    """The ways to write a key in JSON: each letter is itself, behind a backslash or not, or its number."""
    return re.compile("".join(rf"(?:\\?{re.escape(letter)}|\\u(?i:{ord(letter):04x}))" for letter in key))


def shown(url: str) -> str:
    """An address without what must not be printed: user, password and query."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = None
    if parts is not None and parts.hostname:
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    # No address: what stands before an @ may be a password, whatever it looks like.
    scheme, mark, rest = url.rpartition("://")
    rest = re.split(r"[?#]", (rest if scheme.isalpha() else url).rpartition("@")[2])[0]
    return f"{scheme}{mark}{rest}" if scheme.isalpha() else rest


def is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
