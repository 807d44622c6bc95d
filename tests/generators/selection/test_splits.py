"""Splits: drawn for a whole repository, never moved by other packages; weak and benchmark tasks have their own."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from etude.errors import GeneratorError
from etude.generators.output.publish import Row
from etude.generators.selection.apply import selection_report, with_splits
from etude.generators.selection.benchmarks import benchmarks, benchmarks_of
from etude.generators.selection.splits import BENCHMARK, WEAK, SplitRules
from etude.models import GeneratorRef, SnapshotRef, Task

NAMES = [f"package-{number}" for number in range(1000)]


def task(repo: str = "scales", strength: float | None = 1.0, spec: str = "", name: str = "t") -> Task:
    recipe = {"source": {"spec": spec}}
    return Task(
        task_id=name,
        repo=repo,
        snapshot=SnapshotRef(digest="d", recipe=recipe),
        generator=GeneratorRef(name="hand", version="1", seed=0),
        problem_statement="Do it.",
        verifier_strength=strength,
    )


def test_repositories_are_drawn_with_the_shares() -> None:
    counts = Counter(map(SplitRules().split_of_repository, NAMES))
    assert set(counts) == {"train", "validation", "test"}
    assert 750 < counts["train"] < 850 and 70 < counts["test"] < 130


def test_the_split_of_a_repository_depends_on_its_name_alone() -> None:
    rules = SplitRules()
    assert [rules.split_of_repository(name) for name in NAMES[:3]] == ["train", "train", "train"]
    assert rules.split_of_repository("Ruamel.Yaml_x") == rules.split_of_repository("ruamel-yaml-x")
    held_out = {name for name in NAMES if rules.split_of_repository(name) == "test"}
    fewer = SplitRules.read("train=0.9,test=0.1")
    assert {name for name in NAMES if fewer.split_of_repository(name) == "test"} == held_out


def test_all_tasks_of_a_repository_are_in_one_split_whatever_the_version_and_source() -> None:
    rules = SplitRules()
    tasks = [task("anytree", spec=f"pypi:anytree=={n}") for n in range(3)]
    assert len({rules.split_of(item) for item in [*tasks, task("anytree", spec="git+https://x.org/a@1")]}) == 1


def test_a_task_is_weak_when_its_tests_notice_too_few_mistakes() -> None:
    rules = SplitRules()
    drawn = rules.split_of_repository("scales")
    assert [rules.split_of(task(strength=value)) for value in (0.59, 0.6, None)] == [WEAK, drawn, drawn]
    assert SplitRules(min_strength=0.0).split_of(task(strength=0.0)) == drawn


@pytest.mark.parametrize(
    ("package", "spec", "names"),
    [
        ("Cachetools", "", ["commit0"]),
        ("prompt_toolkit", "", ["commit0"]),
        ("hydra-core", "", ["swe-gym"]),
        ("requests", "", ["swe-bench", "commit0"]),
        ("psf/requests", "", ["swe-bench", "commit0"]),
        ("renamed", "git+https://github.com/Pallets/Flask.git@2.0", ["swe-bench", "commit0"]),
        ("anytree", "pypi:anytree==2.13.0", []),
        ("flask-login", "git+https://github.com/maxcountryman/flask-login@1", []),
    ],
)
def test_benchmarks_are_matched_by_distribution_and_by_repository(package: str, spec: str, names: list[str]) -> None:
    assert benchmarks_of(package, spec) == names


def test_each_benchmark_names_its_source() -> None:
    assert [(item.name, len(item.repositories)) for item in benchmarks()] == [
        ("swe-bench", 18),
        ("swe-gym", 11),
        ("commit0", 56),
    ]
    assert all(item.source and item.title for item in benchmarks())


def test_a_benchmark_task_is_in_no_train_split_unless_asked_for() -> None:
    assert SplitRules().split_of(task("cachetools")) == BENCHMARK
    assert SplitRules.read("train=1").split_of(task("cachetools")) == BENCHMARK
    assert SplitRules().split_of(task("cachetools", strength=0.1)) == BENCHMARK
    assert SplitRules.read("train=1", include_benchmarks=True).split_of(task("cachetools")) == "train"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train", "'train' is not NAME=SHARE; write splits like 'train=0.8,validation=0.1,test=0.1'"),
        ("train=x", "'train=x' is not NAME=SHARE"),
        ("train=nan", "'train=nan' is not NAME=SHARE"),
        ("train=0.5", "must be different names with positive shares that add up to 1"),
        ("a=0.5,a=0.5", "must be different names"),
        ("weak=1", "the split 'weak' has a meaning of its own; choose another name"),
    ],
)
def test_bad_splits_are_refused(text: str, message: str) -> None:
    with pytest.raises(GeneratorError) as error:
        SplitRules.read(text)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_bad_strength_is_refused() -> None:
    with pytest.raises(GeneratorError, match="the least strength must be from 0 to 1, got 2"):
        SplitRules(min_strength=2)


def test_the_report_counts_splits_and_weak_tasks() -> None:
    rules = SplitRules.read("train=1")
    given = [task(name="a"), task("cachetools", 0.5, name="b"), task("other", 0.2, name="c"), task(name="d")]
    rows = with_splits([Row("s", "g", item.task_id, item) for item in given] + [Row("s", "g", "gone", None)], rules)
    tasks = [row.task for row in rows if row.task]
    tasks[-1].verifier_strength = None
    report = selection_report(tasks, rules)
    assert report.splits == {"benchmark": 1, "train": 2, "weak": 1}
    assert (report.below_strength, report.unmeasured_strength, report.min_strength) == (2, 1, 0.6)
    assert report.benchmarks == {"cachetools": ["commit0"]}


def test_settings_are_part_of_a_request_only_where_they_differ() -> None:
    changes: dict[str, Any] = {"shares": "train=1", "include_benchmarks": True}
    assert SplitRules().changed() == {}
    assert SplitRules.read("train=1", include_benchmarks=True).changed() == changes
