"""Trivial attempts at writing tests; each must score 0."""

from __future__ import annotations

import hashlib

from ....environments.grading.mutants import unpack
from ....environments.tasks.task_trees import Materials
from ....models import MutantsVerifier, Task
from ...base import Files
from ...python.source_tree import SourceTree, read_files

_TRUE = "def test_it():\n    assert True\n"
_FALSE = "def test_it():\n    assert False\n"
_IMPORT = "import {module}\n\n\ndef test_import():\n    import {module}\n\n\n" + _TRUE
_SOURCE = """import hashlib
import pathlib


def test_source():
    root = pathlib.Path(__file__).resolve()
    while not (root / {path!r}).exists():
        root = root.parent
    assert hashlib.sha256((root / {path!r}).read_bytes()).hexdigest() {sign} {digest!r}
"""


def probes(task: Task, trees: Materials) -> dict[str, Files]:
    """Return the trivial attempts by name; one of them compares the source with the workspace's."""
    verifier = task.verifier
    assert isinstance(verifier, MutantsVerifier), "these attempts are tests"
    versions = unpack(verifier.versions)
    paths = [path for path in versions[0].files if path.endswith(".py")]
    workspace = read_files(trees.agent_tree, paths)
    texts = {"nothing": "", "assert False": _FALSE}
    if paths:
        path, content = paths[0], workspace[paths[0]] or b""
        right = [version for version in versions if version.is_right]
        same = any(version.files[path] == content.decode("utf-8", "surrogateescape") for version in right)
        sign, module = "==" if same else "!=", SourceTree.of(trees.snapshot).dotted_name(path)
        digest = hashlib.sha256(content).hexdigest()
        texts["import and assert True"] = _IMPORT.format(module=module)
        texts["compare the source"] = _SOURCE.format(path=path, sign=sign, digest=digest)
    return {name: {verifier.test_file: text.encode()} if text else {} for name, text in texts.items()}
