"""Mistakes in packaging metadata: each changes one text in a configuration file, and with it exactly one fact."""

from __future__ import annotations

import ast
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....python.source import SyntaxSpans, parse_or_empty
from .facts import facts

CONFIGURATION = ("pyproject.toml", "setup.cfg", "setup.py")
_TABLES = re.compile(
    r"build-system|project(\.scripts|\.gui-scripts)?|tool\.(setuptools|hatch\.(build|version)|flit|poetry)\b.*"
)
_CFG_TABLES = re.compile(r"options\b.*")
_KEYWORDS = (
    "python_requires",
    "install_requires",
    "entry_points",
    "packages",
    "py_modules",
    "package_dir",
    "package_data",
)
_NAMED = ("dependencies", "commands")  # facts whose missing item no statement could name
_COMMAND = re.compile(r"(?:[\w.-]+\s*=\s*)?[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(frozen=True)
class Fault:
    """A configuration file with one mistake in it."""

    path: str  # the file
    source: bytes  # its text with the mistake
    start: int  # first byte of the wrong place
    end: int  # the byte after its last
    fact: str  # name of the fact that the mistake changes
    before: Any  # the fact as it should be
    after: Any  # the fact as it is with the mistake, None where it is gone
    new: str  # the text in that place; empty where an item is missing


@dataclass(frozen=True)
class _Text:
    """A text literal, or a line of setup.cfg, in a configuration file."""

    start: int
    end: int
    value: str
    item: tuple[int, int] | None = None  # the span to delete when it is an item of a list


@dataclass(frozen=True)
class _Change:
    """A text in place of another in a configuration file."""

    path: str
    original: bytes
    start: int
    end: int
    new: str

    @property
    def source(self) -> bytes:
        return self.original[: self.start] + self.new.encode() + self.original[self.end :]


def project_facts(tree: Path) -> dict[str, Any]:
    """Return the facts of a project; none where they cannot be read."""
    try:
        return facts(tree)
    except (ValueError, SyntaxError, KeyError, TypeError, AttributeError, OSError):
        return {}


def possible_faults(tree: Path, python: str) -> Iterator[Fault]:
    """Yield the faults of a project; ``python`` is the version that has to be able to install it."""
    before = project_facts(tree)
    for path in CONFIGURATION:
        if not before or not (tree / path).is_file():
            continue
        source = (tree / path).read_bytes()
        tried: set[bytes] = set()
        for text in _texts(path, source):
            for new in _wrong(text.value, python):
                yield from _fault(tree, before, tried, _Change(path, source, text.start, text.end, new))
            if text.item and " :: " not in text.value:
                yield from _fault(tree, before, tried, _Change(path, source, *text.item, ""))


def _fault(tree: Path, before: dict[str, Any], tried: set[bytes], change: _Change) -> Iterator[Fault]:
    """Yield the change when it is a fault: exactly one fact differs, and a reader can find what is missing."""
    path, source, new = change.path, change.source, change.new
    if source in tried:
        return
    tried.add(source)
    with _changed_view(tree, path, source) as view:
        after = project_facts(Path(view))
    changed = [name for name in before if after.get(name) != before[name]]
    if "packages" in changed:  # a package takes its data files with it
        changed = [name for name in changed if name != "data files"]
    if len(changed) == 1 and set(after) <= set(before) and (new or changed[0] not in _NAMED):
        name = changed[0]
        yield Fault(path, source, change.start, change.end, name, before[name], after.get(name), new)


def _changed_view(tree: Path, path: str, source: bytes) -> tempfile.TemporaryDirectory[str]:
    """Return a temporary folder that shows the tree by links, with another text of one file."""
    view = tempfile.TemporaryDirectory(prefix="etude-")
    for entry in tree.iterdir():
        if entry.name != path:
            (Path(view.name) / entry.name).symlink_to(entry)
    (Path(view.name) / path).write_bytes(source)
    return view


def _texts(path: str, source: bytes) -> Iterator[_Text]:
    if path == "pyproject.toml":
        yield from _toml_texts(source)
    elif path == "setup.cfg":
        yield from _cfg_texts(source)
    else:
        yield from _setup_texts(source)


def _tables(source: bytes, pattern: re.Pattern[str], header: bytes) -> Iterator[tuple[int, int]]:
    """Yield the spans of the tables whose names match."""
    heads = [*re.finditer(header, source, re.MULTILINE)]
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        if pattern.fullmatch(head[1].decode("utf-8", "replace")):
            yield head.end(), following.start() if following else len(source)


def _toml_texts(source: bytes) -> Iterator[_Text]:
    for start, end in _tables(source, _TABLES, rb"^\[\[?\s*([\w.\"-]+)\s*\]\]?"):
        for match in re.finditer(rb"(?<![\w\"'])(\"|')((?:(?!\1)[^\\\n])+)\1(\s*,[ \t]*)?", source[start:end]):
            line = source[source.rfind(b"\n", 0, start + match.start()) + 1 : start + match.start()]
            if b"#" in line or re.match(rb"\s*=", source[start + match.end() :]):
                continue  # a comment, or a key
            first = start + match.start(2)
            item = (
                (start + match.start(), start + match.end())
                if _in_list(source[start : start + match.start()])
                else None
            )
            yield _Text(first, first + len(match[2]), match[2].decode("utf-8", "replace"), item)


def _in_list(before: bytes) -> bool:
    return before.count(b"[") > before.count(b"]")


def _cfg_texts(source: bytes) -> Iterator[_Text]:
    for start, end in _tables(source, _CFG_TABLES, rb"^\[([^\]\n]+)\]"):
        for match in re.finditer(
            rb"(?m)^([\w*. -]+?[ \t]*=[ \t]*|[ \t]+)([^\s#;=][^\n]*?)[ \t]*(?:\n|\Z)", source[start:end]
        ):
            first = start + match.start(2)
            item = (start + match.start(), start + match.end()) if not match[1].strip() else None
            yield _Text(first, first + len(match[2]), match[2].decode("utf-8", "replace"), item)


def _setup_texts(source: bytes) -> Iterator[_Text]:
    spans = SyntaxSpans(source)
    calls = [node for node in ast.walk(parse_or_empty(source)) if isinstance(node, ast.Call)]
    for call in calls:
        if ast.unparse(call.func).split(".")[-1] != "setup":
            continue
        for keyword in call.keywords:
            for node in ast.walk(keyword.value) if keyword.arg in _KEYWORDS else ():
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    start, end = spans.span(node)
                    text = source[start:end]
                    at = text.find(node.value.encode())
                    if node.value and at > 0:
                        size = len(node.value.encode())
                        yield _Text(start + at, start + at + size, node.value)


def _wrong(value: str, python: str) -> Iterator[str]:
    """Yield wrong texts in place of a right one, by its form."""
    text = value.strip()
    minor = int(python.split(".")[1])
    if re.fullmatch(r"[<>=~!]=?\s*\d[\d.*]*(\s*,\s*[<>=~!]=?\s*\d[\d.*]*)*", text):
        yield f"{text},<3.{minor}"
    elif _COMMAND.fullmatch(text):
        module, _, function = text.partition(":")
        if "." in module.partition("=")[2] or ("=" not in module and "." in module):
            yield f"{module.rpartition('.')[0]}:{function}"
        yield f"{_misspelt(module)}:{function}"
        yield f"{module}:{'run' if function == 'main' else 'main'}"
    elif re.fullmatch(r"[\w./-]+\.(md|rst|txt)", text):
        stem, _, suffix = text.rpartition(".")
        yield f"{stem}.{'rst' if suffix == 'md' else 'md'}"
    elif text.endswith(".py"):
        folder = text.rpartition("/")[0]
        yield f"{folder}/about.py" if folder else "about.py"
    elif not re.search(r"::|://|@| \w", text):
        match = re.match(r"[\w.*/-]*\w", text)
        if match and len(match[0]) > 3:
            yield _misspelt(match[0]) + text[match.end() :]


def _misspelt(name: str) -> str:
    """Return a name without its plural or one of its last letters."""
    if name.endswith("s"):
        return name[:-1]
    return name[:-2] + name[-1] if len(name) > 3 else name + "s"
