"""Recorded answers to frames with an id, so that a repeated frame is answered and not played again."""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b

from .socket import error_frame

MOST_ANSWERS = 64
"""Answers of one session that are stored."""
MOST_BYTES = 1 << 20
"""Characters of these answers; the newest one is stored whatever its size."""


class RecordedAnswers:
    """The newest answers of one session by the ids of their frames. Ids are 1, 2, 3, ... in a session."""

    def __init__(self, most: int = MOST_ANSWERS, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._answers: OrderedDict[int, tuple[bytes, str]] = OrderedDict()
        self._bytes = 0
        self._last = 0

    def begin(self, number: int, frame: str) -> str | None:
        """Return the answer to a frame that must not be played: a repeated one, or one out of order.

        None for the next frame, which counts as played from now on.
        """
        if number == self._last + 1:
            self._last = number
            return None
        if number > self._last:
            reason = f"frame {number} is out of order: ids count up by one; send frame {self._last + 1} next"
            return error_frame("OUT_OF_ORDER", reason, number)
        digest, answer = self._answers.get(number, (b"", ""))
        if not digest:
            reason = f"the answer to frame {number} is not stored any more: only the newest answers are"
            return error_frame("OUT_OF_ORDER", reason, number)
        if digest != _digest(frame):
            reason = f"frame {number} was another frame: give a new frame the next id, which is {self._last + 1}"
            return error_frame("OUT_OF_ORDER", reason, number)
        return answer

    def record(self, number: int, frame: str, answer: str) -> None:
        """Store the answer to a frame, and forget the oldest ones."""
        self._answers[number] = (_digest(frame), answer)
        self._bytes += len(answer)
        while len(self._answers) > self._most or (self._bytes > self._most_bytes and len(self._answers) > 1):
            self._bytes -= len(self._answers.popitem(last=False)[1][1])


def _digest(frame: str) -> bytes:
    return blake2b(frame.encode("utf-8", "surrogatepass"), digest_size=16).digest()
