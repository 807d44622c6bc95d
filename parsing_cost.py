"""Check for texts that Python's own parser would take seconds to read; an agent may write one on purpose.

Until Python 3.11 each field of an f-string is parsed apart, after all that stands before it has been copied: 150 KB of
fields take seven seconds, and four times as many take a minute.
"""

from __future__ import annotations

import re

MOST_FIELDS = 12_000
"""Most opening braces of a text that has an f-string: more may take longer than a second."""
_F_STRING = re.compile(rb"(?<![0-9A-Za-z_])[rR]?[fF][rR]?['\"]")


def is_costly(source: str | bytes) -> bool:
    """Return whether a text may take seconds to parse; its readers treat it as no Python."""
    text = source.encode("utf-8", "replace") if isinstance(source, str) else source
    return text.count(b"{") > MOST_FIELDS and _F_STRING.search(text) is not None
