"""A stand-in of the Hub's HTTP interface on the loopback interface, for huggingface_hub's own client.

It has users, repositories with branches and commits, large-file storage, and faults that a test asks for. It counts
what is sent. Xet is not part of it: clients use the protocol of git-lfs (HF_HUB_DISABLE_XET=1).
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from helpers.light_server import serving

LARGE = (".parquet", ".xz", ".safetensors", ".bin")
TOKENS = {"hf_ada": "ada", "hf_bob": "bob"}
Files = dict[str, bytes]


@dataclass
class Repository:
    """Branches by name, and the files of each commit."""

    private: bool
    gated: bool = False
    branches: dict[str, str] = field(default_factory=dict)
    commits: dict[str, Files] = field(default_factory=dict)
    large: set[str] = field(default_factory=set)

    def commit(self, branch: str, files: Files) -> str:
        digest = hashlib.sha1(repr((len(self.commits), branch, sorted(files.items()))).encode()).hexdigest()
        self.commits[digest] = files
        self.branches[branch] = digest
        return digest

    def resolve(self, revision: str) -> str | None:
        commit = self.branches.get(revision, revision)
        return commit if commit in self.commits else None


class Hub:
    """State of the stand-in. ``sent`` has the sha256 of each large file that arrived, ``commits`` the paths of each."""

    def __init__(self) -> None:
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.storage: dict[str, bytes] = {}
        self.sent: list[str] = []
        self.commits: list[list[str]] = []
        self.drops = 0  # connections of uploads to drop
        self.stall_after: int | None = None  # uploads after which the next ones wait until their client is gone
        self.stalled = threading.Event()
        self.full = False  # whether the storage is used up
        self.before_commit: Any = None  # called before the next commit is made

    def files(self, repo_id: str, branch: str = "main", repo_type: str = "dataset") -> Files:
        repository = self.repositories[repo_type, repo_id]
        return repository.commits[repository.branches[branch]]

    def replace(self, repo_id: str, path: str, data: bytes, branch: str = "main") -> str:
        """Change one file of a dataset in a new commit, as an editor on the Hub would."""
        repository = self.repositories["dataset", repo_id]
        return repository.commit(branch, {**self.files(repo_id, branch), path: data})


class Dropped(Response):
    """An answer that promises a body and closes the connection instead."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})


def failure(status: int, code: str = "", message: str = "") -> JSONResponse:
    headers = {name: text for name, text in {"X-Error-Code": code, "X-Error-Message": message}.items() if text}
    return JSONResponse({"error": message or code}, status, headers)


def blob_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def make_app(hub: Hub) -> FastAPI:
    app = FastAPI()

    def user_of(request: Request) -> str | None:
        return TOKENS.get(request.headers.get("authorization", "").removeprefix("Bearer "))

    def open_repository(request: Request, repo_type: str, repo_id: str) -> Repository | JSONResponse:
        if "authorization" in request.headers and user_of(request) is None:
            return failure(401, message="Invalid credentials in Authorization header")
        repository = hub.repositories.get((repo_type, repo_id))
        if repository is None or (repository.private and user_of(request) != repo_id.partition("/")[0]):
            return failure(404 if user_of(request) else 401, "RepoNotFound")
        return repository

    @app.get("/api/whoami-v2")
    def whoami(request: Request) -> Any:
        user = user_of(request)
        return {"name": user, "type": "user"} if user else failure(401, message="Invalid credentials")

    @app.post("/api/repos/create")
    async def create(request: Request) -> Any:
        body, user = await request.json(), user_of(request)
        owner = body.get("organization") or user
        if owner != user:
            return failure(403, message="You don't have the rights to create under this namespace")
        key = (body.get("type") or "model", f"{owner}/{body['name']}")
        repository = hub.repositories.setdefault(key, Repository(body.get("visibility") == "private"))
        repository.commit("main", {".gitattributes": b"*.parquet filter=lfs\n"})
        return {"url": f"{request.base_url}{'datasets/' if key[0] == 'dataset' else ''}{key[1]}", "name": key[1]}

    @app.post("/api/validate-yaml")
    def validate_yaml() -> Any:
        return {"errors": [], "warnings": []}

    def info(request: Request, kind: str, owner: str, name: str, revision: str) -> Any:
        repository = open_repository(request, kind, f"{owner}/{name}")
        if isinstance(repository, JSONResponse):
            return repository
        commit = repository.resolve(revision)
        if commit is None:
            return failure(404, "RevisionNotFound", "Invalid rev id")
        siblings = [{"rfilename": path} for path in repository.commits[commit]]
        about = {"private": repository.private, "gated": "manual" if repository.gated else False, "siblings": siblings}
        return {"_id": "1", "id": f"{owner}/{name}", "sha": commit, "tags": [], "downloads": 0, "likes": 0, **about}

    @app.get("/api/{kind}s/{owner}/{name}")
    def head(request: Request, kind: str, owner: str, name: str) -> Any:
        return info(request, kind, owner, name, "main")

    @app.get("/api/{kind}s/{owner}/{name}/revision/{revision:path}")
    def revision_info(request: Request, kind: str, owner: str, name: str, revision: str) -> Any:
        return info(request, kind, owner, name, revision)

    @app.get("/api/{kind}s/{owner}/{name}/tree/{revision}")
    def tree(request: Request, kind: str, owner: str, name: str, revision: str) -> Any:
        repository = open_repository(request, kind, f"{owner}/{name}")
        if isinstance(repository, JSONResponse):
            return repository
        if repository.gated:
            return failure(403, "GatedRepo")
        commit = repository.resolve(revision)
        return failure(404, "RevisionNotFound") if commit is None else list(entries(repository.commits[commit]))

    def entries(files: Files) -> Iterator[dict[str, Any]]:
        for path, data in sorted(files.items()):
            large = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
            about = {"lfs": large} if path.endswith(LARGE) else {}
            yield {"type": "file", "oid": blob_id(data), "size": len(data), "path": path, **about}

    @app.get("/api/{kind}s/{owner}/{name}/tree/{revision}/{folder:path}")
    def subtree(request: Request, kind: str, owner: str, name: str, revision: str, folder: str) -> Any:
        listed = tree(request, kind, owner, name, revision)
        return [item for item in listed if item["path"].startswith(f"{folder}/")]

    @app.post("/api/{kind}s/{owner}/{name}/paths-info/{revision}")
    async def paths_info(request: Request, kind: str, owner: str, name: str, revision: str) -> Any:
        paths = parse_qs((await request.body()).decode()).get("paths", [])
        listed = tree(request, kind, owner, name, revision)
        folders = {path for path in paths if any(item["path"].startswith(f"{path}/") for item in listed)}
        files = [item for item in listed if item["path"] in paths]
        return [*files, *({"type": "directory", "path": path, "oid": "0" * 40} for path in sorted(folders))]

    @app.post("/api/{kind}s/{owner}/{name}/branch/{branch}")
    def make_branch(kind: str, owner: str, name: str, branch: str) -> Any:
        repository = hub.repositories[kind, f"{owner}/{name}"]
        if branch in repository.branches:
            return failure(409, message="Reference already exists")
        repository.branches[branch] = repository.branches["main"]
        return {}

    @app.post("/api/{kind}s/{owner}/{name}/preupload/{revision}")
    async def preupload(request: Request, kind: str) -> Any:
        named = [file["path"] for file in (await request.json())["files"]]
        modes = ["lfs" if path.endswith(LARGE) else "regular" for path in named]
        return {
            "files": [
                {"path": path, "uploadMode": mode, "shouldIgnore": False}
                for path, mode in zip(named, modes, strict=True)
            ]
        }

    @app.post("/{path:path}.git/info/lfs/objects/batch")
    async def batch(request: Request, path: str) -> Any:
        objects = (await request.json())["objects"]
        for item in objects:
            if item["oid"] not in hub.storage:
                item["actions"] = {"upload": {"href": f"{request.base_url}lfs/{item['oid']}"}}
        return {"transfer": "basic", "objects": objects}

    @app.put("/lfs/{oid}")
    async def upload(request: Request, oid: str) -> Any:
        if hub.stall_after is not None and len(hub.sent) >= hub.stall_after:
            hub.stalled.set()
            while (await request.receive())["type"] != "http.disconnect":
                pass
            return Dropped()
        data = await request.body()
        if hub.drops:
            hub.drops -= 1
            return Dropped()
        if hub.full:
            return failure(413, message="Storage limit reached")
        assert hashlib.sha256(data).hexdigest() == oid
        hub.sent.append(oid)
        hub.storage[oid] = data
        return {}

    @app.post("/api/{kind}s/{owner}/{name}/commit/{revision}")
    async def commit(request: Request, kind: str, owner: str, name: str, revision: str) -> Any:
        if hub.before_commit is not None:
            hub.before_commit()
        repository = hub.repositories[kind, f"{owner}/{name}"]
        lines = [json.loads(line) for line in (await request.body()).splitlines()]
        header = lines[0]["value"]
        if header.get("parentCommit") not in (None, repository.branches[revision]):
            return failure(412, message="The expected parent commit is not the head of the branch")
        files = dict(repository.commits[repository.branches[revision]])
        for line in lines[1:]:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = hub.storage[value["oid"]]
            else:
                del files[value["path"]]
        hub.commits.append([line["value"]["path"] for line in lines[1:]])
        digest = repository.commit(revision, files)
        page = f"{request.base_url}{'datasets/' if kind == 'dataset' else ''}{owner}/{name}/commit/{digest}"
        return {"commitUrl": page, "commitOid": digest}

    @app.api_route("/{prefix:path}/resolve/{revision}/{path:path}", methods=["GET", "HEAD"])
    def resolve(request: Request, prefix: str, revision: str, path: str) -> Any:
        kind = "dataset" if prefix.startswith("datasets/") else "model"
        repository = open_repository(request, kind, prefix.removeprefix("datasets/"))
        if isinstance(repository, JSONResponse):
            return repository
        if repository.gated:
            return failure(403, "GatedRepo")
        commit = repository.resolve(revision)
        if commit is None or path not in repository.commits[commit]:
            return failure(404, "RevisionNotFound" if commit is None else "EntryNotFound")
        data = repository.commits[commit][path]
        headers = {"X-Repo-Commit": commit, "ETag": f'"{hashlib.sha256(data).hexdigest()}"'}
        return Response(
            b"" if request.method == "HEAD" else data, headers={**headers, "Content-Length": str(len(data))}
        )

    return app


@contextlib.contextmanager
def running(hub: Hub) -> Iterator[str]:
    """Serve the stand-in and yield its address."""
    with serving(make_app(hub)) as served:
        yield served.url
