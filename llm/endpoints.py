"""Addresses of endpoints and the keys that they need."""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import urlsplit

from ..errors import EndpointRefused, LLMError
from .printable import shown

BASE_URL = "https://api.openai.com/v1"


def address(url: str) -> str:
    """Return the base of an endpoint's address. Raises LLMError for a text that is not an HTTP address."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port >= 0)
    except ValueError:
        valid = False
    if not (valid and url.isprintable()):
        raise LLMError(f"not an endpoint's address: {shown(url)!r}; give one like http://127.0.0.1:8000/v1")
    return url.rstrip("/").removesuffix("/chat/completions")


def key_from(variable: str, base_url: str) -> str:
    """Return the key in an environment variable; an endpoint on this machine needs none. Raises LLMError."""
    key = os.environ.get(variable, "").strip()
    if not key and not is_local(address(base_url)):
        raise EndpointRefused(
            f"{variable} is not set: put the key for {shown(base_url)} there, or name another with --api-key-env"
        )
    return usable(key, f"the key in {variable}")


def usable(key: str, name: str = "the key") -> str:
    """Return the key if an HTTP header can carry it. Raises EndpointRefused, which calls the key ``name``."""
    if key.isascii() and key.isprintable():
        return key
    raise EndpointRefused(f"{name} is not one line of printable ASCII; set it again, without quotes or line breaks")


def is_local(url: str) -> bool:
    """Return whether an address is on this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
