"""The folder of a run: files of JSON that are whole or not there, and one process that writes to it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .recipe import RecipeError


def write_json(path: Path, value: Any) -> None:
    """Whole, or not at all."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def read_json(path: Path) -> Any:
    """Raises RecipeError for a file that is damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RecipeError(f"{path} is damaged ({error}): remove it, or choose another out") from None


@contextmanager
def held(out: Path) -> Iterator[None]:
    """``out`` is there, and this process's alone; it goes again when nothing was written. Raises RecipeError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        folder = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise RecipeError(f"out: {out} cannot be made ({error.strerror}): choose another out") from None
    try:
        if not os.access(out, os.W_OK):
            raise RecipeError(f"out: {out} cannot be written to: choose another out")
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RecipeError(f"out: another process trains in {out}: wait, or choose another out") from None
        yield
    finally:
        os.close(folder)
        with contextlib.suppress(OSError):
            out.rmdir()
