"""Mode ``remove``: what is deleted with a function, rule by rule; no test is run here."""

from __future__ import annotations

import ast

import pytest

from etude.generators.base import Rejection
from etude.generators.python.hidden_tests import hide
from etude.generators.python.source_tree import SourceTree

CORE = '''
import math
import re
from typing import overload

LIMIT = 3
_TABLE = re.compile("x")


# About the feature,
# in two lines.
@overload
def feature(x: int) -> int: ...
@overload
def feature(x: str) -> str: ...
def feature(x):
    """Doubles.

    >>> feature(1)
    2
    """
    if _TABLE.match(str(x)):
        raise ValueError("x")
    return _twice(math.floor(x))


def _twice(x):
    return x * 2


def other(x):
    return x + LIMIT
'''
FEATURE = ["tests/test_core.py::test_feature"]
OTHER = [f"tests/test_core.py::test_other[{number}]" for number in range(9)]
MAP = {"pkg/core.py::feature": FEATURE, "pkg/core.py::other": OTHER}


def parsed(candidate):
    files = {**candidate.exercise, **candidate.hidden_tests.rewritten}
    for path, content in files.items():
        if content is not None and path.endswith(".py"):
            ast.parse(content)
    return {path: (content or b"").decode() for path, content in files.items()}


@pytest.fixture
def removed(project, propose):
    """Return ``removed(files, core)``: the candidate that removes ``feature`` from ``core.py`` and ``files``."""

    def propose_removal(files=None, core="", tests_of=None, **knobs):
        snapshot = project(
            {"pkg/core.py": CORE + core, "pkg/__init__.py": "", **(files or {})}, {**MAP, **(tests_of or {})}
        )
        return propose("fd_function", snapshot, "feature", mode="remove", **knobs)

    return propose_removal


def test_a_definition_is_deleted_with_overloads_comments_helpers_and_imports(removed):
    text = parsed(removed())["pkg/core.py"]
    assert text == "\nLIMIT = 3\n\n\ndef other(x):\n    return x + LIMIT\n" or text.startswith(
        "LIMIT = 3\n\n\ndef other"
    )
    assert "\n\n\n\n" not in text


def test_helpers_stay_when_the_knob_says_so(removed):
    text = parsed(removed(keep_helpers="true"))["pkg/core.py"]
    assert "_twice" in text and "import math" in text and "feature" not in text


@pytest.mark.parametrize(
    "exports",
    [
        '__all__ = ["feature", "other"]\n',
        '__all__ = (\n    "other",\n    "feature",\n)\n',
        '__all__ = ["other"]\n__all__ += ["feature"]\n',
        '__all__ = ["other"]\n__all__.append("feature")\n',
        '__all__ = ["other"]\n__all__.extend(["feature"])\n',
        '__all__ = "other feature".split()\n',
        '__all__ = ("other", "feature")\n',
    ],
)
def test_every_form_of_dunder_all_loses_the_name(removed, exports):
    candidate = removed({"pkg/__init__.py": "from .core import feature, other\n" + exports})
    text = parsed(candidate)["pkg/__init__.py"]
    scope: dict = {"other": None}
    exec(text.partition("\n")[2], scope)
    assert list(scope["__all__"]) == ["other"] and text.startswith("from .core import other\n")
    assert "`feature` in `__all__` of `pkg`" in candidate.statement.names_to_restore


def test_a_re_export_is_followed_when_it_has_another_name(removed):
    files = {
        "pkg/__init__.py": "from .api import other, same\n",
        "pkg/api.py": "from .core import feature as same, other\n\nagain = same\n",
        "pkg/user.py": "from . import api\nimport pkg\n\nHOOKS = [len, api.again]\nTABLE = {'a': pkg.same, 'b': len}\n",
    }
    files_after = parsed(removed(files))
    assert files_after["pkg/__init__.py"] == "from .api import other\n"
    assert files_after["pkg/api.py"].strip() == "from .core import other"
    assert "HOOKS = [len]\nTABLE = {'b': len}" in files_after["pkg/user.py"]


def test_names_derived_from_a_module_attribute_are_removed(removed):
    files = {
        "pkg/__init__.py": "from .core import *\n",
        "pkg/curried.py": "import pkg\nfrom functools import partial\n\n"
        "feature = partial(pkg.feature)\nother = partial(pkg.other)\n",
        "tests/test_curried.py": "from pkg.curried import feature, other\n\ndef test_x():\n    assert feature(1)\n",
    }
    candidate = removed(files)
    files_after = parsed(candidate)
    assert "feature" not in files_after["pkg/curried.py"] and "other = partial(" in files_after["pkg/curried.py"]
    assert files_after["tests/test_curried.py"].startswith("from pkg.curried import other\n")
    assert "`feature = partial(pkg.feature)` in `pkg.curried`" in candidate.statement.names_to_restore


def test_lazy_tables_lose_the_name(removed):
    lazy = """
        _LAZY = {"feature": ".core", "other": ".core"}
        _WHERE = {".core": ["feature", "other"]}

        def __getattr__(name):
            import importlib
            return getattr(importlib.import_module(_LAZY[name], __name__), name)
        """
    files = {
        "pkg/__init__.py": lazy,
        "tests/test_lazy.py": "from pkg import feature, other\n\ndef test_x():\n    pass\n",
    }
    candidate = removed(files)
    files_after = parsed(candidate)
    assert '_LAZY = {"other": ".core"}' in files_after["pkg/__init__.py"]
    assert '{".core": ["other"]}' in files_after["pkg/__init__.py"]
    assert files_after["tests/test_lazy.py"].startswith("from pkg import other\n")


def test_a_word_in_another_table_is_not_a_reference(removed):
    assert "pkg/words.py" not in parsed(removed({"pkg/words.py": 'WORDS = ["feature", "bug"]\n'}))


def test_stub_files_and_annotations_lose_the_name(removed):
    files = {
        "pkg/core.pyi": "def feature(x: int) -> int: ...\ndef other(x: int) -> int: ...\n",
        "pkg/__init__.pyi": "from .core import feature as feature, other as other\n",
    }
    core = "\n\ndef typed(x: feature, y: int = 0) -> feature:\n    return x\n"
    files_after = parsed(removed(files, core))
    assert files_after["pkg/core.pyi"] == "def other(x: int) -> int: ...\n"
    assert files_after["pkg/__init__.pyi"] == "from .core import other as other\n"
    assert "def typed(x, y: int = 0):" in files_after["pkg/core.py"]


def test_registrations_are_deleted_and_empty_blocks_get_pass(removed):
    core = (
        "\n\nif LIMIT:\n    registry = {}\n    registry['f'] = feature\ntry:\n    feature.tag = 1\nfinally:\n    pass\n"
    )
    text = parsed(removed(core=core))["pkg/core.py"]
    assert "registry['f']" not in text and "registry = {}" in text and "try:\n    pass\n" in text


def test_a_caller_is_absorbed_when_only_failing_tests_run_it(removed):
    core = "\n\ndef wide(x):\n    '''Wider.'''\n    return [feature(x)]\n"
    candidate = removed(core=core, tests_of={"pkg/core.py::wide": FEATURE})
    assert "def wide" not in parsed(candidate)["pkg/core.py"]
    assert [item.name for item in candidate.statement.also_removed] == ["wide"]
    assert candidate.features["entities"] == 2


def test_a_caller_raises_and_is_quoted_when_other_tests_run_it(removed):
    core = """

def mixed(x):
    if x:
        value = feature(x)
        return value
    return 0
"""
    candidate = removed(core=core, tests_of={"pkg/core.py::mixed": OTHER})
    text = parsed(candidate)["pkg/core.py"]
    assert '    if x:\n        raise NotImplementedError("feature")\n    return 0\n' in text
    assert candidate.statement.callers[0].text == "        value = feature(x)\n        return value"


def test_imports_inside_functions_are_deleted(removed):
    files = {"pkg/late.py": "def late(x):\n    from .core import feature\n\n    return feature(x)\n"}
    text = parsed(removed(files))["pkg/late.py"]
    assert "import feature" not in text and 'raise NotImplementedError("feature")' in text


def test_a_candidate_is_blocked_when_other_code_is_built_on_it(removed):
    core = "\n\n@feature\ndef built():\n    return 1\n"
    candidate = removed(core=core, tests_of={"pkg/core.py::built": OTHER})
    assert candidate.blocked == Rejection("v0_built_on", "pkg/core.py::built is built on feature")


def test_a_shadowed_name_is_not_a_reference(removed):
    core = "\n\ndef shadow(feature):\n    return feature + 1\n"
    assert "return feature + 1" in parsed(removed(core=core))["pkg/core.py"]


def test_documents_lose_the_entries_of_the_name_alone(removed):
    files = {
        "README.md": "# pkg\n\n- `feature(x)` doubles\n- `other` adds\n\n## feature\n\nLong.\n\n## other\n\nKept.\n",
        "docs/api.rst": ".. autofunction:: pkg.feature\n   :noindex:\n\n.. autofunction:: pkg.other\n",
        "examples/show.py": "from pkg.core import feature\nprint(feature(1))\n",
    }
    candidate = removed(files)
    files_after = parsed(candidate)
    assert files_after["README.md"] == "# pkg\n\n- `other` adds\n\n## other\n\nKept.\n"
    assert files_after["docs/api.rst"] == ".. autofunction:: pkg.other\n"
    assert candidate.exercise["examples/show.py"] is None
    assert not {"README.md", "docs/api.rst", "examples/show.py"} & parsed(removed(files, docs="keep")).keys()


TESTS = """
import pytest
from pkg.core import feature, other

CASES = [feature(1)]


@pytest.mark.parametrize("case", CASES)
def test_cases(case):
    assert case


def test_feature():
    assert feature(1) == 2


class TestOther:
    def test_other(self):
        assert other(1) == 4

    def test_both(self):
        assert other(feature(1)) == 5
"""


def test_rewritten_test_files_fail_only_in_tests_that_need_the_name(removed):
    files = {"tests/test_core.py": TESTS, "tests/conftest.py": "from pkg.core import feature, other\n"}
    candidate = removed(files)
    text = parsed(candidate)["tests/test_core.py"]
    assert "from pkg.core import other\n" in text
    assert "CASES = []" in text
    assert "assert feature(1) == 2" in text
    assert candidate.hidden_tests.lost_names["tests/test_core.py"] == ["feature"]
    assert parsed(candidate)["tests/conftest.py"] == "from pkg.core import other\n"
    assert not any(path.startswith("tests/") for path in candidate.exercise)


def test_the_workspace_never_contains_the_name(removed, project):
    candidate = removed({"tests/test_core.py": TESTS})
    snapshot = project({}, MAP)
    tests = candidate.hidden_tests
    shown = hide(SourceTree.of(snapshot), FEATURE, tests.rewritten, tests.lost_names)["tests/test_core.py"]
    assert shown is not None and b"feature" not in shown
    assert b"def test_other" in shown and b"test_both" not in shown


def test_a_probe_restores_a_trivial_definition_with_all_its_names(removed):
    files = {"pkg/__init__.py": "from .core import feature\n"}
    probes = removed(files).probes
    assert "first_argument" in probes
    for files in probes.values():
        assert files["pkg/__init__.py"] == b"from .core import feature\n"
        assert b"def feature(x):" in files["pkg/core.py"]
