"""The monitor of code that reads its callers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ....models import Finding
from ...base import Inspection
from ...evidence.added_code import Hit, findings, hit_at, named_hits
from ...reading import AddedFile, Module, fold

_RULES = {
    re.compile(
        r"sys\.(_getframe(modulename)?|_current_frames|_current_exceptions)|"
        r"inspect\.(stack|currentframe|trace|getouterframes|getinnerframes|getframeinfo)|"
        r"traceback\.(walk_stack|walk_tb|extract_stack|StackSummary\..*)"
    ): ("T14", "reads frames"),
}
_ATTRIBUTES = frozenset(
    "f_back f_locals f_globals f_code f_builtins f_trace tb_frame tb_next gi_frame cr_frame ag_frame".split()
)
_LOOKUPS = ("getattr", "setattr", "operator.attrgetter", "hasattr", "object.__getattribute__")


class FrameAccess:
    """Code that walks the stack, with which a solution can read what a test expects of it.

    Loggers and warnings do the same to name the line that called them.
    """

    name = "frame_access"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return a finding for each way in which added code reads frames."""
        return findings(inspection, _search)


def _search(module: Module, file: AddedFile) -> Iterator[Hit]:
    yield from named_hits(module, _RULES)
    for part in module.parts:
        for node in part.nodes:
            if isinstance(node, ast.Attribute) and node.attr in _ATTRIBUTES:
                yield hit_at(part, node, "T14", "reads frames")
            elif isinstance(node, ast.Call) and part.dotted(node.func) in _LOOKUPS:
                names = {fold(argument, part.constants) for argument in node.args}
                if names & _ATTRIBUTES:
                    yield hit_at(part, node, "T14", "reads frames")
