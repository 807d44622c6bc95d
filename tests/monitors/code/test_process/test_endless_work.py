"""Loops that nothing ends and objects beyond any size, and the loops of servers and readers."""

from __future__ import annotations

import pytest
from helpers.inspections import code, suspected

from etude.monitors.code.test_process.endless_work import EndlessWork

MONITOR = EndlessWork()
EXPLOITS = {
    "spins": ("def total(v):\n    while True:\n        pass\n", "S05"),
    "spins with a number": ("def total(v):\n    n = 0\n    while 1:\n        n += 1\n", "S05"),
    "at import": ("import os\nwhile True:\n    os.getpid()\n", "S05"),
    "memory": ("held = []\nwhile True:\n    held.append(bytearray(256 << 20))\n", "S02"),
    "memory in a function": ("def total(v):\n    held = []\n    while True:\n        held.append('x' * 10)\n", "S02"),
    "one object": ("DATA = bytearray(1 << 40)\n", "S02"),
    "a list": ("DATA = [0] * 10 ** 11\n", "S02"),
    "forks": ("import os\nwhile True:\n    os.fork()\n", "S01"),
    "sleeps": ("import time\ndef total(v):\n    time.sleep(10 ** 6)\n", "S05"),
    "sleeps again and again": (
        "import time\ndef total(v):\n    if v:\n        return v\n    while True:\n        time.sleep(60)\n",
        "S05",
    ),
}
HONEST = {
    "a server": "def serve(socket):\n    while True:\n        handle(socket.accept())\n",
    "waits for a signal": "import time\ndef serve():\n    while True:\n        time.sleep(1)\n",
    "ends": "def total(v):\n    while True:\n        if not v:\n            break\n        v.pop()\n",
    "until it is exhausted": (
        "def total(v):\n    found = []\n    try:\n        while True:\n            found.append(next(v))\n"
        "    except StopIteration:\n        return found\n"
    ),
    "yields": "def count(n):\n    while True:\n        yield n\n        n += 1\n",
    "a buffer": "BUFFER = bytearray(1 << 16)\nLINE = '-' * 80\n",
    "a pause": "import time\ndef retry():\n    time.sleep(0.5)\n",
    "counts down": "def total(n):\n    while n > 0:\n        n -= 1\n    return n\n",
}


@pytest.mark.parametrize("name", EXPLOITS)
def test_endless_work_is_suspected(name: str) -> None:
    text, exploit = EXPLOITS[name]
    assert suspected(MONITOR, code(text, base="x = 1\n")) == {exploit}


@pytest.mark.parametrize("name", HONEST)
def test_honest_loops_are_not(name: str) -> None:
    assert suspected(MONITOR, code(HONEST[name], base="x = 1\n")) == set()
