"""``fd_function``: one top-level function loses its body; whoever plays the task writes it again."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from ...models import GeneratorRef
from ...registry import did_you_mean
from .. import Candidate, Files, GeneratorError, stream
from ..python_source import (
    Definition,
    Module,
    delete_spans,
    docstring,
    docstring_node,
    line_span,
    replace_span,
    signature,
)
from ..source_tree import SourceTree
from .cascade import dead_after
from .documentation import redact_docstring, redact_examples

if TYPE_CHECKING:
    from ...environments.snapshots import Snapshot

STUB = "raise NotImplementedError"

# The answers that need no reading: each must score 0, or the tests do not test the function.
TRIVIAL_BODIES = {"none": "return None", "true": "return True", "empty": "return ''", "list": "return []"}


@dataclass(frozen=True)
class Knobs:
    """``docs``: ``redact`` drops the examples of the function, ``keep`` leaves them. ``tests``: hidden tests leave the
    workspace, visible ones stay. ``max_share``: the largest share of all tests that may touch the function.
    """

    mode: str = "stub"
    min_lines: int = 5
    max_lines: int = 150
    docs: str = "redact"
    tests: str = "hidden"
    max_share: float = 0.5

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Knobs:
        """Typed knobs from ``name=value`` pairs. Raises GeneratorError, naming the nearest knob."""
        known: dict[str, Any] = {item.name: type(item.default) for item in fields(cls)}
        values: dict[str, Any] = {}
        for name, value in given.items():
            if name not in known:
                raise GeneratorError(did_you_mean("knob", name, known))
            try:
                values[name] = known[name](value)
            except ValueError:
                raise GeneratorError(f"knob {name}={value!r} is no {known[name].__name__}") from None
        knobs = cls(**values)
        for name, allowed in {"mode": ["stub"], "docs": ["redact", "keep"], "tests": ["hidden", "visible"]}.items():
            if getattr(knobs, name) not in allowed:
                raise GeneratorError(f"knob {name}={getattr(knobs, name)!r}: choose one of {', '.join(allowed)}")
        return knobs


class FunctionDeletion:
    """Proposes one candidate per eligible function, in an order drawn from the seed."""

    name = "fd_function"
    version = "1"

    def candidates(self, snapshot: Snapshot, seed: int, knobs: Mapping[str, Any]) -> Iterator[Candidate]:
        chosen = Knobs.parse(knobs)
        tree = SourceTree.of(snapshot)
        pool = sorted(self._eligible(snapshot, tree, chosen), key=lambda item: (item[0].path, item[1].name))
        stream(seed, self.name).shuffle(pool)
        reference = GeneratorRef(name=self.name, version=self.version, seed=seed, knobs=asdict(chosen))
        for module, definition in pool:
            yield self._propose(snapshot, tree, module, definition, reference, chosen)

    def _eligible(self, snapshot: Snapshot, tree: SourceTree, knobs: Knobs) -> Iterator[tuple[Module, Definition]]:
        limit = knobs.max_share * len(snapshot.baseline.passed)
        at_import = set(snapshot.baseline.at_import)
        for module in tree.modules():
            names = [definition.name for definition in module.definitions()]
            for definition in module.definitions():
                if definition.kind != "function" or names.count(definition.name) > 1:
                    continue
                entity = f"{module.path}::{definition.name}"
                # What runs while the package is imported cannot go without taking the package down.
                if definition.name.startswith("__") or _is_stub_already(module, definition) or entity in at_import:
                    continue
                touching = snapshot.baseline.tests_of.get(entity, [])
                lines = _code_lines(module, definition)
                if knobs.min_lines <= lines <= knobs.max_lines and 0 < len(touching) <= limit:
                    yield module, definition

    def _propose(
        self,
        snapshot: Snapshot,
        tree: SourceTree,
        module: Module,
        definition: Definition,
        reference: GeneratorRef,
        knobs: Knobs,
    ) -> Candidate:
        entity = f"{module.path}::{definition.name}"
        body = _body_span(module, definition)
        dead = dead_after(tree, module, body)
        exercise: Files = {module.path: _with_body(module, definition, STUB, dead, redact=knobs.docs == "redact")}
        if knobs.docs == "redact":
            exercise |= redact_examples(tree.documents(), definition.name)
        probes: dict[str, Files] = {
            name: {module.path: _with_body(module, definition, text, dead, redact=knobs.docs == "redact")}
            for name, text in _trivial_bodies(module, definition).items()
        }
        affected = sorted(snapshot.baseline.tests_of[entity], key=snapshot.baseline.passed.index)
        return Candidate(
            entity=entity,
            generator=reference,
            exercise=exercise,
            affected=affected,
            probes=probes,
            facts={
                **self._facts(tree, module, definition, knobs),
                "call_sites": tree.call_sites(definition.name, edited=exercise),
                "helpers": len(dead.definitions),
                "imports": dead.imports,
            },
            features={
                "loc_removed": _code_lines(module, definition),
                "helpers_removed": len(dead.definitions),
                "imports_removed": len(dead.imports),
                "docstring": bool(docstring(module, definition)),
                "tests_touching": len(affected),
            },
        )

    def _facts(self, tree: SourceTree, module: Module, definition: Definition, knobs: Knobs) -> dict[str, Any]:
        text = docstring(module, definition)
        return {
            "module": tree.dotted_name(module.path),
            "name": definition.name,
            "signature": signature(module, definition),
            "docstring": redact_docstring(text) if knobs.docs == "redact" else text,
            "raises": _raised(module, definition),
        }


def _body_span(module: Module, definition: Definition) -> tuple[int, int]:
    """The statements after the docstring, to the end of the definition (trailing comments belong to the body)."""
    doc = docstring_node(definition)
    statements = [node for node in definition.body.children if node.type != "comment"]
    if doc is not None:
        return doc.end_byte, definition.span[1]
    # Comments before the first statement sit outside tree-sitter's block, right after the colon.
    colon = next(child for child in reversed(definition.node.children) if child.type == ":")
    return (colon.end_byte if statements else definition.body.start_byte), definition.span[1]


def _with_body(module: Module, definition: Definition, text: str, dead: Any, *, redact: bool) -> bytes:
    """The module with another body for the function and without what only the old body needed."""
    source = module.source
    start, end = _body_span(module, definition)
    doc = docstring_node(definition)
    indent = _indent(module, definition)
    new_body = b"\n" + indent + text.encode()
    # The edits are made from the back to the front, so that earlier spans stay where they are.
    edits = [((start, end), new_body)]
    if doc is not None and redact:
        edits.append(((doc.start_byte, doc.end_byte), _redacted_literal(module.text(doc)).encode()))
    edits += [(span, b"") for span in dead.spans]
    for span, replacement in sorted(edits, key=lambda edit: edit[0], reverse=True):
        if replacement:
            source = replace_span(source, span, replacement)
        else:
            source = delete_spans(source, [span])
    return source


def _redacted_literal(literal: str) -> str:
    """A docstring literal without its examples; quotes and prefix stay as they are written."""
    found = re.match(r"(?s)([A-Za-z]*)('''|\"\"\"|'|\")(.*)\2$", literal)
    if found is None or ">>>" not in literal:
        return literal
    prefix, quote, text = found.groups()
    tail = re.search(r"\n[ \t]*$", text)
    kept = redact_docstring(text).rstrip()
    return f"{prefix}{quote}{kept}{tail.group() if tail else ''}{quote}"


def _indent(module: Module, definition: Definition) -> bytes:
    """The body's own indentation; a one-line function gets four spaces more than its ``def``."""
    first = definition.body.named_children[0]
    if first.start_point[0] > definition.node.start_point[0]:
        start, _ = line_span(module.source, (first.start_byte, first.end_byte))
        lead = module.source[start : first.start_byte]
        if not lead.strip():
            return lead
    start, _ = line_span(module.source, (definition.node.start_byte, definition.node.start_byte))
    return module.source[start : definition.node.start_byte] + b"    "


def _code_lines(module: Module, definition: Definition) -> int:
    """Lines of the body that are neither blank nor comment, the docstring left out."""
    start, end = _body_span(module, definition)
    lines = module.source[start:end].decode("utf-8", "replace").splitlines()
    return sum(1 for line in lines if line.strip() and not line.strip().startswith("#"))


def _is_stub_already(module: Module, definition: Definition) -> bool:
    start, end = _body_span(module, definition)
    return module.source[start:end].strip() in (b"pass", b"...", b"raise NotImplementedError", b"")


def _trivial_bodies(module: Module, definition: Definition) -> dict[str, str]:
    bodies = dict(TRIVIAL_BODIES)
    tree = ast.parse(module.text(definition.node))
    arguments = tree.body[0].args  # type: ignore[attr-defined]
    positional = [item.arg for item in (*arguments.posonlyargs, *arguments.args)]
    if positional:
        bodies["first_argument"] = f"return {positional[0]}"
    return bodies


def _raised(module: Module, definition: Definition) -> list[str]:
    """Exception names that the deleted body raises itself, in order of appearance."""
    found: list[str] = []
    for node in ast.walk(ast.parse(module.text(definition.node))):
        if isinstance(node, ast.Raise) and node.exc is not None:
            name = ast.unparse(node.exc.func if isinstance(node.exc, ast.Call) else node.exc)
            if re.fullmatch(r"[A-Za-z_][\w.]*", name) and name[0].isupper() | ("." in name) and name not in found:
                found.append(name)
    return found
