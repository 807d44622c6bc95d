"""The functions that a task's solution has to write, and the trusted tree, in which they end at the boundary."""

from __future__ import annotations

import ast
import base64
import copy
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from ....models import FileChange
from ....parsing_cost import is_costly

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BOUNDARY = '__import__("sys").modules["_etude_boundary"]'
GOLD = "_etude_gold_"
"""Prefix of the name under which the original of a replaced function is defined; the name is deleted at once."""
_UNREPLACEABLE = frozenset(("__del__", "__getattribute__", "__setattr__", "__init_subclass__", "__set_name__"))
"""Methods that run while an object is taken apart or made."""
_KINDS = frozenset(
    ("staticmethod", "classmethod", "property", "cached_property", "setter", "getter", "deleter", "abstractmethod")
)
"""Decorators that say what kind of attribute a function is."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Examined:
    """The functions that a task examines, and the files in which they are replaced."""

    targets: tuple[str, ...]
    """The functions that the task's own solution changes, as ``module:qualified.name#accessor``."""
    opaque: tuple[str, ...]
    """Classes, ``module:name``, whose constructor is among the targets: their private state is the solution's own."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """The trusted files whose targets end at the boundary, by path in the tree."""
    unreplaced: tuple[str, ...] = ()
    """Changed functions that cannot be replaced, each with its reason."""
    decorated: Mapping[str, int] = field(default_factory=dict)
    """Number of decorators of each function that ends at the boundary; decorators stay on the trusted side."""


def examine(
    before: Mapping[str, bytes | None],
    solved: Mapping[str, bytes],
    roots: Iterable[str],
    entries: Collection[str] | None = (),
) -> Examined:
    """Return the functions that differ between the workspace (``before``) and the solution (``solved``).

    Both map paths to contents; ``roots`` are the folders that modules are imported from. The functions in ``entries``
    end at the boundary too; None stands for all functions that can be replaced.
    """
    targets: list[str] = []
    opaque: list[str] = []
    unreplaced: list[str] = []
    files: dict[str, bytes] = {}
    decorated: dict[str, int] = {}
    for path, content in sorted(solved.items()):
        module = module_name(path, roots)
        if not path.endswith(".py") or not module:
            continue
        try:
            tree, earlier = ast.parse(content), definitions(ast.parse(before.get(path) or b""))
        except (SyntaxError, ValueError):
            unreplaced.append(f"{path}: not the syntax of this Python")
            continue
        chosen = {}
        for name, node in definitions(tree).items():
            other = earlier.get(name)
            is_same = other is not None and _code(other) == _code(node)
            if is_same and entries is not None and f"{module}:{name}" not in entries:
                continue
            reason = _obstacle(name, node)
            if not reason:
                chosen[name] = node
                targets += [] if is_same else [f"{module}:{name}"]
            elif not is_same:
                unreplaced.append(f"{module}:{name}: {reason}")
        if chosen:
            constructors = [name.rpartition(".") for name in chosen if "." in name]
            opaque += [f"{module}:{owner}" for owner, _, last in constructors if last in ("__init__", "__new__")]
            decorated |= {f"{module}:{name}": count for name, node in chosen.items() if (count := _decorators(node))}
            files[path] = _replaced(tree, module, chosen)
    return Examined(tuple(targets), tuple(dict.fromkeys(opaque)), files, tuple(unreplaced), decorated)


def changed_constructors(tree: Path, changes: Iterable[FileChange], roots: Iterable[str]) -> list[str]:
    """Return the classes, ``module:name``, whose ``__init__`` in a solution differs from that in a tree."""
    classes: list[str] = []
    for change in changes:
        module = module_name(change.path, roots) if change.path.endswith(".py") and change.content else ""
        if module:
            before = tree / change.path
            try:
                earlier = _constructors(before.read_bytes() if before.is_file() else b"")
                now = _constructors(base64.b64decode(change.content or ""))
            except (SyntaxError, ValueError, RecursionError, MemoryError):  # whatever the solution wrote
                continue
            classes += [f"{module}:{name.rpartition('.')[0]}" for name in now if now[name] != earlier.get(name)]
    return classes


def _constructors(content: bytes) -> dict[str, str]:
    if is_costly(content):
        raise ValueError("a text that takes long to parse")
    functions = definitions(ast.parse(content))
    return {name: _code(node) for name, node in functions.items() if name.endswith(".__init__")}


def module_name(path: str, roots: Iterable[str]) -> str:
    """Return the name under which a file is imported, '' for one outside the roots."""
    for root in sorted(roots, key=len, reverse=True):
        prefix = "" if root in (".", "") else root.strip("/") + "/"
        if path.startswith(prefix):
            parts = PurePosixPath(path[len(prefix) :]).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            if parts and all(part.isidentifier() for part in parts):
                return ".".join(parts)
    return ""


def definitions(tree: ast.Module) -> dict[str, Function]:
    """Return the functions of a module and of its classes by qualified name; accessors of a property by ``#set``."""
    definitions: dict[str, Function] = {}

    def walk(body: list[ast.stmt], prefix: str) -> None:
        for node in _flat(body):
            if isinstance(node, _FUNCTIONS):
                definitions[f"{prefix}{node.name}{_accessor(node)}"] = node
            elif isinstance(node, ast.ClassDef):
                walk(node.body, f"{prefix}{node.name}.")

    walk(tree.body, "")
    return definitions


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, with those of conditions and ``try`` blocks, which define functions too."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            for part in (node.body, node.orelse, getattr(node, "finalbody", [])):
                yield from _flat(part)
            for handler in getattr(node, "handlers", []):
                yield from _flat(handler.body)


def _accessor(node: Function) -> str:
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Attribute) and decorator.attr in ("setter", "deleter"):
            return "#set" if decorator.attr == "setter" else "#del"
    return ""


def _code(node: Function) -> str:
    """Return a function's code as text, without its docstring and annotations."""
    body = node.body[1:] if _docstring(node) else node.body
    arguments = ast.dump(node.args)
    return "\n".join([arguments, *map(ast.dump, node.decorator_list), *map(ast.dump, body)])


def _docstring(node: Function) -> bool:
    first = node.body[0]
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)


def _decorators(node: Function) -> int:
    """Return the number of a function's decorators, without those in _KINDS."""
    names = (ast.unparse(item).partition("(")[0].rpartition(".")[2] for item in node.decorator_list)
    return sum(name not in _KINDS for name in names)


def _obstacle(name: str, node: Function) -> str:
    """Return why a function cannot be replaced by one that leaves the process, '' when it can."""
    if node.name in _UNREPLACEABLE:
        return "it runs whenever an object is taken apart"
    decorators = {ast.unparse(item).partition("(")[0].rpartition(".")[2] for item in node.decorator_list}
    if decorators & {"contextmanager", "asynccontextmanager", "overload", "fixture"}:
        return f"decorated with {min(decorators)}"
    if isinstance(node, ast.AsyncFunctionDef) and is_generator(node):
        return "an asynchronous generator"
    return ""


def is_generator(node: Function) -> bool:
    """Return whether a function itself yields, not only one inside it."""
    stack: list[ast.AST] = list(node.body)
    while stack:
        item = stack.pop()
        if isinstance(item, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(item, (*_FUNCTIONS, ast.Lambda, ast.ClassDef)):
            stack.extend(ast.iter_child_nodes(item))
    return False


def _replaced(tree: ast.Module, module: str, chosen: Mapping[str, Function]) -> bytes:
    """Return the module's text with the chosen functions replaced; their originals stay beside them."""
    names = {id(node): f"{module}:{name}" for name, node in chosen.items()}
    for scope in [node for node in ast.walk(tree) if hasattr(node, "body")]:
        for part in ("body", "orelse", "finalbody"):
            statements = getattr(scope, part, None)
            if isinstance(statements, list) and any(id(item) in names for item in statements):
                setattr(scope, part, [new for item in statements for new in _pair(item, names.get(id(item), ""))])
    return ast.unparse(ast.fix_missing_locations(tree)).encode() + b"\n"


def _pair(node: ast.stmt, target: str) -> list[ast.stmt]:
    if not target or not isinstance(node, _FUNCTIONS):
        return [node]
    gold_name, quoted = GOLD + node.name.strip("_"), repr(target)
    original = copy.copy(node)
    original.name = gold_name
    original.decorator_list = [ast.parse(f"{_BOUNDARY}.gold({quoted})", mode="eval").body]
    arguments, keywords = _passed(node.args)
    is_coroutine = isinstance(node, ast.AsyncFunctionDef)
    call = f"{_BOUNDARY}.{'acall' if is_coroutine else 'call'}({quoted}, ({arguments}), {{{keywords}}})"
    text = f"yield from {call}" if is_generator(node) else f"return {'await ' if is_coroutine else ''}{call}"
    # A bare function body: the text is parsed inside one, since `return` needs it.
    wrapper = ast.parse(f"{'async ' if is_coroutine else ''}def _():\n    {text}").body[0]
    assert isinstance(wrapper, _FUNCTIONS)
    node.body = [*(node.body[:1] if _docstring(node) else []), *wrapper.body]
    return [original, node, *ast.parse(f"del {gold_name}").body]


def _passed(arguments: ast.arguments) -> tuple[str, str]:
    """Return the arguments of a function as a tuple's and a dict's text."""
    positional = [f"{item.arg}," for item in [*arguments.posonlyargs, *arguments.args]]
    if arguments.vararg:
        positional.append(f"*{arguments.vararg.arg},")
    named = [f"{item.arg!r}: {item.arg}" for item in arguments.kwonlyargs]
    if arguments.kwarg:
        named.append(f"**{arguments.kwarg.arg}")
    return " ".join(positional), ", ".join(named)
