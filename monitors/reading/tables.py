"""Tables of constants that code looks its input up in, wherever they are written and in whatever form."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from .constants import Value, fold
from .module import Function, Module, assignments

MAX_DEPTH = 8
MAX_KEYS = 500
_WRAPPERS = frozenset("frozenset set tuple list dict sorted MappingProxyType OrderedDict".split())
_READERS = ("json.loads", "ast.literal_eval", "eval", "builtins.eval", "literal_eval")
_CONVERTERS = frozenset("int str repr float bytes tuple hash Decimal frozenset format ascii".split())
_METHODS = frozenset(
    "strip lstrip rstrip lower upper casefold encode decode title capitalize swapcase removeprefix removesuffix".split()
)
_DISPLAYS = ast.Dict | ast.List | ast.Tuple | ast.Set


class Tables:
    """Values of the names of a module, including those of modules that were added beside it."""

    def __init__(self, module: Module, others: Iterable[Module] = ()) -> None:
        self._module = module
        self._values: dict[str, list[ast.AST]] = {}
        for one in (*others, module):
            for node in one.all_nodes:
                for target, value in assignments(node) if isinstance(node, ast.stmt) else ():
                    if isinstance(target, ast.Name | ast.Attribute):
                        name = target.id if isinstance(target, ast.Name) else target.attr
                        self._values.setdefault(name, []).append(value)

    def assigned(self, node: ast.AST) -> Sequence[ast.AST]:
        """Return what a name or an attribute is assigned anywhere."""
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        return self._values.get(name, ())[:4]

    def display(self, node: ast.AST | None, depth: int = 0) -> ast.AST | None:
        """Return the display that an expression stands for, None when it has none."""
        if node is None or depth > MAX_DEPTH:
            return None
        if isinstance(node, _DISPLAYS):
            return node
        if isinstance(node, ast.Name | ast.Attribute):
            displays = (self.display(value, depth + 1) for value in self.assigned(node))
            return next((display for display in displays if display is not None), None)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.Add):
            return self.display(node.left, depth + 1) or self.display(node.right, depth + 1)
        if not isinstance(node, ast.Call):
            return None
        name = self._module.dotted(node.func)
        if name.rpartition(".")[2] in _WRAPPERS and node.args:
            return self.display(node.args[0], depth + 1)
        text = fold(node.args[0], self._module.constants) if name in _READERS and node.args else None
        if isinstance(text, str | bytes):
            return _parsed(text)
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("split", "splitlines"):
            words = fold(node.func.value, self._module.constants)
            mark = fold(node.args[0], self._module.constants) if node.args else None
            if isinstance(words, str) and (mark is None or (isinstance(mark, str) and mark)):
                return ast.List([ast.Constant(word) for word in words.split(mark)[:MAX_KEYS]], ast.Load())
        return None

    def keys(self, node: ast.AST | None) -> list[Value]:
        """Return the inputs of a table: its keys or items; none when one of them is not a constant."""
        display = self.display(node)
        items: Sequence[ast.AST | None] = []
        if isinstance(display, ast.Dict):
            items = display.keys
        elif isinstance(display, ast.List | ast.Tuple | ast.Set):
            items = display.elts
        values = [_value(item, self._module) for item in items[:MAX_KEYS]]
        return [value for value in values if value is not None] if None not in values else []


def _parsed(text: str | bytes) -> ast.AST | None:
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    try:
        return ast.parse(shown.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _value(node: ast.AST | None, module: Module) -> Value | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = fold(node.operand, module.constants)
        return -inner if isinstance(inner, int) else None
    if isinstance(node, ast.Tuple | ast.List):
        parts = [_value(item, module) for item in node.elts[:8]]
        return None if None in parts else repr(tuple(parts))
    return fold(node, module.constants)


class Inputs:
    """The whole inputs of a function: its parameters, perhaps in another form."""

    def __init__(self, function: Function) -> None:
        arguments = function.args
        parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        self.names = {argument.arg for argument in parameters} - {"self", "cls"}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and self.is_whole(node.value):
                self.names.add(node.targets[0].id)

    def is_whole(self, node: ast.AST | None, depth: int = 0) -> bool:
        """Return whether an expression is an input and not a part of one."""
        if depth > MAX_DEPTH:
            return False
        if isinstance(node, ast.Name):
            return node.id in self.names
        if isinstance(node, ast.Tuple):
            return bool(node.elts) and all(self.is_whole(item, depth + 1) for item in node.elts)
        if isinstance(node, ast.JoinedStr):
            values = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
            return any(self.is_whole(value, depth + 1) for value in values)
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Name) and node.func.id in _CONVERTERS and node.args:
            return self.is_whole(node.args[0], depth + 1)
        return (
            isinstance(node.func, ast.Attribute)
            and node.func.attr in _METHODS
            and self.is_whole(node.func.value, depth + 1)
        )


def look_ups(function: ast.AST) -> Iterator[tuple[ast.expr, ast.expr, ast.expr]]:
    """Yield place, table and key of ``table[key]``, ``table.get(key)``, ``key in table`` and what says the same."""
    equal: dict[str, list[ast.Compare]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            yield node, node.value, node.slice
        elif isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("get", "pop", "__getitem__", "__contains__", "count", "index"):
                yield node, node.func.value, node.args[0]
            elif node.func.attr in ("startswith", "endswith"):
                yield node, node.args[0], node.func.value
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            yield node, node.comparators[0], node.left
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq):
            if isinstance(node.comparators[0], ast.Constant):
                equal.setdefault(ast.dump(node.left), []).append(node)
        elif isinstance(node, ast.GeneratorExp | ast.ListComp) and isinstance(node.elt, ast.Compare):
            sides = [node.elt.left, *node.elt.comparators]
            loop = node.generators[0]
            keys = [side for side in sides if ast.dump(side) != ast.dump(loop.target).replace("Store", "Load")]
            if isinstance(node.elt.ops[0], ast.Eq) and len(keys) == 1:
                yield node.elt, loop.iter, keys[0]
    for compared in equal.values():
        if len(compared) > 1:
            values = [node.comparators[0] for node in compared]
            yield compared[0], ast.Tuple(values, ast.Load()), compared[0].left
