"""Wrong operators in real code: where they are, what an agent sees of them, and the edit that corrects them.

``cases`` makes them in memory from the modules of packages, with the product's own mutants, for the dialogues of a
base. The tasks that are played come from ``etude generate`` (``real_world.py``); both are a ``Case``.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from etude.generators.python.mutants import possible_mutants
from etude.research.error_turns.driver import Refused

PACKAGES = (
    *("boltons==24.0.0", "toolz==0.12.1", "pydash==7.0.7", "more-itertools==10.2.0", "networkx==3.2.1"),
    *("werkzeug==3.0.1", "jinja2==3.1.3", "click==8.1.7", "humanize==4.9.0", "sqlparse==0.4.4", "rich==13.7.0"),
    *("sympy==1.12", "django==5.0.1", "pygments==2.17.2", "docutils==0.20.1", "sphinx==7.2.6", "babel==2.14.0"),
    *("python-dateutil==2.8.2", "requests==2.31.0", "urllib3==2.1.0", "attrs==23.2.0", "flask==3.0.1"),
    *("black==23.12.1", "jedi==0.19.1", "parso==0.8.3", "nltk==3.8.1", "celery==5.3.6", "kombu==5.3.5"),
    *("twisted==23.10.0", "mistune==3.0.2", "markdown==3.5.2", "beautifulsoup4==4.12.3", "html5lib==1.1"),
)
"""Packages whose modules the dialogues of a base are about; no task is from them."""
AFTER = 6
"""Lines that the agent sees after the line with ``def``."""
KINDS = ("comparison", "boolean")
"""Mistakes of the generator ``bug_operator``."""
LONGEST, SHORTEST = 70, 8
"""Limits of the changed line's length without indentation, in characters."""
WIDEST = 480
"""Limit of the length of what is seen, in characters, for dialogues."""
_DEF = re.compile(r"\s*(?:async )?def (\w+)\(")
_MOST_OF_A_MODULE = 40
"""Cases of one module, at most: the dialogues are of many modules."""
_LONGEST_MODULE = 150_000
"""Limit of the length of a module, in characters: each case holds its module."""


@dataclass(frozen=True)
class Case:
    """One wrong line, in a module of a package."""

    package: str
    """Name and version, separated by a space."""
    path: str
    """Module, from the workspace."""
    function: str
    """Function with the wrong line."""
    module: str
    """The module's text with the wrong line."""
    old: str
    """Wrong line, without indentation."""
    new: str
    """Right line, without indentation."""

    @property
    def root(self) -> str:
        """Return the top folder of the module."""
        return self.path.partition("/")[0]


def search(function: str) -> str:
    """Return the command that shows a function."""
    return f"grep -rA{AFTER} --include=*.py 'def {function}('"


def shown(module: str, path: str, function: str) -> str:
    """Return what ``search`` prints, where the module alone has the function."""
    lines, wanted = module.splitlines(), f"def {function}("
    starts = [number for number, line in enumerate(lines) if wanted in line]
    printed: list[str] = []
    last = -1
    for start in starts:
        if last >= 0 and start > last:
            printed.append("--")
        for number in range(max(start, last), min(start + AFTER + 1, len(lines))):
            printed.append(f"{path}{':' if wanted in lines[number] else '-'}{lines[number]}")
            last = number + 1
    return "\n".join(printed) + "\n"


def case_of(package: str, path: str, right: str, wrong: str, function: str | None = None) -> Case | None:
    """Return the case of two versions of a module, None unless one line differs that one edit of this line corrects.

    The line must be seen, differ without its indentation, and occur once in the module. ``function`` is the one
    whose text is searched; without it, it is the nearest one above the line.
    """
    before, after = right.splitlines(), wrong.splitlines()
    changed = [number for number, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]]
    if len(before) != len(after) or len(changed) != 1:
        return None
    (line,) = changed
    old, new = after[line].strip(), before[line].strip()
    starts = [(number, match[1]) for number, text in enumerate(after) if (match := _DEF.match(text))]
    seen = [name for number, name in starts if number <= line <= number + AFTER]
    name = function or next(reversed(seen), "")
    if name not in seen or [each for _, each in starts].count(name) != 1:
        return None
    if not SHORTEST <= len(old) <= LONGEST or len(new) > LONGEST or wrong.count(old) != 1:
        return None
    return Case(package, path, name, wrong, old, new)


def cases(folder: Path, *, docstrings: bool = True) -> list[Case]:
    """Return cases of the modules of ``PACKAGES``, which are downloaded to the folder. Raises Refused.

    docstrings: whether docstrings keep their first line; else they are removed.
    """
    found: list[Case] = []
    for wheel in downloaded(folder):
        name, version = wheel.name.split("-")[:2]
        with zipfile.ZipFile(wheel) as archive:
            for path in sorted(archive.namelist()):
                if path.endswith(".py") and "/" in path and "test" not in path:
                    text = with_short_docstrings(archive.read(path).decode("utf-8", "replace"), keep=docstrings)
                    if len(text) > _LONGEST_MODULE:
                        continue
                    found += _cases_of_module(f"{name} {version}", path, text)
    return found


def _cases_of_module(package: str, path: str, text: str) -> list[Case]:
    lines = range(1, text.count("\n") + 2)
    made: list[Case] = []
    for mutant in possible_mutants(text.encode(), lines) if text else ():
        if mutant.operator in KINDS:
            case = case_of(package, path, text, mutant.source.decode())
            if case is None or case.function.startswith("_"):  # tests are named after public functions
                continue
            if len(shown(case.module, path, case.function)) <= WIDEST:
                made.append(case)
    step = max(len(made) // _MOST_OF_A_MODULE, 1)
    return made[::step][:_MOST_OF_A_MODULE]


def downloaded(folder: Path) -> list[Path]:
    """Return the wheels of ``PACKAGES``, downloaded unless they are there. Raises Refused."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "-q", "--only-binary", ":all:", "--no-deps", "-d", str(folder)]
    if len(list(folder.glob("*.whl"))) < len(PACKAGES):
        result = subprocess.run([*command, *PACKAGES], capture_output=True, text=True, check=False)
        if result.returncode:
            raise Refused(f"pip cannot download the packages: {result.stderr.strip().splitlines()[-1]}")
    return sorted(folder.glob("*.whl"))


def with_short_docstrings(text: str, *, keep: bool = True) -> str:
    """Return a module whose docstrings have their first line alone, or none; empty if it does not parse."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ""
    lines: list[str | None] = list(text.splitlines())
    for first, last, summary in _docstrings(tree):
        indent = " " * (len(lines[first - 1] or "") - len((lines[first - 1] or "").lstrip()))
        lines[first - 1 : last] = [None] * (last - first + 1)
        if keep and summary and len(summary) <= LONGEST:
            lines[first - 1] = f'{indent}"""{summary}"""'
    return "\n".join(line for line in lines if line is not None) + "\n"


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, int, str]]:
    """Yield first line, last line and first sentence of docstrings that other statements follow."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and len(node.body) > 1:
            first = node.body[0]
            told = ast.get_docstring(node)
            if told is not None and node.body[1].lineno > (first.end_lineno or 0) and first.lineno > node.lineno:
                summary = told.strip().partition("\n")[0]
                plain = re.fullmatch(r"[^\"\\\\]*", summary)
                yield first.lineno, first.end_lineno or first.lineno, summary if plain else ""


def edit(case: Case, path: str | None = None) -> Mapping[str, str]:
    """Return the arguments of the edit that corrects a case, at another path if one is given."""
    return {"path": case.path if path is None else path, "old": case.old, "new": case.new}
