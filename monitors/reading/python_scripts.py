"""Python scripts that an agent runs, as monitors read them: paths they look at, commands they start. Nothing is run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice, product

from .constants import written
from .module import Function, Module, parsed
from .script_values import MAX_VALUES, Values
from .shell import Command, parse

_LISTERS = re.compile(
    r"(os\.(walk|listdir|scandir|stat|path\.\w+)|glob\.i?glob|.*\.(glob|rglob|iterdir|walk|exists|is_file|stat))"
)
_READERS = re.compile(
    r"(((io|codecs|os|gzip|bz2|lzma|tokenize)\.)?open|os\.readlink|zipfile\.\w+|tarfile\.\w+|"
    r"sqlite3\.connect|shutil\.(copy\w*|move|unpack_archive)|os\.(rename|replace|link|symlink)|runpy\.\w+|"
    r"linecache\.\w+|py_compile\.\w+|importlib\.(util\.spec_from_file_location|machinery\.\w+)|"
    r"fileinput\.\w+|mmap\.mmap|.*\.(read_text|read_bytes|readlines?|extract(all)?|rename|replace|copy))"
)
_PATH_METHODS = re.compile(r"(read_text|read_bytes|open|glob|rglob|iterdir|walk|exists|is_file|stat|rename|copy)")
_RUNNERS = re.compile(
    r"(subprocess\.(run|call|check_call|check_output|Popen|getoutput|getstatusoutput)|"
    r"os\.(system|popen|exec[lv]p?e?|spawn\w+|posix_spawnp?)|commands\.getoutput|pty\.spawn|"
    r"asyncio\.(subprocess\.)?create_subprocess_(exec|shell))"
)
_REQUESTS = re.compile(
    r"urllib\.request\.\w+|(requests|httpx)\.\w+|.*\.(urlopen|urlretrieve|get|request|fetch)|urlopen|urllib2\.\w+"
)
_UNKNOWN = re.compile(
    r"(builtins\.)?(getattr|eval|exec|compile|vars|globals|locals|__import__)|importlib\.import_module"
)
"""Names with which a function may use any other one."""
_TESTS = re.compile(r".*\.(endswith|startswith|match)|fnmatch\.\w+|(re\.)(search|match|fullmatch)")
_REMOVERS = re.compile(r"(os\.(remove|unlink|rmdir|removedirs)|shutil\.rmtree|.*\.(unlink|rmdir|rmtree))")
_WRITES = re.compile(r"[wax]b?\+?t?|[wax]\+?b?")
_WRITERS = (".write_text", ".write_bytes")
MAX_COMMANDS = 60
MAX_SITES = 20
"""Most calls of one function of a script that are followed."""


@dataclass(frozen=True, eq=False)
class Script:
    """A Python script."""

    module: Module

    @cached_property
    def _values(self) -> Values:
        return Values(self.module)

    @cached_property
    def _calls(self) -> list[tuple[ast.Call, str]]:
        """Return each call with the dotted name of what it calls; ``.name`` for methods of nameless expressions."""
        calls = [node for node in self.module.all_nodes if isinstance(node, ast.Call)]
        return [(node, self.module.called(node)) for node in calls]

    @cached_property
    def _sites(self) -> dict[str, list[ast.Call]]:
        """Return the calls of each dotted name."""
        table: dict[str, list[ast.Call]] = {}
        for node, name in self._calls:
            table.setdefault(name, []).append(node)
        return table

    @cached_property
    def reads(self) -> bool:
        """Return whether it reads what is in files, and does not only list them."""
        return any(_READERS.fullmatch(name) and not _opens_to_write(node) for node, name in self._calls)

    @cached_property
    def lists(self) -> bool:
        """Return whether it looks for files."""
        return any(_LISTERS.fullmatch(name) for _, name in self._calls)

    @cached_property
    def calls(self) -> frozenset[str]:
        """Return the dotted names of everything that it calls."""
        return frozenset(name for _, name in self._calls)

    @cached_property
    def addresses(self) -> tuple[str, ...]:
        """Return the URLs that it asks for, with ``*`` for unknown parts."""
        texts = [
            text
            for node, name in self._calls
            if _REQUESTS.fullmatch(name)
            for argument in (*node.args, *(keyword.value for keyword in node.keywords))
            for text in self._values.of(argument)
        ]
        return tuple(dict.fromkeys(text for text in texts if "://" in text))

    @cached_property
    def saves_answers(self) -> bool:
        """Return whether it writes into a file what a request answers."""
        asks = any(_REQUESTS.fullmatch(name) for name in self.calls)
        return any(name.endswith("urlretrieve") for name in self.calls) or (asks and self.writes)

    @cached_property
    def writes(self) -> bool:
        """Return whether it writes into files."""
        return any(_opens_to_write(node) or name.endswith(_WRITERS) for node, name in self._calls)

    @cached_property
    def written(self) -> tuple[str, ...]:
        """Return the paths that it writes to, each once, with ``*`` for unknown parts."""
        paths: list[str] = []
        for node, name in self._calls:
            if _opens_to_write(node):
                paths += self._values.of(_path_of(node, is_method=name not in ("io.open", "os.open")))
            elif name.endswith(_WRITERS) and isinstance(node.func, ast.Attribute):
                paths += self._values.of(node.func.value)
        return tuple(dict.fromkeys(paths))

    def texts(self, node: ast.AST) -> list[str]:
        """Return the texts that an expression may be, with ``*`` for unknown parts."""
        return self._values.of(node)

    @cached_property
    def removed(self) -> tuple[str, ...]:
        """Return the paths that it removes, each once, with ``*`` for unknown parts."""
        paths: list[str] = []
        for node, name in self._calls:
            if _REMOVERS.fullmatch(name):
                paths += self._values.of(_path_of(node, is_method=not name.startswith(("os.", "shutil."))))
        return tuple(dict.fromkeys(paths))

    @cached_property
    def names(self) -> frozenset[str]:
        """Return the dotted names of everything that it uses."""
        return frozenset(self.module.uses_by_name)

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Return the paths and patterns that it looks at, each once, with ``*`` in place of what is not known.

        What it only writes, removes, prints or leaves out of a search is not among them.
        """
        if not self.reads and any(_REMOVERS.fullmatch(name) for name in self.calls):
            return ()
        return tuple(dict.fromkeys(text for text in self._paths() if text.strip("*. ")))

    @cached_property
    def opened(self) -> tuple[str, ...]:
        """Return the paths that it gives to file functions: ``paths`` without the names that it only compares with."""
        return tuple(dict.fromkeys(text for text in self._paths(compared=False)))

    def _paths(self, *, compared: bool = True) -> Iterator[str]:
        skipped = self._left_out
        for node, name in self._calls:
            if id(node) in skipped or _opens_to_write(node):
                continue
            if name in self._file_functions or _LISTERS.fullmatch(name) or _READERS.fullmatch(name):
                yield from self._looked_at(node, name)
            elif compared and _TESTS.fullmatch(name) and node.args and (self.reads or self.lists):
                yield from self._values.of(node.args[0])
        if compared and (self.reads or self.lists):
            for other in self.module.all_nodes:
                if isinstance(other, ast.Compare) and id(other) not in skipped:
                    yield from self._asked_for(other)

    @cached_property
    def _file_functions(self) -> frozenset[str]:
        """Return its own functions that use file functions, or what may be one, also through others of its own."""
        used: dict[str, set[str]] = {}
        for function in self.module.functions:
            if isinstance(function, Function):
                nodes = (node for node in ast.walk(function) if isinstance(node, ast.Name | ast.Attribute))
                used.setdefault(function.name, set()).update(map(self.module.dotted, nodes))
        reached: frozenset[str] = frozenset()
        more = frozenset(name for name, names in used.items() if any(map(_is_file_function, names)))
        while more != reached:
            reached = more
            more |= {name for name, names in used.items() if not names.isdisjoint(reached)}
        return reached

    def _asked_for(self, node: ast.Compare) -> Iterator[str]:
        """Yield the texts that a comparison asks for: ``"a" in path`` and ``name == "a"``."""
        for operator, side in zip(node.ops, node.comparators, strict=True):
            if isinstance(operator, ast.In | ast.Eq):
                sides = [node.left, *(side.elts if isinstance(side, ast.Tuple | ast.List) else [side])]
                yield from (text for one in sides for text in self._values.of(one))

    def _looked_at(self, node: ast.Call, name: str) -> Iterator[str]:
        if isinstance(node.func, ast.Attribute) and _PATH_METHODS.fullmatch(node.func.attr):
            if node.func.attr in ("glob", "rglob", "walk", "iterdir"):
                yield from self._values.of(node)
            else:
                yield from self._values.of(node.func.value)
        for argument in [
            *node.args[: 1 if name.startswith("shutil.") else None],
            *(key.value for key in node.keywords),
        ]:
            yield from self._values.of(argument)

    @cached_property
    def _left_out(self) -> set[int]:
        """Return the ids of nodes in conditions that leave something out: negated, or with ``continue`` alone."""
        conditions: list[ast.AST] = []
        for node in self.module.all_nodes:
            if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
                conditions.append(node.operand)
            elif isinstance(node, ast.If) and all(_gives_up(statement) for statement in node.body):
                conditions.append(node.test)
        return {id(inner) for node in conditions for inner in ast.walk(node)}

    @cached_property
    def commands(self) -> tuple[Command, ...]:
        """Return the commands that it starts; those in a helper function count once for each call of the function."""
        commands: list[Command] = []
        inside: set[int] = set()
        for function in self.module.functions:
            if not isinstance(function, Function) or not (function.args.args or function.args.vararg):
                continue
            started = [node for node in ast.walk(function) if isinstance(node, ast.Call) and self._runs(node)]
            inside |= {id(node) for node in started}
            sites = self._sites.get(function.name, [])[:MAX_SITES] if started else []
            for site in sites if len(commands) < MAX_COMMANDS else ():
                values = self._values.within(function, site)
                commands += [command for node in started for command in self._started(node, values)]
        for node, _ in self._calls:
            if len(commands) < MAX_COMMANDS and id(node) not in inside and self._runs(node):
                commands += self._started(node, self._values)
        return tuple(commands[:MAX_COMMANDS])

    def _started(self, node: ast.Call, values: Values) -> list[Command]:
        """Return the commands of one call that starts a program."""
        if not node.args:
            return []
        first: ast.AST = node.args[0]
        if self.module.called(node).startswith(("asyncio.create_subprocess_exec", "os.execl", "os.spawnl")):
            first = ast.List(elts=list(node.args), ctx=ast.Load())
        words = values.words(first)
        if words is None:
            return [command for line in values.of(first)[:MAX_VALUES] for command in parse(line)]
        commands = []
        for chosen in islice(product(*words), 8) if words else ():
            line = Command(tuple(chosen))
            commands += [line, *parse(chosen[-1])] if line.program in ("bash", "sh") and len(chosen) > 2 else [line]
        return commands

    def _runs(self, node: ast.Call) -> bool:
        return _RUNNERS.fullmatch(self.module.called(node)) is not None


@lru_cache(maxsize=512)
def script(text: str) -> Script | None:
    """Return the script, None when it is no Python."""
    module = parsed(text)
    return Script(module) if module is not None else None


def _gives_up(statement: ast.stmt) -> bool:
    """Return whether a statement leaves something out."""
    if isinstance(statement, ast.Continue | ast.Pass):
        return True
    called = statement.value if isinstance(statement, ast.Expr) else None
    method = called.func if isinstance(called, ast.Call) else None
    return isinstance(method, ast.Attribute) and method.attr in ("remove", "discard", "clear")


def _path_of(node: ast.Call, *, is_method: bool) -> ast.expr | None:
    """Return the path that a call works on: the object of a method, else the first argument."""
    if is_method and isinstance(node.func, ast.Attribute):
        return node.func.value
    return node.args[0] if node.args else None


def _opens_to_write(node: ast.Call) -> bool:
    modes = [*node.args[:2], *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
    is_open = isinstance(node.func, ast.Name | ast.Attribute) and written(node.func).endswith("open")
    return is_open and any(
        isinstance(mode, ast.Constant) and isinstance(mode.value, str) and _WRITES.fullmatch(mode.value)
        for mode in modes
    )


def _is_file_function(name: str) -> bool:
    return any(pattern.fullmatch(name) for pattern in (_LISTERS, _READERS, _RUNNERS, _UNKNOWN))
