"""Names to objects: built-in, from a third party, and mistyped."""

from __future__ import annotations

from pathlib import Path

import pytest

from etude.errors import UnknownName
from etude.registry import Registry, did_you_mean

SHAPES = Registry("shape", "etude_test.shapes", {"decoder": "json:JSONDecoder", "task": ".models:Task"})


def test_a_name_loads_its_object() -> None:
    import json

    assert SHAPES.load("decoder") is json.JSONDecoder


def test_a_relative_path_is_one_of_etudes_own() -> None:
    from etude.models import Task

    assert SHAPES.load("task") is Task


def test_a_mistyped_name_gets_the_nearest() -> None:
    with pytest.raises(UnknownName) as caught:
        SHAPES.load("decodr")
    assert str(caught.value) == "unknown shape 'decodr'. Did you mean 'decoder'?"


def test_a_name_like_no_other_gets_the_list() -> None:
    assert did_you_mean("shape", "zzz", ["b", "a"]) == "unknown shape 'zzz'. There are: a, b"
    assert did_you_mean("shape", "zzz", []) == "unknown shape 'zzz'. There are: none"


@pytest.mark.parametrize(
    ("name", "offered"),
    [
        ("FD_FUNCTION", "'fd_function'"),
        ("fd_func", "'fd_function'"),
        ("bug_opertor", "'bug_operator'"),
        ("history", "one of 'history_pr', 'history_revert'"),
        ("feature_deletion", "'fd_feature'"),
        ("bugs", "one of 'bug_class', 'bug_operator'"),
        ("delete", ""),
        ("deletion", ""),
    ],
)
def test_a_name_is_offered_when_it_is_mistyped_or_shares_a_word(name: str, offered: str) -> None:
    names = "bug_class bug_operator fd_feature fd_function fd_skeleton history_pr history_revert".split()
    ending = f" Did you mean {offered}?" if offered else f" There are: {', '.join(names)}"
    assert did_you_mean("generator", name, names) == f"unknown generator {name!r}.{ending}"


def test_a_message_lists_a_part_of_thousands_of_names() -> None:
    names = [f"pkg.{number:04}" for number in range(2000)]
    assert did_you_mean("task", "zzz", names).endswith(", pkg.0199 and 1800 others")
    assert did_you_mean("task", "pkg", names).endswith(", 'pkg.0199' and 1800 others?")


def test_a_third_party_adds_names_and_cannot_take_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "third_party-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[etude_test.shapes]\nencoder = json:JSONEncoder\ndecoder = json:loads\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import json

    assert SHAPES.names() == ["decoder", "encoder", "task"]
    assert SHAPES.load("encoder") is json.JSONEncoder
    assert SHAPES.load("decoder") is json.JSONDecoder


def test_a_built_in_name_loads_without_a_look_at_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    import json

    def entry_points(**_: str) -> None:
        raise AssertionError("reads the metadata of every installed package")

    monkeypatch.setattr("etude.registry.entry_points", entry_points)
    assert SHAPES.load("decoder") is json.JSONDecoder


def test_describe_returns_the_first_line_of_the_docstring_or_the_reason_why_it_cannot_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "described.py").write_text(
        '"""Shapes of the module.\n\nMore."""\nfrom dataclasses import dataclass\n\n'
        'class Square:\n    """Four equal sides.\n\n    And corners.\n    """\n\n'
        "class Plain(Square):\n    pass\n\n@dataclass\nclass Generated:\n    side: int = 1\n\nSQUARE = Square()\n"
    )
    (tmp_path / "broken_shape.py").write_text("raise ImportError('needs\\nnumpy')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    shapes = Registry(
        "shape",
        "etude_test.described",
        {
            "square": "described:Square",
            "plain": "described:Plain",
            "generated": "described:Generated",
            "instance": "described:SQUARE",
            "broken": "broken_shape:Shape",
            "absent": "described:Circle",
        },
    )
    assert shapes.describe("square") == "Four equal sides."
    for name in ("plain", "generated", "instance"):
        assert shapes.describe(name) == "Shapes of the module.", name
    assert shapes.describe("broken") == "cannot be loaded (ImportError: needs numpy)"
    assert "has no attribute 'Circle'" in shapes.describe("absent")
    with pytest.raises(UnknownName, match="Did you mean 'square'"):
        shapes.describe("sqare")
