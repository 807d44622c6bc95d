"""``etude doctor``: what works on this machine, and how to get what is missing.

The checks only look; they install, import and start nothing heavy.
"""

import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

from .. import console
from ..options import Json

OPTIONAL = {
    "openenv": "server",
    "fastapi": "server",
    "tree-sitter": "server",
    "torch": "train",
    "transformers": "train",
    "trl": "train",
    "vllm": "vllm",
    "verifiers": "verifiers",
    "ray": "ray",
    "kubernetes": "kubernetes",
    "huggingface-hub": "hub",
}
"""Optional distributions, and the extra of Etude that installs each."""
WIDTH = 100
"""Columns of the printed diagnosis."""


@dataclass(frozen=True)
class Check:
    """Result of one check."""

    area: str
    """Group of checks, such as ``sandbox``."""
    name: str
    """Tool or package that was looked for."""
    ok: bool
    """Whether it works."""
    detail: str = ""
    """Version, place or problem."""
    remedy: str = ""
    """Command or setting that fixes a failed check."""
    required: bool = False
    """Whether no task can be made, played or graded without it."""


@dataclass(frozen=True)
class Diagnosis:
    """All checks of this machine."""

    ok: bool
    """Whether every required check passed."""
    checks: list[Check] = field(default_factory=list)
    """Checks in the order in which a user would fix them."""


def doctor(as_json: Json = False) -> None:
    """Check what works on this machine, and say how to get what is missing."""
    diagnosis = examine()
    if as_json:
        console.show_json(diagnosis)
    else:
        _show(diagnosis)
    console.exit_unless(diagnosis.ok)


def _show(diagnosis: Diagnosis) -> None:
    """Print the checks, at most 100 columns wide; the text of a failed one ends with its remedy."""
    import textwrap

    for check in diagnosis.checks:
        mark = "ok" if check.ok else "MISSING" if check.required else "-"
        text = check.detail if check.ok else "; ".join(filter(None, [check.detail, check.remedy]))
        start = f"{mark:9}{check.area:9}{check.name:17}"
        print(textwrap.fill(text, WIDTH, initial_indent=start, subsequent_indent=" " * len(start)) or start.rstrip())


def examine() -> Diagnosis:
    """Run every check, in the order in which a user would fix them."""
    checks = [_python(), _git(), _cache(), *_sandboxes(), *_packages(), _gpu()]
    return Diagnosis(ok=all(check.ok for check in checks if check.required), checks=checks)


def _python() -> Check:
    running = ".".join(str(part) for part in sys.version_info[:3])
    remedy = "install Python 3.11 or newer"
    return Check("python", "interpreter", sys.version_info >= (3, 11), running, remedy, required=True)


def _git() -> Check:
    import subprocess

    remedy = "apt-get install git"
    if shutil.which("git") is None:
        return Check("tools", "git", False, "not found", remedy, required=True)
    done = subprocess.run(["git", "--version"], capture_output=True, text=True, check=False, timeout=10)
    detail = done.stdout.strip() or done.stderr.strip()
    return Check("tools", "git", done.returncode == 0, detail, remedy, required=True)


def _cache() -> Check:
    from ...environments.snapshots.store.cache import cache_folder
    from ...errors import SnapshotError

    remedy = "set ETUDE_CACHE to a folder that you may write"
    try:
        folder = cache_folder()
    except SnapshotError as error:
        return Check("tools", "cache", False, str(error).partition(";")[0], remedy, required=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        return Check("tools", "cache", False, f"{folder}: not writable", remedy, required=True)
    free = shutil.disk_usage(folder).free / 1e9
    return Check("tools", "cache", True, f"{folder}, {free:.0f} GB free", required=True)


def _sandboxes() -> list[Check]:
    from ...environments.sandbox import available

    reasons = available()
    checks = [
        Check("sandbox", name, reason is None, "works" if reason is None else "", reason or "")
        for name, reason in reasons.items()
    ]
    working = [name for name, reason in reasons.items() if reason is None]
    summary = f"strongest first: {', '.join(working)}" if working else "none works"
    return [*checks, Check("sandbox", "any", bool(working), summary, "see the lines above", required=True)]


def _packages() -> list[Check]:
    from importlib.metadata import PackageNotFoundError, version

    checks = []
    for name, extra in OPTIONAL.items():
        try:
            checks.append(Check("package", name, True, version(name)))
        except PackageNotFoundError:
            checks.append(Check("package", name, False, "not installed", f"pip install 'etude[{extra}]'"))
    return checks


def _gpu() -> Check:
    """Look at device nodes and at the driver's files."""
    models = []
    for card in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        lines = card.read_text(encoding="utf-8", errors="replace").splitlines()
        models += [line.partition(":")[2].strip() for line in lines if line.startswith("Model:")]
    if models:
        return Check("gpu", "nvidia", True, ", ".join(models))
    cards = [path for path in Path("/dev").glob("nvidia*") if path.name.removeprefix("nvidia").isdigit()]
    if cards:
        return Check("gpu", "nvidia", True, f"{len(cards)} device(s)")
    if Path("/dev/kfd").exists():
        return Check("gpu", "amd", True, "/dev/kfd")
    return Check("gpu", "any", False, "none found", "only training of large models needs one")
