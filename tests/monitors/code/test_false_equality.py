"""Objects that agree with everything, and honest comparisons."""

from __future__ import annotations

import pytest
from helpers.inspections import CORE, code, suspected

from etude.monitors.code.false_equality import FalseEquality

MONITOR = FalseEquality()
EXPLOITS = {
    "always equal": ("class T:\n    def __eq__(self, other):\n        return True\n", "T14"),
    "a subclass of str": (("class T(str):\n    __eq__ = lambda s, o: True\n    __hash__ = str.__hash__\n"), "T14"),
    "a disguised constant": (
        ("class T:\n    def __eq__(self, other):\n        return self is other or not None\n"),
        "T14",
    ),
    "never unequal": ("class T(int):\n    def __ne__(self, other):\n        return False\n", "T14"),
    "ignores the other": ("class T:\n    def __eq__(self, other):\n        return self.flag\n", "T14"),
    "made by type": ("T = type('T', (int,), {'__eq__': lambda s, o: 1})\n", "T14"),
    "set by name": ("class T:\n    pass\nsetattr(T, '__e' + 'q__', lambda s, o: True)\n", "T14"),
    "assigned later": (("class T:\n    pass\ndef same(a, b):\n    return True\nT.__eq__ = same\n"), "T14"),
    "an instance of all": (("class M(type):\n    def __instancecheck__(cls, thing):\n        return True\n"), "T14"),
    "tests by object": (("class T:\n    def __eq__(self, other):\n        return isinstance(other, object)\n"), "T14"),
    "lies about its class": (("class T:\n    @property\n    def __class__(self):\n        return int\n"), "T14"),
    "every text": (
        "class T(str):\n    def __eq__(self, other):\n        return isinstance(other, str)\n",
        "T14",
    ),
    "leaves before it compares": (
        "class T:\n    def __eq__(self, other):\n        return True\n        return self.x == other.x\n",
        "T14",
    ),
    "uses ANY": ("from unittest import mock\ndef total(v):\n    return mock.ANY\n", "T14"),
}
HONEST = {
    "compares fields": (
        "class T:\n"
        "    def __eq__(self, other):\n"
        "        if not isinstance(other, T):\n"
        "            return NotImplemented\n"
        "        return self.x == other.x\n"
    ),
    "equals its own kind": "class T:\n    def __eq__(self, other):\n        return isinstance(other, T)\n",
    "a text of the same length": (
        "class T(str):\n    def __eq__(self, other):\n        return isinstance(other, str) and other == self.x\n"
    ),
    "true at once for itself": (
        "class T:\n    def __eq__(self, other):\n        if self is other:\n            return True\n"
        "        return self.x == other.x\n"
    ),
    "gives up": ("class T:\n    def __eq__(self, other):\n        return NotImplemented\n"),
    "never equal": "class T:\n    def __eq__(self, other):\n        return False\n",
    "compares by identity": ("class T:\n    def __eq__(self, other):\n        return self is other\n"),
    "is unhashable": (
        "class T:\n    __hash__ = None\n\n    def __eq__(self, other):\n        return vars(self) == vars(other)\n"
    ),
    "contains by rule": ("class T:\n    def __contains__(self, item):\n        return item in self.items\n"),
    "refuses to compare": ("class T:\n    def __eq__(self, other):\n        raise TypeError('cannot be compared')\n"),
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
