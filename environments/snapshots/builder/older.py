"""A second locked environment of a snapshot: the same packages, with an older version of one dependency."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from packaging.utils import canonicalize_name

from ....errors import DependencyFailed
from ...sandbox import ENV_PREFIX, Layers
from ..snapshot import Snapshot
from . import environment
from .interpreter import installed_prefix
from .packages import requirement_name, resolve


def locked_versions(snapshot: Snapshot) -> dict[str, str]:
    """Return the version of every locked dependency by its canonical name."""
    pins = (line.split(" ", 1)[0].partition("==") for line in snapshot.recipe.requirements)
    return {canonicalize_name(name): version for name, _, version in pins}


def older_environment(snapshot: Snapshot, dependency: str, specifier: str, folder: Path) -> str:
    """Install the snapshot's packages with ``dependency`` as ``specifier`` allows; return the chosen version.

    The environment is ``env`` in ``folder``. What the older version requires replaces what is locked. Raises
    DependencyFailed when there is no such version, or it cannot be installed beside the others.
    """
    name = canonicalize_name(dependency)
    pins = [f"{other}=={version}" for other, version in locked_versions(snapshot).items() if other != name]
    locked = resolve(snapshot.interpreter, [*pins, f"{name}{specifier}"], folder).locked
    target = folder / "env"
    result = environment.install(target, snapshot.interpreter, [locked[item] for item in sorted(locked)], folder)
    if not result.ok:
        raise DependencyFailed(f"{name}{specifier} cannot be installed: {result.error_text()}; name another version")
    packages = environment.site_packages(target, snapshot.interpreter)
    for path in environment.site_packages(snapshot.path / "env", snapshot.interpreter).glob("*.dist-info"):
        if requirement_name(path.name.partition("-")[0]) == canonicalize_name(snapshot.name):
            shutil.copytree(path, packages / path.name, dirs_exist_ok=True)
    environment.finish(target, snapshot.interpreter)
    return locked[name].split(" ", 1)[0].partition("==")[2]


def older_layers(snapshot: Snapshot, folder: Path, workspace: Path) -> Layers:
    """Return the layers of a sandbox that shows ``workspace`` with the environment in ``folder``."""
    layers = snapshot.layers(workspace)
    python = installed_prefix(snapshot.interpreter, snapshot.cache)
    head = environment.unmapped_head(folder, snapshot.cache, snapshot.interpreter, python)
    return replace(
        layers,
        binds={**layers.binds, ENV_PREFIX: folder / "env"},
        unmapped={**layers.unmapped, ENV_PREFIX: head},
    )
