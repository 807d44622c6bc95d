"""Rows and files that cannot be read: each gives one line with the place and the remedy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from etude.errors import EtudeError, RowError, UnknownName
from etude.generators.library.rows.formats import read_instances


def message(source: str, **options: Any) -> str:
    with pytest.raises(EtudeError) as caught:
        read_instances(source, **options)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("file", "changes", "expected"),
    [
        (
            "swe_bench.jsonl",
            {"base_commit": ""},
            "has no base_commit; swe-bench rows need it: add it or remove the row",
        ),
        ("swe_bench.jsonl", {"problem_statement": " \n"}, "has an empty problem_statement; swe-bench rows need it"),
        ("swe_bench.jsonl", {"base_commit": "main"}, "has the base_commit 'main'; write 7 to 40 hexadecimal digits"),
        ("swe_bench.jsonl", {"repo": "shapes"}, "names the repository 'shapes'; write it as owner/name"),
        ("swe_bench.jsonl", {"patch": "fix the sum"}, "has a patch that is not a git diff; write it as git diff does"),
        ("swe_bench.jsonl", {"patch": "diff --git a/a.py b/a.py\n"}, "has a patch that is not a git diff"),
        ("swe_bench.jsonl", {"test_patch": "--- a\n"}, "has a test_patch that is not a git diff"),
        ("swe_bench.jsonl", {"FAIL_TO_PASS": "test_a, test_b"}, "has a FAIL_TO_PASS that is not a list of tests"),
        ("swe_bench.jsonl", {"PASS_TO_PASS": [1]}, "has a PASS_TO_PASS that is not a list of tests"),
        ("swe_bench.jsonl", {"created_at": "yesterday"}, "has the created_at 'yesterday'; write it as 2024-06-30T"),
        ("swe_bench.jsonl", {"patch": ["x"]}, "has a patch that is not text but list; write it as text"),
        ("swe_rebench.jsonl", {"install_config": "{"}, "has an install_config that is not JSON; write it as a JSON"),
        ("swe_rebench.jsonl", {"install_config": {"install": "x"}}, "has an install_config without a Python version"),
        ("swe_rebench.jsonl", {"install_config": {"python": "3.9", "install": {}}}, "whose install is not text"),
        ("r2e_gym.jsonl", {"parsed_commit_content": "{"}, "has a parsed_commit_content that is not JSON"),
        ("r2e_gym.jsonl", {"parsed_commit_content": "{}"}, "has a parsed commit without 'file_diffs'"),
        (
            "r2e_gym.jsonl",
            {"repo_name": "left-pad"},
            "names the repository 'left-pad'; write owner/name, or one of aio",
        ),
        ("nemotron.jsonl", {"responses_create_params": {"metadata": {"instance_dict": "{"}}}, "instance_dict that is"),
    ],
)
def test_a_bad_row_names_its_line_and_the_remedy(
    changed_row: Callable[..., str], file: str, changes: dict[str, Any], expected: str
) -> None:
    source = changed_row(file, **changes)
    text = message(source)
    assert text.startswith(f"{source}:1 ")
    assert expected in text


def test_a_row_without_execution_names_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"instance_id": "a", "prompt": "Fix.", "golden_patch": "x"}))
    assert message(str(path)) == (
        f"{path}:1 names no repo and base_commit; name the data set that its row came from: it has them"
    )


def test_a_bug_with_a_binary_change_has_no_way_back(changed_row: Callable[..., str]) -> None:
    patch = "diff --git a/x.py b/x.py\nindex 1..2 100644\nGIT binary patch\nliteral 0\n"
    assert "has a patch with a binary change of x.py; its reverse is not known" in message(
        changed_row("swe_smith.jsonl", patch=patch)
    )


def test_a_bad_line_is_named_by_its_number(samples: Path, tmp_path: Path) -> None:
    good = (samples / "swe_bench.jsonl").read_text().splitlines()
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{good[0]}\n\n{good[1][:80]}\n")
    assert message(str(path)).startswith(f"{path}:3 is not JSON (")
    path.write_text(f"{good[0]}\n[1, 2]\n")
    assert message(str(path)) == f"{path}:2 is not a row but list; write one JSON object per row"
    path.write_bytes(b"\xff\xfe\n")
    assert message(str(path)).startswith(f"{path}:1 is not JSON (")


def test_a_repeated_identifier_names_both_rows(samples: Path, tmp_path: Path) -> None:
    line = (samples / "swe_bench.jsonl").read_text().splitlines()[0]
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{line}\n{line}\n")
    assert message(str(path)) == (
        f"{path}:2 repeats the instance_id 'example__shapes-101' of {path}:1; remove one of the two rows"
    )


def test_another_schema_names_the_columns_and_the_formats(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"question": "2+2?", "answer": "4"}\n')
    text = message(str(path))
    assert text.startswith(
        f"{path}:1 has no row format that is known here (its columns: question, answer); name one of"
    )
    assert "swe-bench" in text and "harbor" in text


def test_a_named_format_is_used_and_a_wrong_one_offers_the_nearest(samples: Path) -> None:
    source = str(samples / "swe_gym.jsonl")
    assert read_instances(source, format="swe-bench").format == "swe-bench"
    with pytest.raises(UnknownName, match="unknown row format 'swebench'. Did you mean 'swe-bench'"):
        read_instances(source, format="swebench")
    assert "is not a Harbor task folder, but the format is harbor" in message(source, format="harbor")
    assert "is a Harbor task folder, but the format is swe-bench" in message(
        str(samples / "harbor"), format="swe-bench"
    )


def test_nothing_to_read_says_what_to_name(tmp_path: Path, samples: Path) -> None:
    assert message(str(tmp_path / "none.jsonl")).endswith("or a data set such as swe-bench:lite")
    assert "Did you mean 'swe-bench:lite'" in message("swe-bench:light")
    assert message(str(tmp_path)).startswith(f"{tmp_path} holds no rows; name a folder with")
    (tmp_path / "rows.csv").write_text("a,b\n")
    assert "is not a file of rows; name a .jsonl, .json or .parquet file" in message(str(tmp_path / "rows.csv"))
    (tmp_path / "empty.jsonl").write_text("")
    assert "has no row that can become a task (it is empty)" in message(str(tmp_path / "empty.jsonl"))
    only_go = (samples / "swe_bench.jsonl").read_text().splitlines()[2]
    (tmp_path / "go.jsonl").write_text(only_go)
    assert "(1 of 1 rows left out: not Python); name another data set" in message(str(tmp_path / "go.jsonl"))
    with pytest.raises(RowError, match="limit must be at least 1, got 0"):
        read_instances(str(samples / "swe_bench.jsonl"), limit=0)


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        ({"task.toml": "[metadata\n"}, "/task.toml is not TOML ("),
        ({"instruction.md": None}, "has no instruction.md; add the task's statement"),
        ({"environment/Dockerfile": "FROM x\n"}, "names no repository and commit; add repository_url and base_commit"),
        ({"solution/solve.sh": "#!/bin/bash\nexit 0\n"}, "has no diff in solution/; add solution/solution.patch"),
        ({"tests/config.json": "{"}, "has a tests/config.json that is not JSON ("),
    ],
)
def test_a_damaged_harbor_task_names_the_file(
    samples: Path, tmp_path: Path, damage: dict[str, str | None], expected: str
) -> None:
    folder = tmp_path / "task"
    shutil.copytree(samples / "harbor" / "from-dockerfile", folder)
    for name, content in damage.items():
        (folder / name).unlink(missing_ok=True)
        if content is not None:
            (folder / name).write_text(content)
    text = message(str(folder))
    assert text.startswith(str(folder))
    assert expected in text
