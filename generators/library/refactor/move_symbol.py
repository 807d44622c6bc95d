"""The generator ``move_symbol``: a class or function moves to another module, and its old place re-exports it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from ....environments.rng import stream
from ....environments.tasks.task_paths import matches
from ....errors import Rejected
from ....models import GeneratorRef, InterfaceItem
from ...base import Candidate, Files, HiddenTests, StatementContext, TestPolicy
from ...python.tested_code import TestedCode, in_seed_order
from ..deletion.removal.name_index import NameIndex
from ..deletion.removal.source_file import SourceFile
from .moved_tests import moved_tests
from .moving import Move, imported_modules
from .symbols import Kind, Symbol, symbols

if TYPE_CHECKING:
    from ....environments.snapshots import Snapshot

_NAMES = ("{}_support", "{}_tools", "{}_core", "{}_parts")


@dataclass(frozen=True)
class Knobs:
    """What moves where, and what the workspace shows of the tests about it."""

    kind: Literal["function", "class", "all"] = "all"
    """The kind of symbol that moves."""
    target: Literal["new", "existing", "any"] = "any"
    """Whether the module that it moves to is a new one or one that the package has."""
    tests: TestPolicy = "hidden"
    """``visible`` puts the tests of the move into the workspace."""
    min_lines: Annotated[int, Field(ge=1)] = 4
    """Fewest lines of the definition."""
    max_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Largest share of all tests that may run the symbol."""


@dataclass(frozen=True)
class MoveStatement:
    """The request: what moves, from where to where, and what must hold afterwards."""

    kind: Kind
    name: str
    old: str
    new: str
    path: str
    exists: bool

    def render(self, context: StatementContext) -> str:
        """Return the request as Markdown."""
        module = f"the module `{self.new}` (`{self.path}`)" if self.exists else f"a new module `{self.new}`"
        place = "" if self.exists else f", in the file `{self.path}`"
        paragraphs = [
            f"# Move `{self.name}` to `{self.new}` in {context.package}",
            f"Move the {self.kind} `{self.name}` from `{self.old}` to {module}{place}.",
            "Afterwards:\n\n"
            f"- The definition is in `{self.path}` and no more in the module `{self.old}`; "
            f"`{self.name}.__module__` is `{self.new}`.\n"
            f"- `{self.old}` re-exports it: `{self.old}.{self.name}` and `{self.new}.{self.name}` are one object.\n"
            "- Either module can be the first one that a fresh interpreter imports: there is no import cycle.\n"
            "- Every other place that it can be imported from today still works, and nothing else changes.",
        ]
        return "\n\n".join(paragraphs) + "\n"


class MoveSymbol:
    """Move a class or function to another module, with a re-export at its old place."""

    name = "move_symbol"
    version = "1"
    knobs = Knobs

    def candidates(self, snapshot: Snapshot, seed: int, knobs: Knobs) -> Iterator[Candidate]:
        """Yield one candidate per symbol that needs nothing of its own module, in seed order."""
        code = TestedCode(snapshot)
        index = NameIndex.of(code.tree)
        kinds: set[Kind] = {"function", "class"} if knobs.kind == "all" else {knobs.kind}
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=asdict(knobs))
        key = lambda item: (item.file.path, item.name)  # noqa: E731
        for symbol in in_seed_order(symbols(index, kinds), seed, self.name, key=key):
            lines = (symbol.node.end_lineno or symbol.node.lineno) - symbol.node.lineno + 1
            affected = code.tests_of(symbol.file.path, symbol.covers)
            if lines < knobs.min_lines or not code.decides(affected, knobs.max_share):
                continue
            move, files = _first_move(index, symbol, snapshot.source_globs, seed, knobs.target)
            tests = moved_tests(code.tree, move, affected) if move else None
            if move is None or tests is None:
                continue
            yield Candidate(
                entity=f"{symbol.file.path}::{symbol.name}",
                generator=reference,
                exercise={},
                hidden_tests=HiddenTests(tests.tests, knobs.tests, added=tests.files),
                statement=MoveStatement(
                    symbol.kind, symbol.name, symbol.file.dotted, move.module, move.path, move.existing is not None
                ),
                subject=symbol.name,
                interface=[InterfaceItem(name=f"{move.module}.{symbol.name}", kind=symbol.kind)],
                solution=files,
                probes={"an import at the new place": move.disguised()},
                features={"tests_touching": len(affected), "kind": symbol.kind, "lines_moved": lines},
            )


def _first_move(
    index: NameIndex, symbol: Symbol, source_globs: list[str], seed: int, target: str
) -> tuple[Move | None, Files]:
    """Return the first of the drawn moves that is possible, with its solution; None without one."""
    moves = list(_moves(index, symbol, source_globs, target))
    stream(seed, "move_symbol", symbol.dotted).shuffle(moves)
    for move in moves:
        try:
            return move, move.files()
        except Rejected:
            continue
    return None, {}


def _moves(index: NameIndex, symbol: Symbol, source_globs: list[str], target: str) -> Iterator[Move]:
    """Yield the moves within the package of the symbol's module: to new modules, and to those that do not import it."""
    file = symbol.file
    folder = file.path.rpartition("/")[0]
    package = file.dotted if file.path.endswith("__init__.py") else file.dotted.rpartition(".")[0]
    if not package or f"{folder}/__init__.py" not in index.files:
        return
    stem = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", symbol.name).lower()
    for pattern in _NAMES if target != "existing" else ():
        name = pattern.format(stem)
        path = f"{folder}/{name}.py"
        if name not in index.tree.vocabulary and path not in index.files and matches(path, source_globs):
            yield Move(symbol, f"{package}.{name}", path)
    for path in sorted(index.own) if target != "new" else ():
        other = index.files[path]
        beside = path.rpartition("/")[0] == folder and not path.endswith(("__init__.py", "__main__.py"))
        if beside and other is not file and _is_plain(other) and not _leads_to(index, other, file):
            yield Move(symbol, other.dotted, path, other)


def _is_plain(file: SourceFile) -> bool:
    """Return whether a module defines something, so that a definition at its end is at home there."""
    return bool(file.names) and file.dotted.rpartition(".")[2].isidentifier()


def _leads_to(index: NameIndex, start: SourceFile, goal: SourceFile) -> bool:
    """Return whether importing a module imports another one, besides the packages around it."""
    waiting, visited = [start], {start.path}
    while waiting:
        file = waiting.pop()
        for name in imported_modules(file):
            other = index.modules.get(name)
            if other is goal:
                return True
            if other is not None and other.path not in visited:
                visited.add(other.path)
                waiting.append(other)
    return False
