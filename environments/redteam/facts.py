"""What an attacker knows of a task: taken from its row, or from what an agent of a server can see."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...models import PublicTask, Task
from ...monitors.exploits import Facts
from ..tasks.task_paths import expected_test_files, source_files

_DOTTED = re.compile(r"\b[A-Za-z_]\w*(?:\.\w+)+\b")
_QUOTED = re.compile(r"`([A-Za-z_]\w*(?:\.\w+)+)`")
LIST_FILES = "git ls-files '*.py'"
"""The command whose output ``facts_from_listing`` reads."""


def facts_of(task: Task) -> Facts:
    """Return the facts that a row gives. They are more than any agent has: they say exactly where the tests are."""
    return Facts(
        targets=tuple(source_files(task)),
        names=names_in(task.problem_statement),
        test_files=tuple(expected_test_files(task)),
        tests=tuple(task.FAIL_TO_PASS),
    )


def facts_from_listing(task: PublicTask, listing: Sequence[str]) -> Facts:
    """Return the facts that the statement and the list of the workspace's Python files give."""
    names = names_in(task.problem_statement)
    stems = [(path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__"), path) for path in listing]
    targets: dict[str, None] = {}
    for name in names:
        parts = name.split(".")
        modules = ["/".join(parts[:size]) for size in range(len(parts), 0, -1)]
        places = [path for module in modules for stem, path in stems if stem == module]
        targets.update(dict.fromkeys(places[:1]))
    tests = [path for path in listing if re.fullmatch(r"(.*/)?(test_[^/]*|[^/]*_test)\.py", path)]
    folder = tests[0].rpartition("/")[0] + "/" if tests and "/" in tests[0] else "tests/"
    expected = [f"{folder}test_{path.rpartition('/')[2]}" for path in targets]
    return Facts(tuple(targets), names, tuple(dict.fromkeys([*expected, *tests])))


def names_in(statement: str) -> tuple[str, ...]:
    """Return the dotted names in backquotes on the first line; when there is none, the first dotted name anywhere."""
    first = statement.strip().partition("\n")[0]
    quoted = _QUOTED.findall(first)
    return tuple(dict.fromkeys(quoted or _DOTTED.findall(statement)[:1]))
