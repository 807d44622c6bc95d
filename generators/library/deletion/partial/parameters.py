"""Parameters with a default: which can be taken out of a signature, and how that is done."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .....errors import Rejected
from ....python.source import Edit, Module, apply_edits, docstring_node, items_without, node_span
from ..removal.source_file import FUNCTIONS, Function, SourceFile
from .docstring_entries import without_parameter
from .rewriting.constant_values import UNKNOWN, value_of
from .rewriting.fixed_name import with_fixed_name


@dataclass(frozen=True)
class Parameter:
    """One parameter with a constant default."""

    function: str  # ``name`` or ``Class.name``
    name: str  # the parameter
    default: str  # its default, as the source writes it
    value: Any  # the default, see ``value_of``
    position: int | None  # its place among positional arguments, without ``self``; None when it is keyword-only

    @property
    def called(self) -> str:
        """Return the name by which callers call the function: that of the class for its initializer."""
        owner, _, short = self.function.rpartition(".")
        return owner if short in ("__init__", "__new__") else short


def parameters(file: SourceFile) -> Iterator[Parameter]:
    """Yield the parameters with constant defaults of the functions and methods of a file that are defined once."""
    for owner in (None, *file.classes.values()):
        body = file.tree.body if owner is None else owner.body
        functions = [node for node in body if isinstance(node, FUNCTIONS)]
        names = [node.name for node in functions]
        for node in functions:
            if names.count(node.name) == 1 and not _is_declared_elsewhere(node):
                name = f"{owner.name}.{node.name}" if owner else node.name
                yield from _of_function(file, node, name)


def _is_declared_elsewhere(node: Function) -> bool:
    """Return whether a decorator describes the parameters too, such as the options of a command."""
    marks = " ".join(ast.unparse(item) for item in node.decorator_list)
    return any(word in marks for word in ("overload", "option", "argument", "setter", "command", "abstract"))


def _of_function(file: SourceFile, node: Function, name: str) -> Iterator[Parameter]:
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    is_static = any(isinstance(item, ast.Name) and item.id == "staticmethod" for item in node.decorator_list)
    receiver = 1 if "." in name and not is_static else 0
    first = len(positional) - len(arguments.defaults)
    pairs: list[tuple[ast.arg, ast.expr | None, int | None]] = [
        (item, default, first + number - receiver)
        for number, (item, default) in enumerate(zip(positional[first:], arguments.defaults, strict=True))
    ]
    pairs += [(item, value, None) for item, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    for item, default, position in pairs:
        value = value_of(default) if default is not None else UNKNOWN
        if value is UNKNOWN or (isinstance(default, ast.Name) and default.id not in file.names):
            continue
        assert default is not None
        yield Parameter(name, item.arg, file.text(default), value, position)


def function_of(file: SourceFile, name: str) -> Function:
    """Return the definition of ``name`` or ``Class.name``. Raises Rejected when it is not there."""
    owner, _, short = name.rpartition(".")
    body = file.classes[owner].body if owner else file.tree.body
    for node in body:
        if isinstance(node, FUNCTIONS) and node.name == short:
            return node
    raise Rejected("v0_not_exact", f"{file.path} lost {name}")


def without_handling(file: SourceFile, parameter: Parameter) -> bytes:
    """Return the source in which the function ignores the parameter: it behaves as for the default. Raises Rejected."""

    def reads(current: SourceFile) -> list[ast.expr]:
        return _reads(function_of(current, parameter.function), parameter.name)

    return with_fixed_name(file.path, file.dotted, file.source, reads, parameter.value, parameter.default.encode())


def _reads(function: Function, name: str) -> list[ast.expr]:
    """Return the reads of a parameter that see its argument: those before the function itself binds the name.

    Raises Rejected when the source does not say which these are.
    """
    reads: list[ast.expr] = []
    for statement in function.body:
        nodes = list(ast.walk(statement))
        if any(_hides(node, name) for node in nodes):
            raise Rejected("v0_not_exact", f"{function.name} uses {name} in a scope of its own")
        names = [node for node in nodes if isinstance(node, ast.Name) and node.id == name]
        loads = [node for node in names if isinstance(node.ctx, ast.Load)]
        if len(loads) == len(names):
            reads += loads
            continue
        if isinstance(statement, ast.If):
            in_test = [node for node in ast.walk(statement.test) if node in loads]
            if in_test:
                return reads + in_test
        elif isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if any(isinstance(item, ast.Name) and item.id == name for item in targets):
                return reads + [node for node in ast.walk(statement.value) if node in loads]
        raise Rejected("v0_not_exact", f"{function.name} may bind {name} again")
    return reads


def _hides(node: ast.AST, name: str) -> bool:
    """Return whether a node gives the name another meaning, or reaches all names at once."""
    if isinstance(node, ast.arg):
        return node.arg == name
    if isinstance(node, ast.Global | ast.Nonlocal):
        return name in node.names
    if isinstance(node, ast.ExceptHandler):
        return node.name == name
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return called and node.func.id in ("locals", "vars", "eval", "exec")  # type: ignore[attr-defined]


def without_parameter_itself(path: str, source: bytes, parameter: Parameter) -> tuple[bytes, list[str]]:
    """Return the source without the parameter in the signature and docstring, and what the docstring said about it."""
    module = Module(path, source)
    owner_name, _, short = parameter.function.rpartition(".")
    owner = next((item for item in module.definitions() if item.name == owner_name), None)
    definition = next(item for item in module.definitions(owner.body if owner else None) if item.name == short)
    described = [definition] + ([owner] if owner and short in ("__init__", "__new__") else [])
    edits, parts = list[Edit](), list[str]()
    for item in described:
        node = docstring_node(item)
        if node is not None:
            text, removed = without_parameter(module.text(node), parameter.name)
            parts += removed
            if removed:
                edits.append((node_span(node), text.encode()))
    parameters_node = definition.node.child_by_field_name("parameters")
    assert parameters_node is not None, "every function has parameters"
    items = [node for node in parameters_node.named_children if node.type != "comment"]
    number = next(
        n
        for n, node in enumerate(items)
        if module.text(node).lstrip("*").split(":")[0].split("=")[0].strip() == parameter.name
    )
    dropped = {number}
    is_last = number + 1 == len(items) or module.text(items[number + 1]).startswith("**")
    if is_last and number and items[number - 1].type == "keyword_separator":
        dropped.add(number - 1)
    edits += items_without(source, [node_span(node) for node in items], dropped)
    return apply_edits(source, edits), parts
