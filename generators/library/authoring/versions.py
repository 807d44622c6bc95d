"""Right and wrong versions of a source file, for tasks in which the agent writes tests."""

from __future__ import annotations

import ast
import difflib
import random
from collections.abc import Collection, Iterator

from ....environments.rng import stream
from ...base import Files
from ...python.mutants import Mutant, each_kind_in_turn, possible_mutants
from ...python.source import parse
from ...python.variants import variant

RIGHT_VARIANTS = 2
"""Variants of the right source besides the source itself."""


def right_versions(path: str, source: bytes, lines: Collection[int], seed: int) -> list[Files]:
    """Return the source and its variants. Raises ValueError for a source that has no variants."""
    draws = [stream(seed, f"right {path}", number) for number in range(RIGHT_VARIANTS)]
    contents = [source, *(variant(path, source, lines, draw) for draw in draws)]
    return [{path: content} for content in contents]


def wrong_versions(
    path: str, source: bytes, lines: Collection[int], covered: Collection[int], seed: int, most: int
) -> list[Files]:
    """Return versions with one mistake each on a covered line; every second one is a variant too."""
    draw = stream(seed, f"wrong {path}", min(lines))
    versions: list[Files] = []
    for number, mutant in enumerate(_chosen(source, covered, draw, most)):
        content = mutant.source
        if number % 2:
            content = variant(path, content, lines, draw)
        versions.append({path: content})
    return versions


def _chosen(source: bytes, covered: Collection[int], draw: random.Random, most: int) -> Iterator[Mutant]:
    pool = [(None, mutant) for mutant in possible_mutants(source, covered)]
    draw.shuffle(pool)
    changed = 0
    for _, mutant in each_kind_in_turn(pool, len(pool)):
        if changed == most:
            return
        if mutant.changes_code():
            changed += 1
            yield mutant


def functions_of(source: bytes, lines: Collection[int]) -> set[int]:
    """Return all lines of the functions that hold one of the lines."""
    result: set[int] = set()
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            span = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            if any(line in span for line in lines):
                result |= set(span)
    return result


def changed_lines(before: bytes, after: bytes) -> set[int]:
    """Return the lines (1-based) of ``after`` that differ from ``before``; where lines are gone, those around."""
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    changed: set[int] = set()
    for kind, _, _, start, end in matcher.get_opcodes():
        if kind != "equal":
            changed |= set(range(start + 1, end + 1)) or {start, start + 1}
    return changed
