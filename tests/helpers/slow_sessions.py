"""Light sessions with a turn that waits until it is released."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from etude.models import Observation


class SlowSession:
    """A light session whose turn with the text ``slow`` waits for ``go``."""

    go = threading.Event()
    started = threading.Event()

    def __init__(self, light: Any, tasks: Any) -> None:
        self._session = light.LightSession(tasks)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def step(self, action: Mapping[str, Any]) -> Observation:
        if action["tool_calls"][0]["arguments"].get("text") == "slow":
            self.started.set()
            await asyncio.to_thread(self.go.wait, 60)
        return await self._session.step(action)


@contextmanager
def slow_server(light: Any, **options: Any) -> Iterator[Any]:
    tasks = light.task_set()
    SlowSession.go.clear()
    SlowSession.started.clear()
    with light.serving(light.light_app(tasks, make_session=lambda: SlowSession(light, tasks), **options)) as served:
        yield served
        SlowSession.go.set()
