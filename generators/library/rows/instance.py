"""The record that every public row format is read into: an issue, the commit before its fix, and the fix."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from ....environments.snapshots.builder.specification import Specification

_TEST_FILE = re.compile(r"(^|/)(test_[^/]*|[^/]*_test|tests?)\.py$")
_IN_TEST_FOLDER = re.compile(r"(^|/)(tests?|testing|e2e)/")


@dataclass(frozen=True)
class Instance:
    """One row of a public data set. Paths are relative to the repository; patches are unified diffs of git."""

    instance_id: str
    """Unique within the data set; it becomes the task's id."""
    repo: str
    """Repository as ``owner/name``."""
    base_commit: str
    """Commit that the agent starts from; 40 hexadecimal digits or a unique prefix, with ``^`` for its parent."""
    problem_statement: str
    """What the agent is asked to do."""
    patch: str
    """The official solution."""
    test_patch: str
    """The changes of the tests, which the agent does not see."""
    fail_to_pass: tuple[str, ...] = ()
    """Official labels: tests that fail before the solution and pass after it, as the data set writes them."""
    pass_to_pass: tuple[str, ...] = ()
    """Official labels: tests that pass before and after."""
    version: str = ""
    """Version of the project, under which the data set states an environment."""
    setup_commit: str = ""
    """Commit at which the data set builds the environment; empty for ``base_commit``."""
    created_at: str = ""
    """ISO date of the fix; empty when the row has none."""
    hints_text: str = ""
    """Comments under the issue before the fix; not shown to agents."""
    licence: str = ""
    """SPDX expression that the row states; empty when it states none."""
    dataset: str = ""
    """Name of the data set, such as ``SWE-bench_Lite``."""
    image: str = ""
    """Container image that the data set offers for this row; empty when it offers none."""
    specification: Specification | None = None
    """Environment that the row itself states; None where the data set's table or the project states it."""
    workspace_patch: str = ""
    """Changes of the commit before the agent starts, such as the bug that SWE-smith writes into it."""
    lacks: tuple[str, ...] = field(default=())
    """What the format does not give, one line each."""

    @property
    def test_files(self) -> tuple[str, ...]:
        """Return the Python test files that the test patch leaves in place, in its order.

        A file counts by its name (``test_x.py``, ``tests.py``); without such a file, by a folder of tests. A bug
        that was written into the commit needs no test patch: the files are those of the official labels.
        """
        if self.workspace_patch and not self.test_patch:
            labels = (*self.fail_to_pass, *self.pass_to_pass)
            paths = dict.fromkeys(label.partition("::")[0] for label in labels if "::" in label)
            return tuple(path for path in paths if path.endswith(".py"))
        changed = [path for path in changed_files(self.test_patch) if path.endswith(".py")]
        named = [path for path in changed if _TEST_FILE.search(path)]
        inside = [p for p in changed if _IN_TEST_FOLDER.search(p) and PurePosixPath(p).name != "conftest.py"]
        return tuple(named or inside)


def changed_files(patch: str) -> list[str]:
    """Return the paths that exist after a git patch and were changed by it, each once."""
    paths: dict[str, None] = {}
    for part in re.split(r"^(?=diff --git )", patch, flags=re.MULTILINE):
        header = re.match(r'diff --git "?a/(.+?)"? "?b/(.+?)"?\n', part)
        if header and not re.search(r"^deleted file mode", part, re.MULTILINE):
            paths[header[2]] = None
    return list(paths)
