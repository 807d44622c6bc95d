"""Values of the expressions in a script: the texts that each may stand for, as far as its text says."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterable, Iterator
from itertools import islice, product

from .constants import fold
from .module import Function, Module, assignments

MAX_VALUES = 24
"""Most texts that are kept of one expression."""
MAX_DEPTH = 14
MAX_WORK = 5_000
"""Most steps for one script; beyond them only its constants are read."""
MAX_TEXT = 100_000
"""Most characters of a text that is put together."""
MAX_WORDS = 400
"""Most words of a command."""
ANY = "*"
"""Stands for a part that is not known."""
_JOINERS = re.compile(r"(pathlib\.)?(Pure)?(Posix)?Path|os\.path\.join|.*\.joinpath")
_SAME = re.compile(
    r"str|repr|list|tuple|set|sorted|reversed|iter|enumerate|open|bytes|frozenset|os\.fspath|os\.fsencode|"
    r"os\.path\.(expanduser|abspath|realpath|normpath|expandvars)|glob\.i?glob|itertools\.chain|shlex\.split|"
    r".*\.(resolve|absolute|expanduser|encode|decode|strip|as_posix)"
)
_KNOWN = {"sys.path": "sys.path", "sys.executable": "python3", "os.sep": "/", "os.curdir": "."}
_FOLDERS = re.compile(r"os\.(walk|listdir|scandir)")
_FORMAT = re.compile(r"\{[^{}]*\}")
_PERCENT = re.compile(r"%(\(\w+\))?[sdr]")
_Bindings = dict[str, list[ast.AST]]


class Values:
    """The texts that expressions of one script may stand for; scopes and the order of statements are not regarded."""

    def __init__(self, module: Module, outer: Values | None = None, arguments: _Bindings | None = None):
        self._module = module
        self._bindings: _Bindings = _bindings(module) if outer is None else outer._bindings
        self._arguments = arguments or {}
        self._texts_of_names: dict[tuple[str, int], list[str]] = {}
        self._words_of_names: dict[tuple[str, int], list[list[str]] | None] = {}
        self._work: list[int] = [0] if outer is None else outer._work

    def _may_work(self, characters: int = 0) -> bool:
        """Count one step, more for a long text, and return whether it may still be taken."""
        self._work[0] += 1 + characters // 100
        return self._work[0] <= MAX_WORK

    def within(self, function: Function, site: ast.Call) -> Values:
        """Return the values inside a function that is called at one place."""
        arguments: _Bindings = {}
        parameters = [argument.arg for argument in function.args.args]
        for name, argument in zip(parameters, site.args, strict=False):
            arguments[name] = [argument]
        if function.args.vararg is not None:
            arguments[function.args.vararg.arg] = [ast.List(elts=list(site.args[len(parameters) :]), ctx=ast.Load())]
        arguments |= {keyword.arg: [keyword.value] for keyword in site.keywords if keyword.arg}
        return Values(self._module, self, arguments)

    def of(self, node: ast.AST | None, depth: int = 0) -> list[str]:
        """Return the texts of an expression, with ``*`` for unknown parts; none when nothing is known."""
        if node is None or depth > MAX_DEPTH:
            return []
        may_work = self._may_work()
        value = fold(node, self._module.constants) if may_work or isinstance(node, ast.Constant | ast.Name) else None
        if value is not None:
            if isinstance(value, str | bytes) and not isinstance(node, ast.Constant | ast.Name):
                self._may_work(len(value))
            return [value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)]
        if not may_work:
            return []
        if not isinstance(node, ast.Name):
            return list(dict.fromkeys(islice(self._texts(node, depth + 1), MAX_VALUES)))
        # Names that are bound to one another are read once at each depth, and not along every chain.
        key = (node.id, depth)
        if key not in self._texts_of_names:
            self._texts_of_names[key] = list(dict.fromkeys(islice(self._texts(node, depth + 1), MAX_VALUES)))
        return self._texts_of_names[key]

    def words(self, node: ast.AST, depth: int = 0) -> list[list[str]] | None:
        """Return the texts of each word of a command; None for an expression that is not a list."""
        words = self._list(node, depth) if self._may_work() else None
        return words[:MAX_WORDS] if words is not None else None

    def _list(self, node: ast.AST, depth: int) -> list[list[str]] | None:
        if isinstance(node, ast.List | ast.Tuple):
            words: list[list[str]] = []
            for item in node.elts[:MAX_WORDS]:
                if isinstance(item, ast.Starred):
                    words += (self.words(item.value, depth + 1) if depth < MAX_DEPTH else None) or [[ANY]]
                else:
                    words.append(self.of(item) or [ANY])
            return words
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and depth < MAX_DEPTH:
            first, second = self.words(node.left, depth + 1), self.words(node.right, depth + 1)
            return None if first is None and second is None else [*(first or [[ANY]]), *(second or [[ANY]])]
        if isinstance(node, ast.Name) and depth < MAX_DEPTH:
            key = (node.id, depth)
            if key not in self._words_of_names:
                lists = (self.words(bound, depth + 1) for bound in self._bound(node.id))
                self._words_of_names[key] = next((words for words in lists if words is not None), None)
            return self._words_of_names[key]
        if isinstance(node, ast.Call) and depth < MAX_DEPTH:
            return self._split(node, depth)
        return None

    def _split(self, node: ast.Call, depth: int) -> list[list[str]] | None:
        """Return the words of ``"git log".split()``, ``shlex.split("git log")`` and ``list(words)``."""
        name = self._module.called(node)
        if name == "shlex.split" and node.args:
            texts = self.of(node.args[0], depth + 1)
        elif name.endswith(".split") and isinstance(node.func, ast.Attribute):
            texts = self.of(node.func.value, depth + 1)
        else:
            return self.words(node.args[0], depth + 1) if name in ("list", "tuple") and node.args else None
        try:
            may_split = bool(texts) and self._may_work(50 * len(texts[0])) and len(texts[0]) <= MAX_TEXT
            return [[word] for word in shlex.split(texts[0])] if may_split else None
        except ValueError:
            return None

    def _bound(self, name: str) -> list[ast.AST]:
        return self._arguments.get(name) or self._bindings.get(name, [])

    def _texts(self, node: ast.AST, depth: int) -> Iterator[str]:
        if isinstance(node, ast.Name):
            for bound in self._bound(node.id):
                yield from self.of(bound, depth)
        elif isinstance(node, ast.JoinedStr):
            yield from self._joined(node.values, "", depth)
        elif isinstance(node, ast.FormattedValue | ast.Starred):
            yield from self.of(node.value, depth)
        elif isinstance(node, ast.BinOp):
            yield from self._operation(node, depth)
        elif isinstance(node, ast.Call):
            yield from self._call(node, depth)
        elif isinstance(node, ast.List | ast.Tuple | ast.Set):
            yield from self._all(node.elts, depth)
        elif isinstance(node, ast.IfExp):
            yield from self._all((node.body, node.orelse), depth)
        elif isinstance(node, ast.BoolOp):
            yield from self._all(node.values, depth)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            yield from self.of(node.elt, depth)
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name | ast.List | ast.Tuple):
            yield from self.of(node.value, depth)
        elif isinstance(node, ast.Attribute) and self._module.dotted(node) in _KNOWN:
            yield _KNOWN[self._module.dotted(node)]
        elif isinstance(node, ast.Attribute) and node.attr in ("parent", "path"):
            yield from (f"{text}/{ANY}" for text in self.of(node.value, depth) if self._may_work(len(text)))

    def _all(self, nodes: Iterable[ast.AST], depth: int) -> Iterator[str]:
        for node in nodes:
            yield from self.of(node, depth)

    def _joined(self, parts: Iterable[ast.AST], between: str, depth: int) -> Iterator[str]:
        """Yield the combinations of some parts; unknown ones are ``*``."""
        choices = [self.of(part, depth) or [ANY] for part in parts]
        if any(choice != [ANY] for choice in choices):
            for chosen in islice(product(*choices), MAX_VALUES):
                length = sum(map(len, chosen)) + len(between) * len(chosen)
                if self._may_work(length) and length <= MAX_TEXT:
                    yield between.join(chosen)

    def _operation(self, node: ast.BinOp, depth: int) -> Iterator[str]:
        if isinstance(node.op, ast.Add):
            yield from self._joined((node.left, node.right), "", depth)
        elif isinstance(node.op, ast.Div):
            yield from self._joined((node.left, node.right), "/", depth)
        elif isinstance(node.op, ast.Mod):
            parts = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
            yield from self._filled(_PERCENT, node.left, parts, depth)

    def _filled(self, field: re.Pattern[str], text: ast.AST, parts: Iterable[ast.AST], depth: int) -> Iterator[str]:
        """Yield a text with its fields filled in, in their order; unknown ones are ``*``."""
        templates = self.of(text, depth)
        chosen = [(self.of(part, depth) or [ANY])[0] for part in parts] if templates else []
        length = sum(map(len, chosen))
        for template in templates:
            if self._may_work(length + len(template)) and length + len(template) <= MAX_TEXT:
                values = iter(chosen)
                yield field.sub(lambda _, texts=values: next(texts, ANY), template)  # type: ignore[misc]

    def _call(self, node: ast.Call, depth: int) -> Iterator[str]:
        name = self._module.called(node)
        method = node.func if isinstance(node.func, ast.Attribute) else None
        if _JOINERS.fullmatch(name) and node.args:
            first = [method.value] if method is not None and method.attr == "joinpath" else []
            yield from self._joined((*first, *node.args), "/", depth)
        elif method is not None and method.attr in ("glob", "rglob") and name != "glob.glob":
            yield from self._joined((method.value, *node.args[:1]), "/", depth)
        elif _FOLDERS.fullmatch(name) or (method is not None and method.attr in ("iterdir", "walk")):
            place = node.args[0] if node.args else method.value if method is not None else None
            yield from (f"{text.rstrip('/')}/{ANY}" for text in self.of(place, depth) if self._may_work(len(text)))
        elif method is not None and method.attr == "format":
            yield from self._filled(_FORMAT, method.value, node.args, depth)
        elif method is not None and method.attr == "split":
            texts = (text for text in self.of(method.value, depth) if self._may_work(len(text)))
            yield from (word for text in texts for word in text.split(maxsplit=MAX_VALUES))
        elif _SAME.fullmatch(name):
            is_method = method is not None and not node.args
            yield from self._all((method.value,) if is_method and method is not None else node.args, depth)


def _bindings(module: Module) -> _Bindings:
    """Return by name the expressions that it is assigned, looped over or given as an argument."""
    table: _Bindings = {}
    functions = {node.name: node for node in module.functions if isinstance(node, Function)}
    for node in module.all_nodes:
        for target, value in assignments(node):
            _bind(table, target, value)
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            _bind(table, node.target, node.iter)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            _bind(table, node.optional_vars, node.context_expr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions:
            parameters = functions[node.func.id].args.args
            for parameter, argument in zip(parameters, node.args, strict=False):
                table.setdefault(parameter.arg, []).append(argument)
    return table


def _bind(table: _Bindings, target: ast.AST, value: ast.AST) -> None:
    """Record the value of a target; of several targets the first, such as the folder in a loop over ``os.walk``."""
    if isinstance(target, ast.Tuple | ast.List) and target.elts:
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
            for one, part in zip(target.elts, value.elts, strict=True):
                _bind(table, one, part)
            return
        target = target.elts[0]
    if isinstance(target, ast.Name):
        table.setdefault(target.id, []).append(value)
