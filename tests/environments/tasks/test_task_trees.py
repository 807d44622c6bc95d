"""Trees of a task: why a task that cannot be played cannot be played."""

from __future__ import annotations

import errno
import os

import pytest

from etude.environments.snapshots.store.cache import cache_folder
from etude.environments.tasks.task_trees import unplayable
from etude.errors import PatchError
from etude.models import Task


def git_without_space() -> PatchError:
    """Return the error of a patch that git could not write, of which only git's text is known."""
    return PatchError(f"error: unable to write file src/tally/core.py: {os.strerror(errno.ENOSPC)}")


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "x"), OSError(errno.EDQUOT, "x"), git_without_space()])
def test_a_full_disk_is_named_with_its_folder_and_the_remedy(task: Task, error: Exception) -> None:
    message = str(unplayable(task, error))
    assert f"no space left on {cache_folder()}; free some, or set ETUDE_CACHE" in message
    assert "patches" not in message


def test_a_full_disk_is_named_when_it_caused_another_error(task: Task) -> None:
    error = PatchError("the patch does not apply")
    error.__cause__ = OSError(errno.ENOSPC, "x")
    assert "no space left on" in str(unplayable(task, error))


def test_a_patch_that_does_not_apply_is_reported_without_its_text(task: Task) -> None:
    message = str(unplayable(task, PatchError("patch failed: def total(values):")))
    assert "its patches do not fit its snapshot; make the task again" in message
    assert "def total" not in message
