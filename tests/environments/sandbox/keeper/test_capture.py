"""Bounded buffers of a command's output, and the pumps that fill them."""

from __future__ import annotations

import asyncio
import os
import random

from etude.environments.sandbox.keeper.capture import Capture
from etude.environments.sandbox.keeper.pump import Pump


def test_capture_keeps_everything_below_the_limit() -> None:
    capture = Capture(10)
    capture.feed(b"01234")
    capture.feed(b"56789")
    assert capture.result() == (b"0123456789", 0)


def test_capture_keeps_head_and_tail_however_the_stream_is_cut() -> None:
    random_ = random.Random(5)
    data = random_.randbytes(5000)
    for limit in (0, 1, 2, 7, 100, 4999):
        capture = Capture(limit)
        rest = data
        while rest:
            size = random_.randrange(1, 900)
            capture.feed(rest[:size])
            rest = rest[size:]
        head, tail = limit - limit // 2, limit // 2
        assert capture.result() == (data[:head] + data[len(data) - tail :], len(data) - limit)


def test_capture_keeps_the_beginning_alone_when_only_the_head_is_asked_for() -> None:
    capture = Capture(3, head_only=True)
    capture.feed(b"ab")
    capture.feed(b"cdef")
    assert capture.result() == (b"abc", 3)


def test_pump_takes_what_is_left_without_waiting_for_a_writer_that_stays() -> None:
    async def play() -> tuple[bytes, int]:
        capture = Capture(100)
        pump = Pump(capture.feed)
        kept = os.dup(pump.writer)
        os.write(kept, b"left over")
        pump.finish()
        os.close(kept)
        return capture.result()

    assert asyncio.run(play()) == (b"left over", 0)
