"""A scripted OpenAI-compatible endpoint on 127.0.0.1: it answers, or stalls, errs, breaks off and talks rubbish."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Manner = Literal["whole", "stall", "reset", "truncated", "drip"]


@dataclass(frozen=True)
class Answer:
    """What comes back, and how: ``stall`` sends nothing, ``drip`` a blank now and then, for as long as one waits."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    manner: Manner = "whole"
    after_s: float = 0.0
    """Seconds before the answer is sent."""


Script = Callable[[int, dict[str, Any]], Answer]
"""From the number of the request (from 0) and its body to the answer."""


def say(
    text: str | None = None, *calls: Mapping[str, Any], usage: Any = (10, 5), finish: str = "stop", **more: Any
) -> Answer:
    """A chat completion; ``usage``: its (prompt, completion) tokens, or what stands there instead."""
    message = {"role": "assistant", "content": text, **({"tool_calls": list(calls)} if calls else {}), **more}
    if isinstance(usage, tuple):
        usage = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return Answer(body=json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode())


def call(name: str, arguments: Any, call_id: str = "c1") -> dict[str, Any]:
    """A tool call in OpenAI's shape; arguments that are no text become JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def fail(status: int, message: str = "no", **headers: str) -> Answer:
    body = json.dumps({"error": {"message": message}}).encode()
    return Answer(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


STALL = Answer(manner="stall")
RESET = Answer(manner="reset")
DRIP = Answer(manner="drip")
GARBAGE = Answer(body=b'<html>{"choices": [')
EMPTY = Answer(body=b'{"choices": []}')
TRUNCATED = Answer(body=say("cut").body, manner="truncated")


class Endpoint:
    """A running endpoint: its address and what it was asked."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.most_at_once = 0
        self._open = 0
        self.url = ""

    async def serve(self, ready: threading.Event) -> None:
        self._stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        async with await asyncio.start_server(self._connection, "127.0.0.1", 0) as server:
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
            ready.set()
            await self._stop.wait()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                answer = await self._heard(reader)
                self._open += 1
                self.most_at_once = max(self.most_at_once, self._open)
                if answer.manner == "stall":
                    await self._until_left(reader)
                await asyncio.sleep(answer.after_s)
                self._open -= 1
                await self._answer(reader, writer, answer)
        finally:
            writer.close()

    async def _heard(self, reader: asyncio.StreamReader) -> Answer:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = json.loads(await reader.readexactly(int(headers.get("content-length", 0))) or b"{}")
        number = len(self.requests)
        self.requests.append(body)
        self.headers.append(headers)
        self.paths.append(head[0].split()[1])
        return self.script(number, body)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer) -> None:
        if answer.manner == "stall":
            return
        if answer.manner == "reset":
            option = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, option)
            return
        length = 1 << 20 if answer.manner in ("drip", "truncated") else len(answer.body)
        about = {"Content-Type": "application/json", "Content-Length": str(length), "Connection": "close"}
        lines = "".join(f"{name}: {value}\r\n" for name, value in {**about, **answer.headers}.items())
        writer.write(f"HTTP/1.1 {answer.status} Scripted\r\n{lines}\r\n".encode() + answer.body)
        await writer.drain()
        while answer.manner == "drip" and not self._stop.is_set():
            writer.write(b" ")
            await writer.drain()
            await self._until_left(reader, 0.02)

    async def _until_left(self, reader: asyncio.StreamReader, seconds: float | None = None) -> None:
        """Wait until the client hangs up or the endpoint is stopped."""
        waits = [asyncio.ensure_future(reader.read(1)), asyncio.ensure_future(self._stop.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED, timeout=seconds)
        for wait in waits:
            wait.cancel()


@contextlib.contextmanager
def serving(script: Script) -> Iterator[Endpoint]:
    """An endpoint in a thread of its own."""
    endpoint, ready = Endpoint(script), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(endpoint.serve(ready)), daemon=True)
    thread.start()
    ready.wait(30)
    try:
        yield endpoint
    finally:
        endpoint.stop()
        thread.join(30)
