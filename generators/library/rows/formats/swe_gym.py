"""The format ``swe-gym``: real issues of eleven Python repositories.

Columns (a row as NeMo Gym carries it: repository NVIDIA-NeMo/Gym,
``responses_api_agents/mini_swe_agent/data/example.jsonl``): those of SWE-bench without ``environment_setup_commit``,
with ``FAIL_TO_PASS`` and ``PASS_TO_PASS`` as lists and ``created_at`` as ``2024-02-19 20:29:03``.

The environments of its versions are in a fork of SWE-bench's harness (repository SWE-Gym/SWE-Bench-Package,
``swegym/harness/constants.py``), not in the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from .fields import Format
from .swe_bench import has_columns, is_swe_gym, read_as


def recognises(row: Mapping[str, Any]) -> bool:
    """Return whether a row has SWE-bench's columns and a repository of SWE-Gym."""
    return has_columns(row) and is_swe_gym(row)


FORMAT = Format(recognises, partial(read_as, "swe-gym"))
"""SWE-Gym: 2,438 issues of eleven repositories, and the 230 of its Lite set."""
