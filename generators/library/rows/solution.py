"""The official solution as an agent's diff: the files that its patch changes, as they are afterwards."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from ....environments.snapshots.store.cache import cache_folder, temporary_folder
from ....environments.snapshots.store.patches import apply_patch
from ...base import Files
from ...python.source_tree import read_files

_NAMES = re.compile(r'^diff --git "?a/(.+?)"? "?b/(.+?)"?$', re.MULTILINE)


def solved_files(tree: Path, patch: str, workspace_patch: str = "") -> Files:
    """Return path -> content after the patch, None for a deleted file. Raises PatchError when it does not apply.

    ``workspace_patch`` is applied to the tree before it.
    """
    paths = sorted({path for names in _NAMES.findall(workspace_patch + patch) for path in names})
    with temporary_folder(cache_folder()) as staging:
        scratch = staging / "tree"
        scratch.mkdir()
        for path in paths:
            if (tree / path).is_file():
                (scratch / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(tree / path, scratch / path)
        if workspace_patch:
            apply_patch(scratch, workspace_patch)
        before = read_files(scratch, paths)
        apply_patch(scratch, patch)
        after = read_files(scratch, paths)
    return {path: content for path, content in after.items() if content != before[path]}
