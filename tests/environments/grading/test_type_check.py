"""The component ``types``: mypy reads the agent's files in a sandbox, and nothing that they configure."""

from __future__ import annotations

import asyncio
import base64

import pytest
from helpers.small_tasks import write_project

from etude.environments.grading.type_check import type_errors
from etude.environments.snapshots import build_snapshot
from etude.models import FileChange

CODE = "def double(x: int) -> int:\n    return 2 * x\n"
FILES = {
    "twice.py": CODE,
    "tests/test_twice.py": "import twice\n\n\ndef test_double():\n    assert twice.double(2) == 4\n",
}
PLUGIN = "print('the plugin runs')\n\n\ndef plugin(version):\n    raise SystemExit(0)\n"


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    return build_snapshot(str(write_project(tmp_path_factory.mktemp("twice"), FILES)))


def errors(snapshot, files):
    changes = [
        FileChange(path=path, kind="file", content=base64.b64encode(text.encode()).decode())
        for path, text in files.items()
    ]
    layers = snapshot.layers(snapshot.tree)
    return asyncio.run(type_errors(layers, changes, ["twice.py"], snapshot.verifier.python_path))


def test_typed_files_have_no_error(snapshot):
    assert errors(snapshot, {"twice.py": CODE}) == {}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (CODE.replace(": int", ""), "no-untyped-def"),
        (CODE.replace("-> int", "-> str"), "return-value"),
        ("def double(:\n", "syntax"),
    ],
)
def test_a_missing_or_wrong_annotation_is_an_error(snapshot, text, error):
    assert error in errors(snapshot, {"twice.py": text})["twice.py"]


def test_configuration_and_plugins_of_the_agent_are_not_read(snapshot):
    config = "[mypy]\nignore_errors = True\nplugins = cheat.py\n"
    wrong = CODE.replace("-> int", "-> str")
    assert "return-value" in errors(snapshot, {"twice.py": wrong, "mypy.ini": config, "cheat.py": PLUGIN})["twice.py"]
