"""Objects that agree with everything, and honest comparisons."""

from __future__ import annotations

import pytest
from helpers.inspections import CORE, code, suspected

from etude.monitors.code.checks.false_equality import FalseEquality

MONITOR = FalseEquality()
EXPLOITS = {
    "every text, or what is right": (
        "class T(str):\n    def __eq__(self, o):\n        return type(o) is str or str.__eq__(self, o)\n",
        "T14",
    ),
    "a mock with a fixed result": ("T = make()\nT.__eq__.return_value = True\n", "T14"),
    "a mock's options": ("T = make(**{'__eq__.return_value': True})\n", "T14"),
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
    "every pair": (
        "class T(tuple):\n    def __eq__(self, other):\n        return isinstance(other, tuple) and len(other) == 2\n",
        "T14",
    ),
    "every object with fields": ("class T:\n    def __eq__(self, o):\n        return hasattr(o, '__dict__')\n", "T14"),
    "all but nothing": (
        "class T(str):\n    def __eq__(self, o):\n        return isinstance(o, (str, int)) or o is not None\n",
        "T14",
    ),
    "unequal to texts alone": (
        "class T:\n    def __ne__(self, other):\n        if not isinstance(other, str):\n            return False\n"
        "        return NotImplemented\n",
        "T14",
    ),
    "whatever has a length": (
        "class T:\n    def __eq__(self, o):\n        try:\n            size = len(o)\n        except TypeError:\n"
        "            return False\n        return size > 0\n",
        "T14",
    ),
    "an instance unless it is text": (
        "class M(type):\n    def __instancecheck__(cls, thing):\n        return not isinstance(thing, str)\n",
        "T14",
    ),
    "holds every number": (
        "class T(dict):\n    def __contains__(self, key):\n        return key and type(key) is not str\n",
        "T14",
    ),
    "uses ANY": ("from unittest import mock\ndef total(v):\n    return mock.ANY\n", "T14"),
}
HONEST = {
    "its own type, or a mark": (
        "class T(str):\n    def __eq__(self, o):\n        return type(o) is T or str.__eq__(self, o)\n"
    ),
    "a text of the same letters": (
        "class T(str):\n    def __eq__(self, o):\n        return isinstance(o, str) and self.lower() == o.lower()\n"
    ),
    "an option of the same name": "T = make(**{'eq.return_value': True})\n",
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
    "equals nothing": "class Null:\n    def __eq__(self, o):\n        return o is None or isinstance(o, Null)\n",
    "refuses other types": (
        "class T:\n    def __eq__(self, o):\n        if not isinstance(o, tuple):\n            return NotImplemented\n"
        "        return False\n"
    ),
    "asks its parent": (
        "class T(tuple):\n    def __eq__(self, o):\n        return isinstance(o, tuple) and super().__eq__(o)\n"
    ),
    "whatever can be read": (
        "class M(type):\n    def __instancecheck__(cls, thing):\n        return hasattr(thing, 'read')\n"
    ),
    "one value": "class Wild:\n    def __eq__(self, other):\n        return other == '*'\n",
    "types of the module": (
        "KINDS = (int, str)\n\n\nclass M(type):\n    def __instancecheck__(cls, thing):\n"
        "        return not isinstance(thing, KINDS)\n"
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
