"""Command line of the benchmarks: integer options, ``--json``, and a table of named numbers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from typing import Any


def parser_of(description: str | None, **integers: int) -> argparse.ArgumentParser:
    """Return a parser with ``--json`` and with an option for each integer, which has that default."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in integers.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json", action="store_true")
    return parser


def show(rows: Mapping[str, Any], as_json: bool, line: Callable[[str, Any], str]) -> None:
    """Print the rows as JSON, or a ``line`` of text for each name and value."""
    print(json.dumps(rows, indent=1) if as_json else "\n".join(line(name, value) for name, value in rows.items()))
