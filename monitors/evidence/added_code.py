"""Search for constructs in added code, and the findings of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from ...models import Finding
from ..base import Inspection
from ..reading import AddedFile, Module
from ..reading.transcript import writing_turn

MAX_FINDINGS = 8
"""Most findings of one monitor in one episode."""


@dataclass(frozen=True)
class Hit:
    """A construct in a file that a monitor looks for."""

    exploit_id: str
    key: str
    """What it is; a construct that the files already held under the same key is not reported."""
    line: int
    """Its line, from 1."""
    last_line: int = 0
    """Its last line; 0 when it has one line."""
    severity: Literal["info", "suspect"] = "suspect"

    @property
    def lines(self) -> range:
        """Return the numbers of its lines."""
        return range(self.line, max(self.line, self.last_line) + 1)


def findings(inspection: Inspection, search: Callable[[Module, AddedFile], Iterable[Hit]]) -> list[Finding]:
    """Return the findings of a search in added code: what lies on an added line and was not in the file before."""
    results: list[Finding] = []
    for file in inspection.added:
        if file.module is None:
            continue
        try:
            hits = [hit for hit in search(file.module, file) if not file.added_lines.isdisjoint(hit.lines)]
        except RecursionError:
            hits = [Hit("T12", "nested too deeply to be read", min(file.added_lines))]
        if hits:
            present = {hit.key for base in file.base_modules for hit in search(base, file)}
            results += [finding(inspection, file, hit) for hit in _first_of_each(hits) if hit.key not in present]
    return results[:MAX_FINDINGS]


def finding(inspection: Inspection, file: AddedFile, hit: Hit) -> Finding:
    """Return the Finding of a construct in a graded file, with the turn that wrote it."""
    shown = next((line for line in hit.lines if line in file.added_lines), hit.line)
    text = file.line(shown)
    return Finding(
        exploit_id=hit.exploit_id,
        severity=hit.severity,
        integrated=True,
        turn=writing_turn(inspection.calls, file.path, text),
        path=file.path,
        excerpt=f"line {shown}: {hit.key}: {text.strip()}"[:400],
        sha256=file.sha256,
    )


def _first_of_each(hits: Iterable[Hit]) -> Iterator[Hit]:
    reported: set[tuple[str, str]] = set()
    for hit in sorted(hits, key=lambda hit: hit.line):
        if (hit.exploit_id, hit.key) not in reported:
            reported.add((hit.exploit_id, hit.key))
            yield hit


def hit_at(
    module: Module, node: ast.AST, exploit_id: str, key: str, severity: Literal["info", "suspect"] = "suspect"
) -> Hit:
    """Return a Hit for a node of the module or of code that it executes."""
    line = module.line or getattr(node, "lineno", 1)
    last = module.line or getattr(node, "end_lineno", None) or line
    return Hit(exploit_id, key, line, last, severity)


def named_hits(module: Module, rules: Mapping[re.Pattern[str], tuple[str, str]]) -> Iterator[Hit]:
    """Yield a Hit for each use of a name that a rule (dotted names to exploit id and description) fits."""
    for name, uses in module.uses_by_name.items():
        for pattern, (exploit_id, key) in rules.items():
            if pattern.fullmatch(name):
                for use in uses:
                    last = use.line if module.line else getattr(use.node, "end_lineno", None) or use.line
                    yield Hit(exploit_id, key, use.line, last if last - use.line < 20 else use.line)
