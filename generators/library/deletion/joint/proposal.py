"""From definitions that go together to a Candidate."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from .....errors import Rejected
from .....models import GeneratorRef
from ....base import Candidate, Feature, Files, HiddenTests, Rejection
from ....python.hidden_tests import split_test_id
from ....python.source import Module, parse, words
from ....python.source_tree import SourceTree
from ....python.tested_code import TestedCode
from ..bodies import parsed
from ..documentation import redacted_paths
from ..knobs import CutKnobs
from ..removal.uses import call_sites, users_within
from ..target import Target
from .clusters import TestedTargets
from .joint_cut import JointCut, joint_cut, joint_probes
from .joint_statement import JointStatement, Part, Place

MAX_CALL_SITES = 3
MAX_ERROR = 160
"""Longest text of a raised exception that a statement quotes, in characters."""


@dataclass(frozen=True)
class Deletion:
    """What is to be deleted, and how the statement introduces it."""

    name: str  # a short name, part of the task's public id
    heading: str  # the heading of the statement
    summary: str  # what is missing, as one sentence
    targets: Sequence[Target]  # the definitions, in the order of their files
    tests: Sequence[str]  # the stable tests that run them
    specification: str = ""  # prose about the feature

    @property
    def entity(self) -> str:
        """Return the candidate's entity: the first file, the name, and a digest of all definitions."""
        digest = hashlib.sha256("\n".join(sorted(target.entity for target in self.targets)).encode()).hexdigest()
        slug = re.sub(r"\W+", "_", self.name).strip("_")[:60]
        return f"{self.targets[0].module.path}::{slug}_{digest[:6]}"


def propose(code: TestedCode, deletion: Deletion, reference: GeneratorRef, knobs: CutKnobs) -> Candidate:
    """Return the candidate that deletes the definitions; a deletion that cannot be made is blocked."""
    tree = code.tree
    blocked = None
    try:
        cut = joint_cut(code, deletion.targets, deletion.tests, knobs)
    except Rejected as rejected:
        blocked, cut = Rejection(rejected.reason, rejected.detail), JointCut()
    exercise = cut.exercise(tree)
    missing = [*cut.stubbed, *cut.removed]
    parts = _parts(tree, deletion, cut, exercise, knobs)
    used = words_of_tests(tree, deletion.tests)
    entry_points = [part for part in parts if is_entry_point(part.entity.name, used)]
    internals = [part for part in parts if part not in entry_points]
    statement = JointStatement(
        heading=deletion.heading,
        summary=deletion.summary,
        policy=knobs.tests,
        mode=knobs.mode,
        places=places(tree, missing),
        entry_points=entry_points,
        internals=internals,
        errors=errors_of(deletion.targets),
        specification=deletion.specification,
        helpers=cut.helpers,
        imports=len(cut.dead.imports),
        names_to_restore=cut.restore,
        callers=cut.callers,
        documents=redacted_paths(cut.documents),
    )
    described = [part for part in entry_points or internals if part.entity.documented]
    return Candidate(
        entity=deletion.entity,
        generator=reference,
        exercise=exercise,
        hidden_tests=HiddenTests(deletion.tests, knobs.tests, cut.tests, cut.lost_names),
        statement=statement,
        show_examples=knobs.shows_examples,
        documented=bool(deletion.specification) or 2 * len(described) >= len(entry_points or internals),
        interface=[part.entity.interface_item() for part in (*entry_points, *internals)],
        probes={} if blocked else joint_probes(tree, cut, exercise, missing),
        features=_features(deletion, cut, entry_points, parts),
        blocked=blocked,
    )


def _features(
    deletion: Deletion, cut: JointCut, entry_points: Sequence[Part], parts: Sequence[Part]
) -> dict[str, Feature]:
    return {
        "loc_removed": sum(target.lines() for target in deletion.targets),
        "entities": len(deletion.targets),
        "source_files": len({target.module.path for target in deletion.targets}),
        "entry_points": len(entry_points),
        "helpers_removed": cut.helpers,
        "imports_removed": len(cut.dead.imports),
        "docstring": any(part.entity.docstring for part in parts),
        "tests_touching": len(deletion.tests),
        "call_depth": call_depth(deletion.targets),
    }


def _parts(tree: SourceTree, deletion: Deletion, cut: JointCut, exercise: Files, knobs: CutKnobs) -> list[Part]:
    """Return the definitions that the statement names, by file and class, with their uses."""
    missing = [*cut.stubbed, *cut.removed]
    callers = users_within(tree, missing)
    parts = []
    for target in sorted(missing, key=lambda item: (item.module.path, item.definitions[0].span)):
        removed = target in cut.removed
        entity = target.description(tree, redact=knobs.redacts, mode="remove" if removed else "stub")
        if entity.owner:  # the workspace still has the class with its docstring
            about = entity.owner.docstring.strip().split("\n\n")[0]
            entity = replace(entity, owner=replace(entity.owner, docstring=about, siblings=()))
        entity = replace(entity, docstring=without_empty_leads(entity.docstring))
        sites, users = [], []
        if not is_special(target.short):
            sites = call_sites(tree, target, edited=exercise, most=MAX_CALL_SITES)
            users = callers[target.entity][:MAX_CALL_SITES]
        parts.append(Part(entity, target.module.path, sites, users, removed))
    return parts


def places(tree: SourceTree, targets: Sequence[Target]) -> list[Place]:
    """Return the files that lost code, with what their docstrings say first."""
    count: dict[str, int] = {}
    modules: dict[str, Module] = {}
    for target in targets:
        count[target.module.path] = count.get(target.module.path, 0) + 1
        modules[target.module.path] = target.module
    return [Place(path, first_sentence(modules[path].source), number) for path, number in sorted(count.items())]


def first_sentence(source: bytes) -> str:
    """Return the first sentence of a module's docstring, on one line; empty when it has none."""
    text = ast.get_docstring(parse(source)) or ""
    paragraph = " ".join(re.sub(r"[-=~*]{4,}", "", text.split("\n\n")[0]).split())
    return re.split(r"(?<=[.!?])\s", paragraph)[0][:200]


def errors_of(targets: Sequence[Target]) -> list[str]:
    """Return the exceptions that the definitions raise with a text, as the code writes them, each once."""
    texts: dict[str, None] = {}
    for target in targets:
        for definition in target.functions():
            for node in ast.walk(parsed(target.module, definition)):
                if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call):
                    continue
                constants = [item for item in ast.walk(node.exc) if isinstance(item, ast.Constant)]
                text = ast.unparse(node.exc)
                if any(isinstance(item.value, str) for item in constants) and len(text) <= MAX_ERROR:
                    texts[text] = None
    return list(texts)


def words_of_tests(tree: SourceTree, tests: Sequence[str]) -> set[str]:
    """Return the names and attributes that the tests use, with those of helpers in their files and of conftests."""
    chosen: dict[str, set[str]] = {}
    for test in tests:
        path, parts = split_test_id(test)
        chosen.setdefault(path, set()).update(parts)
    names: set[str] = set()
    for path in sorted(tree.python_files):
        if path in chosen or PurePosixPath(path).name == "conftest.py":
            names |= _words(parse(tree.python_files[path]), chosen.get(path, set()))
    return names


def _words(node: ast.AST, chosen: set[str]) -> set[str]:
    """Return the names and attributes below ``node``, without tests that are not ``chosen``."""
    names: set[str] = set()
    for child in ast.iter_child_nodes(node):
        name = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else ""
        if name.startswith("test") and name not in chosen:
            continue
        if isinstance(child, ast.Name):
            names.add(child.id)
        elif isinstance(child, ast.Attribute):
            names.add(child.attr)
        names |= _words(child, chosen)
    return names


def is_entry_point(name: str, used: set[str]) -> bool:
    """Return whether tests that use these words call ``name`` or ``Class.name`` directly.

    Special methods are called through operators, so they count when the tests use their class.
    """
    owner, _, short = name.rpartition(".")
    return (owner if is_special(short) else short) in used


def is_special(name: str) -> bool:
    """Return whether Python itself calls methods of this name."""
    return name.startswith("__") and name.endswith("__")


def without_empty_leads(text: str) -> str:
    """Return a docstring without lines that announce an example which is not there any more.

    A line of several sentences stays and ends with a full stop.
    """
    paragraphs = text.split("\n\n")
    result: list[str] = []
    for paragraph in reversed(paragraphs):
        following = result[0] if result else ""
        announces = paragraph.rstrip().endswith(":") and "\n" not in paragraph.strip()
        if not announces or following.startswith((" ", "\t", "-", "*", "`", "..", "\n")):
            result.insert(0, paragraph)
        elif ". " in paragraph:
            result.insert(0, paragraph.rstrip().rstrip(":") + ".")
    return "\n\n".join(result)


def callers_within(targets: Sequence[Target]) -> dict[str, list[str]]:
    """Return for each definition, by entity, the names of the others whose code mentions it."""
    vocabularies = [(target.name, words(_code(target))) for target in targets]
    return {
        target.entity: []
        if is_special(target.short)
        else [name for name, vocabulary in vocabularies if name != target.name and target.short in vocabulary]
        for target in targets
    }


def _code(target: Target) -> bytes:
    return b"\n".join(target.module.source[a:b] for a, b in target.body_spans())


def with_dependencies(tested: TestedTargets, chosen: Sequence[Target]) -> list[Target]:
    """Return ``chosen`` and what its code calls, directly or through others, if no other test needs it."""
    tests = tested.tests_running([target.entity for target in chosen])
    only = [tested.targets[entity] for entity, running in tested.tests.items() if not running & ~tests]
    included = {target.entity: target for target in chosen}
    waiting = list(chosen)
    while waiting:
        vocabulary = words(_code(waiting.pop()))
        for target in only:
            if target.entity not in included and target.short in vocabulary:
                included[target.entity] = target
                waiting.append(target)
    return [target for entity, target in tested.targets.items() if entity in included]


def call_depth(targets: Sequence[Target]) -> int:
    """Return the number of definitions on the longest of the shortest chains of calls from one that none calls."""
    callers = callers_within(targets)
    called_by: dict[str, set[str]] = {}
    for entity, names in callers.items():
        for name in names:
            called_by.setdefault(name, set()).add(entity)
    name_of = {target.entity: target.name for target in targets}
    level = {entity for entity, names in callers.items() if not names} or set(callers)
    visited, depth = set(level), 1
    while level := {item for entity in level for item in called_by.get(name_of[entity], ())} - visited:
        visited |= level
        depth += 1
    return depth
