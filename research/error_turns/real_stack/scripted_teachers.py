"""Scripted teachers of known accuracy, each behind its own endpoint on the loopback, for ``etude replay`` to ask.

What they know of an environment's tasks is a ``Knows``.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

Call = tuple[str, dict[str, Any]]
"""A tool's name and its arguments."""
Messages = Sequence[Mapping[str, Any]]
"""Of a chat completion's request."""


class Knows(Protocol):
    """The call that comes next: one that leads on, or one that errs."""

    def right(self, task_id: str, messages: Messages) -> Call: ...

    def wrong(self, task_id: str, messages: Messages, chance: random.Random) -> Call: ...


def calls_made(messages: Messages) -> list[Call]:
    """Of all assistant turns, in order."""
    functions = [call["function"] for message in messages for call in message.get("tool_calls") or []]
    return [(each["name"], json.loads(each["arguments"])) for each in functions]


@dataclass(frozen=True)
class Scripted:
    """Right with the probability ``accuracy``, by what it is asked alone: whoever asks again hears the same.

    ``tasks``: their ids, by what the user says first.
    """

    name: str
    accuracy: float
    knows: Knows
    tasks: Mapping[str, str]
    seed: int = 0

    def __call__(self, messages: Messages) -> Call:
        task_id = self.tasks[next(each["content"] for each in messages if each["role"] == "user")]
        chance = random.Random(f"teacher {self.name} {self.seed} {json.dumps(messages)}")
        if chance.random() < self.accuracy:
            return self.knows.right(task_id, messages)
        return self.knows.wrong(task_id, messages, chance)


@contextmanager
def endpoint(answer: Callable[[Messages], Call]) -> Iterator[str]:
    """Yield the base URL of an OpenAI-compatible endpoint that answers each request with one call."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            said = json.dumps(completion(*answer(asked["messages"]))).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *said: Any) -> None:
            """Nothing: it is asked hundreds of times."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()
            thread.join()


def completion(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a chat completion with one call; its usage is 0, because a script reads and writes no tokens."""
    call = {"id": "call_0", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    return {"object": "chat.completion", "choices": [choice], "usage": {"prompt_tokens": 0, "completion_tokens": 0}}
