"""Each format: its rows are recognised, and every column arrives in the instance."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from etude.environments.snapshots.builder.specification import Specification
from etude.generators.library.rows.formats import FORMATS, read_instances


@pytest.mark.parametrize(
    ("file", "name", "count"),
    [
        ("swe_bench.jsonl", "swe-bench", 2),
        ("swe_gym.jsonl", "swe-gym", 2),
        ("swe_smith.jsonl", "swe-smith", 2),
        ("r2e_gym.jsonl", "r2e-gym", 2),
        ("swe_rebench.jsonl", "swe-rebench", 2),
        ("swe_rebench_v2.json", "swe-rebench", 1),
        ("nemotron.jsonl", "nemotron", 3),
        ("harbor", "harbor", 3),
    ],
)
def test_rows_are_recognised(samples: Path, file: str, name: str, count: int) -> None:
    read = read_instances(str(samples / file))
    assert (read.format, len(read.instances)) == (name, count)


def test_a_swe_bench_row_keeps_every_column(samples: Path) -> None:
    row = json.loads((samples / "swe_bench.jsonl").read_text().splitlines()[0])
    instance = read_instances(str(samples / "swe_bench.jsonl")).instances[0]
    for column in ("instance_id", "repo", "base_commit", "problem_statement", "patch", "test_patch", "version"):
        assert getattr(instance, column) == row[column]
    assert instance.fail_to_pass == tuple(json.loads(row["FAIL_TO_PASS"]))
    assert instance.pass_to_pass == ("tests/test_core.py::test_old", "tests/test_core.py::test_p[a b]")
    assert instance.setup_commit == row["environment_setup_commit"]
    assert (instance.created_at, instance.hints_text) == (row["created_at"], "Is this a duplicate?")
    assert (instance.dataset, instance.lacks, instance.specification) == ("swe_bench", (), None)


def test_rows_of_other_languages_are_left_out_with_their_number(samples: Path) -> None:
    assert read_instances(str(samples / "swe_bench.jsonl")).skipped == ["1 of 3 rows left out: not Python"]
    assert read_instances(str(samples / "swe_rebench_v2.json")).skipped == ["1 of 2 rows left out: not Python"]


def test_a_swe_gym_row_has_no_environment(samples: Path) -> None:
    read = read_instances(str(samples / "swe_gym.jsonl"))
    moto = read.instances[0]
    assert (moto.repo, moto.version, moto.setup_commit) == ("getmoto/moto", "5.0", "")
    assert moto.created_at == "2024-02-19T20:29:03Z"
    assert moto.fail_to_pass == ("tests/test_ec2/test_models.py::test_state",)
    assert read.lacks == ["2 of 2 rows: no environment in the row; the version's own must be known"]


def test_a_swe_smith_row_is_a_bug_to_take_back(samples: Path) -> None:
    read = read_instances(str(samples / "swe_smith.jsonl"))
    first, second = read.instances
    assert (first.repo, first.base_commit) == ("example/shapes", "1fd52536")
    assert (second.repo, second.base_commit) == ("some-owner/a.b_c", "0a1b2c3d")
    assert "+    pass" in first.workspace_patch and "-    pass" in first.patch
    assert "+    if w < 0:\n+        return 0\n" in first.patch
    assert first.test_files == ("tests/test_area.py", "tests/test_more.py")
    assert first.image == "swesmith.x86_64.example__shapes.1fd52536"
    assert read.skipped == ["1 of 3 rows left out: without problem_statement"]


def test_an_r2e_gym_row_becomes_the_diff_of_its_commit(samples: Path) -> None:
    with_tests, without = read_instances(str(samples / "r2e_gym.jsonl")).instances
    commit = "0123456789abcdef0123456789abcdef01234567"
    assert with_tests.instance_id == "sympy__sympy-0123456789ab"
    assert (with_tests.repo, with_tests.base_commit) == ("sympy/sympy", f"{commit}^")
    assert with_tests.problem_statement == "**Title:** Add gives 1\n"
    assert with_tests.patch.startswith("diff --git a/doc/news.txt b/doc/news.txt\nnew file mode 100644\n")
    assert with_tests.patch.count("diff --git") == 2
    assert "logo.png" not in with_tests.patch
    assert with_tests.test_patch.endswith("+def test_two():\n+    assert f() == 2\n")
    assert with_tests.fail_to_pass == ("TestAdd.test_two",)
    assert with_tests.pass_to_pass == ("test_old",)
    assert with_tests.created_at == "2019-03-04T09:11:12Z"
    assert without.test_files == ("r2e_tests/test_1.py",)
    assert (without.repo, without.fail_to_pass) == ("python-pillow/Pillow", ())


def test_a_diff_of_r2e_gym_applies(samples: Path, tmp_path: Path) -> None:
    instance = read_instances(str(samples / "r2e_gym.jsonl")).instances[0]
    source = tmp_path / "sympy" / "core" / "add.py"
    source.parent.mkdir(parents=True)
    source.write_text("\n" * 9 + "    def f(self):\n        return 1\n\n")
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=instance.patch.encode(), check=True)
    assert source.read_text().endswith("    def f(self):\n        return 2\n\n")
    assert (tmp_path / "doc" / "news.txt").read_text() == "Add is fixed"


def test_a_swe_rebench_row_states_its_environment(samples: Path) -> None:
    pinned, loose = read_instances(str(samples / "swe_rebench.jsonl")).instances
    assert pinned.specification == Specification(
        repo="example/shapes",
        version="2.1",
        python="3.9",
        requirements=("attrs==23.1.0", "pytest==7.4.0"),
        edits=("sed -i 's/==/>=/' setup.cfg",),
        arguments=("-W", "ignore::DeprecationWarning"),
        env=(("TZ", "UTC"),),
    )
    assert loose.specification == Specification(
        repo="example/shapes",
        version="2.2",
        python="3.8",
        requirements=("numpy==1.19", "pandas", "pytest"),
        extras=("dev",),
        as_of="2025-04-30",
    )
    assert (pinned.licence, pinned.setup_commit) == ("MIT License", "")
    assert pinned.image == "swerebench/sweb.eval.x86_64.example_1776_shapes-201"
    assert pinned.lacks == ("set-up commands that are not run here (system packages, scripts)",)


def test_a_row_of_swe_rebench_v2_states_commands(samples: Path) -> None:
    (instance,) = read_instances(str(samples / "swe_rebench_v2.json")).instances
    assert instance.created_at == "2020-12-30T03:14:33Z"
    assert instance.specification == Specification(
        repo="example/shapes",
        version="3.10",
        python="3.10",
        requirements=("numpy<2", "pytest-mock"),
        requirement_files=("requirements/tests.txt",),
        extras=("test",),
        as_of="2026-02-28",
        arguments=("-W", "error"),
    )


def test_a_nemotron_row_is_read_as_the_row_inside(samples: Path) -> None:
    dictionary, instance, flat = read_instances(str(samples / "nemotron.jsonl")).instances
    bench = read_instances(str(samples / "swe_bench.jsonl")).instances[0]
    assert (dictionary.patch, dictionary.fail_to_pass, dictionary.dataset) == (
        bench.patch,
        bench.fail_to_pass,
        "SWE-bench_Verified",
    )
    assert (instance.instance_id, instance.dataset) == ("getmoto__moto-9001", "SWE-Gym")
    assert (flat.instance_id, flat.fail_to_pass) == ("example__shapes-103", ("tests/test_core.py::test_new",))


def test_harbor_folders_give_repository_commit_and_diffs(samples: Path) -> None:
    adapted, stated, cloned = read_instances(str(samples / "harbor")).instances
    bench = read_instances(str(samples / "swe_bench.jsonl")).instances[0]
    assert (adapted.instance_id, adapted.patch, adapted.version) == (bench.instance_id, bench.patch, "1.2")
    assert adapted.image == "swebench/sweb.eval.x86_64.example_1776_shapes-101"
    assert (stated.instance_id, stated.repo, stated.base_commit) == ("deep-cache-flags", "example/shapes", "1" * 40)
    assert (stated.problem_statement, stated.licence) == ("Cache areas between calls.\n", "MIT")
    assert (cloned.instance_id, cloned.repo, cloned.base_commit) == ("from-dockerfile", "example/shapes", "3" * 40)
    assert cloned.patch == stated.patch == bench.patch
    assert cloned.test_patch == bench.test_patch
    assert "a verifier of its own, tests/test.sh, which is not run" in cloned.lacks


def test_one_harbor_folder_is_a_source(samples: Path) -> None:
    read = read_instances(str(samples / "harbor" / "from-dockerfile"))
    assert [item.instance_id for item in read.instances] == ["from-dockerfile"]


def test_every_format_says_what_it_is() -> None:
    assert len(FORMATS.names()) == 7
    assert not [name for name in FORMATS.names() if "cannot be loaded" in FORMATS.describe(name)]
