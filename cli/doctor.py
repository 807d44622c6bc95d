"""What works on this machine, and how to get what does not. Looks; installs, imports and starts nothing heavy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

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
    "huggingface-hub": "hub",
}


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. ``required``: without it no task can be made, played or graded here."""

    area: str
    name: str
    ok: bool
    detail: str = ""
    remedy: str = ""
    required: bool = False


@dataclass(frozen=True)
class Diagnosis:
    """``ok`` when every required check holds."""

    ok: bool
    checks: list[Check] = field(default_factory=list)


def examine() -> Diagnosis:
    """Every check, in the order in which a person would fix them."""
    checks = [_python(), _git(), _cache(), *_sandboxes(), *_packages(), _gpu()]
    return Diagnosis(ok=all(check.ok for check in checks if check.required), checks=checks)


def _python() -> Check:
    here = ".".join(str(part) for part in sys.version_info[:3])
    return Check("python", "interpreter", sys.version_info >= (3, 11), here, "needs Python >= 3.11", required=True)


def _git() -> Check:
    if shutil.which("git") is None:
        return Check("tools", "git", False, "not found", "apt-get install git", required=True)
    found = subprocess.run(["git", "--version"], capture_output=True, text=True, check=False, timeout=10)
    return Check("tools", "git", found.returncode == 0, found.stdout.strip() or found.stderr.strip(), required=True)


def _cache() -> Check:
    from ..environments.snapshots.store.cache import cache_folder
    from ..errors import SnapshotError

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
    from ..environments.sandbox import available

    found = available()
    checks = [
        Check("sandbox", name, reason is None, "works" if reason is None else "", reason or "")
        for name, reason in found.items()
    ]
    working = [name for name, reason in found.items() if reason is None]
    summary = f"strongest first: {', '.join(working)}" if working else "none works"
    return [*checks, Check("sandbox", "any", bool(working), summary, "see the lines above", required=True)]


def _packages() -> list[Check]:
    checks = []
    for name, extra in OPTIONAL.items():
        try:
            checks.append(Check("package", name, True, version(name)))
        except PackageNotFoundError:
            checks.append(Check("package", name, False, "not installed", f"pip install 'etude[{extra}]'"))
    return checks


def _gpu() -> Check:
    """Device nodes and the driver's own files: nothing is imported or started."""
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
    return Check("gpu", "any", False, "none found", "only training needs one")
