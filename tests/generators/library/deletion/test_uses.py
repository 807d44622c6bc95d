"""Who uses a definition: only what the source says for sure."""

from __future__ import annotations

import pytest

from etude.generators.library.deletion.family import absorbed_target
from etude.generators.library.deletion.removal.uses import call_sites, users_within
from etude.generators.python.source_tree import SourceTree

SHELF = """
def escape(text):
    return text


class Shelf:
    def escape(self, text):
        return self.clean(text)

    def clean(self, text):
        return text


class Low(Shelf):
    def put(self):
        self.escape(7)
"""
FILES = {
    "shelf.py": SHELF,
    "caller.py": "from html import unescape\nfrom shelf import escape\n\n\nx = escape(3)\n",
    "other.py": "from html import escape\n\nescape(4)\n\n\ndef show(box):\n    box.escape(4)\n",
    "module.py": "import shelf\n\nshelf.escape(5)\nprint(shelf.Shelf().escape(6))\n",
    "twin.py": "def escape(text):\n    return text\n\n\n# a\x0cb\ndef run():\n    return escape(8)\n",
    "user.py": "from shelf import Shelf\n\n\ndef use(box):\n    own = Shelf()\n    box.clean(1)\n    own.escape(9)\n",
}


@pytest.fixture
def tree(tmp_path):
    for path, text in FILES.items():
        (tmp_path / path).write_text(text)
    return SourceTree(tmp_path, tuple(FILES), (".",), frozenset())


def target(tree, path, name):
    return absorbed_target(next(item for item in tree.modules() if item.path == path), name)


def test_callers_are_calls_of_the_package_s_own_function(tree):
    assert call_sites(tree, target(tree, "shelf.py", "escape")) == [
        "caller.py:5: x = escape(3)",
        "module.py:3: shelf.escape(5)",
    ]


def test_a_function_of_the_same_name_in_another_module_has_its_own_callers(tree):
    assert call_sites(tree, target(tree, "twin.py", "escape")) == ["twin.py:7: return escape(8)"]


def test_a_method_is_called_on_self_and_on_objects_that_the_function_made(tree):
    assert call_sites(tree, target(tree, "shelf.py", "Shelf.escape")) == [
        "module.py:4: print(shelf.Shelf().escape(6))",
        "shelf.py:16: self.escape(7)",
        "user.py:7: own.escape(9)",
    ]


def test_the_lines_of_edited_files_are_those_of_the_edit(tree):
    edited = {"caller.py": b"from shelf import escape\nescape(1)\n"}
    sites = call_sites(tree, target(tree, "shelf.py", "escape"), edited=edited, most=1)
    assert sites == ["caller.py:2: escape(1)"]


def test_users_mention_the_definition_itself(tree):
    names = [("shelf.py", "Shelf.escape"), ("shelf.py", "Shelf.clean"), ("shelf.py", "Low.put"), ("user.py", "use")]
    targets = [target(tree, *name) for name in names]
    assert users_within(tree, [*targets, target(tree, "other.py", "show")]) == {
        "shelf.py::Shelf.escape": ["Low.put", "use"],
        "shelf.py::Shelf.clean": ["Shelf.escape"],
        "shelf.py::Low.put": [],
        "user.py::use": [],
        "other.py::show": [],
    }
