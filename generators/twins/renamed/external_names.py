"""Names that belong to others: the standard library, the installed packages, and Python itself."""

from __future__ import annotations

import builtins
import functools
import importlib
import keyword
import re
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from ....environments.sandbox import ENV_PREFIX
from ....environments.snapshots import Snapshot

_NOT_CODE = re.compile(
    rb'"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#[^\n]*', re.MULTILINE
)
_NAME = re.compile(rb"[^\W\d]\w*")
_COMPILED = "math itertools _datetime _collections _functools _operator _struct _io _json _sre _random array".split()
_SKIPPED = frozenset(
    "test tests idlelib lib2to3 turtledemo site-packages dist-packages ensurepip pip setuptools".split()
)


def external_names(snapshot: Snapshot) -> frozenset[str]:
    """Return the identifiers of the standard library and of the Snapshot's installed packages.

    Comments and texts do not count. A name that is among them may be called from outside, so it is not renamed.
    """
    layers = snapshot.layers(snapshot.tree)
    binds = {**layers.unmapped, **layers.binds}
    folders = binds[ENV_PREFIX].glob("lib/python3.*/site-packages") if ENV_PREFIX in binds else ()
    return _standard_names() | frozenset(_names_below(folders))


@functools.cache
def _standard_names() -> frozenset[str]:
    names = {*dir(builtins), *keyword.kwlist, *keyword.softkwlist, *sys.stdlib_module_names}
    types = (value for value in vars(builtins).values() if isinstance(value, type))
    names |= {name for value in (*types, type(len), type(external_names), type(sys)) for name in dir(value)}
    for module_name in (*sys.builtin_module_names, *_COMPILED):
        try:
            module = importlib.import_module(module_name)
        except ImportError:
            continue
        names |= {name for value in (module, *vars(module).values()) for name in dir(value)}
    return frozenset(names | set(_names_below([Path(sysconfig.get_path("stdlib"))])))


def _names_below(folders: Iterable[Path]) -> set[str]:
    names: set[str] = set()
    for folder in folders:
        for path in folder.rglob("*.py"):
            if not _SKIPPED & set(path.relative_to(folder).parts[:-1]):
                code = _NOT_CODE.sub(b" ", path.read_bytes())
                names |= {name.decode("utf-8", "replace") for name in set(_NAME.findall(code))}
    return names
