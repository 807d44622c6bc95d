"""The text of the hidden test file that compares a project's packaging with what it was."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_TITLE = "What the configuration of the project declares and ships."
_TESTS = """

ROOT = Path(__file__).resolve().parents[{depth}]
EXPECTED = {expected!r}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_packaging(name):
    assert facts(ROOT)[name] == EXPECTED[name]


@pytest.mark.parametrize("command", sorted(EXPECTED.get("commands", {{}})))
def test_command_can_be_loaded(command):
    module, _, name = facts(ROOT)["commands"][command].partition(":")
    target = importlib.import_module(module)
    for part in name.split("."):
        target = getattr(target, part)
    assert callable(target)
"""


def packaging_test(path: str, expected: Mapping[str, Any], *, loadable: bool) -> bytes:
    """Return the test file for ``path``: the reader, the expected facts, and the tests.

    ``loadable`` says whether the modules of the commands can be imported where the tests run.
    """
    reader = Path(__file__).with_name("facts.py").read_text("utf-8")
    reader = re.sub(r'\A""".*?"""', f'"""{_TITLE}"""', reader, flags=re.DOTALL)
    reader = reader.replace("import fnmatch\n", "import fnmatch\nimport importlib\n", 1)
    reader = reader.replace("from packaging.requirements", "import pytest\nfrom packaging.requirements", 1)
    tests = _TESTS.format(depth=path.count("/"), expected=dict(expected))
    if not loadable:
        tests = tests[: tests.index('\n\n@pytest.mark.parametrize("command"')] + "\n"
    return (reader.rstrip("\n") + "\n" + tests).encode()


def packaging_tests(path: str, expected: Mapping[str, Any]) -> list[str]:
    """Return the ids of the tests of the facts."""
    return [f"{path}::test_packaging[{name}]" for name in sorted(expected)]
