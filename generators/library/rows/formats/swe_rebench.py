"""The format ``swe-rebench``: issues collected automatically, each row with its own environment.

Columns (repository SWE-rebench/SWE-bench-fork, ``swebench/harness/constants/__init__.py`` and
``swebench/harness/utils.py``): SWE-bench's, with lists as lists, and ``install_config``; the data set's card adds
``license_name``, ``requirements`` (the packages that were installed), ``docker_image`` and ``meta``. V2 (repository
SWE-rebench/SWE-rebench-V2, ``sample.json``) has ``language``, ``image_name``, ``interface``, ``pr_description`` and
``created_at`` in milliseconds, in place of ``version`` and ``requirements``; only its Python rows are read.

The environment is the row's own; it is built at ``base_commit``, as the fork does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..instance import Instance
from .fields import Format
from .swe_bench import COLUMNS, read_as


def recognises(row: Mapping[str, Any]) -> bool:
    """Return whether a row has SWE-bench's columns and an ``install_config``."""
    wrapped = "responses_create_params" in row
    return all(name in row for name in (*COLUMNS, "test_patch", "install_config")) and not wrapped


def read(values: Mapping[str, Any], place: str) -> Instance:
    """Return the instance of a row, with its environment. Raises RowError."""
    instance = read_as("swe-rebench", values, place)
    return replace(instance, setup_commit="") if instance.specification else instance


FORMAT = Format(recognises, read)
"""SWE-rebench, its leaderboard and V2's Python part; the row states the environment."""
