"""A Python file as code monitors read it: its nodes, and the dotted name of everything that it uses."""

from __future__ import annotations

import ast
import warnings
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from ...parsing_cost import is_costly
from .constants import Value, fold

MAX_FILE = 512 << 10
"""Most bytes of a file that is parsed; a larger file is not read as code."""
MAX_NESTED = 20
MAX_COMPOSED = 1 << 20
"""Characters of all the constants of a file that are put together from others, each of which may double the last."""
_IMPORTERS = ("__import__", "builtins.__import__", "importlib.import_module", "importlib.__import__")
_LOOKUPS = ("sys.modules.get", "sys.modules.pop", "sys.modules.__getitem__", "pytest.importorskip")
_RUNNERS = ("exec", "eval", "compile", "builtins.exec", "builtins.eval", "builtins.compile")
_FAILURES = (SyntaxError, ValueError, RecursionError, MemoryError)
_OF_LINES = frozenset({"nodes", "uses", "uses_by_name", "nested", "imported"})
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Use:
    """A place where code uses a name."""

    name: str
    """Its dotted name, imports and aliases resolved: ``sys._getframe`` for ``from sys import _getframe as f; f()``."""
    node: ast.AST
    line: int
    """The line in the file, also for code in a string that is executed."""


@dataclass(eq=False)
class Module:
    """A parsed file."""

    text: str
    tree: ast.Module
    line: int = 0
    """The line of the call that executes this code, 0 for a file."""
    depth: int = 0
    aliases: dict[str, str] = field(default_factory=dict)
    """Dotted names by the names that stand for them, as the last import or assignment says."""
    earlier: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """Line and dotted name of every import of a name, for names that are imported more than once."""
    constants: dict[str, Value] = field(default_factory=dict)
    """Values of names that are assigned a constant once."""
    lines_of_interest: tuple[int, ...] = ()
    """The sorted lines that ``nodes``, ``uses`` and ``nested`` are limited to; empty for all."""

    def __post_init__(self) -> None:
        self._read_names()

    @cached_property
    def lines(self) -> list[str]:
        """Return the lines of the text."""
        return self.text.splitlines()

    @cached_property
    def all_nodes(self) -> list[ast.AST]:
        """Return every node."""
        return list(ast.walk(self.tree))

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Return the nodes on the lines of interest."""
        return (
            [node for node in self.all_nodes if self._is_of_interest(node)]
            if self.lines_of_interest
            else self.all_nodes
        )

    def _is_of_interest(self, node: ast.AST) -> bool:
        if isinstance(node, ast.comprehension):
            node = node.iter
        line = getattr(node, "lineno", None)
        if line is None:
            return False
        place = bisect_left(self.lines_of_interest, line)
        return place < len(self.lines_of_interest) and self.lines_of_interest[place] <= (node.end_lineno or line)  # type: ignore[attr-defined]

    def limited_to(self, lines: Iterable[int]) -> Module:
        """Return this module with ``nodes``, ``uses`` and ``nested`` limited to some lines; names resolve as before."""
        limited = copy(self)
        limited.__dict__ = {name: value for name, value in self.__dict__.items() if name not in _OF_LINES}
        limited.lines_of_interest = tuple(sorted(lines))
        limited.all_nodes = self.all_nodes
        return limited

    @cached_property
    def imported(self) -> frozenset[str]:
        """Return the top-level names of all modules that are imported, ``builtins`` among them."""
        names = [use.name for use in self.uses if isinstance(use.node, ast.Call)]
        for node in self.all_nodes:
            if isinstance(node, ast.Import):
                names += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.append(node.module or "")
        return frozenset(name.partition(".")[0] for name in names) | {"builtins"}

    @cached_property
    def uses_by_name(self) -> dict[str, list[Use]]:
        """Return the uses of each dotted name."""
        table: dict[str, list[Use]] = {}
        for use in self.uses:
            table.setdefault(use.name, []).append(use)
        return table

    @cached_property
    def functions(self) -> list[Function | ast.Lambda]:
        """Return every function and lambda."""
        return [node for node in self.all_nodes if isinstance(node, Function | ast.Lambda)]

    @cached_property
    def looped(self) -> dict[str, list[str]]:
        """Return by name the constant strings that loops over displays give to it."""
        table: dict[str, list[str]] = {}
        for node in self.all_nodes:
            if not isinstance(node, ast.For | ast.comprehension) or not isinstance(node.target, ast.Name):
                continue
            if isinstance(node.iter, ast.List | ast.Tuple | ast.Set):
                texts = (fold(item, self.constants) for item in node.iter.elts)
                table.setdefault(node.target.id, []).extend(text for text in texts if isinstance(text, str))
        return table

    @cached_property
    def inside(self) -> dict[int, str]:
        """Return by line the name of the innermost function around it."""
        table: dict[int, str] = {}
        # Outer functions come first in a breadth-first walk.
        for node in self.all_nodes:
            if isinstance(node, Function):
                table.update(dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), node.name))
        return table

    @cached_property
    def main_lines(self) -> set[int]:
        """Return the lines below ``if __name__ == "__main__"``."""
        lines: set[int] = set()
        for node in self.all_nodes:
            if isinstance(node, ast.If) and isinstance(node.test, ast.Compare):
                names = [part.id for part in ast.walk(node.test) if isinstance(part, ast.Name)]
                if names == ["__name__"]:
                    lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        return lines

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        """Return everything that the code uses, in the order of its lines, that of executed strings included."""
        return tuple(sorted(self._uses(), key=lambda use: use.line))

    @cached_property
    def nested(self) -> list[Module]:
        """Return the code in constant strings that are executed, however they are written."""
        modules: list[Module] = []
        for node in self.nodes:
            if isinstance(node, ast.Call) and node.args and self.dotted(node.func) in _RUNNERS and self.depth < 3:
                code = fold(node.args[0], self.constants)
                text = code.decode(errors="replace") if isinstance(code, bytes) else code
                inner = parsed(text, self._line(node), self.depth + 1) if isinstance(text, str) else None
                if inner is not None and len(modules) < MAX_NESTED:
                    modules.append(inner)
        return modules

    @property
    def parts(self) -> tuple[Module, ...]:
        """Return the module and the code in its executed strings."""
        return (self, *self.nested)

    def _line(self, node: ast.AST) -> int:
        return self.line or getattr(node, "lineno", 0)

    def _uses(self) -> Iterator[Use]:
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from (Use(alias.name, node, self._line(node)) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = (f"{node.module}.{alias.name}" for alias in node.names)
                yield from (Use(name, node, self._line(node)) for name in names)
            elif (name := self.dotted(node)) and not name.endswith(("()", "[]")):
                yield Use(name, node, self._line(node))
        for inner in self.nested:
            yield from inner.uses

    def dotted(self, node: ast.AST | None, depth: int = 0) -> str:
        """Return the dotted name of an expression, '' for one that has none; ``x()`` ends with ``()``."""
        if depth > 30:
            return ""
        if isinstance(node, ast.Name):
            if node.id in self.earlier:
                before = [dotted for line, dotted in self.earlier[node.id] if line <= node.lineno]
                return before[-1] if before else self.earlier[node.id][0][1]
            return self.aliases.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            owner = self.dotted(node.value, depth + 1)
            if owner.endswith(".__dict__()"):
                return ""
            return f"{owner}.{node.attr}"
        if isinstance(node, ast.Subscript):
            owner = self.dotted(node.value, depth + 1)
            key = fold(node.slice, self.constants)
            if owner == "sys.modules" and isinstance(key, str):
                return key
            if owner.endswith(".__dict__") and isinstance(key, str):
                return f"{owner.removesuffix('.__dict__')}.{key}"
            return f"{owner}[]"
        if isinstance(node, ast.Call):
            return self._result_of(node, depth + 1)
        return ""

    def called(self, node: ast.Call) -> str:
        """Return the dotted name of what a call calls; ``x.name`` for a method of an expression without a name."""
        name = self.dotted(node.func)
        return name or (f"x.{node.func.attr}" if isinstance(node.func, ast.Attribute) else "")

    def _result_of(self, node: ast.Call, depth: int) -> str:
        function = self.dotted(node.func, depth)
        name = fold(node.args[0], self.constants) if node.args else None
        if function in (*_IMPORTERS, *_LOOKUPS) and isinstance(name, str):
            return name
        if function in ("getattr", "builtins.getattr", "inspect.getattr_static") and len(node.args) > 1:
            attribute = fold(node.args[1], self.constants)
            owner = self.dotted(node.args[0], depth)
            return f"{owner}.{attribute}" if isinstance(attribute, str) and owner else ""
        if function in ("vars", "builtins.vars") and node.args:
            return f"{self.dotted(node.args[0], depth)}.__dict__"
        return f"{function}()" if function else ""

    def _read_names(self) -> None:
        """Fill in the aliases of imports and assignments, and the constants; without regard to scopes."""
        assigned: dict[str, int] = {}
        pairs: list[tuple[str, ast.expr]] = []
        imports: dict[str, list[tuple[int, str]]] = {}
        for node in self.all_nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    # ``import a.b`` binds ``a``, which stands for itself.
                    name = alias.asname or alias.name.partition(".")[0]
                    dotted = alias.name if alias.asname else name
                    imports.setdefault(name, []).append((node.lineno, dotted))
            elif isinstance(node, ast.ImportFrom):
                prefix = "." * node.level + (node.module or "")
                for alias in node.names:
                    place = node.lineno, f"{prefix}.{alias.name}"
                    imports.setdefault(alias.asname or alias.name, []).append(place)
            for target, value in assignments(node):
                if isinstance(target, ast.Name):
                    assigned[target.id] = assigned.get(target.id, 0) + 1
                    pairs.append((target.id, value))
        for name, places in imports.items():
            self.aliases[name] = max(places)[1]
            if len({dotted for _, dotted in places}) > 1:
                self.earlier[name] = sorted(places)
        composed = 0
        for name, value in sorted(pairs, key=lambda pair: getattr(pair[1], "lineno", 0)):
            if assigned[name] > 1 or name in self.aliases:
                continue
            is_plain = isinstance(value, ast.Constant | ast.Name)
            constant = fold(value, self.constants) if is_plain or composed < MAX_COMPOSED else None
            if isinstance(constant, str | bytes) and not is_plain:
                composed += len(constant)
            if constant is not None:
                self.constants[name] = constant
            elif isinstance(value, ast.Attribute | ast.Call | ast.Name | ast.Subscript):
                dotted = self.dotted(value)
                is_result = dotted.endswith(("()", "[]"))
                if dotted and not is_result and ("." in dotted or isinstance(value, ast.Call)):
                    self.aliases[name] = dotted


@lru_cache(maxsize=64)  # the syntax tree of a large file takes 10 MB
def parsed(text: str, line: int = 0, depth: int = 0) -> Module | None:
    """Return the parsed text; None when it is too long, takes long to parse, or is no Python."""
    if len(text) > MAX_FILE or is_costly(text):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Module(text, ast.parse(text), line, depth)
    except _FAILURES:
        return None


def assignments(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """Return target and value of each assignment that a node makes: two for ``a = b = 1``, one for ``(a := 1)``."""
    if isinstance(node, ast.Assign):
        return [(target, node.value) for target in node.targets]
    if isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        return [(node.target, node.value)]
    return []
