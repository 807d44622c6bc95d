"""The installed dependencies of a Snapshot, as files: which modules and names they have. Nothing is imported."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from packaging.utils import canonicalize_name

from ....python.source import words


class Installed:
    """The packages in one folder; modules are read when they are asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.owners: dict[str, str] = {}
        """Top-level module to the canonical name of its distribution."""
        for item in importlib.metadata.distributions(path=[str(folder)]):
            for path in item.files or ():
                if path.suffix == ".py" and ".." not in path.parts:
                    self.owners.setdefault(path.parts[0].removesuffix(".py"), canonicalize_name(item.name))

    def lacks(self, module: str, name: str = "") -> bool:
        """Return whether a dependency surely has no such module, or no such name in it."""
        base = self._folder.joinpath(*module.split("."))
        file = next((path for path in (base / "__init__.py", base.with_suffix(".py")) if path.is_file()), None)
        if file is None:
            return not base.is_dir() and not list(base.parent.glob(f"{base.name}.*"))
        if not name or name == "*" or (base / name).is_dir() or list(base.glob(f"{name}.*")):
            return False
        source = file.read_bytes()
        return not {name, "__getattr__"} & words(source) and b"import *" not in source
