"""The HTTP server of the stand-in for a cluster: routes, the WebSocket of attach, TLS, and a kubeconfig."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import uvicorn
import yaml
from helpers.stand_in_cluster import NAMESPACE, Cluster, Refusal
from helpers.stand_in_node import Node, NodeImage
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

_PIECE = struct.Struct(">BxxxI")
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_STREAMS = {"container": "worker", "stdin": "true", "stdout": "true", "stderr": "true"}


class Api:
    """The stand-in's server, in a thread."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self._attached: set[WebSocket] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._folder = folder
        self._certificate = _certificate(folder)
        self.open()

    def open(self, port: int = 0) -> None:
        """Listen, on the same port as before after ``close``."""
        routes = [
            Route("/version", self._refusable(lambda request, body: {"major": "1", "minor": "31"}, anonymous=True)),
            Route(
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                self._refusable(self._review),
                methods=["POST"],
            ),
            Route(_PODS, self._refusable(self._create, ("create", "pods")), methods=["POST"]),
            Route(_PODS, self._refusable(self._list), methods=["GET"]),
            Route(f"{_PODS}/{{name}}", self._refusable(self._get, ("get", "pods")), methods=["GET"]),
            Route(f"{_PODS}/{{name}}", self._refusable(self._delete, ("delete", "pods")), methods=["DELETE"]),
            Route(f"/api/v1/namespaces/{NAMESPACE}/events", self._refusable(self._events, ("list", "events"))),
            WebSocketRoute(f"{_PODS}/{{name}}/attach", self._attach),
        ]
        key, certificate = self._certificate
        config = uvicorn.Config(
            Starlette(routes=routes),
            host="127.0.0.1",
            port=port,
            log_level="error",
            ssl_keyfile=str(key),
            ssl_certfile=str(certificate),
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
            time.sleep(0.01)
        self.port = self._server.servers[0].sockets[0].getsockname()[1]

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join()

    def drop_connections(self) -> None:
        """Close every connection to a pod, as an API server does that restarts."""

        async def drop() -> None:
            for websocket in list(self._attached):
                await websocket.close(1012)

        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(drop(), self._loop).result()

    def kubeconfig(self, **cluster: Any) -> Path:
        """Write a kubeconfig; ``cluster`` overrides its cluster's fields."""
        fields = {
            "server": f"https://127.0.0.1:{self.port}",
            "certificate-authority": str(self._certificate[1]),
            **cluster,
        }
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "stand-in", "cluster": fields}],
            "users": [{"name": "account", "user": {"token": self.cluster.token}}],
            "contexts": [
                {"name": "c", "context": {"cluster": "stand-in", "user": "account", "namespace": NAMESPACE}},
            ],
            "current-context": "c",
        }
        path = self._folder / "kubeconfig"
        path.write_text(yaml.safe_dump(content))
        return path

    def _refusable(
        self,
        answer: Callable[[Request, Any], Any],
        *needed: tuple[str, str],
        anonymous: bool = False,
    ) -> Callable[[Request], Any]:
        async def handle(request: Request) -> Response:
            try:
                if not anonymous:
                    self.cluster.allow(request.headers, *needed)
                body = await request.json() if request.method == "POST" else None
                content = await asyncio.to_thread(answer, request, body)
            except Refusal as refusal:
                return JSONResponse(refusal.status, refusal.code)
            return content if isinstance(content, Response) else JSONResponse(content)

        return handle

    def _review(self, request: Request, body: Any) -> Any:
        asked = body["spec"]["resourceAttributes"]
        resource = "/".join(part for part in (asked["resource"], asked.get("subresource")) if part)
        return {**body, "status": {"allowed": (asked["verb"], resource) in self.cluster.rules}}

    def _create(self, request: Request, body: Any) -> Any:
        return JSONResponse(self.cluster.create(body), 201)

    def _list(self, request: Request, body: Any) -> Any:
        query = request.query_params
        if query.get("watch", "").lower() == "true":
            self.cluster.allow(request.headers, ("watch", "pods"))
            return StreamingResponse(self.cluster.watched(query), media_type="application/json")
        self.cluster.allow(request.headers, ("list", "pods"))
        return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": self.cluster.listed(query)}

    def _get(self, request: Request, body: Any) -> Any:
        return self.cluster.found(request.path_params["name"])

    def _delete(self, request: Request, body: Any) -> Any:
        return self.cluster.delete(request.path_params["name"])

    def _events(self, request: Request, body: Any) -> Any:
        wanted = dict(part.split("=") for part in request.query_params["fieldSelector"].split(","))
        name = wanted["involvedObject.name"]
        found = [event for event in self.cluster.events if event["involvedObject"]["name"] == name]
        return {"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": found}

    async def _attach(self, websocket: WebSocket) -> None:
        """Carry a pod's streams over a WebSocket."""
        try:
            self.cluster.allow(websocket.headers, ("get", "pods/attach"), ("create", "pods/attach"))
            container = self.cluster.container_of(websocket.path_params["name"])
        except Refusal as refusal:
            return await websocket.send_denial_response(JSONResponse(refusal.status, refusal.code))
        assert dict(websocket.query_params) == _STREAMS
        protocol = next(one for one in websocket.scope["subprotocols"] if one.endswith("channel.k8s.io"))
        plain = await asyncio.to_thread(self.cluster.node.attach, container)
        await websocket.accept(protocol)
        self._attached.add(websocket)
        self._loop = asyncio.get_running_loop()
        incoming = asyncio.ensure_future(_carry_in(websocket, plain))
        try:
            await _carry_out(websocket, plain)
            await websocket.send_bytes(b"\x03" + json.dumps({"status": "Success", "metadata": {}}).encode())
            await websocket.close()
        except (RuntimeError, WebSocketDisconnect):
            pass  # the client hung up
        finally:
            self._attached.discard(websocket)
            incoming.cancel()
            plain.close()


async def _carry_in(websocket: WebSocket, plain: socket.socket) -> None:
    try:
        while data := await websocket.receive_bytes():
            assert data[0] == 0, "only standard input comes from a client"
            await asyncio.get_running_loop().sock_sendall(plain, data[1:])
    except (OSError, WebSocketDisconnect, RuntimeError):
        pass
    with contextlib.suppress(OSError):
        plain.shutdown(socket.SHUT_RDWR)


async def _carry_out(websocket: WebSocket, plain: socket.socket) -> None:
    buffer = bytearray()
    with contextlib.suppress(OSError):
        while data := await asyncio.get_running_loop().sock_recv(plain, 1 << 16):
            buffer += data
            while len(buffer) >= _PIECE.size:
                channel, length = _PIECE.unpack_from(buffer)
                if len(buffer) < _PIECE.size + length:
                    break
                await websocket.send_bytes(bytes([channel]) + bytes(buffer[_PIECE.size : _PIECE.size + length]))
                del buffer[: _PIECE.size + length]


@contextlib.contextmanager
def running_cluster(
    folder: Path, images: Mapping[str, NodeImage], claims: Mapping[str, Path], role: Path
) -> Iterator[Api]:
    """Run a stand-in with one node, where an account may do what the Role in a file says."""
    node = Node(images, claims)
    roles = [one for one in yaml.safe_load_all(role.read_text()) if one["kind"] == "Role"]
    rules = [rule for one in roles for rule in one["rules"]]
    allowed = {(verb, resource) for rule in rules for verb in rule["verbs"] for resource in rule["resources"]}
    api = Api(Cluster(node, allowed), folder)
    try:
        yield api
    finally:
        api.close()
        for name in list(api.cluster.pods):
            api.cluster.delete(name)
        node.close()


def _certificate(folder: Path) -> tuple[Path, Path]:
    """Return a key and a certificate that signs itself, for 127.0.0.1."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    options = "-x509 -nodes -days 1 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -subj /CN=stand-in".split()
    extension = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", *options, *extension], check=True, capture_output=True)
    return key, certificate
