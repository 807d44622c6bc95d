"""Fields that a solution's constructor adds, for objects that were made where this constructor does not run.

The text of this file runs in the solution's process, after that of ``code_decoding.py``, on Python 3.8 and later. An
object that a test made has the state that the task's own constructor gives it. Where the solution has changed that
constructor, the fields that it makes without its arguments, such as a cache or a lock, are added here. This runs the
solution's code in the solution's process alone; no other process trusts it.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # inside, the text of that file has defined these names already
    from ..values.code_decoding import Values

    _Setter = Callable[[Any], None]


class SolutionValues(Values):
    """Values of the calls that a solution answers; ``constructors`` names the classes whose ``__init__`` it changed.

    ``names`` are the attributes, by class, that the calls show: others belong to the solution alone.
    """

    def __init__(
        self,
        opaque: Iterable[str],
        packages: Iterable[str],
        constructors: Iterable[str] = (),
        names: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        super().__init__(opaque, packages)
        self.constructors = frozenset(constructors)
        self.names = names or {}
        self.state_names: list[str] | None = None
        """The names in modules that are compared before and after each call; None for all."""
        self.decorated: Mapping[str, int] = {}
        """Number of decorators of each target that stay beside the tests."""
        self._setters: dict[type, list[tuple[str, _Setter]]] = {}

    def _decode_o(self, number: Any, maker: Any, *parts: Any) -> Any:
        value = super()._decode_o(number, maker, *parts)
        for kind in reversed(type(value).__mro__) if self.constructors and maker[0] in ("new", "content") else ():
            if f"{kind.__module__}:{kind.__qualname__}" in self.constructors:
                for name, set_field in self._fields(kind):
                    _add(value, name, set_field)
        return value

    def _set_state(self, value: Any, state: Any, is_known: bool) -> None:
        """Set the state that the test sent, and keep the private attributes that the solution has set."""
        held = dict(getattr(value, "__dict__", None) or {}) if is_known else {}
        super()._set_state(value, state, is_known)
        kind = f"{type(value).__module__}:{type(value).__qualname__}"
        names = frozenset(self.names.get(kind, held))  # nothing is known of a class that no call shows
        for name, item in held.items():
            if name not in names and name not in value.__dict__:
                value.__dict__[name] = item

    def _fields(self, kind: type) -> list[tuple[str, _Setter]]:
        if kind not in self._setters:
            try:
                self._setters[kind] = list(fields_of(kind))
            except (OSError, TypeError, SyntaxError, ValueError):  # no source
                self._setters[kind] = []
        return self._setters[kind]


def _add(value: Any, name: str, set_field: _Setter) -> None:
    try:
        object.__getattribute__(value, name)
    except AttributeError:
        try:
            set_field(value)
        except Exception:  # noqa: BLE001  the solution's own: then the object lacks the field
            return


def fields_of(kind: type) -> Iterator[tuple[str, _Setter]]:
    """Yield the fields that a class's ``__init__`` always makes without its arguments, each with its setter."""
    function: Any = inspect.unwrap(vars(kind)["__init__"])
    node: Any = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    parameters = [item.arg for item in ast.walk(node.args) if isinstance(item, ast.arg)]
    stored = {item.id for item in ast.walk(node) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)}
    itself, local = parameters[0], stored.union(parameters[1:])
    for statement in node.body:
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
            continue
        targets, content = getattr(statement, "targets", []) or [getattr(statement, "target", None)], statement.value
        is_field = (
            len(targets) == 1
            and isinstance(targets[0], ast.Attribute)
            and getattr(targets[0].value, "id", "") == itself
        )
        if is_field and not local & {item.id for item in ast.walk(content) if isinstance(item, ast.Name)}:
            yield _setter(kind, function, itself, ast.Assign(targets=targets, value=content))


def _setter(kind: type, function: Any, itself: str, statement: Any) -> tuple[str, _Setter]:
    """Return a field's name and the function that sets it, compiled as in its class: names may be private to that."""
    tree: Any = ast.parse(f"class {kind.__name__}:\n    def set_field({itself}): pass\n")
    tree.body[0].body[0].body = [ast.copy_location(statement, tree.body[0].body[0])]
    scope: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(tree), "<fields>", "exec"), function.__globals__, scope)
    set_field = scope[kind.__name__].set_field
    name = statement.targets[0].attr
    is_private = name.startswith("__") and not name.endswith("__")
    return f"_{kind.__name__.lstrip('_')}{name}" if is_private else name, set_field
