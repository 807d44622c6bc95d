"""The format ``swe-bench``: SWE-bench's Lite, Verified and full rows, and Multilingual's in Python.

Columns (repository SWE-bench/SWE-bench, ``docs/guides/datasets.md`` and ``swebench/cli/_datasets.py``):
``instance_id``, ``repo``, ``base_commit``, ``patch``, ``test_patch``, ``problem_statement``, ``hints_text``,
``created_at``, ``version``, ``FAIL_TO_PASS`` and ``PASS_TO_PASS`` (lists as JSON text), and, except in Multilingual,
``environment_setup_commit``. Verified adds ``difficulty``. Rows of other languages are left out; all rows of
Multilingual as it was published are in nine other languages.

The environment is SWE-bench's own for the version, unless the row brings an ``install_config``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ....selection.benchmarks import benchmarks_of
from ..instance import Instance
from .fields import Format, Row, lacks
from .install_config import stated_environment

COLUMNS = ("instance_id", "repo", "base_commit", "patch", "problem_statement")
_OTHERS = ("install_config", "responses_create_params", "parsed_commit_content")


def is_swe_gym(row: Mapping[str, Any]) -> bool:
    """Return whether a row with SWE-bench's columns is one of SWE-Gym, whose rows have no environment_setup_commit."""
    return "environment_setup_commit" not in row and "swe-gym" in benchmarks_of(str(row.get("repo")))


def has_columns(row: Mapping[str, Any]) -> bool:
    """Return whether a row has the columns of SWE-bench, and none that marks another format."""
    return all(name in row for name in (*COLUMNS, "test_patch")) and not any(name in row for name in _OTHERS)


def recognises(row: Mapping[str, Any]) -> bool:
    """Return whether a row has SWE-bench's columns."""
    return has_columns(row) and not is_swe_gym(row)


def read_as(format_name: str, values: Mapping[str, Any], place: str) -> Instance:
    """Return the instance of a row with SWE-bench's columns. Raises RowError."""
    row = Row(values, place, format_name)
    repo, created_at = row.repo(), row.date()
    specification, notes = stated_environment(row, repo, created_at)
    labels = row.labels("FAIL_TO_PASS", "fail_to_pass")
    test_patch = row.test_patch()
    version = row.optional("version")
    has_environment = specification is not None or (bool(version) and format_name == "swe-bench")
    return Instance(
        instance_id=row.text("instance_id"),
        repo=repo,
        base_commit=row.commit(),
        problem_statement=row.text("problem_statement"),
        patch=row.patch(),
        test_patch=test_patch,
        fail_to_pass=labels,
        pass_to_pass=row.labels("PASS_TO_PASS", "pass_to_pass"),
        version=version,
        setup_commit=row.commit("environment_setup_commit") if row.optional("environment_setup_commit") else "",
        created_at=created_at,
        hints_text=row.optional("hints_text"),
        licence=row.optional("license_name", "license", "licence"),
        image=row.image(),
        specification=specification,
        lacks=(*lacks(labels, test_patch, has_environment, row.image()), *notes),
    )


FORMAT = Format(recognises, partial(read_as, "swe-bench"))
"""SWE-bench: Lite, Verified, full, and Multilingual's Python part."""
