"""Routes of the whole server: the answers of its workers, added up."""

from __future__ import annotations

import asyncio
import io
import json
import socket
from collections.abc import Sequence
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from .pool import Pool, Worker
from .request_head import RequestHead

ANSWER_S = 10.0
"""Seconds that a worker has to answer."""
_VIEW = "/view/data/"
_LARGEST = frozenset(("etude_sessions_limit", "process_max_fds", "process_virtual_memory_max_bytes"))
"""Metrics that every worker reports for the whole server."""
_BLOCK = 64 << 10


class Answer(NamedTuple):
    """An HTTP answer."""

    status: int
    content_type: str
    body: bytes

    def encoded(self) -> bytes:
        """Return the bytes of the answer, after which the connection is closed."""
        reason = HTTPStatus(self.status).phrase
        head = f"HTTP/1.1 {self.status} {reason}\r\ncontent-type: {self.content_type}\r\n"
        head += f"content-length: {len(self.body)}\r\ncache-control: no-store\r\nconnection: close\r\n\r\n"
        return head.encode() + self.body


class Totals:
    """Answers of all workers as one. ``pool`` has the workers."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._last: dict[Worker, bytes] = {}
        self._ended: list[bytes] = []  # metrics of workers that have ended, so that counters do not fall
        pool.on_end = self._note_end

    def adds_up(self, request: RequestHead) -> bool:
        """Return whether a request concerns more than one worker."""
        if request.method != "GET":
            return False
        several = len(set(request.places)) > 1
        return request.path in ("/metrics", "/healthz", "/readyz") or (several and request.path.startswith(_VIEW))

    async def answer(self, request: RequestHead) -> Answer:
        """Return the answer of all workers together."""
        workers = self._pool.serving
        answers = await asyncio.gather(*(self._ask(worker, request.data) for worker in workers))
        received = {worker: answer for worker, answer in zip(workers, answers, strict=True) if answer is not None}
        refused = next((answer for answer in received.values() if answer.status not in (200, 503)), None)
        if refused is not None and not request.path.startswith(_VIEW):
            return refused  # such as a missing key, or another host name
        if request.path == "/healthz":
            state = {
                "status": "ok" if received else "no worker answers",
                "workers": len(workers),
                "answering": len(received),
            }
            return _json({**state, "restarts": self._pool.restarts}, 200 if received else 503)
        if not received:
            return _json({"detail": "no worker answers: try again, and see the server's log"}, 503)
        if request.path == "/readyz":
            return _readiness([json.loads(answer.body) for answer in received.values()])
        if request.path.startswith(_VIEW):
            return _view(request.path, list(received.values()))
        self._last |= {worker: answer.body for worker, answer in received.items()}
        content_type = next(iter(received.values())).content_type
        return Answer(200, content_type, add_up([answer.body for answer in received.values()], self._ended))

    async def _ask(self, worker: Worker, request: bytes) -> Answer | None:
        """Return a worker's answer to the request, None when it gives none."""
        near, far = socket.socketpair()
        near.setblocking(False)
        loop, data = asyncio.get_running_loop(), bytearray()
        with near:
            with far:
                if not await self._pool.hand_over(worker, RequestHead(request), far, ""):
                    return None
            try:
                async with asyncio.timeout(ANSWER_S):
                    while block := await loop.sock_recv(near, _BLOCK):
                        data += block
                return _read(bytes(data))
            except (TimeoutError, OSError, HTTPException):
                return None

    def _note_end(self, worker: Worker) -> None:
        if (last := self._last.pop(worker, None)) is not None:
            self._ended.append(add_up([last], [], counters_only=True))
            self._ended = [add_up(self._ended, [], counters_only=True)]


class _Samples(Collector):
    """Families that are already collected."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Sequence[Metric]:
        return self._families


def add_up(texts: Sequence[bytes], ended: Sequence[bytes], *, counters_only: bool = False) -> bytes:
    """Return the sum of metrics in Prometheus' text format, sample by sample; of ``ended`` counters alone count."""
    families: dict[str, Metric] = {}
    values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
    for text, cumulative_only in [*((text, counters_only) for text in texts), *((text, True) for text in ended)]:
        for family in text_string_to_metric_families(text.decode()):
            if cumulative_only and family.type not in ("counter", "histogram", "summary"):
                continue
            families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            sums = values.setdefault(family.name, {})
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                sums[key] = _combined(sample.name, sums[key], sample.value) if key in sums else sample.value
    for name, sums in values.items():
        for (sample_name, labels), value in sums.items():
            families[name].add_sample(sample_name, dict(labels), value)
    registry = CollectorRegistry()
    registry.register(_Samples(list(families.values())))
    return generate_latest(registry)


def _combined(name: str, one: float, other: float) -> float:
    if name in _LARGEST:
        return max(one, other)
    return min(one, other) if name.endswith(("_created", "_start_time_seconds")) else one + other


def _readiness(bodies: Sequence[dict[str, Any]]) -> Answer:
    sessions, limit = sum(body["sessions"] for body in bodies), max(body["limit"] for body in bodies)
    reasons = [body["reason"] for body in bodies if body["reason"]]
    reason = reasons[0] if len(reasons) == len(bodies) else ""
    if not reason and sessions >= limit:
        reason = "every session is in use"
    counts = {"tasks": bodies[0]["tasks"], "sessions": sessions, "limit": limit, "workers": len(bodies)}
    return _json({"ready": not reason, "reason": reason, **counts}, 503 if reason else 200)


def _view(path: str, answers: Sequence[Answer]) -> Answer:
    """Return the viewer's data for tokens of several workers."""
    good = [answer for answer in answers if answer.status == 200]
    if not good or not path.endswith("/index"):
        return (good or list(answers))[0]
    bodies = [json.loads(answer.body) for answer in good]
    rows = [row for body in bodies for row in body["rows"]]
    rows = [{**row, "number": number} for number, row in enumerate(rows)]
    return _json({**bodies[0], "cursor": "", "rows": rows}, 200)


def _read(data: bytes) -> Answer:
    """Return the answer in the bytes of a connection. Raises HTTPException for other bytes."""

    class Received:
        def makefile(self, mode: str) -> io.BytesIO:
            return io.BytesIO(data)

    response = HTTPResponse(Received())  # type: ignore[arg-type]
    response.begin()
    return Answer(response.status, response.getheader("content-type") or "text/plain", response.read())


def _json(body: dict[str, Any], status: int) -> Answer:
    return Answer(status, "application/json", json.dumps(body).encode())
