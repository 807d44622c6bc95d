"""The monitor of entries other than regular files, and of names that hide something."""

from __future__ import annotations

import re

from ...models import FileChange, Finding
from ..base import Inspection
from .refusals import content_of, refusal_finding, refusals

_OUTSIDE = re.compile(r"^/(?!workspace(/|$)|usr/|bin/|opt/etude/|tmp/)|^(\.\./)+(proc|etc|root|home|dev|sys|var)\b")
_SOURCE = (".py", ".pyi", ".so", ".toml", ".cfg", ".ini")


class Links:
    """Links in the place of sources or to places outside the workspace, special files, and names with tricks.

    Other links, such as those of a virtual environment or a build, are ``info``.
    """

    name = "links"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return one finding for each link, special file or malformed path."""
        results = [_link(inspection, change) for change in refusals(inspection, "link")]
        for change in refusals(inspection, "special", "path"):
            results.append(refusal_finding(inspection, change, "S07", "suspect"))
        return results


def _link(inspection: Inspection, change: FileChange) -> Finding:
    target = content_of(inspection, change.path)
    replaces = change.path in inspection.base or change.path.endswith(_SOURCE)
    leads_out = target is not None and _OUTSIDE.search(target) is not None
    severe = replaces or leads_out
    return refusal_finding(inspection, change, "S07", "suspect" if severe else "info", target or "")
