"""The base of the deletion generators: which targets are eligible, and how one becomes a Candidate in either mode."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, ClassVar

from ....errors import Rejected
from ....models import GeneratorRef
from ...base import Candidate, Feature, Files, HiddenTests, Rejection
from ...python.source import Edit, Module, apply_edits
from ...python.source_tree import SOURCE_SUFFIXES, SourceTree
from ...python.tested_code import TestedCode, in_seed_order
from .bodies import STUB
from .cascade import DeadCode, dead_after
from .documentation import redact_entries, redact_examples, redacted_paths
from .knobs import CutKnobs, Knobs
from .removal.closure import Closure
from .removal.file_edits import all_edits, deleted_samples, stub_file_edits, undefined_names
from .removal.name_index import NameIndex
from .removal.source_file import SourceFile
from .removal.uses import call_sites
from .statement import DeletionStatement, Entity, ReplacedCaller
from .target import Target

if TYPE_CHECKING:
    from ....environments.snapshots import Snapshot


@dataclass
class Cut:
    """A deletion worked out: edits of files, and what the statement has to say about them."""

    edits: dict[str, list[Edit]] = field(default_factory=dict)  # edits of source files
    dead: DeadCode = field(default_factory=DeadCode)  # helpers and imports that go too
    documents: Files = field(default_factory=dict)  # documents and sample programs that change
    tests: Files = field(default_factory=dict)  # test files without the deleted names
    lost_names: dict[str, list[str]] = field(default_factory=dict)  # names that each of these test files lost
    absorbed: list[Target] = field(default_factory=list)  # definitions that are built on the target and go too
    also_removed: list[Entity] = field(default_factory=list)  # the public ones, as the statement describes them
    restore: list[str] = field(default_factory=list)  # names that have to be restored
    callers: list[ReplacedCaller] = field(default_factory=list)  # statements that were replaced


class DeletionGenerator:
    """Proposes one candidate per eligible target, in seed order. Subclasses define what a target is."""

    name: ClassVar[str]
    version: ClassVar[str]
    knobs: ClassVar[type[Knobs]] = Knobs

    def targets(self, module: Module, knobs: Knobs) -> Iterator[Target]:
        """Yield everything in the module that the generator could delete."""
        raise NotImplementedError

    def candidates(self, snapshot: Snapshot, seed: int, knobs: Knobs) -> Iterator[Candidate]:
        """Yield the candidates in seed order."""
        code = TestedCode(snapshot)
        eligible = self._eligible(code, knobs)
        pool = in_seed_order(eligible, seed, self.name, key=lambda item: (item[0].module.path, item[0].name))
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=asdict(knobs))
        for target, affected in pool:
            yield _propose(code, target, affected, reference, knobs)

    def _eligible(self, code: TestedCode, knobs: Knobs) -> Iterator[tuple[Target, list[str]]]:
        """Yield each eligible target with the tests that run it."""
        index = NameIndex.of(code.tree)
        for module in code.tree.modules():
            if module.path not in index.own:
                continue
            for target in self.targets(module, knobs):
                if code.runs_at_import(module.path, target.covers) or not any(target.functions()):
                    continue
                if knobs.mode == "remove" and not _removable(index, target):
                    continue
                tests = code.tests_of(module.path, target.covers)
                if knobs.min_lines <= target.lines() <= knobs.max_lines and code.decides(tests, knobs.max_share):
                    yield target, tests


def _removable(index: NameIndex, target: Target) -> bool:
    """Return whether the target may be removed with its name.

    A private helper may not: without it, only a caller fails. Neither may a method that a base declares abstract:
    without it, the class has no instances, so more is missing than the statement says.
    """
    if re.match(r"_[^_]|.*\._[^_]", target.name):
        return False
    if target.owner is None:
        return True
    owner = f"{index.files[target.module.path].dotted}.{target.owner.name}"
    return not index.is_abstract_in_base(owner, target.short)


def _propose(code: TestedCode, target: Target, affected: list[str], reference: GeneratorRef, knobs: Knobs) -> Candidate:
    tree = code.tree
    blocked = None
    try:
        cut = _stub(tree, target, knobs) if knobs.mode == "stub" else _removal(code, target, affected, knobs)
    except Rejected as rejected:
        blocked, cut = Rejection(rejected.reason, rejected.detail), Cut()
    exercise: Files = {path: apply_edits(tree.read(path), edits) for path, edits in cut.edits.items()}
    exercise |= cut.documents
    entity = target.description(tree, redact=knobs.redacts, mode=knobs.mode)
    statement = DeletionStatement(
        target=entity,
        mode=knobs.mode,
        policy=knobs.tests,
        call_sites=call_sites(tree, target, edited=exercise),
        removed_helpers=len(cut.dead.definitions) + len(cut.absorbed) - len(cut.also_removed),
        removed_imports=len(cut.dead.imports),
        also_removed=cut.also_removed,
        names_to_restore=cut.restore,
        callers=cut.callers,
        documents=redacted_paths(cut.documents),
        style=knobs.style,
        seed=reference.seed,
    )
    fan_in = len(call_sites(tree, target, most=1000))
    return Candidate(
        entity=target.entity,
        generator=reference,
        exercise=exercise,
        hidden_tests=HiddenTests(affected, knobs.tests, cut.tests, cut.lost_names),
        statement=statement,
        subject=target.name,
        show_examples=knobs.shows_examples,
        documented=entity.documented,
        interface=[item.interface_item() for item in (entity, *cut.also_removed)],
        probes={} if blocked else _probes(tree, target, cut, exercise, knobs),
        features=_features(target, statement, cut, len(affected), fan_in, blocked is not None),
        blocked=blocked,
    )


def _features(
    target: Target, statement: DeletionStatement, cut: Cut, tests: int, fan_in: int, blocked: bool
) -> dict[str, Feature]:
    features: dict[str, Feature] = {
        "loc_removed": target.lines(),
        "entities": 1 + len(cut.absorbed),
        "fan_in": fan_in,  # lines of the package that call the target
        "helpers_removed": len(cut.dead.definitions),
        "imports_removed": len(cut.dead.imports),
        "docstring": bool(statement.target.docstring),
        "tests_touching": tests,
    }
    if statement.mode == "remove" and not blocked:
        features["callers_rewritten"] = len(cut.callers)
        features["names_to_restore"] = len(cut.restore)
        features["test_files_rewritten"] = len(cut.tests)
    return features


def _stub(tree: SourceTree, target: Target, knobs: Knobs) -> Cut:
    """Return the cut that leaves the definition without its body."""
    path = target.module.path
    dead = DeadCode() if knobs.keep_helpers else dead_after(tree, {path: target.body_spans()})
    cut = Cut({path: target.with_bodies(STUB, redact=knobs.redacts)}, dead)
    for file, spans in dead.spans.items():
        cut.edits.setdefault(file, []).extend((span, b"") for span in spans)
    if knobs.redacts:
        cut.documents = redact_examples(tree.documents(), target.short)
    return cut


def _removal(code: TestedCode, target: Target, affected: list[str], knobs: Knobs) -> Cut:
    """Return the cut that removes the definition with its name. Raises Rejected when something else needs the name."""
    index = NameIndex.of(code.tree)
    closure = Closure(index, code.baseline.tests_of, set(code.baseline.at_import), set(affected))
    file = index.files[target.module.path]
    body = file.classes[target.owner.name].body if target.owner else file.tree.body
    twins = [item for item in body if getattr(item, "name", "") == target.short]
    closure.remove(file.path, twins, f"{file.dotted}.{target.name}")
    return finished_cut(closure, file, knobs)


def finished_cut(closure: Closure, home: SourceFile, knobs: CutKnobs, gone: Iterable[str] = ()) -> Cut:
    """Return a finished removal from the module ``home`` as a cut, without edits of the files that are ``gone``.

    Raises Rejected when a source file would use a name that is not defined any more.
    """
    tree, index = closure.index.tree, closure.index
    edits = {path: changes for path, changes in all_edits(closure).items() if path not in gone}
    sources = {path: changes for path, changes in edits.items() if path in index.own}
    dead = DeadCode()
    if not knobs.keep_helpers:
        deleted = {path: [span for span, _ in changes] for path, changes in sources.items()}
        dead = dead_after(tree, deleted | {path: [(0, len(tree.read(path)))] for path in gone})
        dead.spans = {path: spans for path, spans in dead.spans.items() if path not in gone}
    for path, spans in dead.spans.items():
        sources.setdefault(path, []).extend((span, b"") for span in spans)
    for path, changes in sources.items():
        names = undefined_names(path, tree.read(path), apply_edits(tree.read(path), changes))
        if names:
            raise Rejected("v0_undefined", f"{path} still needs {', '.join(names)}")
    cut = Cut(sources | stub_file_edits(closure), dead)
    cut.tests = {path: apply_edits(tree.read(path), changes) for path, changes in edits.items() if path not in sources}
    cut.lost_names = {path: sorted(names) for path, names in sorted(closure.lost_names.items()) if names}
    if knobs.redacts:
        prefix = home.dotted + "."
        removed = [item.removeprefix(prefix) for item in closure.removed if item.startswith(prefix)]
        cut.documents = {**redact_entries(tree.documents(), removed), **deleted_samples(closure)}
    _describe(tree, closure, cut, knobs)
    return cut


def _describe(tree: SourceTree, closure: Closure, cut: Cut, knobs: CutKnobs) -> None:
    """Add to ``cut`` what was absorbed, which callers were replaced and what has to be restored."""
    modules = {module.path: module for module in tree.modules()}
    cut.absorbed = [absorbed_target(modules[path], name) for path, name in closure.absorbed]
    public = [item for item in cut.absorbed if not item.short.startswith("_")]
    cut.also_removed = [item.description(tree, redact=knobs.redacts, mode="remove") for item in public]
    cut.restore = sorted(closure.restore)
    cut.callers = [item for item in closure.callers if (item.path, item.where) not in closure.absorbed]


def absorbed_target(module: Module, name: str) -> Target:
    """Return the definitions called ``name`` or ``Class.name`` as a target, whatever they are."""
    owner_name, _, short = name.rpartition(".")
    owner = next((item for item in module.definitions() if item.name == owner_name), None)
    twins = tuple(item for item in module.definitions(owner.body if owner else None) if item.name == short)
    return Target(module, "class" if twins[0].kind == "class" else "method" if owner else "function", twins, owner)


def _probes(tree: SourceTree, target: Target, cut: Cut, exercise: Files, knobs: Knobs) -> dict[str, Files]:
    """Return the trivial solutions by name.

    In mode ``remove`` the definition is back at its place with a trivial body, and everything else is as it was.
    """
    path = target.module.path
    sources = [file for file in exercise if file.endswith(SOURCE_SUFFIXES)]
    probes: dict[str, Files] = {}
    for name, edits in target.probes().items():
        files: Files
        if knobs.mode == "stub":
            files = {file: exercise[file] for file in sources}
            edits = [*edits, *((span, b"") for span in cut.dead.spans.get(path, []))]
        else:
            files = {file: tree.read(file) for file in sources}
        probes[name] = {**files, path: apply_edits(target.module.source, edits)}
    return probes
