"""What the command line shows: tables or JSON on stdout, progress and one-line errors on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..generators.base import ProgressUpdate

Progress = Callable[[str, int, int], None]
"""Called with a phase, the work done and the work there is (0: not known)."""

EXTRAS = {
    "openenv": "server",
    "fastapi": "server",
    "jinja2": "server",
    "uvicorn": "server",
    "git": "server",
    "tree_sitter": "server",
    "tree_sitter_python": "server",
    "torch": "train",
    "transformers": "train",
    "trl": "train",
    "verifiers": "verifiers",
    "ray": "ray",
    "huggingface_hub": "hub",
}


def plain(result: Any) -> Any:
    """A pydantic model, a dataclass or plain data, as JSON-serialisable data."""
    if hasattr(result, "model_dump"):
        return result.model_dump(mode="json")
    if is_dataclass(result) and not isinstance(result, type):
        return asdict(result)
    return result


def show_json(result: Any) -> None:
    print(json.dumps(plain(result), indent=2, default=str, ensure_ascii=False))


PIPE_COLUMNS = 200


def show_table(rows: Sequence[Mapping[str, Any]], title: str = "") -> None:
    """One table; the columns are the keys of the first row."""
    from rich.console import Console
    from rich.table import Table

    if not rows:
        return
    table = Table(title=title or None, title_justify="left")
    for name in rows[0]:
        numeric = all(isinstance(row.get(name), (int, float)) for row in rows)
        table.add_column(str(name).replace("_", " "), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row.get(name)) for name in rows[0]))
    # A pipe has no width of its own, and 80 columns would cut every word.
    fixed = sys.stdout.isatty() or "COLUMNS" in os.environ
    Console(markup=False, width=None if fixed else PIPE_COLUMNS).print(table)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}"
    return "" if value is None else str(value)


@contextmanager
def progress_bar(title: str) -> Iterator[Progress]:
    """A bar on a terminal's stderr; elsewhere one plain line per new step, so that logs stay readable."""
    if not sys.stderr.isatty():
        yield _line_progress(title)
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
        # Last, and over several lines where it needs them: what a training step comes to is long.
        TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, overflow="fold")),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def progress(phase: str, done: int = 0, total: int = 0) -> None:
            bar.update(task, description=f"{title}: {phase}", completed=done, total=total or None)

        yield progress


def as_updates(progress: Progress) -> Callable[[ProgressUpdate], None]:
    """Return a function that shows the updates of a generator with ``progress``."""
    return lambda update: progress(str(update), update.done, update.total)


def _line_progress(title: str) -> Progress:
    last = ""

    def progress(phase: str, done: int = 0, total: int = 0) -> None:
        nonlocal last
        if phase != last:
            print(f"{title}: {phase}", file=sys.stderr, flush=True)
            last = phase

    return progress


def debugging() -> bool:
    """ETUDE_DEBUG=1 shows tracebacks instead of one-line errors."""
    return os.environ.get("ETUDE_DEBUG", "") not in ("", "0")


def explain(error: Exception) -> str | None:
    """One line for an error that a person can act on; None for one that is a defect of Etude.

    Every exception type that Etude defines is written for people. Of other people's: files and sockets that the system
    refuses, records that do not validate, files that do not parse, and an extra that is not installed.
    """
    package = __name__.partition(".")[0]
    if type(error).__module__.partition(".")[0] == package:
        return _one_line(str(error)) or type(error).__name__
    if isinstance(error, ModuleNotFoundError):
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        return f"this needs {error.name}: pip install 'etude[{extra}]'" if extra else None
    if isinstance(error, OSError):
        where = f": {error.filename}" if error.filename else ""
        return f"{error.strerror or error}{where}"
    return _explain_format(error)


def _explain_format(error: Exception) -> str | None:
    """Records that do not validate and files that do not parse."""
    import tomllib

    if isinstance(error, (tomllib.TOMLDecodeError, json.JSONDecodeError, UnicodeDecodeError)):
        return f"cannot read the file: {_one_line(str(error))}"
    pydantic = sys.modules.get("pydantic")
    if pydantic is None or not isinstance(error, pydantic.ValidationError):
        return None
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"]) or "value"
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{error.title}: {place}: {first['msg']}{more}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def show_error(message: str) -> None:
    print(f"error: {message}", file=sys.stderr)


def show_warning(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)
