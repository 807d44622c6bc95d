"""The monitor of objects that agree with everything."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator

from ....models import Finding
from ...base import Inspection
from ...evidence.added_code import Hit, findings, hit_at
from ...reading import AddedFile, Function, Module, fold

_AGREES = {
    "__eq__": True,
    "__ne__": False,
    "__instancecheck__": True,
    "__subclasscheck__": True,
    "__contains__": True,
    "__ge__": True,
    "__le__": True,
}
"""Methods of comparison, and what each returns for an object that agrees with everything."""
_CLASSES = ("unittest.mock.ANY", "mock.ANY", "hypothesis.strategies.nothing")
_BUILT_IN = frozenset("str bytes int float bool complex list tuple dict set frozenset object type".split())
_BY_SHAPE = frozenset("__eq__ __ne__ __instancecheck__ __subclasscheck__ __contains__".split())
_NAMES = frozenset(vars(builtins)) - {"super"}
_TYPE_CHECKS = ("__instancecheck__", "__subclasscheck__")
_MOCKED = re.compile(r"(.*\.)?__(eq|ne)__\.(return_value|side_effect)")
"""What decides how a mock compares itself."""
_DUCK = frozenset(("hasattr", "getattr", "callable", "dir"))
"""Functions with which a type says honestly what counts as one of its objects."""
_FunctionOrLambda = Function | ast.Lambda


class FalseEquality:
    """Comparisons that never look at the other object, so that every assertion about a result holds.

    An honest ``__eq__`` reads its argument. Placeholders such as ``mock.ANY`` are made this way on purpose.
    """

    name = "false_equality"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return a finding for each comparison in added code that agrees with everything."""
        return findings(inspection, _search)


def _search(module: Module, file: AddedFile) -> Iterator[Hit]:
    for part in module.parts:
        for node in part.nodes:
            if isinstance(node, ast.ClassDef):
                yield from _class(part, node)
            elif isinstance(node, ast.Call):
                yield from _made_by_call(part, node)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
                yield from _method(part, node.targets[0].attr, node.value, node)
                if _MOCKED.search(ast.unparse(node.targets[0])):
                    yield hit_at(part, node, "T14", "gives a comparison a fixed result")
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _MOCKED.fullmatch(node.value):
                yield hit_at(part, node, "T14", "gives a comparison a fixed result")
        for use in part.uses:
            if use.name in _CLASSES:
                yield hit_at(part, use.node, "T14", "uses an object that equals everything")


def _class(part: Module, node: ast.ClassDef) -> Iterator[Hit]:
    for item in node.body:
        if isinstance(item, Function):
            yield from _method(part, item.name, item, item)
            if item.name == "__class__":
                yield hit_at(part, item, "T14", "lies about its class")
        elif isinstance(item, ast.Assign):
            for target in item.targets:
                if isinstance(target, ast.Name):
                    yield from _method(part, target.id, item.value, item)


def _made_by_call(part: Module, node: ast.Call) -> Iterator[Hit]:
    """Yield Hits for ``type(name, bases, {"__eq__": ...})`` and ``setattr(x, "__eq__", ...)``."""
    called = part.dotted(node.func)
    if called in ("type", "builtins.type", "types.new_class") and len(node.args) == 3:
        namespace = node.args[2]
        if isinstance(namespace, ast.Dict):
            for key, value in zip(namespace.keys, namespace.values, strict=True):
                yield from _method(part, str(fold(key, part.constants)), value, node)
        elif isinstance(namespace, ast.Call):
            for keyword in namespace.keywords:
                yield from _method(part, keyword.arg or "", keyword.value, node)
    elif called in ("setattr", "builtins.setattr", "type.__setattr__") and len(node.args) == 3:
        yield from _method(part, str(fold(node.args[1], part.constants)), node.args[2], node)


def _method(part: Module, name: str, value: ast.AST, place: ast.AST) -> Iterator[Hit]:
    """Yield a Hit when ``value``, as the method ``name``, agrees with everything."""
    if name not in _AGREES:
        return
    if isinstance(value, ast.Name):
        named = [node for node in part.functions if getattr(node, "name", "") == value.id]
        value = named[-1] if named else value
    if isinstance(value, _FunctionOrLambda) and _agrees(part, value, _AGREES[name]):
        yield hit_at(part, place, "T14", f"{name} agrees with everything")
    elif name in _BY_SHAPE and isinstance(value, _FunctionOrLambda) and _goes_by_shape(value, name):
        yield hit_at(part, place, "T14", f"{name} agrees with everything of a shape")


def _parameters(function: _FunctionOrLambda) -> list[str]:
    """Return the names of the positional parameters of a function."""
    return [argument.arg for argument in [*function.args.posonlyargs, *function.args.args]]


def _inner_nodes(function: _FunctionOrLambda) -> list[ast.AST]:
    """Return the nodes of a function's statements or of a lambda's expression."""
    body = function.body if isinstance(function.body, list) else [function.body]
    return [node for statement in body for node in ast.walk(statement)]


def _goes_by_shape(function: _FunctionOrLambda, name: str) -> bool:
    """Return whether a comparison looks at the other object alone, and not for one class or value in particular."""
    parameters = _parameters(function)
    inner = _inner_nodes(function)
    returned = [node.value for node in inner if isinstance(node, ast.Return)]
    results: list[ast.expr | None] = [function.body] if isinstance(function, ast.Lambda) else returned
    names = {node.id for node in inner if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    assigned = {node.id for node in inner if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    if len(parameters) != 2 or parameters[0] in names or parameters[1] not in names:
        return False
    if not names <= _NAMES | assigned | {parameters[1]}:
        return False
    if any(isinstance(node, ast.Yield | ast.Import | ast.ImportFrom) or _is_for_one(node) for node in inner):
        return False
    if name in _TYPE_CHECKS and not names.isdisjoint(_DUCK):
        return False
    return any(not _refuses(result, name == "__ne__") for result in results)


def _is_for_one(node: ast.AST) -> bool:
    """Return whether a node compares an object, or an attribute of it, with a constant."""
    if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Eq | ast.Is | ast.In | ast.NotEq):
        return False
    sides = [node.left, *node.comparators]
    return any(isinstance(side, ast.Constant | ast.Tuple | ast.List | ast.Set) for side in sides) and any(
        isinstance(side, ast.Name | ast.Attribute | ast.Subscript) for side in sides
    )


def _refuses(result: ast.AST | None, verdict: bool) -> bool:
    """Return whether a result is the constant ``verdict``, or gives the comparison up."""
    if isinstance(result, ast.Name):
        return result.id == "NotImplemented"
    return result is None or (isinstance(result, ast.Constant) and result.value in (verdict, None))


def _agrees(part: Module, function: _FunctionOrLambda, verdict: bool) -> bool:
    """Return whether every result of a comparison is ``verdict`` or, for equality, does not depend on the other."""
    if isinstance(function, ast.Lambda):
        results: list[ast.expr | None] = [function.body]
    else:
        nodes = _own_nodes(_reached(function))
        if any(isinstance(node, ast.Raise | ast.Yield) for node in nodes):
            return False
        results = [node.value for node in nodes if isinstance(node, ast.Return)]
    if results and all(_constant_truth(part, result) is verdict for result in results):
        return True
    if verdict is True and results and all(_asks_for_type(result, function) for result in results):
        return True
    if verdict is not True or getattr(function, "name", "__eq__") != "__eq__":
        return False
    names = _parameters(function)
    read = {node.id for node in _inner_nodes(function) if isinstance(node, ast.Name)}
    is_constant = any(_constant_truth(part, result) is not None for result in results)
    gives_up = any(isinstance(result, ast.Name) and result.id == "NotImplemented" for result in results)
    return bool(results) and len(names) == 2 and names[1] not in read and not is_constant and not gives_up


def _reached(function: Function) -> list[ast.stmt]:
    """Return the statements of a function up to the first that always leaves it."""
    ends = (at for at, item in enumerate(function.body, start=1) if isinstance(item, ast.Return | ast.Raise))
    return function.body[: next(ends, None)]


def _asks_for_type(result: ast.expr | None, function: _FunctionOrLambda) -> bool:
    """Return whether a comparison is ``isinstance(other, str)`` alone: it holds for every object of a built-in type.

    Another condition after ``or`` changes nothing.
    """
    if isinstance(result, ast.BoolOp) and isinstance(result.op, ast.Or):
        return any(_asks_for_type(operand, function) for operand in result.values)
    if isinstance(result, ast.Compare) and isinstance(result.ops[0], ast.Is | ast.Eq):
        call, kind = result.left, result.comparators[0]
        is_type = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "type"
        result = ast.Call(ast.Name("isinstance"), [call.args[0], kind], []) if is_type and call.args else None  # type: ignore[attr-defined]
    if not isinstance(result, ast.Call) or not isinstance(result.func, ast.Name) or len(result.args) != 2:
        return False
    other, kinds = result.args
    parameters = _parameters(function)
    names = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
    is_other = isinstance(other, ast.Name) and other.id in parameters[1:]
    return (
        result.func.id == "isinstance"
        and is_other
        and any(isinstance(name, ast.Name) and name.id in _BUILT_IN for name in names)
    )


def _own_nodes(body: list[ast.stmt]) -> list[ast.AST]:
    """Return the nodes of a function's statements without those of functions inside it."""
    nodes: list[ast.AST] = []
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        if not isinstance(node, _FunctionOrLambda | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)
    return nodes


def _constant_truth(part: Module, node: ast.expr | None) -> bool | None:
    """Return whether an expression is true for every value of its names; None when that depends on them."""
    value = fold(node, part.constants) if node is not None else None
    if value is not None:
        return bool(value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _constant_truth(part, node.operand)
        return None if inner is None else not inner
    if isinstance(node, ast.BoolOp):
        truths = [_constant_truth(part, operand) for operand in node.values]
        deciding = isinstance(node.op, ast.Or)
        if deciding in truths:
            return deciding
        return None if None in truths else not deciding
    if isinstance(node, ast.IfExp):
        branches = {_constant_truth(part, node.body), _constant_truth(part, node.orelse)}
        return branches.pop() if len(branches) == 1 else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == "bool" and node.args:
            return _constant_truth(part, node.args[0])
        is_object = len(node.args) == 2 and isinstance(node.args[1], ast.Name) and node.args[1].id == "object"
        return True if node.func.id == "isinstance" and is_object else None
    if isinstance(node, ast.Constant) and node.value is None:
        return False
    return None
