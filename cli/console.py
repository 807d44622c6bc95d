"""Output of the command line: tables or JSON on stdout, one-line errors and warnings on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

import typer

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
    "datasets": "hub",
}
"""Optional modules, and the extra of Etude that installs each."""
PIPE_COLUMNS = 200
"""Width of a table whose reader is not a terminal."""


def plain(result: Any) -> Any:
    """Return a pydantic model, a dataclass or plain data as JSON-serialisable data."""
    if hasattr(result, "model_dump"):
        return result.model_dump(mode="json")
    if is_dataclass(result) and not isinstance(result, type):
        return asdict(result)
    return result


def show(result: Any, rows: Sequence[Mapping[str, Any]], as_json: bool, columns: int = PIPE_COLUMNS) -> None:
    """Print ``result`` as JSON, or else ``rows`` as a table of at most ``columns`` columns."""
    if as_json:
        show_json(result)
    else:
        show_table(rows, columns)


def show_json(result: Any) -> None:
    """Print a result as indented JSON."""
    print(json.dumps(plain(result), indent=2, default=str, ensure_ascii=False))


def show_table(rows: Sequence[Mapping[str, Any]], columns: int = PIPE_COLUMNS) -> None:
    """Print one table, at most ``columns`` wide; its columns are the keys of the first row."""
    from rich.console import Console
    from rich.table import Table

    if not rows:
        return
    table = Table()
    for name in rows[0]:
        numeric = all(isinstance(row.get(name), (int, float)) for row in rows)
        table.add_column(str(name).replace("_", " "), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(row.get(name)) for name in rows[0]))
    console = Console(markup=False)
    # A pipe has no width, and rich's default of 80 columns would break words.
    has_width = sys.stdout.isatty() or "COLUMNS" in os.environ
    console.width = min(console.width, columns) if has_width else columns
    console.print(table)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return short_number(value)
    return "" if value is None else str(value)


def short_number(value: float) -> str:
    """Return a number with three digits, and with all digits before the point: ``0.135``, ``21.2``, ``1,228``."""
    return f"{value:,.0f}" if 999.5 <= abs(value) < 1e9 else f"{value:.3g}"


def counted(counts: Mapping[str, int]) -> str:
    """Return the names in order with their numbers, such as ``flaky 2, valid 7``."""
    return ", ".join(f"{name} {number}" for name, number in sorted(counts.items()))


def show_error(message: str) -> None:
    """Print one line to stderr that starts with ``error:``."""
    print(f"error: {message}", file=sys.stderr)


def show_warning(message: str) -> None:
    """Print one line to stderr that starts with ``warning:``."""
    print(f"warning: {message}", file=sys.stderr)


def exit_unless(ok: bool) -> None:
    """End the command with exit code 1 when it did not do what was asked."""
    if not ok:
        raise typer.Exit(1)


def debugging() -> bool:
    """Return whether ETUDE_DEBUG asks for tracebacks instead of one-line errors."""
    return os.environ.get("ETUDE_DEBUG", "") not in ("", "0")


def explain(error: Exception) -> str | None:
    """Return one line for an error that a user can act on, or None for one that is a defect of Etude.

    Every exception type of Etude carries such a line. So do some types of the standard library and of pydantic: files
    and sockets that the system refuses, records that do not validate, files that do not parse, missing extras.
    """
    package = __name__.partition(".")[0]
    if type(error).__module__.partition(".")[0] == package:
        return _one_line(str(error)) or type(error).__name__
    if isinstance(error, ModuleNotFoundError):
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        return f"this needs {error.name}: pip install 'etude[{extra}]'" if extra else None
    if isinstance(error, OSError):
        file_name = f": {error.filename}" if error.filename else ""
        return f"{error.strerror or error}{file_name}"
    return _explain_format(error)


def _explain_format(error: Exception) -> str | None:
    """Return one line for a record that does not validate or a file that does not parse."""
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
