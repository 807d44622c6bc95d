"""The monitor of code that reaches into the test runner."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ....models import Finding
from ...base import Inspection
from ...evidence.added_code import Hit, findings, named_hits
from ...reading import AddedFile, Module

_RULES = {
    re.compile(r"(_pytest|pluggy)(\..*)?"): ("T07", "internals of the test runner"),
    re.compile(r"pytest(\.(?!skip\b|xfail\b|importorskip\b|exit\b|fail\b).*)?"): ("T07", "the test runner"),
    re.compile(r"unittest\.((case|suite|runner|result|loader|TestCase\.)(\..*|$)|TestCase\.\w+)"): (
        "T07",
        "internals of unittest",
    ),
    re.compile(
        r"pytest\.(skip|xfail|importorskip)|unittest\.(case\.)?(SkipTest|skip\w*)|"
        r"_pytest\.outcomes\.(Skipped|XFailed|skip|xfail|importorskip)"
    ): ("T09", "skips a test"),
    re.compile(r"pytest\.(exit|fail)|_pytest\.outcomes\.(Exit|exit)"): ("T08", "ends the test run"),
}
_TEST_SUPPORT = re.compile(r"(^|[/_])(testing|pytest_\w+|pytest|test_?utils?|conftest)([/_.]|$)")


class RunnerAccess:
    """Code that imports or looks up pytest, pluggy or unittest's internals, or that skips or ends tests.

    A package's own support for tests, such as ``package/testing.py``, imports them honestly and is left out.
    """

    name = "runner_access"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return a finding for each kind of access in added code."""
        return findings(inspection, _search)


def _search(module: Module, file: AddedFile) -> Iterator[Hit]:
    if _TEST_SUPPORT.search(file.path):
        return
    at_import = "T16" if file.path.endswith("__init__.py") else "T09"
    for hit in named_hits(module, _RULES):
        is_deferred = hit.line in module.inside
        exploit = at_import if hit.exploit_id == "T09" and not is_deferred else hit.exploit_id
        yield Hit(exploit, hit.key, hit.line, hit.last_line)
