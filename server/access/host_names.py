"""Names under which a server may be addressed.

A site can let its name point at the address of a server that only this machine, or only this network, can reach; its
pages then talk to that server as if it were theirs (DNS rebinding). Their requests carry the site's name as ``Host``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

VARIABLE = "ETUDE_ALLOWED_HOSTS"
ANY = "*"


class HostNames:
    """Names that ``Host`` may have. Addresses and ``localhost`` always pass, since no site can be called so.

    ``*.example.org`` stands for every name below ``example.org``, ``*`` for every name at all.
    """

    def __init__(self, names: Iterable[str] = (ANY,)) -> None:
        """Set up the names. Raises ValueError for one that is not a host name."""
        self.names = [_checked(name) for name in names]

    def allow(self, host: str | None) -> bool:
        """Return whether a request with this ``Host`` may pass; one without any does not come from a browser."""
        if ANY in self.names or not host:
            return True
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
        except ValueError:
            return False
        if name == "localhost" or name.endswith(".localhost") or _is_address(name):
            return True
        return any(
            name.endswith(allowed[1:]) if allowed.startswith("*.") else name == allowed for allowed in self.names
        )


def names_from_environment(chosen: Iterable[str] | None = None, *, loopback: bool = False) -> list[str]:
    """Return the chosen names, else those in ETUDE_ALLOWED_HOSTS, else none on a loopback address and any elsewhere."""
    names = list(chosen) if chosen else os.environ.get(VARIABLE, "").replace(",", " ").split()
    return names or ([] if loopback else [ANY])


def _checked(name: str) -> str:
    text = name.strip().lower()
    if text == ANY:
        return ANY
    text = text.rstrip(".")
    plain = text.removeprefix("*.")
    if not plain or not plain.isascii() or not all(c.isalnum() or c in "-._" for c in plain):
        raise ValueError(
            f"{name!r} is not a host name: give names without scheme and port, such as gym.example.org, "
            f"*.example.org or * for any, with --allowed-host or {VARIABLE}"
        )
    return text


def _is_address(name: str) -> bool:
    try:
        ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True
