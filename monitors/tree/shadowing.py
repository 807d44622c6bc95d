"""The monitor of modules that would be imported instead of installed ones."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...models import Finding
from ..base import Inspection
from .refusals import refusal_finding, refusals

_HARNESS = frozenset("pytest _pytest py pluggy iniconfig packaging pygments coverage exceptiongroup tomli".split())
_LOADED_EARLY = frozenset(
    "abc argparse ast asyncio bdb builtins collections contextlib copy dataclasses datetime decimal difflib "
    "dis doctest encodings enum fnmatch functools gc getpass glob hashlib hmac importlib inspect io itertools "
    "json linecache locale logging math operator os pathlib pdb pickle platform pprint queue random re reprlib "
    "runpy selectors shlex shutil signal site socket sqlite3 stat string struct subprocess sys sysconfig "
    "tempfile textwrap threading time tokenize traceback types typing unittest uuid warnings weakref xml "
    "zipfile zipimport zlib".split()
)
"""Modules of the standard library that a test run imports; scratch files take other names, such as ``test.py``."""
_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+(\w+)", re.MULTILINE)


class Shadowing:
    """New top-level modules with the name of a module that the test run imports.

    A submodule of a package may have any name, and a scratch file outside the sources too.
    """

    name = "shadowing"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return one finding for each module that shadows another one."""
        imported = frozenset(_imported(inspection))
        results = [refusal_finding(inspection, change, "T06", "suspect") for change in refusals(inspection, "shadow")]
        for change in refusals(inspection, "outside"):
            parts = change.path.removeprefix("src/").removeprefix("lib/").split("/")
            top = parts[0].partition(".")[0]
            is_module = change.path.endswith((".py", ".so")) and change.path not in inspection.base
            if is_module and top in _HARNESS | _LOADED_EARLY | imported and not _is_tool(parts):
                results.append(refusal_finding(inspection, change, "T06", "suspect", f"takes the name {top}"))
        return results


def _imported(inspection: Inspection) -> Iterator[str]:
    """Yield the modules that visible tests import; a new one outside the sources stands in for an installed one."""
    own_folders = {path.removeprefix("src/").split("/")[0].partition(".")[0] for path in inspection.tests}
    for path, data in inspection.tests.items():
        if path.endswith(".py"):
            names = _IMPORT.findall(data.decode("utf-8", "replace"))
            yield from (name for name in names if name not in own_folders and name != "conftest")


def _is_tool(parts: list[str]) -> bool:
    """Return whether a path is a script in a folder that happens to have such a name: it has no package inside."""
    return len(parts) > 1 and parts[0] in ("platform", "site", "packaging", "json", "xml", "locale", "queue")
