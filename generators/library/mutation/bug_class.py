"""The generator ``bug_class``: a class with a wrong base, a lost method, or state in the wrong place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .bug_protocol import DEFAULTED
from .family import Site
from .places.module_code import Function, ModuleCode, is_self, is_super
from .rules import RuleGenerator, RuleKnobs

_STRUCTURAL = {"object", "ABC", "Protocol", "Enum", "IntEnum", "Flag", "NamedTuple", "TypedDict", "Generic", "type"}
_WRAPPERS = {"property", "cached_property", "classmethod", "staticmethod", "wraps", "total_ordering"}


@dataclass(frozen=True)
class Knobs(RuleKnobs):
    """Which mistakes are made, and what the workspace shows of the tests."""

    kind: Literal["all", "base", "base_order", "super", "decorator", "override", "class_attribute"] = "all"
    """The only kind of mistake to make; ``all`` takes each kind in turn."""


def _bases(code: ModuleCode, node: ast.ClassDef) -> Iterator[Site]:
    bases = node.bases
    at = tuple(sorted({*code.body_lines(node), *code.uses(node.name)}))
    if not bases or node.keywords or not all(isinstance(item, ast.Name | ast.Attribute) for item in bases):
        return
    names = [getattr(item, "id", "") or getattr(item, "attr", "") for item in bases]
    if _STRUCTURAL.isdisjoint(names) and not all(name.endswith(("Error", "Exception", "Warning")) for name in names):
        for number, item in enumerate(bases):
            start, end = code.span(item)
            if len(bases) == 1:
                start, end = code.source.rfind(b"(", 0, start), code.source.index(b")", end) + 1
            elif number:
                start = code.span(bases[number - 1])[1]
            else:
                end = code.span(bases[1])[0]
            yield from code.spliced("base", (start, end), b"", at)
    elif len(bases) == 1 and names[0].endswith("Error") and names[0] not in ("Exception", "ValueError"):
        yield from code.spliced("base", code.span(bases[0]), b"Exception", at)
    if len(bases) > 1:
        (start, gap), (gap_end, end) = code.span(bases[0]), code.span(bases[1])
        text = code.text(bases[1]) + code.source[gap:gap_end] + code.text(bases[0])
        yield from code.spliced("base_order", (start, end), text, at)


def _super(code: ModuleCode, node: ast.Expr) -> Iterator[Site]:
    if isinstance(node.value, ast.Call) and is_super(node.value):
        yield from code.removed("super", node)


def _method(code: ModuleCode, node: Function) -> Iterator[Site]:
    lines = code.body_lines(node)
    for item in node.decorator_list:
        name = item.func if isinstance(item, ast.Call) else item
        short = name.id if isinstance(name, ast.Name) else name.attr if isinstance(name, ast.Attribute) else ""
        if short in _WRAPPERS and not _has_twin(code, node):
            start = code.source.rfind(b"\n", 0, code.span(item)[0]) + 1
            yield from code.spliced("decorator", (start, code.source.index(b"\n", code.span(item)[1]) + 1), b"", lines)
    owner = code.parents[node]
    if not isinstance(owner, ast.ClassDef) or _has_twin(code, node) or node.name in ("__init__", *DEFAULTED):
        return
    if _is_inherited(code, owner, node.name):
        span = code.lines_span(node)
        if span is not None and len(owner.body) > 1:
            yield from code.spliced("override", span, b"", lines)


def _has_twin(code: ModuleCode, node: Function) -> bool:
    """Return whether another definition of the block has the same name, such as a setter."""
    return sum(isinstance(item, Function) and item.name == node.name for item in code.block(node)) > 1


def _is_inherited(code: ModuleCode, owner: ast.ClassDef, name: str) -> bool:
    """Return whether a base in the same module, or a built-in one, has a method of this name."""
    classes = {item.name: item for item in code.tree.body if isinstance(item, ast.ClassDef)}
    waiting, visited = [item.id for item in owner.bases if isinstance(item, ast.Name)], {owner.name}
    while waiting:
        base = waiting.pop()
        if base in ("dict", "list", "set", "str", "tuple", "int", "float", "frozenset"):
            if name in vars({"dict": dict, "list": list, "set": set, "str": str, "tuple": tuple}.get(base, object)):
                return True
        elif base in classes and base not in visited:
            visited.add(base)
            if any(isinstance(item, Function) and item.name == name for item in classes[base].body):
                return True
            waiting += [item.id for item in classes[base].bases if isinstance(item, ast.Name)]
    return False


def _attribute(code: ModuleCode, node: ast.Assign) -> Iterator[Site]:
    """Yield the assignment to the class in place of the instance."""
    function, owner = code.function(node), code.owner(node)
    target = node.targets[0]
    if function is None or owner is None or len(node.targets) > 1 or function.name != "__init__":
        return
    if not isinstance(target, ast.Attribute) or not is_self(target.value):
        return
    slots = any(isinstance(item, ast.Assign) and code.text(item).startswith(b"__slots__") for item in owner.body)
    properties = {item.name for item in owner.body if isinstance(item, Function)}
    if not slots and target.attr not in properties and code.parents[node] is function:
        yield from code.spliced("class_attribute", code.span(target.value), b"type(self)", node)


class ClassBug(RuleGenerator):
    """Lose a base, an override, a call of super or a decorator in a tested class, or share an attribute."""

    name = "bug_class"
    version = "4"
    knobs = Knobs
    needs = "class with a base, a decorated method or an attribute"
    rules = {
        ast.ClassDef: (_bases,),
        ast.Expr: (_super,),
        ast.FunctionDef: (_method,),
        ast.AsyncFunctionDef: (_method,),
        ast.Assign: (_attribute,),
    }
