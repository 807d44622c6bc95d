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
"""Messages of a chat completion's request."""


class Knows(Protocol):
    """Knowledge of an environment's tasks: the next right call, and a call that errs."""

    def right(self, task_id: str, messages: Messages) -> Call: ...

    def wrong(self, task_id: str, messages: Messages, rng: random.Random) -> Call: ...


def calls_made(messages: Messages) -> list[Call]:
    """Return the calls of all assistant turns, in order."""
    functions = [call["function"] for message in messages for call in message.get("tool_calls") or []]
    return [(function["name"], json.loads(function["arguments"])) for function in functions]


@dataclass(frozen=True)
class Scripted:
    """Teacher that is right with a given probability. Its answer depends on the question and the seed alone."""

    name: str
    accuracy: float
    """Probability of a right answer."""
    knows: Knows
    tasks: Mapping[str, str]
    """Task ids, by the first message of the user."""
    seed: int = 0

    def __call__(self, messages: Messages) -> Call:
        task_id = self.tasks[next(message["content"] for message in messages if message["role"] == "user")]
        rng = random.Random(f"teacher {self.name} {self.seed} {json.dumps(messages)}")
        if rng.random() < self.accuracy:
            return self.knows.right(task_id, messages)
        return self.knows.wrong(task_id, messages, rng)


@contextmanager
def endpoint(answer: Callable[[Messages], Call]) -> Iterator[str]:
    """Yield the base URL of an OpenAI-compatible endpoint that answers each request with one call."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reply = json.dumps(completion(*answer(request["messages"]))).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *message: Any) -> None:
            """Print nothing: there are hundreds of requests."""

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
