"""The folder of a run: files of JSON that are whole or not there, one process that writes to it, and what may be run
there."""

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
from ..recipe.recipe_checks import ignored
from ..report.stored import STOPPED, is_run, read_run


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


def check_folder(recipe: Recipe, out: Path) -> None:
    """A folder holds one run. It goes on where it was interrupted or stopped, unless its limit holds it still."""
    near = next(each for each in (out, *out.parents) if each.exists())
    if not near.is_dir():
        raise RecipeError(f"out: {near} is a file: choose another out")
    if not os.access(near, os.W_OK):
        raise RecipeError(f"out: {near} cannot be written to: choose another out")
    if not is_run(out):
        return
    found, known = read_run(out), recipe.model_dump(mode="json")
    kept = _over(type(recipe).model_construct().model_dump(mode="json"), found.recipe)  # what is newer has its default
    free = {"safety", "out", *ignored(recipe)}  # a folder may be named otherwise, or moved
    others = [name for name in _changed(kept, known) if not free & {name, name.partition(".")[0]}]
    if others:
        raise RecipeError(f"{out} holds a run of another recipe ({', '.join(others)}): choose another out")
    _check_stopped(out, known["safety"])
    if found.result is not None and not (found.result["interrupted"] or found.result["stopped"]):
        raise RecipeError(f"{out} holds a run that is done: choose another out")


def _over(below: Any, above: Any) -> Any:
    if not (isinstance(below, Mapping) and isinstance(above, Mapping)):
        return above
    return {**below, **{name: _over(below.get(name), value) for name, value in above.items()}}


def _changed(one: Any, other: Any, where: str = "") -> list[str]:
    """The dotted names of what is not the same in two tables."""
    if not (isinstance(one, Mapping) and isinstance(other, Mapping)):
        return [] if one == other else [where]
    names = {**one, **other}
    return [found for name in names for found in _changed(one.get(name), other.get(name), f"{where}.{name}".strip("."))]


def _check_stopped(out: Path, limits: Mapping[str, float]) -> None:
    """A limit that is off, or not broken by what stopped the run, lets it go on."""
    stopped = out / STOPPED
    if not stopped.exists():
        return
    told = read_json(stopped)
    told = told if isinstance(told, dict) else {}
    limit, value, raised = told.get("limit"), told.get("value"), ""
    most = limits.get(str(limit))
    if most is not None and isinstance(value, int | float):
        if not most or value <= most:
            return
        more = f"more than {value:.4g} or to " if math.isfinite(value) else ""
        raised = f"set safety.{limit} to {more}0, or "
    raise RecipeError(
        f"{out} was {told.get('reason') or 'stopped'}; {raised}remove {stopped} to go on all the same, "
        "or choose another out"
    )
