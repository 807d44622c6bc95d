"""Progress of long work: a live bar on a terminal's stderr, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .console import short_number

if TYPE_CHECKING:
    from ..generators.base import ProgressUpdate

Progress = Callable[[str, int, int], None]
"""Called with a phase, the units done and the total number of units (0: unknown)."""
LINE_EVERY_S = 10.0
"""Seconds between two plain lines of the same phase."""


@contextmanager
def progress_bar(title: str) -> Iterator[Progress]:
    """Yield a function that shows progress: phase, units done, total, rate and time left."""
    if not sys.stderr.isatty():
        yield PlainLines(title)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar
    from rich.table import Column

    columns = (
        SpinnerColumn(),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[pace]}", style="dim"),
        # The last column folds over several lines, since the summary of a training step is long.
        TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, overflow="fold")),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None, pace="")
        pace = Pace()

        def progress(phase: str, done: int = 0, total: int = 0) -> None:
            text = pace.text(phase, done, total)
            bar.update(task, description=f"{title}: {phase}", completed=done, total=total or None, pace=text)

        yield progress


@contextmanager
def busy(title: str, phase: str) -> Iterator[None]:
    """Show the phase and its seconds on a terminal while the block runs; elsewhere print nothing."""
    if not sys.stderr.isatty():
        yield
        return
    with progress_bar(title) as progress:
        progress(phase, 0, 0)
        yield


def as_updates(progress: Progress) -> Callable[[ProgressUpdate], None]:
    """Return a function that shows the updates of a generator with ``progress``."""
    return lambda update: progress(str(update), update.done, update.total)


class PlainLines:
    """Progress as plain lines: one for each new phase, and one every ``LINE_EVERY_S`` seconds within a phase."""

    def __init__(self, title: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._title, self._clock = title, clock
        self._pace = Pace(clock)
        self._phase = ""
        self._printed = 0.0

    def __call__(self, phase: str, done: int = 0, total: int = 0) -> None:
        now = self._clock()
        pace = self._pace.text(phase, done, total)
        if phase != self._phase:
            self._phase, self._printed = phase, now
            print(f"{self._title}: {phase}", file=sys.stderr, flush=True)
        elif total and now - self._printed >= LINE_EVERY_S:
            self._printed = now
            line = f"{self._title}: {phase}: {done} of {total}" + (f", {pace}" if pace else "")
            print(line, file=sys.stderr, flush=True)


class Pace:
    """Rate and time left of the current phase, measured from its first call."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._total = -1
        self._first_done, self._began = 0, 0.0

    def text(self, phase: str, done: int, total: int) -> str:
        """Return rate and time left ("4.2 a minute, 2 min left"); empty without a finished unit or a known total."""
        now = self._clock()
        if total != self._total or done < self._first_done:
            self._total, self._first_done, self._began = total, done, now
        units, seconds = done - self._first_done, now - self._began
        if not total or units <= 0 or seconds <= 0 or done >= total:
            return ""
        per_minute = 60 * units / seconds
        digits = f"{per_minute:.2g}" if per_minute < 99.5 else f"{per_minute:.0f}"
        rate = f"{short_number(per_minute / 60)} a second" if per_minute >= 120 else f"{digits} a minute"
        return f"{rate}, {duration((total - done) * seconds / units)} left"


def duration(seconds: float) -> str:
    """Return a time for people, such as ``8 s``, ``2 min 5 s`` or ``1 h 10 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
