"""Workspaces that are made before their first episode, while the server says that it is not ready."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import islice

from ..environments.base import BaseSession
from ..environments.session import Session
from ..environments.tasks.task_set import Tasks
from ..errors import EtudeError

log = logging.getLogger(__name__)

VARIABLE = "ETUDE_PREPARE"


def read_prepare(chosen: int | None = None) -> int:
    """Return the number of tasks to prepare: the chosen one, else that of ETUDE_PREPARE, else 0. Raises ValueError."""
    text = (os.environ.get(VARIABLE, "") or "0") if chosen is None else str(chosen)
    if not text.isdigit():
        raise ValueError(f"{VARIABLE} is {text!r}: give a number of tasks, 0 or more")
    return int(text)


class Preparation:
    """Prepares the first tasks of a set, one after another, so that their first resets are as fast as later ones.

    What it makes is in the cache on disk, where other processes find it. A task that cannot be prepared is logged and
    left to its reset, which says why.
    """

    def __init__(self, tasks: Tasks, make_session: Callable[[], Session], number: int) -> None:
        self.number = min(number, len(tasks))
        self.done = 0
        """Tasks that are prepared, or could not be."""
        self._tasks = tasks
        self._make_session = make_session
        self._running: asyncio.Task[None] | None = None

    @property
    def reason(self) -> str:
        """Return why the server is not ready yet; empty once all tasks are prepared."""
        return f"preparing tasks: {self.done} of {self.number} done" if self.done < self.number else ""

    def start(self) -> None:
        """Begin in the background."""
        if self.number:
            self._running = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End it; a workspace that is being made is finished by its thread."""
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running

    async def _run(self) -> None:
        for task in islice(self._tasks, self.number):
            session = self._make_session()
            try:
                if isinstance(session, BaseSession):
                    await session.prepare(task)
            except EtudeError as error:
                log.warning("task %s cannot be prepared: %s", task.task_id, error)
            except Exception:  # an environment of a third party; the server must become ready
                log.exception("task %s cannot be prepared", task.task_id)
            finally:
                await session.close()
            self.done += 1
