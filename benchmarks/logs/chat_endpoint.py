"""Chat completions endpoint on 127.0.0.1 that plays the answers of this folder; it needs the standard library alone.

The answers hold an unknown tool, arguments that are not JSON, arguments that do not fit, a file that does not exist, a
command that fails, and the same command done right.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

QUESTION = "How many lines has notes.txt?"
FINAL = "notes.txt has 2 lines."


def call(number: int, name: str, arguments: str | dict[str, Any]) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": text}}


def answers(prefix: str = "") -> list[dict[str, Any]]:
    """Return the assistant's messages; ``prefix`` stands before the names of the tools that exist."""
    shell, read = f"{prefix}shell", f"{prefix}read_text"
    turns: list[tuple[str, list[dict[str, Any]]]] = [
        ("I look for the notes.", [call(1, "search_web", {"query": "notes"})]),
        ("", [call(2, shell, '{"command": "wc -l')]),
        ("", [call(3, shell, {"cmd": "wc -l notes.txt"})]),
        ("", [call(4, read, {"path": "missing.txt"})]),
        ("", [call(5, shell, {"command": "grep -c two missing.txt"})]),
        ("", [call(6, shell, {"command": "wc -l notes.txt"}), call(7, read, {"path": "notes.txt"})]),
        (FINAL, []),
    ]
    return [{"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})} for text, calls in turns]


def completion(request: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    turns = answers(prefix)
    number = sum(message.get("role") == "assistant" for message in request.get("messages", []))
    message = turns[min(number, len(turns) - 1)]
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1700000000,
        "model": request.get("model", "scripted"),
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 9, "total_tokens": 19},
    }


class Sender(BaseHTTPRequestHandler):
    """Handler that sends whole bodies and writes no log."""

    def send(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Write no log."""


@contextlib.contextmanager
def serving(prefix: str = "") -> Iterator[str]:
    """Serve the answers; the value is the base URL."""

    class Handler(Sender):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            whole = completion(request, prefix)
            if request.get("stream"):
                message = whole["choices"][0].pop("message")
                calls = [{"index": index, **each} for index, each in enumerate(message.get("tool_calls") or [])]
                delta = {**message, **({"tool_calls": calls} if calls else {})}
                chunk = {**whole, "object": "chat.completion.chunk"}
                chunk["choices"] = [{**whole["choices"][0], "delta": delta}]
                self.send("text/event-stream", f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())
            else:
                self.send("application/json", json.dumps(whole).encode())

        def do_GET(self) -> None:
            models = {"object": "list", "data": [{"id": "scripted", "object": "model"}]}
            self.send("application/json", json.dumps(models).encode())

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()
