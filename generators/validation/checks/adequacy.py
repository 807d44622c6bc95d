"""V7: what the hidden tests ask for by name or by wording is in the statement, or in files that the agent can read."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from ....environments.tasks.task_trees import Materials
from ....models import InterfaceItem, Task
from ...python.hidden_tests import split_test_id
from ...python.source import parsed, words
from .exercise import Exercise

MAX_ADDED = 24
"""What a statement may have to list in addition; where more definitions than these are missing, one item for each."""
RELIES = "The hidden tests also rely on:"
MAX_MESSAGE = 300
MIN_PHRASE = 8
RAISING = ("raises", "warns", "assertRaises", "assertRaisesRegex", "assertWarns", "assertWarnsRegex", "deprecated_call")

Kind = Literal["exception", "keyword", "attribute", "message"]


@dataclass
class Demands:
    """What a set of hidden tests demands of the code."""

    attributes: set[str] = field(default_factory=set)  # names of attributes that are read
    keywords: set[str] = field(default_factory=set)  # keyword arguments of calls
    exceptions: set[str] = field(default_factory=set)  # names of exceptions that must be raised
    patterns: set[str] = field(default_factory=set)  # patterns that a message must match
    strings: set[str] = field(default_factory=set)  # all other literals; expected messages are among them


@dataclass(frozen=True)
class AgentText:
    """Everything that the agent can read."""

    statement: str  # the statement; the interface of a row is not shown
    workspace: Path  # the agent's tree

    @cached_property
    def text(self) -> str:
        """Return the statement and all text files of the workspace."""
        texts = [self.statement]
        for folder, names, files in os.walk(self.workspace):
            names[:] = [name for name in names if name != ".git"]
            for name in sorted(files):
                if name.endswith((".py", ".pyi", ".rst", ".md", ".txt", ".json", ".cfg", ".toml")):
                    texts.append(Path(folder, name).read_text("utf-8", "replace"))
        return "\n".join(texts)

    @cached_property
    def names(self) -> set[str]:
        """Return every word of the text."""
        return words(self.text.encode())

    @cached_property
    def squeezed(self) -> str:
        """Return the text without line breaks, quotes and escapes."""
        return squeeze(self.text)

    def contains(self, wording: str) -> bool:
        """Return whether the text contains the wording, as it is or as a literal, whatever its quotes and layout."""
        return any(squeeze(form) in self.squeezed for form in (wording, repr(wording)[1:-1]))


def missing_items(task: Task, trees: Materials, exercise: Exercise) -> list[InterfaceItem]:
    """Return what FAIL_TO_PASS tests ask for and the solution has, but the agent cannot read anywhere.

    Names are keywords and exceptions that occur in the missing code, and attributes that it binds or spells in a text:
    those that it only reads are of other objects, such as lists. Messages are all patterns that a
    message must match, and literals of the tests that contain a text constant of the missing code or are part of one; a
    constant that the workspace's code of the same definition has is not missing. Of a literal that is too long for a
    message, such as a whole page, only the constants are missing.
    """
    readable = AgentText(task.problem_statement, trees.agent_tree)
    demands = _demands(task, trees.grading_tree)
    solution_names = words(b"\n".join(piece.source for piece in exercise.pieces))
    bound = _bound_names(piece.node for piece in exercise.pieces)
    readable_constants = set(_text_constants(exercise.workspace_nodes))
    in_solution = _text_constants(piece.node for piece in exercise.pieces)
    constants = [text for text in in_solution if text not in readable_constants]
    items: list[InterfaceItem] = []
    groups: tuple[tuple[Kind, set[str]], ...] = (
        ("exception", demands.exceptions),
        ("keyword", demands.keywords),
        ("attribute", demands.attributes & bound),
    )
    for kind, names in groups:
        items += [InterfaceItem(name=name, kind=kind) for name in sorted((names & solution_names) - readable.names)]
    messages = {
        text for text in demands.patterns if not readable.contains(text) and not readable.contains(_unescaped(text))
    }
    quoting = [text for text in demands.strings if _quotes(text, constants) and not readable.contains(text)]
    messages |= {text for literal in quoting for text in _wordings(literal, constants) if not readable.contains(text)}
    listed = {item.name for item in items}
    return items + [InterfaceItem(name=text, kind="message") for text in sorted(messages) if text not in listed]


def completed(task: Task, items: list[InterfaceItem], definitions: int = 0) -> Task | None:
    """Return the task with ``items`` in its interface and statement; None when they are too many or too long.

    ``definitions`` is the number of those that the solution adds or changes.
    """
    if len(items) > max(MAX_ADDED, definitions) or any(len(item.name) > MAX_MESSAGE for item in items):
        return None
    if not items:
        return task
    lines = "\n".join(map(_line, items))
    statement = task.problem_statement.rstrip("\n")
    before, heading, after = statement.partition("\n## Interface\n")
    before_list, lead, listed_already = statement.partition(f"\n\n{RELIES}\n\n")
    if lead and not heading:  # a statement without headings
        first_list, separator, following = listed_already.partition("\n\n")
        text = f"{before_list}{lead}{first_list}\n{lines}{separator}{following}\n"
    elif heading:
        section, _, following = after.partition("\n## ")
        after = _after_list(section.rstrip(), lines) + (f"\n\n## {following}" if following else "")
        text = f"{before}{heading}{after}\n"
    else:
        text = f"{before}\n\n## Interface\n\n{RELIES}\n\n{lines}\n"
    listed = {(item.kind, item.name) for item in task.interface}
    added = [item for item in items if (item.kind, item.name) not in listed]
    return task.model_copy(update={"interface": [*task.interface, *added], "problem_statement": text})


def _after_list(section: str, lines: str) -> str:
    """Return a section with more lines of its list, which a paragraph may follow."""
    rows = section.split("\n")
    last = max((number for number, row in enumerate(rows) if row.startswith("- ")), default=len(rows) - 1)
    return "\n".join([*rows[: last + 1], lines, *rows[last + 1 :]])


def _line(item: InterfaceItem) -> str:
    if item.kind != "message":
        return f"- {item.kind} `{item.name}`"
    fence = "``" if "`" in item.name else "`"
    return f"- message {fence}{item.name}{fence}" if "\n" not in item.name else f"- message {item.name!r}"


def _demands(task: Task, tests: Path) -> Demands:
    by_file: dict[str, set[str]] = {}
    for test in task.FAIL_TO_PASS:
        path, parts = split_test_id(test)
        by_file.setdefault(path, set()).add(parts[-1] if parts else "")
    demands = Demands()
    for path, names in sorted(by_file.items()):
        if path.endswith(".py") and (tests / path).is_file():
            for node in ast.walk(parsed((tests / path).read_bytes())):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in names:
                    _collect(node, demands)
    return demands


def _collect(function: ast.AST, demands: Demands) -> None:
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute):
            demands.attributes.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            demands.strings.add(node.value)
        elif isinstance(node, ast.Call):
            demands.keywords |= {item.arg for item in node.keywords if item.arg}
            called = ast.unparse(node.func).rsplit(".", 1)[-1]
            if called in RAISING:
                _collect_expectation(node, called, demands)


def _collect_expectation(call: ast.Call, called: str, demands: Demands) -> None:
    for node in call.args[:1]:
        for item in node.elts if isinstance(node, ast.Tuple) else [node]:
            if isinstance(item, ast.Name | ast.Attribute):
                demands.exceptions.add(ast.unparse(item).rsplit(".", 1)[-1])
    patterns = [item.value for item in call.keywords if item.arg in ("match", "expected_regex")]
    if called.endswith("Regex"):
        patterns += call.args[1:2]
    for node in patterns:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            demands.patterns.add(node.value)


def _bound_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that code defines, assigns or takes as parameters, and the words of its text constants.

    Docstrings do not count.
    """
    names: set[str] = set()
    for top in nodes:
        docstrings = _docstrings(top)
        for node in ast.walk(top):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.attr)
            elif isinstance(node, ast.arg | ast.keyword):
                names.add(node.arg or "")
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                names |= words(node.value.encode("utf-8", "replace"))
    return names


def _text_constants(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield text constants and the fixed parts of formatted ones that are long enough, without docstrings."""
    for top in nodes:
        docstrings = _docstrings(top)
        for node in ast.walk(top):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                for part in re.split(r"\{[^{}]*\}|%[-\d.]*[a-zA-Z]|%\(\w+\)[a-zA-Z]", node.value):
                    if len(part.strip()) >= MIN_PHRASE:
                        yield part.strip()


def _docstrings(top: ast.AST) -> set[int]:
    """Return the ids of the nodes that are docstrings."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    first = [node.body[0] for node in ast.walk(top) if isinstance(node, kinds)]
    return {id(node.value) for node in first if isinstance(node, ast.Expr)}


def _quotes(text: str, constants: list[str]) -> bool:
    """Return whether a literal of a test contains a constant of the code, or is several words of one."""
    plain = text.strip()
    if len(plain) < MIN_PHRASE or len(plain) > MAX_MESSAGE * 4:
        return False
    return any(part in text or (" " in plain and plain in part) for part in constants)


def _wordings(text: str, constants: list[str]) -> list[str]:
    """Return what a statement has to say of a literal: the literal, or the constants in a long one."""
    within = [part for part in constants if part in text]
    return within if within and len(text) > MAX_MESSAGE else [text]


def _unescaped(pattern: str) -> str:
    return re.sub(r"\\(.)", r"\1", pattern).strip("^$")


def squeeze(text: str) -> str:
    """Return a text without line breaks, quotes and escapes."""
    unquoted = re.sub(r"(?m)^[ \t]*>[ \t]?", " ", text)
    return re.sub(r"[\s\\\"'`]+", " ", unquoted).strip()
