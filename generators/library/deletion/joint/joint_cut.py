"""The changed files of a deletion of many definitions, in either mode."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from .....errors import Rejected
from ....base import Files
from ....python.source import Module, Span, apply_edits, compile_error
from ....python.source_tree import SOURCE_SUFFIXES, SourceTree
from ....python.tested_code import TestedCode
from ..bodies import STUB
from ..cascade import DeadCode, dead_after
from ..documentation import redact_code_blocks, redact_entries, redact_examples
from ..family import Cut, absorbed_target
from ..knobs import CutKnobs
from ..removal.closure import Closure
from ..removal.file_edits import all_edits, deleted_samples, stub_file_edits, undefined_names
from ..removal.name_index import NameIndex
from ..target import Target


@dataclass
class JointCut(Cut):
    """A deletion of many definitions, worked out."""

    stubbed: list[Target] = field(default_factory=list)  # definitions that keep their names
    removed: list[Target] = field(default_factory=list)  # definitions that lose their names too, absorbed ones included
    helpers: int = 0  # private definitions that the workspace does not have any more

    def exercise(self, tree: SourceTree) -> Files:
        """Return the files of the workspace that differ from the tree, except tests."""
        return {path: apply_edits(tree.read(path), edits) for path, edits in self.edits.items()} | self.documents


def joint_cut(code: TestedCode, targets: Sequence[Target], affected: Sequence[str], knobs: CutKnobs) -> JointCut:
    """Return the cut that deletes ``targets``. In mode ``remove``, names go too as far as nothing else needs them."""
    closure = _largest_removal(code, targets, affected) if knobs.mode == "remove" else None
    cut = JointCut()
    if closure is not None:
        _add_removal(code, closure, cut)
    removed = {target.entity for target in cut.removed}
    cut.stubbed = [target for target in targets if target.entity not in removed]
    bodiless = {(target.module.path, target.name) for target in cut.stubbed}
    cut.callers = [item for item in cut.callers if (item.path, item.where) not in bodiless]
    for target in cut.stubbed:
        edits = target.with_bodies(STUB, redact=knobs.redacts)
        cut.edits.setdefault(target.module.path, []).extend(edits)
    if not knobs.keep_helpers:
        _add_dead_code(code.tree, cut)
    _check_names(code.tree, cut)
    if knobs.redacts:
        names = [target.short for target in cut.stubbed if not target.short.startswith("_")]
        cut.documents |= _without_examples(code.tree, names)
        if closure is not None:
            documents = {path: cut.documents.get(path, data) for path, data in code.tree.documents().items()}
            present = {path: data for path, data in documents.items() if data is not None}
            cut.documents |= redact_entries(present, [target.name for target in cut.removed])
            cut.documents |= deleted_samples(closure)
    return cut


def _largest_removal(code: TestedCode, targets: Sequence[Target], affected: Sequence[str]) -> Closure | None:
    """Return the closure that removes as many of ``targets`` as it can; None when it can remove none."""
    index = NameIndex.of(code.tree)
    at_import, tests = set(code.baseline.at_import), set(affected)

    def attempt(chosen: Sequence[Target]) -> Closure | None:
        closure = Closure(index, code.baseline.tests_of, at_import, tests)
        try:
            _remove(closure, chosen)
            for path, edits in all_edits(closure).items():
                source = index.files[path].source
                if path in index.own and undefined_names(path, source, apply_edits(source, edits)):
                    return None
        except Rejected:
            return None
        return closure

    def grown(base: list[Target], more: Sequence[Target]) -> list[Target]:
        """Return ``base`` with as many of ``more`` as can go too; halves of a set that cannot go are tried alone."""
        if not more or attempt([*base, *more]) is not None:
            return [*base, *more]
        if len(more) == 1:
            return base
        half = len(more) // 2
        return grown(grown(base, more[:half]), more[half:])

    chosen = grown([], [target for target in targets if _may_go(index, target)])
    return attempt(chosen) if chosen else None


def _may_go(index: NameIndex, target: Target) -> bool:
    """Return whether a definition may lose its name: not special methods, nor what a base class declares abstract."""
    if target.module.path not in index.own or target.short.startswith("__"):
        return False
    if target.owner is None:
        return True
    owner = f"{index.files[target.module.path].dotted}.{target.owner.name}"
    return not index.is_abstract_in_base(owner, target.short)


def _remove(closure: Closure, targets: Sequence[Target]) -> None:
    """Delete all targets at once, then treat the references. Raises Rejected."""
    for number, target in enumerate(targets, 1):
        file = closure.index.files[target.module.path]
        body = file.classes[target.owner.name].body if target.owner else file.tree.body
        twins = [item for item in body if getattr(item, "name", "") == target.short]
        dotted = f"{file.dotted}.{target.name}"
        if number == len(targets):
            closure.remove(file.path, twins, dotted)
            return
        closure.statements[file.path].update(dict.fromkeys(twins))
        closure.removed.add(dotted)


def _add_removal(code: TestedCode, closure: Closure, cut: JointCut) -> None:
    """Add what a finished closure changes and removes to ``cut``."""
    tree, index = code.tree, closure.index
    modules = {module.path: module for module in tree.modules()}
    edits = all_edits(closure)
    cut.edits = {path: list(changes) for path, changes in edits.items() if path in index.own}
    cut.edits |= stub_file_edits(closure)
    cut.tests = {
        path: apply_edits(tree.read(path), changes) for path, changes in edits.items() if path not in index.own
    }
    cut.lost_names = {path: sorted(names) for path, names in sorted(closure.lost_names.items()) if names}
    cut.restore = sorted(closure.restore)
    cut.callers = [item for item in closure.callers if (item.path, item.where) not in closure.absorbed]
    cut.removed = [
        absorbed_target(module, name)
        for path, module in modules.items()
        for name in _defined_names(module)
        if f"{tree.dotted_name(path)}.{name}" in closure.removed
    ]


def _defined_names(module: Module) -> list[str]:
    """Return the functions, classes and methods of a module as ``name`` or ``Class.name``, each once."""
    names: dict[str, None] = {}
    for item in module.definitions():
        names[item.name] = None
        if item.kind == "class":
            names |= dict.fromkeys(f"{item.name}.{member.name}" for member in module.definitions(item.body))
    return list(names)


def _add_dead_code(tree: SourceTree, cut: JointCut) -> None:
    """Delete the helpers and imports that only deleted code used; a file that would not compile keeps its own."""
    modules = {module.path for module in tree.modules()}
    deleted = {
        path: [span for span, text in edits if text in (b"", b"pass") or STUB.encode() in text]
        for path, edits in cut.edits.items()
        if path in modules
    }
    dead = dead_after(tree, deleted)
    retained: list[str] = []
    for path, spans in dead.spans.items():
        edits = [*cut.edits.get(path, []), *((span, b"") for span in spans)]
        if compile_error(path, apply_edits(tree.read(path), edits)):
            retained.append(path)
        else:
            cut.edits[path] = edits
    cut.dead = DeadCode(dead.definitions, dead.imports, {p: s for p, s in dead.spans.items() if p not in retained})
    gone = [target for target in cut.stubbed if _is_gone(target, cut.dead.spans.get(target.module.path, []))]
    cut.stubbed = [target for target in cut.stubbed if target not in gone]
    private = [target for target in cut.removed if re.match(r"_[^_]", target.short)]
    cut.removed = [target for target in cut.removed if target not in private]
    cut.helpers = len({*cut.dead.definitions, *(target.short for target in (*gone, *private))})


def _is_gone(target: Target, spans: list[Span]) -> bool:
    starts = [item.span for item in target.definitions]
    return all(any(first <= start and end <= last for first, last in spans) for start, end in starts)


def _check_names(tree: SourceTree, cut: JointCut) -> None:
    """Check that no source uses a name that it does not define any more; bodies alone take none. Raises Rejected."""
    for path, edits in cut.edits.items():
        if path.endswith(".py") and (cut.removed or path in cut.dead.spans):
            names = undefined_names(path, tree.read(path), apply_edits(tree.read(path), edits))
            if names:
                raise Rejected("v0_undefined", f"{path} still needs {', '.join(names)}")


def _without_examples(tree: SourceTree, names: Sequence[str]) -> Files:
    """Return the documents that lose examples and blocks of code with one of ``names``."""
    documents = tree.documents()
    changed: Files = {}
    for name in dict.fromkeys(names):
        redacted = redact_examples(documents, name)
        changed |= redacted
        documents |= {path: data for path, data in redacted.items() if data is not None}
    return changed | redact_code_blocks(documents, names)


def joint_probes(tree: SourceTree, cut: JointCut, exercise: Files, targets: Sequence[Target]) -> dict[str, Files]:
    """Return trivial solutions by name: every deleted definition is there with the same kind of trivial body.

    Where names were removed, everything else is as it was before.
    """
    names: dict[str, None] = {}
    bodies = {target.entity: target.probes() for target in targets}
    for edits in bodies.values():
        names |= dict.fromkeys(edits)
    sources = [path for path in exercise if path.endswith(SOURCE_SUFFIXES)]
    probes: dict[str, Files] = {}
    for name in names:
        changes = (
            {} if cut.removed else {path: [(span, b"") for span in spans] for path, spans in cut.dead.spans.items()}
        )
        for target in targets:
            body = bodies[target.entity].get(name) or target.with_bodies("pass", redact=False)
            changes.setdefault(target.module.path, []).extend(body)
        probes[name] = {path: apply_edits(tree.read(path), changes.get(path, [])) for path in sources}
    return probes
