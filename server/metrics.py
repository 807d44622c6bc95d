"""Metrics of one server in Prometheus' text format.

===============================  =========  ==============================================================
name                             type       labels and meaning
===============================  =========  ==============================================================
etude_sessions                   gauge      sessions that are open
etude_sessions_limit             gauge      sessions that may be open
etude_sessions_waiting           gauge      open sessions whose connection was lost, and that wait for their client
etude_calls_total                counter    call (reset, step), outcome (ok, refused, failed, cut)
etude_call_seconds               histogram  call: duration, waiting included
etude_episodes_total             counter    end: episodes that ended
etude_reward_sum, _count         summary    rewards of graded episodes
etude_refused_total              counter    reason (capacity, client, stopping, key, origin, host, rate): turned away
etude_slots, _running, _waiting  gauge      queue (execution, grading): slots, those in use, callers that wait
===============================  =========  ==============================================================

prometheus_client adds those of the process: CPU seconds, memory, open files.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, Summary, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE

from .admission import Admission

__all__ = ["CONTENT_TYPE", "Metrics"]

_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, math.inf)


class Metrics:
    """Counts of one application; each has its own registry, so that two of them fit in one process."""

    def __init__(self, sessions: Callable[[], float]) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        Gauge("etude_sessions", "Open sessions.", registry=self._registry).set_function(sessions)
        self._calls = Counter("etude_calls", "Calls by outcome.", ["call", "outcome"], registry=self._registry)
        self._seconds = Histogram(
            "etude_call_seconds", "Duration of calls.", ["call"], buckets=_SECONDS, registry=self._registry
        )
        self._episodes = Counter("etude_episodes", "Episodes that ended.", ["end"], registry=self._registry)
        self._reward = Summary("etude_reward", "Rewards of graded episodes.", registry=self._registry)
        self._refused = Counter("etude_refused", "Requests turned away.", ["reason"], registry=self._registry)

    def watch(self, admission: Admission) -> None:
        """Report the limits of an admission and what its queues hold."""
        limits = Gauge("etude_sessions_limit", "Sessions that may be open.", registry=self._registry)
        limits.set(admission.limits.sessions)
        slots = Gauge("etude_slots", "Slots of a queue.", ["queue"], registry=self._registry)
        running = Gauge("etude_running", "Slots in use.", ["queue"], registry=self._registry)
        waiting = Gauge("etude_waiting", "Callers that wait for a slot.", ["queue"], registry=self._registry)
        for name, queue in admission.queues.items():
            slots.labels(name).set(queue.slots)
            running.labels(name).set_function(partial(getattr, queue, "running"))
            waiting.labels(name).set_function(partial(getattr, queue, "waiting"))

    def watch_lines(self, waiting: Callable[[], float]) -> None:
        """Report how many sessions wait for their client to connect again."""
        text = "Sessions that wait for their client to connect again."
        Gauge("etude_sessions_waiting", text, registry=self._registry).set_function(waiting)

    def called(self, call: str, outcome: str, seconds: float) -> None:
        """Count a call of a session."""
        self._calls.labels(call, outcome).inc()
        self._seconds.labels(call).observe(seconds)

    def ended(self, end: str, reward: float | None) -> None:
        """Count an episode that ended, and its reward if it was graded."""
        self._episodes.labels(end).inc()
        if reward is not None:
            self._reward.observe(reward)

    def refused(self, reason: str) -> None:
        """Count a request that was turned away."""
        self._refused.labels(reason).inc()

    def text(self) -> bytes:
        """Return all metrics as Prometheus reads them."""
        return generate_latest(self._registry)
