"""Run directory: atomic JSON files, an exclusive lock, the resume check."""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...errors import RecipeError
from ..recipe.recipe import Recipe
from ..recipe.recipe_checks import ignored_keys
from ..report.run_files import STOPPED, is_run, read_run, write_atomically

_FREE = ("safety", "out", "record_episodes", "sharding", "train.micro", "train.gradient_checkpointing")
"""Tables and keys that a resumed run may change: limits, a folder that was moved, what is recorded, and the layout,
which changes losses by rounding alone."""


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically."""
    write_atomically(path, json.dumps(value, indent=1) + "\n")


def read_json(path: Path) -> Any:
    """Return the value in a JSON file. Raise RecipeError if it is damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RecipeError(f"{path} is damaged ({error}); remove it, or choose another out") from None


@contextmanager
def lock_run_dir(out: Path) -> Iterator[None]:
    """Create the folder and lock it for this process; remove it at the end if it is empty. Raise RecipeError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        folder = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise RecipeError(f"out: {out} cannot be made ({error.strerror}); choose another out") from None
    try:
        _check_writable(out)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RecipeError(f"out: another process trains in {out}; wait, or choose another out") from None
        yield
    finally:
        os.close(folder)
        with contextlib.suppress(OSError):
            out.rmdir()


def check_run_dir(recipe: Recipe, out: Path) -> None:
    """Raise RecipeError unless the recipe can start in the folder, or resume the run there.

    A folder holds one run. It can be resumed if it was interrupted, or stopped by a limit that allows it now.
    """
    existing = next(folder for folder in (out, *out.parents) if folder.exists())
    if not existing.is_dir():
        raise RecipeError(f"out: {existing} is a file; choose another out")
    _check_writable(existing)
    if not is_run(out):
        return
    run, current = read_run(out), recipe.model_dump(mode="json")
    stored = _overlay(type(recipe).model_construct().model_dump(mode="json"), run.recipe)  # newer keys have defaults
    free = {*_FREE, *ignored_keys(recipe)}
    changed = [name for name in _changed_keys(stored, current) if not free & {name, name.partition(".")[0]}]
    if changed:
        raise RecipeError(f"{out} holds a run of another recipe ({', '.join(changed)}); choose another out")
    _check_stopped(out, current["safety"])
    if run.result is not None and not (run.result["interrupted"] or run.result["stopped"]):
        raise RecipeError(f"{out} holds a finished run; choose another out")


def _check_writable(folder: Path) -> None:
    if not os.access(folder, os.W_OK):
        raise RecipeError(f"out: {folder} cannot be written to; choose another out")


def _overlay(base: Any, changes: Any) -> Any:
    """Return nested tables with changes applied."""
    if not (isinstance(base, Mapping) and isinstance(changes, Mapping)):
        return changes
    return {**base, **{name: _overlay(base.get(name), value) for name, value in changes.items()}}


def _changed_keys(first: Any, second: Any, place: str = "") -> list[str]:
    """Return the dotted names of the keys with different values in two nested tables."""
    if not (isinstance(first, Mapping) and isinstance(second, Mapping)):
        return [] if first == second else [place]
    names = {**first, **second}
    pairs = [(first.get(name), second.get(name), f"{place}.{name}".strip(".")) for name in names]
    return [key for pair in pairs for key in _changed_keys(*pair)]


def _check_stopped(out: Path, limits: Mapping[str, float]) -> None:
    """Raise RecipeError if a limit stopped the run and would stop it again."""
    stopped = out / STOPPED
    if not stopped.exists():
        return
    stop = read_json(stopped)
    stop = stop if isinstance(stop, dict) else {}
    limit, value, raise_limit = stop.get("limit"), stop.get("value"), ""
    most = limits.get(str(limit))
    if most is not None and isinstance(value, int | float):
        if not most or value <= most:
            return
        more = f"more than {value:.4g} or to " if math.isfinite(value) else ""
        raise_limit = f"set safety.{limit} to {more}0, or "
    raise RecipeError(
        f"{out} was {stop.get('reason') or 'stopped'}; {raise_limit}remove {stopped} to resume, or choose another out"
    )
