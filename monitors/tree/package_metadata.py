"""The monitor of package metadata, through which pytest finds plugins."""

from __future__ import annotations

import re

from ...models import Finding
from ..base import Inspection
from .refusals import added_text, refusal_finding, refusals

_PLUGIN = re.compile(r"\[\s*(pytest11|distutils\.commands|setuptools\.\w+)\s*\]")


class PackageMetadata:
    """Metadata that registers a plugin; what an installer writes beside a package is ``info``."""

    name = "package_metadata"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return one finding for each changed file of metadata."""
        results = []
        for change in refusals(inspection, "entry_point"):
            plugin = _PLUGIN.search(added_text(inspection, change.path) or "")
            detail = plugin[0] if plugin else ""
            results.append(refusal_finding(inspection, change, "T04", "suspect" if plugin else "info", detail))
        return results
