"""Source distributions from the configured package index: found through uv, downloaded and checked by hash here.

uv has no command that downloads a source distribution, so the file that uv's lock names is fetched directly.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
from packaging.pylock import Pylock

from ....errors import BadSource, SourceNotFound
from ..builder.interpreter import Interpreter
from ..builder.packages import compile_lock
from ..builder.uv_command import UvResult, uv_environment

RELEASE = re.compile(r"^pypi:(?P<name>[A-Za-z0-9][\w.-]*?)(\[[^\]]*\])?==(?P<version>[\w.!+-]+)$")
_NAME = re.compile(r"^pypi:(?P<name>[A-Za-z0-9][\w.-]*)(\[[^\]]*\])?(?P<rest>.*)$")
_TIMEOUT_S = 60.0


def download(spec: str, interpreter: Interpreter, folder: Path) -> tuple[str, str, Path]:
    """Download the source distribution of ``pypi:NAME==VERSION``; return its name, its version and the file.

    Raises BadSource for a spec without an exact version, and SourceNotFound.
    """
    match = RELEASE.match(spec)
    if not match:
        raise BadSource(_incomplete(spec, interpreter, folder))
    name, version = match["name"].lower().replace("_", "-"), match["version"]
    url, sha256 = _locate(name, version, interpreter, folder)
    return name, version, _fetch(url, sha256, folder)


def _incomplete(spec: str, interpreter: Interpreter, folder: Path) -> str:
    """Return the error text for a spec without an exact version; it names the newest release where there is one."""
    match = _NAME.match(spec)
    newest = _newest(match["name"], interpreter, folder) if match else ""
    if not match or not newest:
        return f"{spec!r} names no exact version; write pypi:NAME==VERSION, without spaces"
    return f"{spec!r} names no exact version; write pypi:{match['name']}=={newest} for the newest one"


def _newest(requirement: str, interpreter: Interpreter, folder: Path) -> str:
    """Return the newest version with a source distribution that meets ``requirement``; empty when there is none."""
    lock = _lock(requirement, interpreter, folder)
    return "" if isinstance(lock, UvResult) else str(lock.packages[0].version)


def _lock(requirement: str, interpreter: Interpreter, folder: Path) -> Pylock | UvResult:
    """Resolve one requirement to a release that has a source distribution."""
    name = re.split(r"[=<>!~]", requirement)[0]
    return compile_lock(interpreter, [requirement], folder, ["--no-deps", "--no-binary", name])


def _locate(name: str, version: str, interpreter: Interpreter, folder: Path) -> tuple[str, str]:
    """Return the address and the sha256 of the source distribution. Raises SourceNotFound."""
    lock = _lock(f"{name}=={version}", interpreter, folder)
    if isinstance(lock, UvResult):
        newest, nearest = (_newest(text, interpreter, folder) for text in (name, f"{name}<{version}"))
        if not newest:
            raise SourceNotFound(f"cannot fetch {name}=={version}: {lock.error_text()}; check the name and the index")
        older = f", the newest before {version} is {nearest}" if nearest not in ("", newest) else ""
        raise SourceNotFound(
            f"no source distribution {name}=={version} on the package index (the newest is {newest}{older}); choose "
            f"another version, or write git+URL@TAG for a project that publishes only wheels"
        )
    sdist = lock.packages[0].sdist
    if sdist is None or not sdist.url or "sha256" not in sdist.hashes:
        raise SourceNotFound(f"the index gives no source distribution with a hash for {name}=={version}; use another")
    return sdist.url, sdist.hashes["sha256"]


def _fetch(url: str, sha256: str, folder: Path) -> Path:
    """Download ``url`` (http, https or file) into ``folder``. Raises SourceNotFound when it fails or differs."""
    parts = urlsplit(url)
    path = folder / unquote(parts.path).rpartition("/")[2]
    if parts.scheme == "file":
        shutil.copyfile(unquote(parts.path), path)
    else:
        environment = uv_environment()
        if environment.get("UV_OFFLINE", "") not in ("", "0", "false"):
            raise SourceNotFound(f"{path.name} is not downloaded because UV_OFFLINE is set; unset it")
        try:
            with (
                httpx.Client(**_client_options(parts.netloc, environment)) as client,
                client.stream("GET", url) as response,
                path.open("wb") as sink,
            ):
                response.raise_for_status()
                for block in response.iter_bytes():
                    sink.write(block)
        except httpx.HTTPError as error:
            raise SourceNotFound(f"cannot download {path.name}: {error}; check the network and the index") from error
    with path.open("rb") as stream:
        actual = hashlib.file_digest(stream, "sha256").hexdigest()
    if actual != sha256:
        raise SourceNotFound(f"{path.name} has sha256 {actual[:12]}, the index says {sha256[:12]}; download it again")
    return path


def _client_options(host: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of ``httpx.Client``: certificates, proxy and credentials as uv uses them."""
    trusted = host in environment.get("UV_INSECURE_HOST", "").split()
    context = ssl.create_default_context(
        cafile=environment.get("SSL_CERT_FILE") or None, capath=environment.get("SSL_CERT_DIR") or None
    )
    indexes = f"{environment.get('UV_INDEX', '')} {environment.get('UV_DEFAULT_INDEX', '')}".split()
    users = [parts for parts in map(urlsplit, indexes) if parts.username and parts.netloc.endswith(f"@{host}")]
    return {
        "verify": False if trusted else context,
        "proxy": None if "ALL_PROXY" in os.environ else environment.get("ALL_PROXY") or None,
        "auth": (users[0].username, users[0].password or "") if users else None,
        "follow_redirects": True,
        "timeout": float(environment.get("UV_HTTP_TIMEOUT") or _TIMEOUT_S),
    }
