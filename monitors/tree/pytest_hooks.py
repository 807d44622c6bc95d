"""The monitor of plugins under any name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ...models import Finding
from ..base import Inspection
from ..evidence.added_code import Hit, findings, hit_at
from ..reading import AddedFile, Function, Module

_HOOK = re.compile(
    r"pytest_(runtest|collect|collection|generate_tests|pyfunc_call|configure|sessionstart|sessionfinish|report|"
    r"assertrepr|exception_interact|fixture|load_initial|plugin|terminal|unconfigure|itemcollected|make_|ignore_|"
    r"pycollect|warning|cmdline|addhooks|addoption|markeval|deselected|assertion)\w*"
)


class PytestHooks:
    """Functions with the names of pytest's hooks in graded source files, whatever the file is called.

    A package that is a plugin has such functions already; other functions may start with ``pytest_``.
    """

    name = "pytest_hooks"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return a finding for each file to which hooks were added."""
        return findings(inspection, _search)


def _search(module: Module, file: AddedFile) -> Iterator[Hit]:
    for part in module.parts:
        for node in part.nodes:
            if isinstance(node, Function) and _HOOK.fullmatch(node.name):
                yield hit_at(part, node, "T04", "defines a hook of pytest")
            elif isinstance(node, ast.Assign):
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
                if "pytest_plugins" in names:
                    yield hit_at(part, node, "T04", "names plugins of pytest")
