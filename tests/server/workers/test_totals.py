"""Sums of the workers' metrics."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from etude.server.admission import Admission, ServerLimits
from etude.server.metrics import Metrics
from etude.server.workers.request_head import RequestHead
from etude.server.workers.totals import Answer, Totals, add_up


def worker(sessions: int, resets: int, reward: float) -> Metrics:
    metrics = Metrics(lambda: sessions)
    metrics.watch(Admission(ServerLimits(sessions=9, executions=4, gradings=2)))
    for _ in range(resets):
        metrics.called("reset", "ok", 0.02)
    metrics.ended("submit", reward)
    return metrics


def values(text: bytes) -> dict[str, float]:
    families = text_string_to_metric_families(text.decode())
    return {
        "".join([sample.name, *(f"|{value}" for _, value in sorted(sample.labels.items()))]): sample.value
        for family in families
        for sample in family.samples
    }


def test_metrics_of_workers_add_up_and_limits_of_the_server_do_not() -> None:
    one, two = worker(1, 2, 1.0), worker(3, 1, 0.5)
    total = values(add_up([one.text(), two.text()], []))
    assert total["etude_sessions"] == 4 and total["etude_sessions_limit"] == 9
    assert total["etude_calls_total|reset|ok"] == total["etude_call_seconds_count|reset"] == 3
    assert total["etude_call_seconds_bucket|reset|0.01"] == 0 and total["etude_call_seconds_bucket|reset|0.03"] == 3
    assert (total["etude_reward_sum"], total["etude_reward_count"]) == (1.5, 2)
    assert (total["etude_slots|execution"], total["etude_slots|grading"]) == (8, 4)
    parts = [values(metrics.text())["process_open_fds"] for metrics in (one, two)]
    assert abs(total["process_open_fds"] - sum(parts)) <= 8


def test_counters_keep_what_an_ended_worker_counted_and_gauges_do_not() -> None:
    ended = add_up([worker(5, 7, 1.0).text()], [], counters_only=True)
    total = values(add_up([worker(1, 2, 0.0).text()], [ended]))
    assert total["etude_calls_total|reset|ok"] == 9 and total["etude_reward_count"] == 2
    assert total["etude_sessions"] == 1 and total["etude_slots|execution"] == 4


class Refusing:
    """Stands for a pool whose two workers refuse every request."""

    serving = ("one", "two")
    restarts = 0
    refusal = Answer(421, "application/json", b'{"detail": "this server is not called x"}')

    async def hand_over(self, worker: str, request: RequestHead, connection: socket.socket, client: str) -> bool:
        connection.sendall(self.refusal.encoded())
        return True


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz"])
def test_refusal_of_the_workers_is_the_answer(path: str) -> None:
    pool: Any = Refusing()
    assert asyncio.run(Totals(pool).answer(RequestHead(b"", "GET", path))) == Refusing.refusal
