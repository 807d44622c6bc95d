"""Tests as text: the lines that check something, and what switches a test off."""

from __future__ import annotations

import re

SWITCHED_OFF = (
    r"pytest\.(mark\.)?(skip|xfail|exit|importorskip)|unittest\.(skip|expectedFailure)|SkipTest|__test__\s*=\s*False"
)
"""A regular expression for marks and exceptions with which a test is not run."""
LEFT_AT_ONCE = r"^[ \t]*(?:async[ \t]+)?def test\w*\([^)\n]*\)[^:\n]*:[ \t]*\n[ \t]+return(?:[ \t]+None)?[ \t]*$"
"""A regular expression, for several lines, for a test whose first statement leaves it."""
_CHECK = re.compile(r"^\s*(assert\b.*|self\.(assert|fail)\w*\(.*|with (pytest|self)\.(raises|assertRaises)\w*\(.*)")


def check_lines(text: str) -> list[str]:
    """Return the lines of a test that check something, without their indentation."""
    return [match[1].strip() for line in text.splitlines() if (match := _CHECK.match(line))]
