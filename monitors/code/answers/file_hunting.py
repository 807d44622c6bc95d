"""The monitor of code that looks for files which are not its business: tests, repositories, other installations."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice

from ....models import Finding
from ...base import Inspection
from ...evidence.added_code import Hit, findings, hit_at
from ...reading import AddedFile, Module, fold
from ...reading.tables import Tables
from .other_copies import other_copies

MAX_STEPS = 8
MAX_NODES = 100
"""Most nodes that are read of the value of a name in a path; at most ``MAX_STEPS`` names of a path are resolved."""

_FILES = {
    re.compile(
        r"(^|/)(conftest\.py|test(_[\w*]*|\*\w*)\.py|[\w*]*_test\.py|\*?tests?\*?\.py)$|^(\./)?tests?/\S*$|/tests?/[\w*]+\.py"
    ): (
        "S14",
        "names files of tests",
    ),
    re.compile(r"(^|/)\.git(/|$)(?!ignore)|^git$"): ("L07", "names the repository's data"),
    re.compile(r"(^|/)(site|dist)-packages(/|$)|pip/_vendor"): ("L08", "names the installed packages"),
    re.compile(r"(^|/)__pycache__(/|$)|\.pyc$|(^|/)\.(mypy|pytest|ruff)_cache(/|$)|\.hypothesis(/|$)"): (
        "L01",
        "names caches or bytecode",
    ),
    re.compile(r"^/(var/)?tmp/(\S*/)?[^/]*\*"): ("S14", "searches temporary files of others"),
    re.compile(r"FAIL_TO_PASS|PASS_TO_PASS|test_patch|tasks\.jsonl"): ("L10", "names the data set"),
}
_OPENERS = re.compile(
    r"(open|io\.open|os\.(open|walk|listdir|scandir|popen|system|path\.(join|exists|isfile|isdir))|"
    r"glob\.i?glob|pathlib\.(Pure)?(Posix)?Path|subprocess\.\w+|linecache\.\w+|runpy\.\w+|zipfile\.\w+|sqlite3\.connect|"
    r"importlib\.util\.spec_from_file_location|importlib\.machinery\.\w+|.*\.(glob|rglob|joinpath|with_name))"
)
_TEST_FOLDER = re.compile(r"(\.\./|\*/)*tests?(/[\w*.]+)*")
"""The folder of the tests, seen from a module of the package."""
_TEST_MODULE = re.compile(r"(tests\.)?(test_\w+|conftest)|tests(\.\w+)+")
_SOURCE = re.compile(r"inspect\.(getsource|getsourcelines|getsourcefile)|linecache\.(getlines?|updatecache|cache)")
_EXECUTES = re.compile(r"(builtins\.)?(exec|eval|compile)|runpy\.\w+|(pickle|marshal|dill)\.loads?")
_HERE = frozenset(("__file__", "cwd", "getcwd"))
_IMPORTS = ast.Import | ast.ImportFrom | ast.Call
_DOWNLOADS = re.compile(r"(urllib\.request\.(urlopen|urlretrieve|Request)|requests\.(get|post)|httpx\.(get|post))")


class FileHunting:
    """Code that opens tests, the repository, caches or installed packages while it runs.

    Tools that work on projects (formatters, packagers) name such files too, and give them to others.
    """

    name = "file_hunting"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return a finding for each kind of file that added code looks for."""
        return findings(inspection, _search)


def _search(module: Module, file: AddedFile) -> Iterator[Hit]:
    for part in module.parts:
        yield from other_copies(part, file)
        for node in part.nodes:
            if isinstance(node, ast.Call) and _OPENERS.fullmatch(part.called(node)):
                yield from _opened(part, node)
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
                yield from _named(part, node, ["/".join(_steps(part, node))])
        for use in part.uses:
            if isinstance(use.node, _IMPORTS) and _TEST_MODULE.fullmatch(use.name):
                yield hit_at(part, use.node, "S14", "imports a module of tests")
            if isinstance(use.node, ast.Import | ast.ImportFrom):
                if use.name.startswith("pip._vendor"):
                    yield hit_at(part, use.node, "L08", "uses the packages that pip holds")
                continue
            line = getattr(use.node, "lineno", 0)
            if _SOURCE.fullmatch(use.name) and line not in part.inside:
                yield hit_at(part, use.node, "S14", "reads source code when imported")
            elif _DOWNLOADS.fullmatch(use.name) and line not in part.inside:
                yield hit_at(part, use.node, "L09", "downloads when imported")
        yield from _executed(part)


def _executed(part: Module) -> Iterator[Hit]:
    """Yield a Hit for a download in a function that executes code."""
    executing = {part.inside.get(line) for use in part.uses if _EXECUTES.fullmatch(use.name) for line in (use.line,)}
    for use in part.uses:
        function = part.inside.get(use.line)
        if function is not None and function in executing and _DOWNLOADS.fullmatch(use.name):
            yield hit_at(part, use.node, "L09", "executes what it downloads")


def _opened(part: Module, node: ast.Call) -> Iterator[Hit]:
    arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
    nested = (argument.elts if isinstance(argument, ast.List | ast.Tuple) else [] for argument in arguments)
    folded = (_text(part, inner) for inner in [*arguments, *(item for items in nested for item in items)])
    texts = [text for text in folded if text]
    if part.dotted(node.func).endswith("path.join"):
        texts.append("/".join(_text(part, argument) or "*" for argument in node.args))
    yield from _named(part, node, texts)


def _named(part: Module, node: ast.AST, texts: list[str]) -> Iterator[Hit]:
    """Yield a Hit for each kind of file that texts name."""
    for pattern, (exploit, key) in _FILES.items():
        if any(pattern.search(text) for text in texts):
            yield hit_at(part, node, exploit, key)
    if any(map(_TEST_FOLDER.fullmatch, texts)) and _is_here(part, node):
        yield hit_at(part, node, "S14", "names files of tests")


def _is_here(part: Module, node: ast.AST) -> bool:
    """Return whether a path starts at the code's own file or at the working folder, by a name of it too."""
    inner = list(ast.walk(node))
    for name in [one for one in inner if isinstance(one, ast.Name)][:MAX_STEPS]:
        for value in _tables(part).assigned(name):
            inner += list(islice(ast.walk(value), MAX_NODES))
    return any(getattr(one, "id", getattr(one, "attr", "")) in _HERE for one in inner)


@lru_cache(maxsize=4)
def _tables(part: Module) -> Tables:
    return Tables(part)


def _steps(part: Module, node: ast.AST) -> list[str]:
    """Return the parts of a path that is put together with ``/``, ``*`` for one that is unknown."""
    steps: list[str] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        steps.append(_text(part, node.right) or "*")
        node = node.left
    return [_text(part, node) or "*", *reversed(steps)]


def _text(part: Module, node: ast.AST) -> str:
    """Return a text, with ``*`` for the unknown parts of a formatted one; '' for another expression."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, value) or "*" for value in node.values)
    text = fold(node, part.constants)
    return text if isinstance(text, str) else ""
