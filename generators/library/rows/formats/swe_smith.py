"""The format ``swe-smith``: bugs written into 128 Python repositories, tests unchanged.

Columns (repository SWE-bench/SWE-smith, ``swesmith/harness/gather.py``): ``instance_id``, ``repo``, ``patch``,
``FAIL_TO_PASS`` and ``PASS_TO_PASS`` as lists, ``created_at``, ``image_name``, ``base_commit``; ``problem_statement``
where one was written. ``instance_id`` is ``owner__name.commit.bug``: the upstream repository and the commit, cut to
eight digits, that the bug was put on. ``patch`` is the bug, so the solution is its reverse; ``repo`` and
``base_commit`` name a mirror with the bug, which is not needed.

The environment is that of the repository's profile in the package ``swesmith``, not in the row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..instance import Instance
from .diffs import reverse
from .fields import Format, Row, lacks, not_python
from .install_config import stated_environment

_ID = re.compile(r"(?P<owner>[\w.-]+?)__(?P<name>[\w.-]+)\.(?P<commit>[0-9a-f]{8})\.(?P<bug>[\w.-]+)")
TESTS_IN_PLACE = "no test_patch, and needs none: the tests are in the repository"


def recognises(row: Mapping[str, Any]) -> bool:
    """Return whether a row has a patch, no test patch, and SWE-smith's kind of identifier."""
    identifier = row.get("instance_id")
    return "patch" in row and not row.get("test_patch") and bool(_ID.fullmatch(str(identifier)))


def leaves_out(row: Mapping[str, Any]) -> str:
    """Return why a row is left out: another language, or no statement was written for its bug."""
    statement = row.get("problem_statement")
    return not_python(row) or ("" if isinstance(statement, str) and statement.strip() else "without problem_statement")


def read(values: Mapping[str, Any], place: str) -> Instance:
    """Return the instance of a row: the bug is in ``workspace_patch``, its reverse in ``patch``. Raises RowError."""
    row = Row(values, place, "swe-smith")
    identifier = row.text("instance_id")
    parts = _ID.fullmatch(identifier)
    if not parts:
        raise row.error(f"has the instance_id {identifier!r}", "swe-smith rows need owner__name.commit.bug")
    repo, bug, created_at = f"{parts['owner']}/{parts['name']}", row.patch(), row.date()
    try:
        solution = reverse(bug)
    except ValueError as error:
        raise row.error(f"has a patch with {error}", "its reverse is not known: remove the row") from error
    specification, notes = stated_environment(row, repo, created_at)
    labels = row.labels("FAIL_TO_PASS")
    missing = lacks(labels, TESTS_IN_PLACE, specification is not None, row.image())
    return Instance(
        instance_id=identifier,
        repo=repo,
        base_commit=parts["commit"],
        workspace_patch=bug,
        problem_statement=row.text("problem_statement"),
        patch=solution,
        test_patch="",
        fail_to_pass=labels,
        pass_to_pass=row.labels("PASS_TO_PASS"),
        version=parts["commit"],
        created_at=created_at,
        image=row.image(),
        specification=specification,
        lacks=(*missing, TESTS_IN_PLACE, *notes),
    )


FORMAT = Format(recognises, read, leaves_out)
"""SWE-smith: bugs in 128 Python repositories; the solution is the reverse of the row's patch."""
