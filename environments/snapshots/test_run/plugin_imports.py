"""Import paths of a test run: pytest from the snapshot's environment first, the workspace's modules after it.

``run_tests`` sends this file's text to the sandbox ahead of ``pytest_plugin.py``; it runs on Python 3.8 and later.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib.util
import os
import sys
import types
from collections.abc import Iterable
from typing import Any


def workspace_modules(folders: Iterable[str]) -> set[str]:
    """Return the names of the top-level modules in the workspace's import folders."""
    names = set()
    for folder in folders:
        for entry in os.listdir(folder) if os.path.isdir(folder) else ():
            stem, dot, suffix = entry.partition(".")
            if suffix == "py" or (not dot and os.path.isfile(os.path.join(folder, entry, "__init__.py"))):
                names.add(stem)
    return names


def load_pytest(root: str, watched: Iterable[str], with_coverage: bool, folders: Iterable[str]) -> types.ModuleType:
    """Import pytest and the ``watched`` modules while only the environment and the standard library are importable.

    An environment without pytest belongs to pytest's own repository: there the workspace's copy in ``folders`` is
    tested, and runs its own tests.
    """
    leave_workspace(root)
    if importlib.util.find_spec("pytest") is None:
        sys.path[:0] = folders
    for name in watched:
        with contextlib.suppress(ModuleNotFoundError):  # pytest's private modules move between its versions
            importlib.import_module(name)
    import pytest

    if with_coverage:
        os.environ["COVERAGE_CORE"] = "ctrace"
        import coverage as _loaded  # noqa: F401
    leave_workspace(root)
    return pytest


def leave_workspace(root: str) -> None:
    """Remove the workspace's folders from the import paths; a ``.pth`` file of the environment may name some."""
    sys.path[:] = [path for path in sys.path if not (path + os.sep).startswith(root + os.sep)]


def standard_library() -> set[str]:
    """Return the top-level names of the standard library; before Python 3.10 they are read from its folders."""
    names = getattr(sys, "stdlib_module_names", None)
    if names is not None:
        return set(names)
    home = os.path.dirname(os.__file__)
    folders = [path for path in (home, os.path.join(home, "lib-dynload")) if os.path.isdir(path)]
    files = {entry.partition(".")[0] for folder in folders for entry in os.listdir(folder)}
    return files.union(sys.builtin_module_names)


def enter_workspace(folders: list[str]) -> set[str]:
    """Put the workspace first on ``sys.path``, here and in the processes that tests start; return its modules."""
    modules = workspace_modules(folders)
    # A package that pytest itself depends on is loaded a second time, from the workspace, for its own tests.
    permanent = {*standard_library(), "pytest", "_pytest"}
    for name in list(sys.modules):
        if name.partition(".")[0] in modules and name.partition(".")[0] not in permanent:
            del sys.modules[name]
    sys.path[:0] = folders
    os.environ["PYTHONPATH"] = os.pathsep.join(folders)
    return modules


def leave_main(arguments: list[str], original: list[str]) -> None:
    """Give code an empty ``__main__`` instead of this file's names, and the command line of an ordinary run."""
    main: Any = types.ModuleType("__main__")
    main.__builtins__ = builtins
    sys.modules["__main__"] = main
    sys.argv[:] = arguments
    if hasattr(sys, "orig_argv"):  # from Python 3.10 on
        sys.orig_argv[:] = original
