"""`etude sandbox check`: every backend against the conformance suite; `etude sandbox cleanup`."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ....errors import SandboxError, SandboxUnavailable
from ..registry import SANDBOXES, configured_names, load_backend, opened_sandbox
from .call_costs import measure_calls
from .call_costs import plain_costs as plain_costs
from .checking import make_layers
from .escapes.run import run_natively
from .ordinary_user import ordinary_user
from .suite import run_all

# A mode of a backend, not a backend.
ROOTLESS = "bubblewrap-rootless"

Grader = Callable[[str], Awaitable[float]]
"""Returns the milliseconds of one grade in a fresh sandbox of a backend."""


@dataclass
class Row:
    """The result of one backend."""

    backend: str
    held: int = 0
    """How many checks passed."""
    excused: dict[str, str] = field(default_factory=dict)
    """Checks that were not made, and the guarantee that the backend lacks."""
    failed: dict[str, str] = field(default_factory=dict)
    """Checks that failed, and why."""
    isolation: str = ""
    lacks: list[str] = field(default_factory=list)
    unavailable: str = ""
    """Why the backend does not work here, and the remedy."""
    ms: dict[str, float] = field(default_factory=dict)
    """Median milliseconds by call."""


def check(
    names: Sequence[str],
    *,
    times: bool = False,
    grader: Grader | None = None,
    progress: Callable[[str, int, int], None] = lambda backend, done, total: None,
) -> list[Row]:
    """Run the suite on each backend named, or on all that are configured. Raises UnknownName."""
    rows: list[Row] = []
    checked = names or [*configured_names(), *([ROOTLESS] if os.geteuid() == 0 else [])]
    for name in checked:
        progress(name, len(rows), len(checked))
        row = Row(name)
        rows.append(row)
        try:
            reason = load_backend("bubblewrap" if name == ROOTLESS else name).probe()
            if reason is not None:
                row.unavailable = reason
            elif name == ROOTLESS:
                _enter(row, _verdicts_of_ordinary_user("bubblewrap"))
                row.isolation = "namespaces"
            else:
                _enter(row, asyncio.run(run_all(name)))
                asyncio.run(_inspect(row, times=times, grader=grader))
        except SandboxError as error:
            row.unavailable = str(error)
    return rows


def as_rows(rows: Sequence[Row], plain: dict[str, float]) -> list[dict[str, object]]:
    """Return a table: a line per backend, then the plain tools."""
    lines: list[dict[str, object]] = []
    columns = list(dict.fromkeys(name for row in rows for name in row.ms))
    for row in rows:
        verdict = {
            "held": row.held,
            "excused": ", ".join(sorted(set(row.excused.values()))),
            "failed": "; ".join(f"{name}: {why[:200]}" for name, why in row.failed.items()) or row.unavailable,
        }
        medians = {f"{name} ms": round(row.ms[name], 1) if name in row.ms else None for name in columns}
        lines.append({"backend": row.backend, "isolation": row.isolation, **verdict, **medians})
    blank = dict.fromkeys(lines[0]) if lines else {}
    for name, value in plain.items():
        column = "start ms" if name.endswith("run") else "exec ms"
        lines.append({**blank, "backend": f"plain {name}", column: round(value, 1)})
    return lines


def as_data(rows: Sequence[Row], plain: dict[str, float]) -> dict[str, object]:
    """Return the results for JSON."""
    return {"ok": is_ok(rows), "backends": [asdict(row) for row in rows], "plain_ms": plain}


def without_sandbox() -> dict[str, object]:
    """Return the line for a plain subprocess, in which the attempts to escape ought to work."""
    verdicts = asyncio.run(run_natively())
    works = sum(verdict.startswith("works") for verdict in verdicts.values())
    text = f"{works} of {len(verdicts)} escapes work, which none may in a sandbox"
    return {"backend": "plain subprocess", "isolation": "none", "failed": text}


def is_ok(rows: Sequence[Row]) -> bool:
    """Return whether every backend is available and passed."""
    return not any(row.failed or row.unavailable for row in rows)


def clean_up() -> dict[str, list[str]]:
    """Remove what dead servers left on every backend, and return what was removed."""
    removed = {}
    for name in SANDBOXES.names():
        try:
            removed[name] = load_backend(name).cleanup()
        except SandboxUnavailable:
            continue  # what does not work here left nothing
    return removed


def _enter(row: Row, verdicts: dict[str, str]) -> None:
    row.held = sum(verdict == "ok" for verdict in verdicts.values())
    for kind, target in (("excused", row.excused), ("failed", row.failed)):
        marked = {name: text for name, text in verdicts.items() if text.startswith(f"{kind}: ")}
        target.update({name: text.removeprefix(f"{kind}: ") for name, text in marked.items()})


async def _inspect(row: Row, *, times: bool, grader: Grader | None) -> None:
    """Enter what a sandbox reports about itself, and the times of its calls."""
    with tempfile.TemporaryDirectory(prefix="etude-check-") as folder:
        layers = make_layers(Path(folder))
        async with opened_sandbox(layers, backend=row.backend) as sandbox:
            row.isolation, row.lacks = sandbox.report.isolation, list(sandbox.report.lacks)
            if times:
                row.ms = await measure_calls(sandbox, layers, row.backend)
    if times and grader is not None:
        row.ms["fresh grade"] = await grader(row.backend)


def _verdicts_of_ordinary_user(backend: str) -> dict[str, str]:
    """Run the suite as a user who is not root. Raises SandboxError where no interpreter lets an ordinary user in."""
    with ordinary_user() as user:
        done = user.run(["-m", f"{(__package__ or '')}.suite", backend])
    if not done.stdout:
        raise SandboxError(f"the suite failed as an ordinary user: {done.stderr.strip()[-300:]}")
    verdicts: dict[str, str] = json.loads(done.stdout)
    return verdicts
