"""The generator ``fd_module``."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from .....errors import Rejected
from .....models import GeneratorRef
from ....base import Candidate, Files, HiddenTests, Rejection
from ....python.source import Edit, Module, apply_edits, assigned_name
from ....python.source_tree import SOURCE_SUFFIXES
from ....python.tested_code import TestedCode, in_seed_order
from ..bodies import STUB, body_edits, body_span, code_lines
from ..cascade import DeadCode, dead_after
from ..documentation import redact_docstring, redact_examples, redacted_paths
from ..family import Cut, finished_cut
from ..knobs import CutKnobs, Mode
from ..removal.closure import Closure
from ..removal.name_index import NameIndex
from ..target import Target
from .module_imports import drop_imports
from .module_statement import ModuleStatement

if TYPE_CHECKING:
    from .....environments.snapshots import Snapshot
    from ....python.source import Definition

MAX_CONSTANT = 1500
_TRIVIAL = {"none": "return None", "true": "return True", "empty": "return ''"}


@dataclass(frozen=True)
class ModuleKnobs(CutKnobs):
    """The shared knobs; a module is removed with its file, and is larger than a function."""

    mode: Mode = "remove"
    """``remove`` deletes the file with every import of it, ``stub`` leaves definitions without their bodies."""
    min_lines: Annotated[int, Field(ge=0)] = 30
    """Fewest lines of deleted code, without docstrings and comments."""
    max_lines: Annotated[int, Field(ge=1)] = 1500
    """Most lines of deleted code, without docstrings and comments."""


@dataclass(frozen=True)
class _Whole:
    """One module with the code of it that is deleted."""

    module: Module  # the file
    targets: tuple[Target, ...]  # its functions and classes
    functions: tuple[Definition, ...]  # functions and methods whose bodies are deleted

    @property
    def lines(self) -> int:
        """Return the number of deleted lines of code, without docstrings and comments."""
        return sum(code_lines(self.module, item) for item in self.functions)

    def with_bodies(self, text: str, *, redact: bool) -> list[Edit]:
        """Return the edits that give every function the body ``text``."""
        return [edit for item in self.functions for edit in body_edits(self.module, item, text, redact=redact)]


class ModuleDeletion:
    """Delete a whole module, or all bodies in it, and ask for it back.

    Packages (``__init__``) are not eligible in mode ``remove``. In mode ``stub``, functions that run while the package
    is imported keep their bodies.
    """

    name = "fd_module"
    version = "2"
    knobs = ModuleKnobs

    def candidates(self, snapshot: Snapshot, seed: int, knobs: ModuleKnobs) -> Iterator[Candidate]:
        """Yield one candidate per eligible module, in seed order."""
        code = TestedCode(snapshot)
        pool = in_seed_order(_eligible(code, knobs), seed, self.name, key=lambda item: item[0].module.path)
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=asdict(knobs))
        for whole, affected in pool:
            yield _propose(code, whole, affected, reference, knobs)


def _eligible(code: TestedCode, knobs: ModuleKnobs) -> Iterator[tuple[_Whole, list[str]]]:
    """Yield each module of the right size with the tests that run its deleted code."""
    index = NameIndex.of(code.tree)
    early = set(code.baseline.at_import)
    for module in code.tree.modules():
        name = module.path.rsplit("/", 1)[-1]
        if module.path not in index.own or (knobs.mode == "remove" and name in ("__init__.py", "__main__.py")):
            continue
        definitions = module.definitions()
        names = dict.fromkeys(item.name for item in definitions)
        targets = tuple(_target(module, [item for item in definitions if item.name == name]) for name in names)
        keys = {
            _key(target, item): item
            for target in targets
            for item in target.functions()
            if knobs.mode == "remove" or _key(target, item) not in early
        }
        whole = _Whole(module, targets, tuple(keys.values()))
        if not knobs.min_lines <= whole.lines <= knobs.max_lines:
            continue
        tests = code.tests_of(module.path, keys.__contains__ if knobs.mode == "stub" else lambda key: True)
        if code.decides(tests, knobs.max_share):
            yield whole, tests


def _target(module: Module, twins: list[Definition]) -> Target:
    return Target(module, "class" if twins[0].kind == "class" else "function", tuple(twins))


def _key(target: Target, item: Definition) -> str:
    """Return the key of a function in the test map."""
    return f"{target.entity}.{item.name}" if target.kind == "class" else target.entity


def _propose(
    code: TestedCode, whole: _Whole, affected: list[str], reference: GeneratorRef, knobs: ModuleKnobs
) -> Candidate:
    module, blocked, cut = whole.module, None, Cut()
    try:
        cut = _stub(code, whole, knobs) if knobs.mode == "stub" else _removal(code, whole, affected, knobs)
    except Rejected as rejected:
        blocked = Rejection(rejected.reason, rejected.detail)
    exercise: Files = {path: apply_edits(code.tree.read(path), edits) for path, edits in cut.edits.items()}
    if knobs.mode == "remove":
        exercise |= {path: None for path in (module.path, f"{module.path}i") if (code.tree.root / path).is_file()}
    probes = {} if blocked else _probes(code, whole, cut, exercise, knobs)
    exercise |= cut.documents
    statement = _statement(code, whole, affected, cut, knobs)
    return Candidate(
        entity=f"{module.path}::{module.path.removesuffix('.py').rsplit('/', 1)[-1]}",
        generator=reference,
        exercise=exercise,
        hidden_tests=HiddenTests(affected, knobs.tests, cut.tests, cut.lost_names),
        statement=statement,
        show_examples=knobs.shows_examples,
        documented=any(item.documented for item in statement.entities),
        interface=[item.interface_item() for item in statement.entities],
        probes=probes,
        features={
            "loc_removed": whole.lines,
            "entities": len(whole.targets) + len(cut.absorbed),
            "names_to_restore": len(cut.restore),
            "callers_rewritten": len(cut.callers),
            "tests_touching": len(affected),
        },
        blocked=blocked,
    )


def _stub(code: TestedCode, whole: _Whole, knobs: ModuleKnobs) -> Cut:
    """Return the cut that leaves every definition without its body."""
    path, tree = whole.module.path, code.tree
    spans = [body_span(whole.module, item) for item in whole.functions]
    dead = DeadCode() if knobs.keep_helpers else dead_after(tree, {path: spans})
    cut = Cut({path: whole.with_bodies(STUB, redact=knobs.redacts)}, dead)
    for file, helpers in dead.spans.items():
        cut.edits.setdefault(file, []).extend((span, b"") for span in helpers)
    if knobs.redacts:
        for target in whole.targets:
            cut.documents |= redact_examples(
                {**tree.documents(), **{key: data for key, data in cut.documents.items() if data}}, target.short
            )
    return cut


def _removal(code: TestedCode, whole: _Whole, affected: list[str], knobs: ModuleKnobs) -> Cut:
    """Return the cut that removes the file with its names. Raises Rejected when something else needs one."""
    index = NameIndex.of(code.tree)
    home = index.files[whole.module.path]
    closure = Closure(index, code.baseline.tests_of, set(code.baseline.at_import), set(affected))
    closure.removed |= {f"{home.dotted}.{name}" for name in home.names}
    drop_imports(closure, home)
    closure.remove(home.path, home.tree.body, home.dotted)
    closure.lost_names.pop(home.path, None)
    return finished_cut(closure, home, knobs, gone=[home.path])


def _statement(code: TestedCode, whole: _Whole, affected: list[str], cut: Cut, knobs: ModuleKnobs) -> ModuleStatement:
    tree, module = code.tree, whole.module
    needed = [target for target in whole.targets if _is_public(target.short) or _used_elsewhere(code, module, target)]
    entities = [target.description(tree, redact=knobs.redacts, mode=knobs.mode) for target in needed]
    files = {test.partition("::")[0] for test in affected}
    mentioned = set().union(*(tree.word_index.get(path, set()) for path in files))
    text = ast.get_docstring(ast.parse(module.source)) or ""
    return ModuleStatement(
        module=tree.dotted_name(module.path),
        path=module.path,
        docstring="" if knobs.mode == "stub" else inspect.cleandoc(redact_docstring(text) if knobs.redacts else text),
        mode=knobs.mode,
        policy=knobs.tests,
        entities=entities + cut.also_removed,
        constants=[] if knobs.mode == "stub" else _constants(code, module),
        used_by_tests=[target.short for target in needed if target.short in mentioned],
        names_to_restore=cut.restore,
        callers=cut.callers,
        documents=redacted_paths(cut.documents),
        lost_helpers=bool(cut.dead.definitions) and bool(cut.dead.spans.keys() - {module.path}),
    )


def _is_public(name: str) -> bool:
    return not re.match(r"_[^_]", name)


def _used_elsewhere(code: TestedCode, module: Module, target: Target) -> bool:
    """Return whether another file uses a private name of the module, so that the statement has to give it."""
    return bool(code.tree.mentions(target.short, outside={module.path: [(0, len(module.source))]}))


def _constants(code: TestedCode, module: Module) -> list[str]:
    """Return the assignments of the module that are public or that other files mention."""
    lines = []
    for node in module.statements():
        name = assigned_name(module, node)
        elsewhere = name and code.tree.mentions(name, outside={module.path: [(0, len(module.source))]})
        if name and (_is_public(name) or elsewhere):
            text = module.text(node)
            lines.append(text if len(text) <= MAX_CONSTANT else f"{text[:MAX_CONSTANT]} ...")
    return lines


def _probes(code: TestedCode, whole: _Whole, cut: Cut, exercise: Files, knobs: ModuleKnobs) -> dict[str, Files]:
    """Return trivial solutions by name: every function has the same trivial body, all else is as it was."""
    path, files = whole.module.path, dict[str, bytes | None]()
    for file in exercise:
        if file.endswith(SOURCE_SUFFIXES):
            files[file] = exercise[file] if knobs.mode == "stub" else code.tree.read(file)
    probes: dict[str, Files] = {}
    for name, body in {"missing": STUB, **_TRIVIAL}.items() if knobs.mode == "remove" else _TRIVIAL.items():
        probes[name] = {**files, path: apply_edits(whole.module.source, whole.with_bodies(body, redact=False))}
    return probes
