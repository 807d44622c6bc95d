"""Pool of worker processes: they are started, counted, replaced when one dies, and stopped."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.process import BaseProcess

from .handover import Handover, Report, channel_pair, receive_report, send_connection
from .place import Place, new_place
from .request_head import RequestHead

log = logging.getLogger(__name__)

Work = Callable[[Place, socket.socket], None]
"""Runs a worker at a place with its end of the channel. It must be importable."""
_FULL_S = 10.0
"""Seconds that a handover waits while a worker takes no connections."""
_EARLY_S = 5.0
"""A worker that ends within these seconds of its start is started again with a delay, which doubles each time."""
_MAX_DELAY_S = 30.0


class Worker:
    """One worker process, as the front sees it."""

    def __init__(self, place: Place, process: BaseProcess, channel: socket.socket) -> None:
        self.place, self.process, self.channel = place, process, channel
        self.began = time.monotonic()
        self.ready: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        """Done when the worker takes connections (True) or has ended (False)."""
        self.stopping = False
        """Whether the worker takes no further connections."""
        self.sessions: Counter[str] = Counter()
        """Open sessions of each client."""
        self.pending: dict[int, str] = {}
        """Client of each connection that may still open a session, by the number of its handover."""

    @property
    def is_serving(self) -> bool:
        """Return whether the worker takes connections."""
        return self.ready.done() and self.ready.result() and not self.stopping and self.channel.fileno() >= 0

    @property
    def load(self) -> int:
        """Return the number of sessions, those included that are about to be opened."""
        return self.sessions.total() + len(self.pending)

    def of_client(self, client: str) -> int:
        """Return the number of these sessions that belong to a client."""
        return self.sessions[client] + sum(name == client for name in self.pending.values())

    def note(self, report: Report) -> None:
        """Update the counts; end the channel to a worker that stops, which then has all that was sent."""
        if report.event == "ready":
            self.ready.set_result(True)
        elif report.event == "stopping":
            self.stopping = True
            self.channel.shutdown(socket.SHUT_WR)
        elif report.event == "opened":
            self.sessions[report.client] += 1
        elif report.event == "closed":
            self.sessions[report.client] -= 1
        self.sessions = +self.sessions
        self.pending.pop(report.number, None)


class Pool:
    """The workers of one server. ``work`` runs in each process."""

    def __init__(self, count: int, replica: str, work: Work, preload: list[str]) -> None:
        self._count, self._replica, self._work = count, replica, work
        # The modules are loaded once; a worker is a fork of the process that has loaded them.
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(preload)
        self._workers: dict[int, Worker] = {}
        self._keepers: list[asyncio.Task[None]] = []
        self._number = 0
        self.stopping = False
        """Whether no worker is started any more."""
        self.restarts = 0
        """Workers that were started in place of one that died."""
        self.on_end: Callable[[Worker], None] = lambda worker: None
        """Called with a worker that has died."""

    @property
    def serving(self) -> list[Worker]:
        """Return the workers that take connections."""
        return [worker for worker in self._workers.values() if worker.is_serving]

    async def start(self) -> bool:
        """Start the workers and wait until all serve; return False when one cannot, which has said why.

        The first one starts alone, so that a bad setting is reported once.
        """
        for numbers in ([1], range(2, self._count + 1)):
            for number in numbers:
                self._workers[number] = self._start_one(number)
            if not all([await worker.ready for worker in self._workers.values()]):
                await self.stop()
                return False
        self._keepers = [asyncio.create_task(self._keep(number)) for number in self._workers]
        return True

    async def stop(self) -> None:
        """Send SIGTERM to all workers, and wait until they have ended."""
        self.signal()
        for worker in list(self._workers.values()):
            await asyncio.to_thread(worker.process.join)
        for keeper in self._keepers:
            keeper.cancel()

    def signal(self) -> None:
        """Send SIGTERM to all workers; a second one ends a drain."""
        self.stopping = True
        for worker in self._workers.values():
            if worker.process.is_alive() and worker.process.pid is not None:
                worker.process.terminate()

    def choose(self, request: RequestHead) -> Worker | None:
        """Return the worker that a request names, else the one with the fewest sessions; None when none serves."""
        serving = self.serving
        for place in request.places:
            for worker in serving:
                if worker.place == place:
                    return worker
        return min(serving, key=lambda worker: worker.load, default=None)

    async def hand_over(self, worker: Worker, request: RequestHead, connection: socket.socket, client: str) -> bool:
        """Pass a connection to a worker; return whether it was taken. The caller closes its own copy."""
        others = [other for other in self._workers.values() if other is not worker]
        handover = Handover(0)
        if request.opens_session:
            self._number += 1
            worker.pending[self._number] = client
            of_client = sum(other.of_client(client) for other in others)
            handover = Handover(self._number, sum(other.load for other in others), of_client)
        deadline = time.monotonic() + _FULL_S
        while True:
            try:
                send_connection(worker.channel, handover, connection, request.data)
                return True
            except BlockingIOError:
                if time.monotonic() < deadline:
                    await asyncio.sleep(0.01)
                    continue
            except OSError:
                pass
            worker.pending.pop(handover.number, None)
            return False

    def _start_one(self, number: int) -> Worker:
        """Start a worker and listen to its reports."""
        place = new_place(self._replica, number)
        near, far = channel_pair()
        process = self._context.Process(target=self._work, args=(place, far), name=f"etude worker {number}")
        process.start()
        far.close()
        worker = Worker(place, process, near)
        asyncio.get_running_loop().add_reader(near, self._receive, worker)
        return worker

    def _receive(self, worker: Worker) -> None:
        while True:
            try:
                report = receive_report(worker.channel)
            except BlockingIOError:
                return
            except OSError:
                report = None
            if report is None:
                asyncio.get_running_loop().remove_reader(worker.channel)
                worker.channel.close()
                if not worker.ready.done():
                    worker.ready.set_result(False)
                return
            worker.note(report)

    async def _keep(self, number: int) -> None:
        """Start a worker again each time that it ends, until the pool is stopped."""
        delay = 0.0
        while True:
            worker = self._workers[number]
            await asyncio.to_thread(worker.process.join)
            if self.stopping:
                return
            self.on_end(worker)
            lived = time.monotonic() - worker.began
            delay = min(_MAX_DELAY_S, max(1.0, 2 * delay)) if lived < _EARLY_S else 0.0
            log.error(
                "worker %d ended (%s) with %d sessions, which are lost; another one starts",
                number,
                _cause(worker.process.exitcode),
                worker.sessions.total(),
            )
            await asyncio.sleep(delay)
            if self.stopping:
                return
            self.restarts += 1
            self._workers[number] = self._start_one(number)


def _cause(exit_code: int | None) -> str:
    return signal.Signals(-exit_code).name if exit_code is not None and exit_code < 0 else f"exit code {exit_code}"
