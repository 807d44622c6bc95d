"""Deadlines when the wall clock jumps: they are on the monotonic clock."""

from __future__ import annotations

import ast
import asyncio
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from etude.benchmarks.chaos_parts.network import faulty_network
from etude.client import connect

DAY_S = 86400.0
DATES = {
    "environments/sandbox/kubernetes/pod_status.py": "how long ago a pod ended, by the dates that its cluster gives",
    "llm/attempts.py": "the date in a Retry-After header",
    "server/sessions.py": "the times that OpenEnv's SessionInfo shows",
    "server/store/graded_episodes.py": "when an episode was graded",
}
"""The modules that read the wall clock, and the date that they need it for."""
TREES = ("cli", "environments", "generators", "hints", "llm", "monitors", "server", "trainers")


@pytest.mark.parametrize("jump", [DAY_S, -DAY_S])
def test_deadlines_hold_when_the_wall_clock_jumps(jump: float, light: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    request = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create", "params": {}}
    with light.serving(light.light_app(http_idle_s=100.0)) as served, connect(served.url) as client:
        sessions = served.app.state.sessions
        session = httpx.post(f"{served.url}/mcp", json=request).json()["result"]["session_id"]
        client.reset()
        monkeypatch.setattr(time, "time", lambda: real() + jump)
        asyncio.run(sessions.reap_once(time.monotonic() + 99))
        assert sessions.has(session), "an unused session keeps its time when the clock goes forward"
        httpx.post(f"{served.url}/mcp", json={**request, "method": "tools/list", "params": {"session_id": session}})
        asyncio.run(sessions.reap_once(time.monotonic() + 101))
        assert not sessions.has(session), "an unused session ends when the clock goes back"
        assert client.step(light.say("a")).messages[0].content == "ok\na"


@pytest.mark.parametrize("jump", [DAY_S, -DAY_S])
def test_session_waits_for_its_client_as_long_when_the_wall_clock_jumps(
    jump: float, light: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    with light.serving(light.light_app(reconnect_s=0.5)) as served, faulty_network(served.url) as network:
        client = connect(network.url)
        client.reset()
        monkeypatch.setattr(time, "time", lambda: real() + jump)
        network.cut()
        assert client.step(light.say("a")).messages[0].content == "ok\na", "it is kept"
        began = time.monotonic()
        network.cut()
        assert served.wait_until(lambda: served.sessions == 0), "and it ends"
        assert time.monotonic() - began > 0.4
        client.close()


def test_the_wall_clock_is_read_for_dates_alone(root: Path) -> None:
    readers = {
        path.relative_to(root).as_posix()
        for tree in TREES
        for path in (root / tree).rglob("*.py")
        if any(map(_reads_wall_clock, ast.walk(ast.parse(path.read_text()))))
    }
    assert readers == set(DATES)


def _reads_wall_clock(node: ast.AST) -> bool:
    """Return whether a node is a call of ``time.time``, ``datetime.now`` or their like."""
    if isinstance(node, ast.ImportFrom) and node.module == "time":
        return any(alias.name in ("time", "time_ns") for alias in node.names)
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    owner = node.func.value
    name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
    return (name, node.func.attr) in {
        ("time", "time"),
        ("time", "time_ns"),
        ("datetime", "now"),
        ("datetime", "utcnow"),
    }
