"""What a task asks for, read from its row: the definitions that its solution adds or changes."""

from __future__ import annotations

import ast
import re
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ....environments.snapshots import apply_patch
from ....environments.tasks.task_trees import Materials
from ....models import Task

Node = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Piece:
    """One definition of the solution. ``lines`` are its own, 1-based, decorators included."""

    path: str
    name: str
    node: Node
    source: bytes
    lines: range

    @property
    def short(self) -> str:
        return self.name.rsplit(".", 1)[-1]


@dataclass(frozen=True)
class Exercise:
    """``before`` and ``after``: the files that the solution touches, in the workspace and solved."""

    task: Task
    before: dict[str, bytes]
    after: dict[str, bytes]

    @classmethod
    def of(cls, task: Task, made: Materials) -> Exercise:
        """Raises PatchError when the row's patches do not fit its Snapshot."""
        paths = patched(task.patch)
        before = {path: (made.agent_tree / path).read_bytes() for path in paths if (made.agent_tree / path).is_file()}
        with tempfile.TemporaryDirectory(prefix="etude-") as folder:
            tree = Path(folder)
            for path, content in before.items():
                (tree / path).parent.mkdir(parents=True, exist_ok=True)
                (tree / path).write_bytes(content)
            apply_patch(tree, task.patch)
            after = {path: (tree / path).read_bytes() for path in paths if (tree / path).is_file()}
        return cls(task, before, after)

    @cached_property
    def pieces(self) -> list[Piece]:
        """Definitions that differ, the innermost that hold all of a difference; a new class goes whole."""
        return [
            piece
            for path, source in sorted(self.after.items())
            if path.endswith(".py")
            for piece in _changed(path, self.before.get(path, b""), source)
        ]

    @cached_property
    def added(self) -> dict[str, set[int]]:
        """Lines (1-based) of the solution that the patch adds, by file."""
        return added_lines(self.task.patch)


def patched(patch: str) -> list[str]:
    """Files that a patch writes or deletes."""
    return list(dict.fromkeys(re.findall(r"^(?:\+\+\+ b|--- a)/(.+?)\t?$", patch, flags=re.MULTILINE)))


def added_lines(patch: str) -> dict[str, set[int]]:
    """Line numbers that the patch adds, in the files as they are afterwards."""
    found: dict[str, set[int]] = {}
    path, number, old, new = "", 0, 0, 0
    for line in patch.split("\n"):
        header = re.match(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", line)
        if old <= 0 and new <= 0:
            if line.startswith("+++ "):
                path = line[6:].rstrip("\t\r")
            elif header:
                old, number, new = int(header[1] or 1), int(header[2]), int(header[3] or 1)
        elif line.startswith("+"):
            found.setdefault(path, set()).add(number)
            number, new = number + 1, new - 1
        elif line.startswith("-"):
            old -= 1
        elif not line.startswith("\\"):
            number, old, new = number + 1, old - 1, new - 1
    return found


def parse(source: bytes) -> ast.Module:
    """Quietly. Raises SyntaxError or ValueError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def _changed(path: str, before: bytes, after: bytes) -> Iterator[Piece]:
    known: dict[str, set[str]] = {}
    for name, node in _definitions(parse(before)):
        known.setdefault(name, set()).add(ast.dump(node))
    changed = [(name, node) for name, node in _definitions(parse(after)) if ast.dump(node) not in known.get(name, ())]
    names = {name for name, _ in changed}
    lines = after.split(b"\n")
    for name, node in changed:
        # A class that was there is told by its members; members of a new class go with it.
        within_new = any(name.startswith(f"{other}.") and other not in known for other in names)
        told_by_members = name in known and any(other.startswith(f"{name}.") for other in names)
        if not within_new and not told_by_members:
            first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            span = range(first, (node.end_lineno or first) + 1)
            yield Piece(path, name, node, b"\n".join(lines[first - 1 : span.stop - 1]) + b"\n", span)


def _definitions(module: ast.Module) -> Iterator[tuple[str, Node]]:
    """Functions, classes and methods with their qualified names; functions inside functions belong to the outer one."""

    def visit(nodes: list[ast.stmt], prefix: str) -> Iterator[tuple[str, Node]]:
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield prefix + node.name, node
                if isinstance(node, ast.ClassDef):
                    yield from visit(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.If | ast.Try | ast.With):
                handlers = [item for item in ast.iter_child_nodes(node) if isinstance(item, ast.ExceptHandler)]
                direct = [item for item in ast.iter_child_nodes(node) if isinstance(item, ast.stmt)]
                yield from visit([*direct, *(item for handler in handlers for item in handler.body)], prefix)

    return visit(module.body, "")
