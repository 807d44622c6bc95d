"""Programs of the sandboxes: the texts of files that are sent there and run in order, in place of an import.

A sandbox has the task's Python and no copy of this package. Each file below therefore needs the standard library alone,
runs on Python 3.8 and later, and imports the others only under ``TYPE_CHECKING``: inside, the texts before it have
defined their names already. The order of the names is the order in which the texts run.
"""

from __future__ import annotations

import functools
from pathlib import Path

from ....snapshots.test_run import plugin_imports
from ....snapshots.test_run.compiled_program import compiled_program

_VALUES = (
    *("places", "special_values", "trusted_objects", "own_state"),
    *("change_guard", "numbering", "encoding", "code_encoding", "decoding", "code_decoding", "stand_ins"),
)
_TEST_PROCESS = ("module_state", "public_forms", "call_description", "inner_calls", "boundary")
_SOLUTION_PROCESS = ("named_answers", "constructor_fields", "solution_worker")
_FOLDER = Path(__file__).parent


def _texts(folder: str, names: tuple[str, ...]) -> list[str]:
    return [(_FOLDER.parent / folder / f"{name}.py").read_text("utf-8") for name in names]


@functools.cache
def boundary_parts() -> tuple[str, ...]:
    """Return the texts that run beside the tests: they record calls, or answer them."""
    return (*_texts("values", _VALUES), *_texts("processes", _TEST_PROCESS))


@functools.cache
def worker_parts() -> tuple[str, ...]:
    """Return the texts that run a solution's calls."""
    imports = Path(plugin_imports.__file__).read_text("utf-8")
    return (imports, *boundary_parts(), *_texts("processes", _SOLUTION_PROCESS))


@functools.cache
def worker_program() -> bytes:
    """Return ``worker_parts`` in the format that RUN_PROGRAM reads."""
    return compiled_program(worker_parts())
