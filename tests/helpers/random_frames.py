"""Random and mutated frames of the WebSocket, from a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

Frame = str | bytes | tuple[bytes]
"""A text frame, a binary frame, or the bytes of a text frame that need not be UTF-8."""
WORDS = [
    "",
    "reset",
    "step",
    "state",
    "mcp",
    "close",
    "type",
    "data",
    "tool_calls",
    "submit",
    "x" * 300,
    "\ud800",
    "é\0",
]
NUMBERS: list[Any] = [0, -1, 1, 2**63, -(2**64), 10**400, 0.1, 1e308, float("inf"), float("nan"), True]
RESET_NAMES = [
    "seed",
    "episode_id",
    "task_id",
    "split",
    "index",
    "replay",
    "fork_of",
    "turn",
    "token",
    "tools",
    "faults",
]


class FrameMaker:
    """Makes frames; the same seed makes the same ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._kinds = [self._valid, self._reset, self._step, self._value_frame, self._deep, self._many, self._mcp]
        self._kinds += [self._broken, self._broken, self._bytes, self._valid]

    def frames(self, count: int) -> Iterator[Frame]:
        """Yield ``count`` frames; some are sent twice in a row."""
        before: Frame = '{"type": "state"}'
        for _ in range(count):
            if self._random.random() >= 0.05:
                before = self._random.choice(self._kinds)()
            yield before

    def _json(self, value: Any) -> str:
        text = json.dumps(value, ensure_ascii=self._random.random() < 0.5)
        return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")

    def _value(self, depth: int = 0) -> Any:
        pick = self._random.random()
        if depth > 4 or pick < 0.4:
            return self._random.choice([None, [], {}, *WORDS, *NUMBERS])
        width = self._random.randrange(5)
        if pick < 0.7:
            return [self._value(depth + 1) for _ in range(width)]
        return {self._random.choice(WORDS): self._value(depth + 1) for _ in range(width)}

    def _call(self) -> Any:
        call = {"id": self._random.choice(["a", "b", 7, None]), "name": self._random.choice(["submit", "nope", 3, ""])}
        arguments = self._random.choice([{}, "{", "[1]", {"answer": self._value()}, self._value()])
        flat = {**call, "arguments": arguments}
        return self._random.choice([flat, {"id": "a", "function": flat}, {"tool": "submit"}, self._value(3)])

    def _valid(self) -> str:
        step = {"type": "step", "data": {"text": "I look.", "tool_calls": [self._call()]}}
        return self._json(self._random.choice([{"type": "reset", "data": {}}, {"type": "state"}, step, step, step]))

    def _reset(self) -> str:
        names = self._random.sample(RESET_NAMES, self._random.randrange(4))
        seeds = [7, self._value()]
        return self._json({"type": "reset", "data": {name: self._random.choice(seeds) for name in names}})

    def _step(self) -> str:
        action = {"text": self._value(3), "tool_calls": [self._call() for _ in range(self._random.randrange(20))]}
        return self._json({"type": "step", "data": self._random.choice([action, self._value(1), {"tool": "submit"}])})

    def _value_frame(self) -> str:
        return self._json(self._random.choice([self._value(), {"type": self._value(3), "data": self._value()}]))

    def _deep(self) -> str:
        depth = self._random.choice([10, 100, 500, 3000, 100_000])
        opening, closing = self._random.choice([("[", "]"), ('{"a":', "}")])
        nested = opening * depth + "1" + closing * depth
        whole = '{"type": "step", "data": {"tool_calls": [{"name": "submit", "arguments": %s}]}}'
        return self._random.choice([nested, whole % nested, whole % json.dumps(nested), f'{{"type": {nested}}}'])

    def _many(self) -> str:
        item = self._random.choice(["{}", "null", "[]", '{"name":"submit"}', '""'])
        count = self._random.choice([16, 17, 300, 20_000, 200_000])
        place = self._random.choice(['"step", "data": {"tool_calls": %s}', '"reset", "data": {"replay": %s}', "%s"])
        return '{"type": %s}' % (place % f"[{','.join([item] * count)}]")

    def _mcp(self) -> str:
        method = self._random.choice(["tools/list", "tools/call", "openenv/session/create", "x", 3])
        params = self._random.choice([{}, {"name": "submit", "arguments": self._value()}, self._value()])
        return self._json({"type": "mcp", "data": {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}})

    def _broken(self) -> Frame:
        text = bytearray(self._random.choice([self._valid, self._reset, self._step, self._mcp])().encode())
        for _ in range(self._random.randrange(1, 6)):
            at = self._random.randrange(len(text) or 1)
            end = at + self._random.randrange(20)
            change = self._random.randrange(4)
            if change == 0:
                text[at:end] = b""
            elif change == 1:
                text[at:at] = text[at:end]
            else:
                text[at : at + 1] = bytes([self._random.randrange(256 if change == 2 else 128)])
        if self._random.random() < 0.1:
            return (bytes(text),)
        return bytes(text) if self._random.random() < 0.5 else text.decode("utf-8", "replace")

    def _bytes(self) -> bytes:
        return self._random.choice([self._random.randbytes(self._random.randrange(200)), self._valid().encode()])
