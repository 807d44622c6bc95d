"""A real ``etude serve`` process that is killed and started again, and what it leaves behind."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from etude.benchmarks.server_traces import Traces
from etude.environments.sandbox.kernel.linux import descendants
from etude.server.serving import listen

START_S = 180.0
"""Seconds that a server may take to start on a busy machine."""
RECONNECT_S = 20


class ServerProcess:
    """``etude serve`` on a fixed port, with its own folder for temporary files."""

    def __init__(self, tasks: Path, folder: Path) -> None:
        with listen("127.0.0.1", 0) as listener:
            port = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.store = folder / "episodes.sqlite"
        self.log = folder / "server.log"
        self.traces = Traces(folder / "tmp")
        self.traces.temporary.mkdir(mode=0o755)
        self._command = [
            *(sys.executable, "-m", "etude.cli", "serve", str(tasks), "--port", str(port)),
            *("--store", str(self.store), "--log", "json", "--reconnect", str(RECONNECT_S)),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process; it answers later."""
        environment = {**os.environ, "TMPDIR": str(self.traces.temporary)}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, env=environment, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True
            )

    async def wait_until_healthy(self) -> None:
        """Return when the server answers. Raises TimeoutError."""
        async with asyncio.timeout(START_S), httpx.AsyncClient(trust_env=False) as http:
            while True:
                try:
                    if (await http.get(f"{self.url}/healthz")).is_success:
                        return
                except httpx.HTTPError:
                    await asyncio.sleep(0.2)

    def look(self) -> None:
        """Note the processes that exist now."""
        assert self._process is not None
        self.traces.look(self._process.pid)

    def kill_sandbox_process(self, stream: random.Random) -> bool:
        """Kill a random process below the server; return whether there was one."""
        assert self._process is not None
        self.look()
        below = sorted(descendants(self._process.pid))
        if not below:
            return False
        try:
            os.kill(stream.choice(below), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def kill(self) -> None:
        """Kill the server as a whole machine would be lost: nothing of its own code runs."""
        assert self._process is not None
        self.look()
        self._process.kill()
        self._process.wait()

    def stop(self) -> int | None:
        """Stop the server by SIGTERM and return its exit code, None when it had to be killed."""
        assert self._process is not None
        self.look()
        self._process.terminate()
        try:
            return self._process.wait(90)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return None

    async def leftovers(self) -> list[str]:
        """Return what is left after the stop: processes, control groups, mounts and temporary files."""
        return await asyncio.to_thread(self.traces.left)

    def stored(self) -> dict[str, float]:
        """Return the rewards of the stored episodes by their ids."""
        with sqlite3.connect(self.store) as database:
            return dict(database.execute("SELECT episode_id, reward FROM etude_episodes"))

    def evidence(self, episode_id: str) -> str:
        """Return what the store knows of a reward: its components, the findings, the changed paths, all messages."""
        query = "SELECT episode FROM etude_episodes WHERE episode_id = ?"
        with sqlite3.connect(self.store) as database:
            rows = database.execute(query, (episode_id,)).fetchall()
        if not rows:
            return "not stored"
        episode = json.loads(zlib.decompress(rows[0][0]))
        messages = [message["content"] for turn in episode["turns"] for message in turn["messages"]]
        paths = [change["path"] for change in episode["diff"]]
        known = {"reward": episode["reward"], "findings": episode["findings"], "paths": paths, "messages": messages}
        return json.dumps(known)

    def gradings(self) -> Counter[str]:
        """Return how many grades the log has of each episode."""
        grades: Counter[str] = Counter()
        for line in self.log.read_text("utf-8", "replace").splitlines():
            entry = _entry(line)
            if entry.get("call") == "step" and entry.get("reward") is not None:
                grades[str(entry.get("episode_id"))] += 1
        return grades


def _entry(line: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}
