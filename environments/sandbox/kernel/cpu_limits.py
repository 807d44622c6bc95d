"""Limits on CPU time: when a running command has used too much of it, or has stopped using any.

Stdlib only, Python 3.8: the keeper and the worker inside a container both run this text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

_SHORTEST_WAIT_S = 0.05
_IDLE_SHARE = 0.01
_CHECKS_PER_WINDOW = 4


class CpuLimits:
    """Limits of one command, checked when ``next_check`` (in the caller's clock) has come.

    ``cpu_s`` is the CPU time allowed in seconds, ``idle_s`` the length of a window in which the command must use at
    least 1 % of one core; None turns a limit off. ``cores`` bounds how fast CPU time can grow, so that a long limit
    is not checked often. ``used`` returns the CPU seconds used so far by the command and everything it started.
    """

    def __init__(
        self,
        cpu_s: float | None,
        idle_s: float | None,
        cores: float,
        used: Callable[[], float],
        now: float,
    ) -> None:
        self._cpu_s = cpu_s
        self._idle_s = idle_s
        self._cores = cores
        self._used = used
        self._highest = 0.0
        self._samples = deque([(now, 0.0)])
        self.next_check = now + self._wait()

    def exceeded(self, now: float) -> bool:
        """Return whether a limit is exceeded at ``now``, and schedule the next check."""
        # A process that ends while /proc is read may be missed for a moment; the sum itself never shrinks.
        self._highest = max(self._highest, self._used())
        self.next_check = now + self._wait()
        if self._cpu_s is not None and self._highest >= self._cpu_s:
            return True
        return self._idle_s is not None and self._is_idle(now, self._idle_s)

    def _wait(self) -> float:
        waits = [float("inf")]
        if self._cpu_s is not None:
            waits.append((self._cpu_s - self._highest) / self._cores)
        if self._idle_s is not None:
            waits.append(self._idle_s / _CHECKS_PER_WINDOW)
        return max(_SHORTEST_WAIT_S, min(waits))

    def _is_idle(self, now: float, window: float) -> bool:
        self._samples.append((now, self._highest))
        while self._samples[1][0] <= now - window:
            self._samples.popleft()
        since, before = self._samples[0]
        return since <= now - window and self._highest - before < _IDLE_SHARE * (now - since)
