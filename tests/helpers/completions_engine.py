"""A scripted server with vLLM's ``/v1/completions``: ids in, ids out. Spawned processes import it too."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any]], Any]
END = "<|im_end|>"


class Engine(ThreadingHTTPServer):
    """Scripted engine; ``answer`` maps a request's body to a response's, or to a status and a body."""

    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.requests: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class JsonHandler(BaseHTTPRequestHandler):
    """Handler that answers in JSON and logs nothing."""

    def send_json(self, status: int, content: Any) -> None:
        written = json.dumps(content).encode()
        try:
            self.send_response(status)
            self.send_header("content-length", str(len(written)))
            self.end_headers()
            self.wfile.write(written)
        except OSError:
            pass  # the client is gone

    def log_message(self, *arguments: Any) -> None:
        pass


class Handler(JsonHandler):
    """Handler that records each request's body in ``Engine.requests``."""

    server: Engine

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append(body)
        reply = self.server.answer(body) if self.path == "/v1/completions" else (404, {"detail": "Not Found"})
        status, content = reply if isinstance(reply, tuple) else (200, reply)
        self.send_json(status, content)


@contextmanager
def serving(answer: Answer) -> Iterator[Engine]:
    with Engine(answer) as engine:
        threading.Thread(target=engine.serve_forever, daemon=True).start()
        yield engine
        engine.shutdown()


def completion(body: dict[str, Any], ids: list[int]) -> dict[str, Any]:
    """Return the part of vLLM's response that is read; each id is a little less likely than the previous one."""
    sampled = ids[: body["max_tokens"]]
    scores = [-0.125 * (place + 1) for place in range(len(sampled))]
    logprobs = {"tokens": [f"token_id:{token}" for token in sampled], "token_logprobs": scores}
    stopped = bool(sampled) and sampled[-1] in body["stop_token_ids"]
    finish = "stop" if stopped else "length"
    return {
        "model": body["model"],
        "choices": [
            {
                "index": 0,
                "text": "",
                "finish_reason": finish,
                "token_ids": sampled,
                "prompt_token_ids": body["prompt"],
                "logprobs": logprobs,
            }
        ],
    }


def talking(words: Any, turn: Callable[[str], str]) -> Answer:
    """Return a policy that depends only on the text it has read; each of its turns ends with ``END``."""

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        return completion(body, list(words.encode(turn(words.decode(body["prompt"])) + END, add_special_tokens=False)))

    return answer


def say(name: str, arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def number(text: str) -> int:
    """Return the number of the next turn: how many turns the policy's text contains."""
    return text.count("<|im_start|>assistant") - 1
