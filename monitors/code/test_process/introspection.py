"""The monitor of code that reads memory which is not its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ....models import Finding
from ...base import Inspection
from ...evidence.added_code import Hit, findings, hit_at, named_hits
from ...reading import AddedFile, Module, fold

_RULES = {
    re.compile(r"gc\.(get_objects|get_referrers|get_referents)"): ("T15", "lists objects of the process"),
    re.compile(r"gc\.callbacks(\..*)?"): ("T15", "runs code in the garbage collector"),
    re.compile(r"(ctypes|_ctypes|cffi|_cffi_backend)(\..*)?"): ("T15", "reads or writes raw memory"),
    re.compile(r".*\.(__closure__|cell_contents|func_closure)|inspect\.getclosurevars"): (
        "T15",
        "reads closures of functions",
    ),
    re.compile(r"sys\.modules\.(values|items|copy)"): ("T15", "searches the loaded modules"),
    re.compile(r".*\.(__globals__|func_globals)"): ("T15", "reads the globals of a function"),
}
_MEMORY = re.compile(r"/proc/(self|\d+|%s|\{\})/(mem|maps|environ|fd|fdinfo|cmdline)|/dev/(mem|kmem)")
_ATTRIBUTES = frozenset({"__closure__", "__globals__", "cell_contents", "get_objects", "get_referrers"})


class Introspection:
    """Code that searches the garbage collector, closures or raw memory, where a test run keeps its secrets.

    Caches of objects, debuggers and bindings to C libraries do the same.
    """

    name = "introspection"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return a finding for each way in which added code reads memory."""
        return findings(inspection, _search)


def _is_module_table(part: Module, node: ast.AST) -> bool:
    """Return whether an expression is ``sys.modules`` or a list of it."""
    if (
        isinstance(node, ast.Call)
        and node.args
        and part.dotted(node.func) in ("list", "tuple", "dict", "sorted", "iter")
    ):
        node = node.args[0]
    return part.dotted(node) == "sys.modules"


def _looks_up(part: Module, node: ast.Call) -> bool:
    """Return whether a call fetches a hidden attribute by its name."""
    if part.dotted(node.func) not in ("getattr", "operator.attrgetter"):
        return False
    return not _ATTRIBUTES.isdisjoint({fold(argument, part.constants) for argument in node.args})


def _search(module: Module, file: AddedFile) -> Iterator[Hit]:
    yield from named_hits(module, _RULES)
    for part in module.parts:
        for use in part.uses:
            # A registry of a class's own subclasses is common and harmless; this is the search of everything.
            if use.name in ("object.__subclasses__", "type.__subclasses__", "object.__subclasses__()"):
                yield hit_at(part, use.node, "T15", "lists subclasses of object")
        for node in part.nodes:
            text = fold(node, part.constants) if isinstance(node, ast.Constant | ast.BinOp | ast.JoinedStr) else None
            if isinstance(text, str) and _MEMORY.search(text):
                yield hit_at(part, node, "T15", "reads a process through /proc")
            elif isinstance(node, ast.For | ast.comprehension) and _is_module_table(part, node.iter):
                yield hit_at(part, node.iter, "T15", "searches the loaded modules")
            elif isinstance(node, ast.Call) and _looks_up(part, node):
                yield hit_at(part, node, "T15", "looks up a hidden attribute")
