"""`etude sandbox check`: every backend against the conformance suite, and what its calls cost."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path

from ....errors import SandboxError, SandboxUnavailable
from .. import Layers, Sandbox
from ..registry import BACKENDS, available, open_sandbox
from .check_kit import make_layers
from .suite import run_all

ROOTLESS = "bubblewrap-rootless"
_ORDINARY_UID = 64321
_STARTS, _CALLS, _SLOW_CALLS = 5, 60, 10
_SUITE_S = 300
# What a sandbox needs of Etude and of others; a checkout, or an interpreter, may lie below a closed home.
_NEEDED = ("__init__.py", "models.py", "errors.py", "registry.py", "environments/__init__.py", "environments/sandbox")
_MODULES = ("pydantic", "pydantic_core", "annotated_types", "typing_inspection", "typing_extensions")

Grader = Callable[[str], Awaitable[float]]
"""Milliseconds of one grade in a fresh sandbox of a backend."""


@dataclass
class Row:
    """One backend: how many checks held, which were excused or failed, and medians in milliseconds."""

    backend: str
    held: int = 0
    excused: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    isolation: str = ""
    lacks: list[str] = field(default_factory=list)
    unavailable: str = ""
    ms: dict[str, float] = field(default_factory=dict)


def check(names: Sequence[str], *, times: bool = False, grader: Grader | None = None) -> list[Row]:
    """Run the suite on each backend named, or on all. Raises UnknownName."""
    why_not = available()
    rows = []
    for name in names or [*BACKENDS.names(), *([ROOTLESS] if os.geteuid() == 0 else [])]:
        plain = name.removesuffix("-rootless")
        BACKENDS.load(plain)
        row = Row(name)
        rows.append(row)
        if why_not.get(plain):
            row.unavailable = str(why_not[plain])
            continue
        try:
            _fill(row, asyncio.run(run_all(name)) if name == plain else _as_ordinary_user(plain))
            if name == plain:
                asyncio.run(_look(row, times=times, grader=grader))
            else:
                row.isolation = "namespaces"
        except SandboxError as error:
            row.unavailable = str(error)
    return rows


def plain_costs() -> dict[str, float]:
    """Medians in milliseconds of what others pay: a command in a new container, in a running one, in bare bwrap.

    An engine whose own command line fails is left out, and why is said on stderr.
    """
    found = {}
    if shutil.which("bwrap"):
        bare = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "/bin/true"]
        found["bwrap"] = _median(lambda: subprocess.run(bare, check=True, capture_output=True), _SLOW_CALLS)
    for name in ("docker", "podman"):
        if available().get(name) is None:
            try:
                found.update(_plain_engine(name))
            except (FileNotFoundError, subprocess.CalledProcessError) as error:
                said = getattr(error, "stderr", None) or str(error).encode()
                print(f"etude: plain {name} is not measured: {said.decode().strip()[-200:]}", file=sys.stderr)
    return found


def _plain_engine(name: str) -> dict[str, float]:
    """Through the engine's own command line, in the image of our sandboxes with the same folders bound."""
    from ..docker.backend import image_of

    # Podman asks for more open files and processes than a machine may allow.
    few = [f"--ulimit={what}=4096:4096" for what in ("nofile", "nproc")]
    run = [name, "run", "--rm", "--network", "none", *few, *image_of(name)]
    found = {f"{name} run": _median(lambda: subprocess.run([*run, "/bin/true"], check=True, capture_output=True), 5)}
    held = f"etude-plain-{os.getpid()}"
    subprocess.run([*run[:2], "--name", held, "-d", *run[2:], "/bin/sleep", "100"], check=True, capture_output=True)
    try:
        command = [name, "exec", held, "/bin/true"]
        found[f"{name} exec"] = _median(lambda: subprocess.run(command, check=True, capture_output=True), _SLOW_CALLS)
    finally:
        subprocess.run([name, "rm", "-f", held], check=False, capture_output=True)
    return found


def as_rows(rows: Sequence[Row], plain: dict[str, float]) -> list[dict[str, object]]:
    """For a table: a line per backend, then what others pay."""
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
        kind = "start ms" if name.endswith("run") else "exec ms"
        lines.append({**blank, "backend": f"plain {name}", kind: round(value, 1)})
    return lines


def as_data(rows: Sequence[Row], plain: dict[str, float]) -> dict[str, object]:
    return {"ok": is_ok(rows), "backends": [asdict(row) for row in rows], "plain_ms": plain}


def is_ok(rows: Sequence[Row]) -> bool:
    return not any(row.failed or row.unavailable for row in rows)


def clean_up() -> dict[str, list[str]]:
    """Remove what dead servers left, on every backend that keeps anything outside its processes; what was removed."""
    removed = {}
    for name in BACKENDS.names():
        cleanup = getattr(importlib.import_module(BACKENDS.load(name).__module__), "cleanup", None)
        try:
            if cleanup is not None:
                removed[name] = list(cleanup())
        except SandboxUnavailable:
            continue  # what does not work here left nothing
    return removed


def _fill(row: Row, verdicts: dict[str, str]) -> None:
    row.held = sum(verdict == "ok" for verdict in verdicts.values())
    for kind, target in (("excused", row.excused), ("failed", row.failed)):
        marked = {name: text for name, text in verdicts.items() if text.startswith(f"{kind}: ")}
        target.update({name: text.removeprefix(f"{kind}: ") for name, text in marked.items()})


async def _look(row: Row, *, times: bool, grader: Grader | None) -> None:
    with tempfile.TemporaryDirectory(prefix="etude-check-") as folder:
        layers = make_layers(Path(folder))
        sandbox = await open_sandbox(layers, backend=row.backend)
        try:
            row.isolation, row.lacks = sandbox.report.isolation, list(sandbox.report.lacks)
            if times:
                row.ms = await _measure(sandbox, layers, row.backend)
        finally:
            await sandbox.close()
    if times and grader is not None:
        row.ms["fresh grade"] = await grader(row.backend)


async def _measure(sandbox: Sandbox, layers: Layers, backend: str) -> dict[str, float]:
    async def start() -> None:
        await (await open_sandbox(layers, backend=backend)).close()

    async def run() -> None:
        await sandbox.exec(["/bin/true"])

    async def fork() -> None:
        saved = await sandbox.save()
        await sandbox.restore(saved)
        saved.close()

    async def changes() -> None:
        await sandbox.changes()

    found = {}
    for name, call, rounds in (
        ("exec", run, _CALLS),
        ("reset", sandbox.reset, _CALLS),
        ("save+restore", fork, _CALLS),
        ("changes", changes, _CALLS),
        ("start", start, _STARTS),
    ):
        await call()
        spent = []
        for _ in range(rounds):
            started = time.perf_counter()
            await call()
            spent.append(time.perf_counter() - started)
        found[name] = statistics.median(spent) * 1e3
    return {"start": found.pop("start"), **found}


def _median(call: Callable[[], object], rounds: int) -> float:
    call()
    spent = []
    for _ in range(rounds):
        started = time.perf_counter()
        call()
        spent.append(time.perf_counter() - started)
    return statistics.median(spent) * 1e3


def _as_ordinary_user(backend: str) -> dict[str, str]:
    """The suite as somebody who is not root. Raises SandboxError where no interpreter lets an ordinary user in."""
    with _copy_for_all() as (python, path):
        command = [python, "-B", "-m", f"{(__package__ or '')}.suite", backend]
        done = subprocess.run(
            command,
            env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin"},
            cwd="/",
            capture_output=True,
            text=True,
            timeout=_SUITE_S,
            check=False,
            user=_ORDINARY_UID,
            group=_ORDINARY_UID,
            extra_groups=[],
        )
    if not done.stdout:
        raise SandboxError(f"the suite failed as an ordinary user: {done.stderr.strip()[-300:]}")
    verdicts: dict[str, str] = json.loads(done.stdout)
    return verdicts


@contextlib.contextmanager
def _copy_for_all() -> Iterator[tuple[str, str]]:
    """An interpreter that an ordinary user may run, and a folder that he may read with all that the suite imports."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    candidates = [os.path.realpath(sys.executable), f"/usr/bin/{version}", f"/usr/local/bin/{version}"]
    found = [one for one in candidates if os.path.exists(one) and _is_open(Path(one))]
    if not found:
        raise SandboxError(f"no {version} that an ordinary user may run: apt-get install {version}")
    with tempfile.TemporaryDirectory(prefix="etude-as-user-") as folder:
        package = (__package__ or "").partition(".")[0]
        root = Path(__file__).parents[3]
        for name in _NEEDED:
            _copy(root / name, Path(folder, package, name))
        for module in _MODULES:
            spec = find_spec(module)
            if spec is None or spec.origin is None:
                raise SandboxError(f"{module} is not installed")
            origin = Path(spec.origin)
            is_package = origin.name == "__init__.py"
            _copy(
                origin.parent if is_package else origin, Path(folder, origin.parent.name if is_package else origin.name)
            )
        Path(folder).chmod(0o755)
        yield found[0], folder


def _is_open(path: Path) -> bool:
    return all(part.stat().st_mode & 0o001 for part in (path, *path.parents))


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)
