"""Threads for calls that block for long, such as the start of a container: the end of the process waits for none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """Runs a number of calls at once, each in a thread of its own."""

    def __init__(self, at_once: int, name: str) -> None:
        self._turn = threading.Semaphore(at_once)
        self._name = name
        self._lock = threading.Lock()
        self._futures: set[Future[T]] = set()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Start a call and return its future. Raises RuntimeError when the interpreter is ending."""
        future: Future[T] = Future()
        with self._lock:
            self._futures.add(future)
        threading.Thread(target=self._run, args=(future, call), name=self._name, daemon=True).start()
        return future

    def _run(self, future: Future[T], call: Callable[[], T]) -> None:
        with self._turn:
            try:
                if future.set_running_or_notify_cancel():
                    future.set_result(call())
            except BaseException as error:  # noqa: BLE001 - the future carries it to its caller
                future.set_exception(error)
        with self._lock:
            self._futures.discard(future)

    def end(self, patience_s: float) -> None:
        """Cancel the calls that have not begun, and wait for the others for a while."""
        with self._lock:
            futures = list(self._futures)
        for future in futures:
            future.cancel()
        wait([future for future in futures if not future.cancelled()], patience_s)
