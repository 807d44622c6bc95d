"""Bounded buffers for what a command writes. Stdlib only, Python 3.8: the containers' worker uses them."""

from __future__ import annotations

from collections.abc import Callable


class Capture:
    """Head and tail of a stream (or its head alone): at most ``limit`` bytes, and how many were dropped between them.

    The head goes to ``take_head`` as it comes, when that is given.
    """

    def __init__(
        self, limit: int, take_head: Callable[[bytes], object] | None = None, *, head_only: bool = False
    ) -> None:
        self._tail_room = 0 if head_only else limit // 2
        self._head_room = limit - self._tail_room
        self._head = bytearray()
        self._take_head = take_head or self._head.extend
        self._tail = bytearray()
        self._dropped = 0

    def feed(self, data: bytes) -> None:
        """Add what came next."""
        self._dropped += len(data)
        if self._head_room:
            head, data = data[: self._head_room], data[self._head_room :]
            self._head_room -= len(head)
            self._dropped -= len(head)
            self._take_head(head)
        self._tail += data
        # Trimmed only when twice too long, so that a flood is not copied for every chunk.
        if len(self._tail) > 2 * self._tail_room:
            del self._tail[: len(self._tail) - self._tail_room]

    def result(self) -> tuple[bytes, int]:
        """Return head (unless it was taken) and tail, and the number of bytes dropped."""
        tail = self._tail[len(self._tail) - min(len(self._tail), self._tail_room) :]
        return bytes(self._head + tail), self._dropped - len(tail)
