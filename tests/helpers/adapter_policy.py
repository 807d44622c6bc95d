"""A scripted policy behind an OpenAI-compatible endpoint, with the standard library alone.

It makes three mistakes (an unknown tool, malformed JSON, a missing file or, without files, a wrong argument). Then it
plays the solution of the task whose statement is in the prompt, if it knows the task, submits, and stops. A known task
is a row with its ``patch``, or one with ``calls``: names and arguments. Every request is logged.

    python adapter_policy.py --tasks DIR/tasks.jsonl --log requests.jsonl
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PATCH_FILE = "/tmp/solution.patch"


def mistakes(offered: Sequence[str]) -> list[tuple[str, str]]:
    """Return the calls that a session with these tools answers with an error."""
    first = offered[0] if offered else "bash"
    third = ("read_file", '{"path": "no/such/file.py"}') if "read_file" in offered else (first, '{"no_such": 1}')
    return [("grep_repo", '{"pattern": "def "}'), (first, '{"command": '), third]


def solution(task: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the calls that solve a known task."""
    if "calls" in task:
        return [(name, json.dumps(arguments)) for name, arguments in task["calls"]]
    write = {"path": PATCH_FILE, "content": task["patch"]}
    apply = {"command": f"git apply --whitespace=nowarn {PATCH_FILE}"}
    return [("write_file", json.dumps(write)), ("bash", json.dumps(apply)), ("submit", "{}")]


def script(
    messages: Sequence[Mapping[str, Any]], offered: Sequence[str], tasks: Sequence[Mapping[str, Any]]
) -> tuple[str, str] | None:
    """Return the next call (name, arguments) after ``messages``; None when the policy is done."""
    shown = json.dumps([message.get("content") for message in messages if message["role"] == "user"])
    solvable = [task for task in tasks if json.dumps(task["problem_statement"].strip())[1:-1] in shown]
    calls = [*mistakes(offered), *(solution(solvable[0]) if solvable else [("submit", "{}")])]
    place = sum(message["role"] == "assistant" for message in messages)
    return calls[place] if place < len(calls) else None


def completion(request: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a chat completion in OpenAI's format."""
    number = sum(message["role"] == "assistant" for message in request["messages"])
    offered = [tool["function"]["name"] for tool in request.get("tools") or []]
    call = script(request["messages"], offered, tasks)
    message: dict[str, Any] = {"role": "assistant", "content": "I am done." if call is None else f"Step {number}."}
    if call is not None:
        function = {"name": call[0], "arguments": call[1]}
        message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
    choice = {"index": 0, "message": message, "finish_reason": "stop" if call is None else "tool_calls"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    about = {"id": f"chatcmpl-{number}", "created": int(time.time()), "model": request.get("model", "scripted")}
    return {**about, "object": "chat.completion", "choices": [choice], "usage": usage}


def chunks(whole: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a completion as a stream: role and text, the call, the end, the usage."""
    choice = whole["choices"][0]
    message = choice["message"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": message["content"]}]
    deltas += [{"tool_calls": [{"index": 0, **call}]} for call in message.get("tool_calls", [])]
    base = {**whole, "object": "chat.completion.chunk", "usage": None}
    parts = [{**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    parts.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    return [*parts, {**base, "choices": [], "usage": whole["usage"]}]


class Policy(ThreadingHTTPServer):
    """Endpoint of the policy, used as a context manager; ``url`` is its base URL."""

    daemon_threads = True

    def __init__(self, tasks: Sequence[Mapping[str, Any]], log: Path, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Answer)
        self.tasks = tasks
        self.log = log
        self.lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"

    def __enter__(self) -> Policy:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.shutdown()
        self.server_close()


class Answer(BaseHTTPRequestHandler):
    """Handler that logs each request and answers it."""

    server: Policy

    def do_GET(self) -> None:
        self._send(json.dumps({"object": "list", "data": [{"id": "scripted", "object": "model"}]}).encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        with self.server.lock, self.server.log.open("ab") as file:
            file.write(body.replace(b"\n", b" ") + b"\n")
        request = json.loads(body)
        whole = completion(request, self.server.tasks)
        if not request.get("stream"):
            self._send(json.dumps(whole).encode())
            return
        lines = [f"data: {json.dumps(part)}\n\n" for part in chunks(whole)]
        self._send("".join([*lines, "data: [DONE]\n\n"]).encode(), "text/event-stream")

    def _send(self, body: bytes, kind: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *about: Any) -> None:
        """Log nothing."""


def read_tasks(file: Path | None) -> list[dict[str, Any]]:
    """Return the rows of a tasks.jsonl, secret parts included."""
    lines = file.read_text("utf-8").split("\n") if file is not None else []
    return [json.loads(line) for line in lines if line.strip()]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=Path)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    server = Policy(read_tasks(options.tasks), options.log, options.port)
    print(server.url, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
