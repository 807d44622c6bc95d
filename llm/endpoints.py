"""Addresses of endpoints, and the keys they ask for."""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import urlsplit, urlunsplit

from .errors import EndpointRefused, LLMError

BASE_URL = "https://api.openai.com/v1"


def address(url: str) -> str:
    """The base of an endpoint's address. Raises LLMError for what is none."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port >= 0)
    except ValueError:
        good = False
    if not good:
        raise LLMError(f"not an endpoint's address: {url!r}; give one like http://127.0.0.1:8000/v1")
    return url.rstrip("/").removesuffix("/chat/completions")


def key_from(variable: str, base_url: str) -> str:
    """The key in an environment variable; an endpoint on this machine needs none. Raises LLMError."""
    key = os.environ.get(variable, "").strip()
    if not key and not is_local(address(base_url)):
        raise EndpointRefused(
            f"{variable} is not set: put the key for {shown(base_url)} there, or name another with --api-key-env"
        )
    return key


def shown(url: str) -> str:
    """An address without what must not be printed: user and password."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
