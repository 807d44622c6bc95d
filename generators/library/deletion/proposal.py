"""What the deletion generators share: which targets are eligible, and how one becomes a Candidate in either mode."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from ....environments.rng import stream
from ....models import GeneratorRef
from ...base import Candidate, Files
from ...python.source import Module
from ...python.source_tree import SourceTree
from .bodies import STUB
from .cascade import Dead, dead_after
from .documentation import redact_entries, redact_examples
from .edits import Edit, apply_edits
from .index import Index
from .knobs import Knobs
from .removal import Blocked, Closure
from .removal_edits import all_edits, samples, stub_files, undefined_names
from .target import Target

if TYPE_CHECKING:
    from ....environments.snapshots import Snapshot


@dataclass
class _Cut:
    """A deletion worked out: edits by file, and what the statement has to say about them."""

    edits: dict[str, list[Edit]]
    dead: Dead
    documents: Files = field(default_factory=dict)
    tests: Files = field(default_factory=dict)
    missing: dict[str, list[str]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    features: dict[str, float | int | str | bool] = field(default_factory=dict)


class DeletionGenerator:
    """One candidate per eligible target, in an order drawn from the seed. Subclasses say what a target is."""

    name: ClassVar[str]
    version: ClassVar[str]
    knobs: ClassVar[type[Knobs]] = Knobs

    def targets(self, module: Module, knobs: Knobs) -> Iterator[Target]:
        """Everything in the module that the generator could delete."""
        raise NotImplementedError

    def candidates(self, snapshot: Snapshot, seed: int, knobs: Mapping[str, Any]) -> Iterator[Candidate]:
        chosen = self.knobs.parse(knobs)
        tree = SourceTree.of(snapshot)
        pool = sorted(self._eligible(snapshot, tree, chosen), key=lambda item: (item[0].module.path, item[0].name))
        stream(seed, self.name).shuffle(pool)
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=asdict(chosen))
        for target, affected in pool:
            yield _propose(snapshot, tree, target, affected, reference, chosen)

    def _eligible(self, snapshot: Snapshot, tree: SourceTree, knobs: Knobs) -> Iterator[tuple[Target, list[str]]]:
        baseline = snapshot.baseline
        order = {test: number for number, test in enumerate(baseline.passed)}
        index = Index.of(tree)
        for module in tree.modules():
            if module.path not in index.own:
                continue
            keys = [key for key in baseline.tests_of if key.startswith(f"{module.path}::")]
            early = [key for key in baseline.at_import if key.startswith(f"{module.path}::")]
            for target in self.targets(module, knobs):
                # What runs while the package is imported cannot go without taking the package down.
                if any(target.covers(key) for key in early) or not any(target.functions()):
                    continue
                if knobs.mode == "remove" and not _removable(index, target):
                    continue
                tests = {test for key in keys if target.covers(key) for test in baseline.tests_of[key]}
                in_range = knobs.min_lines <= target.lines() <= knobs.max_lines
                if in_range and 0 < len(tests) <= knobs.max_share * len(baseline.passed):
                    yield target, sorted(tests, key=order.__getitem__)


def _removable(index: Index, target: Target) -> bool:
    """A private helper is not a feature: without it there is only a caller that does not work. And without what a
    base declares abstract its class has no instances: more would go than the statement says."""
    if re.match(r"_[^_]|.*\._[^_]", target.name):
        return False
    if target.owner is None:
        return True
    return not index.promised(f"{index.files[target.module.path].dotted}.{target.owner.name}", target.short)


def _propose(
    snapshot: Snapshot, tree: SourceTree, target: Target, affected: list[str], reference: GeneratorRef, knobs: Knobs
) -> Candidate:
    facts = target.facts(tree, redact=knobs.docs == "redact", mode=knobs.mode)
    blocked = ""
    try:
        cut = _stub(tree, target, knobs) if knobs.mode == "stub" else _removal(snapshot, tree, target, affected, knobs)
    except Blocked as reason:
        blocked, cut = str(reason), _Cut({}, Dead())
    sources = {path: apply_edits(_content(tree, path), edits) for path, edits in cut.edits.items()}
    exercise: Files = {**sources, **cut.documents}
    owner = target.owner.name if target.owner else ""
    sites = tree.call_sites(target.short, edited=exercise, owner=owner)
    return Candidate(
        entity=target.entity,
        generator=reference,
        exercise=exercise,
        affected=affected,
        probes={} if blocked else _probes(tree, target, cut, exercise, knobs),
        facts={
            **facts,
            "mode": knobs.mode,
            "call_sites": sites,
            "helpers": len(cut.dead.definitions),
            "imports": cut.dead.imports,
            **cut.facts,
        },
        features={
            "loc_removed": target.lines(),
            "entities": 1,
            "fan_in": len(tree.call_sites(target.short, edited={}, most=1000, owner=owner)),
            "helpers_removed": len(cut.dead.definitions),
            "imports_removed": len(cut.dead.imports),
            "docstring": bool(facts["docstring"]),
            "tests_touching": len(affected),
            **cut.features,
        },
        tests=cut.tests,
        missing=cut.missing,
        blocked=blocked,
    )


def _stub(tree: SourceTree, target: Target, knobs: Knobs) -> _Cut:
    redact = knobs.docs == "redact"
    path = target.module.path
    dead = Dead() if knobs.keep_helpers else dead_after(tree, {path: target.spans("stub")})
    cut = _Cut({path: target.with_bodies(STUB, redact=redact)}, dead)
    for file, spans in dead.spans.items():
        cut.edits.setdefault(file, []).extend((span, b"") for span in spans)
    if redact:
        cut.documents = redact_examples(tree.documents(), target.short)
    return cut


def _removal(snapshot: Snapshot, tree: SourceTree, target: Target, affected: list[str], knobs: Knobs) -> _Cut:
    """Raises Blocked when the names that refer to the target cannot be untied."""
    index = Index.of(tree)
    closure = Closure(index, snapshot.baseline.tests_of, set(snapshot.baseline.at_import), set(affected))
    path = target.module.path
    file = index.files[path]
    body = file.classes[target.owner.name].body if target.owner else file.tree.body
    twins = [item for item in body if getattr(item, "name", "") == target.short]
    closure.remove(path, twins, f"{file.dotted}.{target.name}")
    edits = all_edits(closure)
    own = {name: found for name, found in edits.items() if name in index.own}
    dead = Dead()
    if not knobs.keep_helpers:
        dead = dead_after(tree, {name: [span for span, _ in found] for name, found in own.items()})
    for name, spans in dead.spans.items():
        own.setdefault(name, []).extend((span, b"") for span in spans)
    cut = _Cut(own, dead)
    cut.edits |= stub_files(closure)
    for name, found in own.items():
        if name.endswith(".py"):
            lost = undefined_names(name, _content(tree, name), apply_edits(_content(tree, name), found))
            if lost:
                raise Blocked(f"v0_undefined: {name} still needs {', '.join(lost)}")
    cut.tests = {name: apply_edits(_content(tree, name), found) for name, found in edits.items() if name not in own}
    cut.missing = {name: sorted(names) for name, names in sorted(closure.missing.items()) if names}
    if knobs.docs == "redact":
        prefix = file.dotted + "."
        names = [item.removeprefix(prefix) for item in closure.removed if item.startswith(prefix)]
        cut.documents = {**redact_entries(tree.documents(), names), **samples(closure)}
    _tell(tree, closure, cut, knobs)
    return cut


def _tell(tree: SourceTree, closure: Closure, cut: _Cut, knobs: Knobs) -> None:
    """Facts and features of a removal: what went along, who called it, what has to be restored."""
    modules = {module.path: module for module in tree.modules()}
    along = [_absorbed(modules[path], name) for path, name in closure.absorbed]
    public = [item for item in along if not item.short.startswith("_")]
    redact = knobs.docs == "redact"
    taken = {(path, name) for path, name in closure.absorbed}
    callers = [item for item in closure.callers if (item.path, item.where) not in taken]
    cut.facts = {
        "entities": [item.facts(tree, redact=redact, mode="remove") for item in public],
        "restore": sorted(closure.restore),
        "callers": [{"path": item.path, "where": item.where, "text": item.text} for item in callers],
        "helpers": len(cut.dead.definitions) + len(along) - len(public),
    }
    cut.features = {
        "entities": 1 + len(along),
        "callers_rewritten": len(callers),
        "names_to_restore": len(closure.restore),
        "test_files_rewritten": len(cut.tests),
    }


def _absorbed(module: Module, name: str) -> Target:
    owner_name, _, short = name.rpartition(".")
    owner = next((item for item in module.definitions() if item.name == owner_name), None)
    found = tuple(item for item in module.definitions(owner.body if owner else None) if item.name == short)
    return Target(module, "class" if found[0].kind == "class" else "method" if owner else "function", found, owner)


def _probes(tree: SourceTree, target: Target, cut: _Cut, exercise: Files, knobs: Knobs) -> dict[str, Files]:
    """Trivial bodies. A removed definition is back where it was, with everything else as it was: only it is trivial."""
    path = target.module.path
    found: dict[str, Files] = {}
    for name, edits in target.probes().items():
        if knobs.mode == "stub":
            kept = {file: content for file, content in exercise.items() if file.endswith((".py", ".pyi"))}
            rest = [(span, b"") for span in cut.dead.spans.get(path, [])]
            found[name] = {**kept, path: apply_edits(target.module.source, [*edits, *rest])}
        else:
            restored: Files = {file: _content(tree, file) for file in exercise if file.endswith((".py", ".pyi"))}
            found[name] = {**restored, path: apply_edits(target.module.source, edits)}
    return found


def _content(tree: SourceTree, path: str) -> bytes:
    return (tree.root / path).read_bytes()
