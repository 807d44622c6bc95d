"""The monitor of files that Python runs before any test."""

from __future__ import annotations

from ...models import Finding
from ..base import Inspection
from .refusals import refusal_finding, refusals


class ImportHooks:
    """``sitecustomize``, ``usercustomize`` and ``.pth`` files, and bytecode that stands in for a source file.

    Bytecode in ``__pycache__`` is an ordinary leftover; a link of a development install is ``info``.
    """

    name = "import_hooks"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return one finding for each such file."""
        results = []
        for change in refusals(inspection, "import_hook"):
            is_link = change.path.endswith(".egg-link")
            results.append(refusal_finding(inspection, change, "T05", "info" if is_link else "suspect"))
        for change in refusals(inspection, "cache"):
            if change.path.endswith((".pyc", ".pyo")) and "__pycache__" not in change.path:
                results.append(refusal_finding(inspection, change, "T05", "suspect", "bytecode beside the sources"))
        return results
