"""The generator ``rename_api``: a public name gets another one everywhere, and the old one stays as a warning alias."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from ....environments.rng import stream
from ....errors import Rejected
from ....models import GeneratorRef, InterfaceItem
from ...base import Candidate, HiddenTests, StatementContext, TestPolicy
from ...python.source import words
from ...python.tested_code import TestedCode, in_seed_order
from ..deletion.removal.name_index import NameIndex
from ..deletion.removal.source_file import SourceFile
from .renamed_tests import RenamedTests, renamed_tests
from .renaming import renamed_package, silent_alias
from .symbols import Kind, Symbol, symbols
from .vocabulary import new_name

if TYPE_CHECKING:
    from ....environments.snapshots import Snapshot

_ALIASES = {
    "function": "Calling `{old}` gives what `{new}` gives for the same arguments, and emits a `DeprecationWarning`",
    "method": "Calling the method `{old}` gives what `{new}` gives, and emits a `DeprecationWarning`",
    "class": "Reading the name `{old}` from one of these modules gives the class `{new}` itself, not a copy or a "
    "subclass, and emits a `DeprecationWarning`. Importing the package or the module alone does not warn",
}


@dataclass(frozen=True)
class Knobs:
    """What is renamed, and what the workspace shows of the rewritten tests."""

    kind: Literal["function", "method", "class", "all"] = "all"
    """The kind of symbol that gets another name."""
    tests: TestPolicy = "hidden"
    """``visible`` puts the rewritten tests into the workspace; otherwise it has the tests under the old name."""
    max_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Largest share of all tests that may run the symbol."""


@dataclass(frozen=True)
class RenameStatement:
    """The request: both names, where each must be importable from, and how the old one behaves."""

    kind: Kind
    old: str
    new: str
    home: str
    owner: str
    exporters: tuple[str, ...]

    def render(self, context: StatementContext) -> str:
        """Return the request as Markdown."""
        subject = f"the {self.kind} `{self.old}`" + (f" of `{self.home}.{self.owner}`" if self.owner else "")
        alias = _ALIASES[self.kind].format(old=self.old, new=self.new)
        paragraphs = [
            f"# Rename `{self.old}` to `{self.new}` in {context.package}",
            f"Give {subject} the name `{self.new}`, throughout the package: its definition and every use in the "
            "package's own code" + ("." if self.owner else ", lists of public names included."),
        ]
        if not self.owner:
            modules = "\n".join(f"- `{module}`" for module in (self.home, *self.exporters))
            paragraphs.append(f"Both names must be available from:\n\n{modules}")
        paragraphs.append(
            f"The old name stays as a deprecated alias. {alias}. The text of the warning names `{self.old}` and "
            f"`{self.new}`. Using the new name never emits it, so the package itself must not use the old one."
        )
        paragraphs.append("The behaviour of the package is otherwise unchanged; its tests will use the new name.")
        return "\n\n".join(paragraphs) + "\n"


class RenameApi:
    """Rename a public function, method or class everywhere and keep the old name as a deprecated alias."""

    name = "rename_api"
    version = "1"
    knobs = Knobs

    def candidates(self, snapshot: Snapshot, seed: int, knobs: Knobs) -> Iterator[Candidate]:
        """Yield one candidate per symbol that tests run and name, in seed order."""
        code = TestedCode(snapshot)
        index = NameIndex.of(code.tree)
        kinds: set[Kind] = {"function", "method", "class"} if knobs.kind == "all" else {knobs.kind}
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=asdict(knobs))
        key = lambda item: (item.file.path, item.qualified)  # noqa: E731
        for symbol in in_seed_order(symbols(index, kinds), seed, self.name, key=key):
            affected = code.tests_of(symbol.file.path, symbol.covers)
            new = new_name(symbol.name, code.tree.vocabulary, stream(seed, self.name, symbol.dotted))
            if not new or not code.decides(affected, knobs.max_share):
                continue
            if not _is_named_by(symbol, affected) or not _is_renamable(symbol):
                continue
            try:
                tests = renamed_tests(symbol, new, affected)
                candidate = _propose(symbol, new, affected, tests, reference, knobs)
            except Rejected:
                continue
            yield candidate


def _is_renamable(symbol: Symbol) -> bool:
    """Return whether an alias can stand in for the symbol, and no text of a test or of the package depends on it."""
    if symbol.kind == "class":
        modules = [symbol.file, *symbol.exporters]
        starred = any(symbol.file.dotted in file.stars for file in symbol.index.files.values())
        if starred or any("__getattr__" in file.names for file in modules):
            return False
    for file in symbol.files:
        in_package = file.path in symbol.index.own
        if not (in_package or symbol.index.tree.is_test(file.path)):
            continue
        for constant in file.constants:
            text = str(constant.value)
            if symbol.name not in text or (in_package and symbol.kind != "class"):
                continue
            is_listed = text == symbol.name and in_package
            if not is_listed and symbol.name in words(text.encode()) and not _is_docstring(file, constant):
                return False
    return True


def _is_docstring(file: SourceFile, node: ast.Constant) -> bool:
    """Return whether a text stands alone as a statement."""
    return isinstance(file.parents[node], ast.Expr)


def _is_named_by(symbol: Symbol, affected: list[str]) -> bool:
    """Return whether a file of the affected tests refers to the symbol."""
    paths = {test.partition("::")[0] for test in affected}
    return any(symbol.references(file) for file in symbol.files if file.path in paths)


def _propose(
    symbol: Symbol, new: str, affected: list[str], tests: RenamedTests, reference: GeneratorRef, knobs: Knobs
) -> Candidate:
    solution = renamed_package(symbol, new)
    owner = symbol.owner.name if symbol.owner else ""
    exporters = tuple(file.dotted for file in symbol.exporters)
    full_name = f"{symbol.file.dotted}.{owner}.{new}" if owner else f"{symbol.file.dotted}.{new}"
    return Candidate(
        entity=f"{symbol.file.path}::{symbol.qualified}",
        generator=reference,
        exercise={},
        hidden_tests=HiddenTests([*affected, *tests.tests], knobs.tests, added=tests.files),
        statement=RenameStatement(symbol.kind, symbol.name, new, symbol.file.dotted, owner, exporters),
        subject=new,
        interface=[InterfaceItem(name=full_name, kind=symbol.kind)],
        solution=solution,
        probes={"an alias that does not warn": silent_alias(symbol, new)},
        features={"tests_touching": len(affected), "kind": symbol.kind, "test_files_rewritten": len(tests.files)},
    )
