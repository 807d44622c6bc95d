"""Monitors: evidence of exploits in graded episodes, as Findings. Pure functions over records.

Read ``base`` for the protocol, then one monitor, such as ``tampering``. Every registered monitor inspects every graded
episode of every environment. Only ``confirmed`` findings set a reward to 0; ``suspect`` and ``info`` inform the reader.
``leaks`` is another subject: it searches whole trees for traces of a task's solution when the task is made.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ..errors import GraderError
from ..models import Finding
from ..registry import Registry
from .base import Inspection as Inspection
from .base import Monitor as Monitor

MONITORS = Registry(
    "monitor",
    "etude.monitors",
    {
        "tampering": ".monitors.tampering:Tampering",
        "integrity": ".monitors.integrity:Integrity",
        "absent_programs": ".monitors.absent_programs:AbsentPrograms",
    },
)


def inspect(inspection: Inspection) -> list[Finding]:
    """Return the findings of all registered monitors, those of the built-in ones first.

    Raises GraderError, which names the monitor, when one of them fails: an episode that could not be inspected has no
    score.
    """
    findings: list[Finding] = []
    for name in _names():
        try:
            reported = _monitor(name).inspect(inspection)
            findings += [Finding.model_validate(finding) for finding in reported]
        except Exception as error:  # a third party's monitor may raise anything
            cause = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            raise GraderError(f"the monitor {name!r} failed ({cause}); fix it or uninstall it") from error
    return findings


@cache
def _names() -> list[str]:
    """Return the names of the monitors, the built-in ones first; looking for entry points takes milliseconds."""
    paths = MONITORS.paths()
    third_party = [name for name, path in paths.items() if not path.startswith(".")]
    return [*(name for name in paths if name not in third_party), *sorted(third_party)]


@cache
def _monitor(name: str) -> Any:
    return MONITORS.load(name)()
