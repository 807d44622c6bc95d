"""V7: what the hidden tests ask for by name or by wording is told to the agent, or left where it can read it."""

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
from ...python.source import words
from .removed import Exercise, parse

MAX_ADDED = 24
MAX_MESSAGE = 300
MIN_PHRASE = 8
RAISING = ("raises", "warns", "assertRaises", "assertRaisesRegex", "assertWarns", "assertWarnsRegex", "deprecated_call")

Kind = Literal["exception", "keyword", "attribute", "message"]


@dataclass
class Asked:
    """What one set of hidden tests asks of the code."""

    attributes: set[str] = field(default_factory=set)
    keywords: set[str] = field(default_factory=set)
    exceptions: set[str] = field(default_factory=set)
    matched: set[str] = field(default_factory=set)
    """Patterns that a message must match."""
    strings: set[str] = field(default_factory=set)
    """All other literals: expected messages are among them."""


@dataclass(frozen=True)
class Told:
    """What the agent can read: statement, interface and the files of its workspace."""

    statement: str
    workspace: Path

    @cached_property
    def text(self) -> str:
        found = [self.statement]
        for folder, names, files in os.walk(self.workspace):
            names[:] = [name for name in names if name != ".git"]
            for name in sorted(files):
                if name.endswith((".py", ".pyi", ".rst", ".md", ".txt", ".json", ".cfg", ".toml")):
                    found.append(Path(folder, name).read_text("utf-8", "replace"))
        return "\n".join(found)

    @cached_property
    def names(self) -> set[str]:
        return words(self.text.encode())

    @cached_property
    def squeezed(self) -> str:
        return _squeeze(self.text)

    def says(self, wording: str) -> bool:
        """The wording, whatever its line breaks, quotes and escapes."""
        return _squeeze(wording) in self.squeezed


def missing(task: Task, made: Materials, exercise: Exercise) -> list[InterfaceItem]:
    """What FAIL_TO_PASS tests ask for, the solution has, and nobody tells the agent.

    Names are attributes, keywords and exceptions that occur in the removed code. Messages are literals of the tests
    that hold, or are part of, a text constant of the removed code, and every pattern that a message must match.
    """
    statement = "\n".join([task.problem_statement, *(f"{item.name} {item.signature}" for item in task.interface)])
    told = Told(statement, made.agent_tree)
    asked = _asked(task, made.grading_tree)
    code = b"\n".join(piece.source for piece in exercise.pieces)
    own, texts = words(code), list(_texts(piece.node for piece in exercise.pieces))
    found: list[InterfaceItem] = []
    groups: tuple[tuple[Kind, set[str]], ...] = (
        ("exception", asked.exceptions),
        ("keyword", asked.keywords),
        ("attribute", asked.attributes),
    )
    for kind, names in groups:
        found += [InterfaceItem(name=name, kind=kind) for name in sorted((names & own) - told.names)]
    messages = {text for text in asked.matched if not told.says(text) and not told.says(_unescaped(text))}
    messages |= {text for text in asked.strings if _worded(text, texts) and not told.says(text)}
    known = {item.name for item in found}
    return found + [InterfaceItem(name=text, kind="message") for text in sorted(messages) if text not in known]


def completed(task: Task, items: list[InterfaceItem]) -> Task | None:
    """The task with ``items`` in its interface and statement; ``None`` when that is no longer a statement."""
    if len(items) > MAX_ADDED or any(len(item.name) > MAX_MESSAGE for item in items):
        return None
    if not items:
        return task
    lines = "\n".join(_line(item) for item in items)
    statement = task.problem_statement.rstrip("\n")
    last = statement.rsplit("\n## ", 1)[-1]
    head = "" if last.startswith("Interface") else "\n\n## Interface\n\nThe hidden tests also rely on:\n"
    text = f"{statement}{head}\n{lines}\n"
    return task.model_copy(update={"interface": [*task.interface, *items], "problem_statement": text})


def _line(item: InterfaceItem) -> str:
    if item.kind != "message":
        return f"- {item.kind} `{item.name}`"
    fence = "``" if "`" in item.name else "`"
    return f"- message {fence}{item.name}{fence}" if "\n" not in item.name else f"- message {item.name!r}"


def _asked(task: Task, tests: Path) -> Asked:
    by_file: dict[str, set[str]] = {}
    for test in task.FAIL_TO_PASS:
        path, *parts = re.sub(r"\[.*", "", test, flags=re.DOTALL).split("::")
        by_file.setdefault(path, set()).add(parts[-1] if parts else "")
    asked = Asked()
    for path, names in sorted(by_file.items()):
        if path.endswith(".py") and (tests / path).is_file():
            module = parse((tests / path).read_bytes())
            for node in ast.walk(module):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in names:
                    _visit(node, asked)
    return asked


def _visit(function: ast.AST, asked: Asked) -> None:
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute):
            asked.attributes.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            asked.strings.add(node.value)
        elif isinstance(node, ast.Call):
            asked.keywords |= {item.arg for item in node.keywords if item.arg}
            called = ast.unparse(node.func).rsplit(".", 1)[-1]
            if called in RAISING:
                _expectation(node, called, asked)


def _expectation(call: ast.Call, called: str, asked: Asked) -> None:
    for node in call.args[:1]:
        for item in node.elts if isinstance(node, ast.Tuple) else [node]:
            if isinstance(item, ast.Name | ast.Attribute):
                asked.exceptions.add(ast.unparse(item).rsplit(".", 1)[-1])
    patterns = [item.value for item in call.keywords if item.arg in ("match", "expected_regex")]
    if called.endswith("Regex"):
        patterns += call.args[1:2]
    asked.matched |= {node.value for node in patterns if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def _texts(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Text constants and the fixed parts of formatted ones, docstrings left out, long enough to be a wording."""
    for top in nodes:
        docs = {
            id(node.body[0].value)
            for node in ast.walk(top)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(top):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
                for part in re.split(r"\{[^{}]*\}|%[-\d.]*[a-zA-Z]|%\(\w+\)[a-zA-Z]", node.value):
                    if len(part.strip()) >= MIN_PHRASE:
                        yield part.strip()


def _worded(text: str, texts: list[str]) -> bool:
    """Whether a literal of a test quotes the code: it says more than one word, or one that is long."""
    plain = text.strip()
    if len(plain) < MIN_PHRASE or len(plain) > MAX_MESSAGE * 4:
        return False
    return any(part in text or (" " in plain and plain in part) for part in texts)


def _unescaped(pattern: str) -> str:
    return re.sub(r"\\(.)", r"\1", pattern).strip("^$")


def _squeeze(text: str) -> str:
    unquoted = re.sub(r"(?m)^[ \t]*>[ \t]?", " ", text)
    return re.sub(r"[\s\\\"'`]+", " ", unquoted).strip()
