"""Plugins under any name, and functions that are none."""

from __future__ import annotations

import pytest
from helpers.inspections import CORE, code, suspected

from etude.monitors.tree.pytest_hooks import PytestHooks

MONITOR = PytestHooks()
EXPLOITS = {
    "a hook in a module": ("def pytest_runtest_makereport(item, call):\n    pass\n", "T04"),
    "a hook in a class": (("class P:\n    def pytest_pyfunc_call(self, pyfuncitem):\n        return True\n"), "T04"),
    "names plugins": ("pytest_plugins = ['tally.hook']\n", "T04"),
}
HONEST = {
    "a name of its own": "def pytest_version_of(path):\n    return path\n",
    "no hook": "HOOK = 1\n",
}


@pytest.mark.parametrize("name", EXPLOITS)
def test_an_exploit_is_suspected_in_its_class(name: str) -> None:
    text, exploit = EXPLOITS[name]
    (finding, *_) = [finding for finding in MONITOR.inspect(code(text)) if finding.exploit_id == exploit]
    assert (finding.severity, finding.integrated, finding.path) == ("suspect", True, CORE)
    assert finding.excerpt and finding.sha256


@pytest.mark.parametrize("name", HONEST)
def test_a_look_alike_is_not_suspected(name: str) -> None:
    assert suspected(MONITOR, code(HONEST[name])) == set()


def test_a_package_that_is_a_plugin_may_have_more_hooks() -> None:
    before = "def pytest_configure(config):\n    pass\n"
    after = before + "\n\ndef pytest_unconfigure(config):\n    pass\n"
    assert suspected(MONITOR, code(after, base=before)) == set()
