"""A server that speaks vLLM's ``/v1/completions``, scripted: ids in, ids out. Also for a spawned process."""

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
    """``answer`` makes of a request's body an answer's, or a status and a body. ``asked`` are the requests' bodies."""

    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.asked: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Engine

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append(body)
        found = self.server.answer(body) if self.path == "/v1/completions" else (404, {"detail": "Not Found"})
        status, said = found if isinstance(found, tuple) else (200, found)
        written = json.dumps(said).encode()
        try:
            self.send_response(status)
            self.send_header("content-length", str(len(written)))
            self.end_headers()
            self.wfile.write(written)
        except OSError:
            pass  # whoever asked has gone

    def log_message(self, *arguments: Any) -> None:
        pass


@contextmanager
def serving(answer: Answer) -> Iterator[Engine]:
    with Engine(answer) as engine:
        threading.Thread(target=engine.serve_forever, daemon=True).start()
        yield engine
        engine.shutdown()


def completion(body: dict[str, Any], ids: list[int]) -> dict[str, Any]:
    """What vLLM answers, as far as it is read: each id a little less likely than the one before."""
    kept = ids[: body["max_tokens"]]
    scores = [-0.125 * (place + 1) for place in range(len(kept))]
    logprobs = {"tokens": [f"token_id:{each}" for each in kept], "token_logprobs": scores}
    stopped = bool(kept) and kept[-1] in body["stop_token_ids"]
    finish = "stop" if stopped else "length"
    return {
        "model": body["model"],
        "choices": [
            {
                "index": 0,
                "text": "",
                "finish_reason": finish,
                "token_ids": kept,
                "prompt_token_ids": body["prompt"],
                "logprobs": logprobs,
            }
        ],
    }


def talking(words: Any, turn: Callable[[str], str]) -> Answer:
    """A policy that is a function of what it has read so far; each of its turns ends with the mark of an end."""

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        return completion(body, list(words.encode(turn(words.decode(body["prompt"])) + END, add_special_tokens=False)))

    return answer


def say(name: str, arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def number(text: str) -> int:
    """Of the turn to come: how many turns the policy's ids hold."""
    return text.count("<|im_start|>assistant") - 1
