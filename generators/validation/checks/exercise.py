"""What a task asks for, read from its row: the definitions that its solution adds or changes."""

from __future__ import annotations

import ast
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from ....environments.snapshots import apply_patch
from ....environments.tasks.task_trees import Materials
from ....models import Task
from ...python.source import parsed
from ...python.source_tree import SourceTree, read_files

DOCUMENTS = frozenset({".md", ".rst", ".txt"})
BUILD_FILES = frozenset({"setup.py", "conf.py", "noxfile.py"})  # these read documents, but no test runs them
Node = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Piece:
    """One definition of the solution."""

    path: str  # its file
    name: str  # ``name`` or ``Class.name``
    node: Node  # its syntax tree, in the solved file
    source: bytes  # its lines, decorators included
    lines: range  # their numbers, 1-based

    @property
    def short(self) -> str:
        """Return the name without its class."""
        return self.name.rsplit(".", 1)[-1]


@dataclass(frozen=True)
class Exercise:
    """The files that the solution of a task touches."""

    task: Task  # the row
    before: dict[str, bytes]  # the files in the agent's workspace
    after: dict[str, bytes]  # the files of the solution

    @classmethod
    def of(cls, task: Task, trees: Materials) -> Exercise:
        """Return the exercise of a task. Raises PatchError when the row's patches do not fit its Snapshot."""
        paths = patched_files(task.patch)
        before = {path: (trees.agent_tree / path).read_bytes() for path in paths if (trees.agent_tree / path).is_file()}
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
        """Return the innermost definitions that hold a whole difference; a new class is one piece."""
        return [
            piece
            for path, source in sorted(self.after.items())
            if path.endswith(".py")
            for piece in _changed_definitions(path, self.before.get(path, b""), source)
        ]

    @cached_property
    def secret_pieces(self) -> list[Piece]:
        """Return the pieces without code that the solution only moves or renames: the workspace shows it by design.

        That is a definition which, apart from its own name, the workspace has in a file of the exercise, at a place
        where the solution has it no more.
        """
        remaining = _placed_definitions(self.after)
        shown = {
            _nameless(node)
            for place, (text, node) in _placed_definitions(self.before).items()
            if place not in remaining
            or (remaining[place][0] != text and _nameless(remaining[place][1]) != _nameless(node))
        }
        return [piece for piece in self.pieces if _nameless(piece.node) not in shown]

    @cached_property
    def workspace_nodes(self) -> list[Node]:
        """Return the definitions of the pieces as the workspace has them; absent ones are left out."""
        names = {(piece.path, piece.name) for piece in self.pieces}
        return [
            node
            for path, source in sorted(self.before.items())
            if path.endswith(".py")
            for name, node in _definitions(parsed(source))
            if (path, name) in names
        ]

    @cached_property
    def added(self) -> dict[str, set[int]]:
        """Return the lines (1-based) of the solution that the patch adds, by file."""
        return added_lines(self.task.patch)


def solved_is_pristine(trees: Materials) -> bool:
    """Return whether the solved tree of a task is the Snapshot's, apart from documents that no test reads."""
    task = trees.task
    paths = {path for patch in (task.workspace_patch, task.patch, task.test_patch) for path in patched_files(patch)}
    solved, pristine = read_files(trees.solved_tree, paths), read_files(trees.snapshot.tree, paths)
    differing = [path for path in paths if solved[path] != pristine[path]]
    return not differing or _unread(SourceTree.of(trees.snapshot), differing, trees.snapshot.baseline.passed)


def _unread(tree: SourceTree, paths: list[str], tests: list[str]) -> bool:
    """Return whether files are documents, without tests of their own, whose kind and name no Python file mentions."""
    tested = {test.split("::", 1)[0] for test in tests}
    if any(PurePosixPath(path).suffix not in DOCUMENTS or path in tested for path in paths):
        return False
    mentions = {part for path in paths for part in (PurePosixPath(path).suffix, PurePosixPath(path).stem)}
    sources = [source for path, source in tree.python_files.items() if PurePosixPath(path).name not in BUILD_FILES]
    return not any(mention.encode() in source for source in sources for mention in mentions)


def _placed_definitions(files: Mapping[str, bytes]) -> dict[tuple[str, str], tuple[bytes, Node]]:
    """Return text and syntax tree of the definitions of some files, by file and qualified name."""
    return {
        (path, name): (text, node)
        for path, source in files.items()
        if path.endswith(".py")
        for name, text, node in _definitions_with_text(source)
    }


def _nameless(node: Node) -> str:
    """Return the dump of a definition without its own name."""
    return ast.dump(node).replace(f"name={node.name!r}", "", 1)


def patched_files(patch: str) -> list[str]:
    """Return the files that a patch writes or deletes."""
    return list(dict.fromkeys(re.findall(r"^(?:\+\+\+ b|--- a)/(.+?)\t?$", patch, flags=re.MULTILINE)))


def added_lines(patch: str) -> dict[str, set[int]]:
    """Return the numbers of the lines that a patch adds, in the patched files."""
    added: dict[str, set[int]] = {}
    path, number, old, new = "", 0, 0, 0
    for line in patch.split("\n"):
        header = re.match(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", line)
        if old <= 0 and new <= 0:
            if line.startswith("+++ "):
                path = line[6:].rstrip("\t\r")
            elif header:
                old, number, new = int(header[1] or 1), int(header[2]), int(header[3] or 1)
        elif line.startswith("+"):
            added.setdefault(path, set()).add(number)
            number, new = number + 1, new - 1
        elif line.startswith("-"):
            old -= 1
        elif not line.startswith("\\"):
            number, old, new = number + 1, old - 1, new - 1
    return added


def _changed_definitions(path: str, before: bytes, after: bytes) -> Iterator[Piece]:
    versions: dict[str, list[tuple[bytes, Node]]] = {}
    for name, text, node in _definitions_with_text(before):
        versions.setdefault(name, []).append((text, node))
    changed = [
        (name, text, node)
        for name, text, node in _definitions_with_text(after)
        if not _is_among(text, node, versions.get(name, []))
    ]
    names = {name for name, _, _ in changed}
    for name, text, node in changed:
        # Members of a new class belong to it; a class that existed before is represented by its changed members.
        within_new = any(name.startswith(f"{other}.") and other not in versions for other in names)
        has_changed_members = name in versions and any(other.startswith(f"{name}.") for other in names)
        if not within_new and not has_changed_members:
            yield Piece(path, name, node, text + b"\n", _lines(node))


def _is_among(text: bytes, node: Node, versions: list[tuple[bytes, Node]]) -> bool:
    """Return whether a definition is one of some versions; to compare texts first is fast."""
    if any(text == other for other, _ in versions):
        return True
    return bool(versions) and ast.dump(node) in {ast.dump(other) for _, other in versions}


def _lines(node: Node) -> range:
    """Return the numbers of a definition's lines, decorators included."""
    first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
    return range(first, (node.end_lineno or first) + 1)


def _definitions_with_text(source: bytes) -> Iterator[tuple[str, bytes, Node]]:
    """Yield qualified name, lines and syntax tree of each definition."""
    lines = source.split(b"\n")
    for name, node in _definitions(parsed(source)):
        span = _lines(node)
        yield name, b"\n".join(lines[span.start - 1 : span.stop - 1]), node


def _definitions(module: ast.Module) -> Iterator[tuple[str, Node]]:
    """Yield functions, classes and methods with qualified names; a nested function belongs to the outer one."""

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
