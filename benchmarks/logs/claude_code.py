"""Session files of Claude Code, written by the tool itself against a scripted Messages API on 127.0.0.1.

    npm install --prefix TOOL @anthropic-ai/claude-code
    python benchmarks/logs/claude_code.py TOOL/node_modules/@anthropic-ai/claude-code-linux-x64/claude OUT

The script makes a folder with one file, lets ``claude -p`` work there on scripted answers, and copies the session files
that it wrote. The answers hold an unknown tool, a file that does not exist, a command that fails, arguments that do not
fit, the same command done right, and a sub-agent whose command fails too. No request leaves this machine.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from chat_endpoint import Sender

Block = dict[str, Any]


def text(words: str) -> Block:
    return {"type": "text", "text": words}


def use(number: int, name: str, **arguments: Any) -> Block:
    return {"type": "tool_use", "id": f"toolu_{number:024d}", "name": name, "input": arguments}


def main_answers(folder: str) -> list[list[Block]]:
    """Return the turns of the agent itself."""
    return [
        [text("I look for the notes."), use(1, "SearchWeb", query="notes")],
        [text("There is no such tool."), use(2, "Read", file_path=f"{folder}/missing.txt")],
        [use(3, "Bash", command="wc -l missing.txt", description="Count the lines")],
        [use(4, "Bash", description="Count the lines")],
        [
            use(5, "Bash", command="wc -l notes.txt", description="Count the lines"),
            use(6, "Read", file_path=f"{folder}/notes.txt"),
        ],
        [
            use(
                7,
                "Agent",
                description="List files",
                prompt="SUBTASK: list the files here.",
                subagent_type="general-purpose",
            )
        ],
        [text("notes.txt has 2 lines.")],
    ]


def sub_answers() -> list[list[Block]]:
    """Return the turns of the sub-agent."""
    return [
        [use(11, "Bash", command="ls no-such-folder", description="List a folder")],
        [use(12, "Bash", command="ls", description="List this folder")],
        [text("There is notes.txt.")],
    ]


def events(message: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the events with which the API streams a message."""
    yield "message_start", {"message": {**message, "content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            start, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            start = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield "content_block_start", {"index": index, "content_block": start}
        yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    yield (
        "message_delta",
        {"delta": {"stop_reason": message["stop_reason"], "stop_sequence": None}, "usage": {"output_tokens": 9}},
    )
    yield "message_stop", {}


class Script:
    """The answers by conversation: an agent's first message says which conversation it is."""

    def __init__(self, folder: str) -> None:
        self.answers = {"main": main_answers(folder), "sub": sub_answers()}
        self.count = 0

    def reply(self, request: Mapping[str, Any]) -> dict[str, Any]:
        messages = request.get("messages") or []
        first = json.dumps(messages[:1])
        names = [tool.get("name") for tool in request.get("tools") or []]
        turn = sum(message.get("role") == "assistant" for message in messages)
        self.count += 1
        if not names:
            blocks = [text("Count lines")]
        else:
            answers = self.answers["sub" if "SUBTASK" in first else "main"]
            blocks = answers[min(turn, len(answers) - 1)]
        stop = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
        usage = {"input_tokens": 10, "output_tokens": 9, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        return {
            "id": f"msg_{self.count:024d}",
            "type": "message",
            "role": "assistant",
            "model": request.get("model", "scripted"),
            "content": blocks,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": usage,
        }


def server(script: Script) -> ThreadingHTTPServer:
    class Handler(Sender):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if "/messages" not in self.path or "count_tokens" in self.path:
                return self.send("application/json", b'{"input_tokens": 10}')
            request = json.loads(body)
            message = script.reply(request)
            if not request.get("stream"):
                return self.send("application/json", json.dumps(message).encode())
            lines = (f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n" for kind, data in events(message))
            return self.send("text/event-stream", "".join(lines).encode())

        def do_GET(self) -> None:
            self.send("application/json", b"{}")

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)


SESSION = "0f0f0f0f-0000-4000-8000-000000000001"


def main(program: str, out: Path) -> None:
    folder = Path("/tmp/etude-notes")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "notes.txt").write_text("one\ntwo\n")
    with tempfile.TemporaryDirectory() as home, server(Script(str(folder))) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "CLAUDE_CONFIG_DIR": f"{home}/.claude",
            "IS_SANDBOX": "1",
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{http.server_address[1]}",
            "ANTHROPIC_API_KEY": "scripted",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        command = [program, "-p", "How many lines has notes.txt?", "--model", "claude-scripted-1"]
        command += ["--permission-mode", "bypassPermissions", "--session-id", SESSION]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240)
        http.shutdown()
        if done.returncode:
            raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
        for project in Path(home, ".claude", "projects").iterdir():
            for file in project.rglob("*.jsonl"):
                copy(file, out / file.relative_to(project))


def copy(file: Path, target: Path) -> None:
    """Copy a session file without the lines of the type ``attachment``, which quote the tool's own texts."""
    lines = file.read_text().splitlines(keepends=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("".join(line for line in lines if json.loads(line).get("type") != "attachment"))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
