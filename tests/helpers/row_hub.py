"""A stand-in of the Hub's reading interface on the loopback interface, for the library ``datasets``.

Run as a program it reads sources in a process of its own, since the library takes the Hub's address when it is
imported: ``python row_hub.py CACHE SOURCE...`` prints one line of JSON per source.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

COMMIT = "c0ffee" + "0" * 34
FILES = {"README.md": b"---\nlicense: mit\n---\n"}
GATED = "example/gated"


class Handler(BaseHTTPRequestHandler):
    """``example/shapes`` holds FILES on ``main`` and at COMMIT, ``example/gated`` is gated, others do not exist."""

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def reply(self, value: Any) -> None:
        self.answer(200, json.dumps(value).encode(), Content_Type="application/json")

    def do_GET(self) -> None:
        parts = unquote(urlsplit(self.path).path).strip("/").removeprefix("api/").split("/")
        if parts[0] != "datasets" or "/".join(parts[1:3]) not in ("example/shapes", GATED):
            return self.answer(401, X_Error_Code="RepoNotFound")
        if "/".join(parts[1:3]) == GATED:
            return self.answer(403, X_Error_Code="GatedRepo")
        kind, revision, path = parts[3] if len(parts) > 3 else "", "".join(parts[4:5]) or "main", "/".join(parts[5:])
        if revision not in ("main", COMMIT):
            return self.answer(404, X_Error_Code="RevisionNotFound")
        if kind == "resolve":
            return self.send_file(path)
        if kind == "tree":
            return self.reply(children(f"{path}/" if path else ""))
        if kind == "paths-info":
            size = int(self.headers.get("Content-Length", 0))
            named = parse_qs(self.rfile.read(size).decode()).get("paths", [])
            folders = {name for name in named if any(file.startswith(f"{name}/") for file in FILES)}
            listed = [directory(name) for name in sorted(folders)]
            return self.reply([*listed, *(entry(name) for name in FILES if name in named)])
        siblings = [{"rfilename": name} for name in FILES]
        return self.reply({"_id": "1", "id": "example/shapes", "sha": COMMIT, "tags": [], "siblings": siblings})

    do_HEAD = do_POST = do_GET

    def send_file(self, path: str) -> None:
        if path not in FILES:
            return self.answer(404, X_Error_Code="EntryNotFound", X_Repo_Commit=COMMIT)
        data, etag = FILES[path], f'"{entry(path)["oid"]}"'
        if asked := self.headers.get("Range"):
            first, _, last = asked.removeprefix("bytes=").partition("-")
            part = data[int(first) : int(last or len(data) - 1) + 1]
            span = f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}"
            return self.answer(206, part, ETag=etag, X_Repo_Commit=COMMIT, Content_Range=span)
        return self.answer(200, data, ETag=etag, X_Repo_Commit=COMMIT, Accept_Ranges="bytes")

    def log_message(self, *arguments: Any) -> None:
        """Print nothing."""


def entry(path: str) -> dict[str, Any]:
    return {"type": "file", "path": path, "size": len(FILES[path]), "oid": hashlib.sha1(FILES[path]).hexdigest()}


def directory(path: str) -> dict[str, Any]:
    return {"type": "directory", "path": path, "size": 0, "oid": "0" * 40}


def children(folder: str) -> list[dict[str, Any]]:
    """List a folder, whose name ends with a slash; empty is the top."""
    inside = [name for name in FILES if name.startswith(folder)]
    folders = {folder + name.removeprefix(folder).partition("/")[0] for name in inside if "/" in name[len(folder) :]}
    return [*map(directory, sorted(folders)), *(entry(name) for name in inside if "/" not in name[len(folder) :])]


@contextmanager
def serving(files: dict[str, bytes]) -> Iterator[str]:
    """Serve the files of ``example/shapes`` and give the address."""
    FILES.update(files)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def main(cache: str, sources: list[str]) -> None:
    from etude.errors import EtudeError
    from etude.generators.library.rows.formats import read_instances

    os.environ["HF_HOME"] = cache
    for source in sources:
        name, _, limit = source.partition(" ")
        try:
            read = read_instances(name, limit=int(limit) if limit else None)
            ids = [item.instance_id for item in read.instances]
            print(json.dumps({"ids": ids, "dataset": read.instances[0].dataset, "format": read.format}))
        except EtudeError as error:
            print(json.dumps({"error": str(error)}))


if __name__ == "__main__":
    sys.path.remove(str(Path(__file__).parent))
    main(sys.argv[1], sys.argv[2:])
