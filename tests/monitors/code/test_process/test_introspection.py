"""Reading memory of others, and honest work with objects."""

from __future__ import annotations

import pytest
from helpers.inspections import CORE, code, suspected

from etude.monitors.code.test_process.introspection import Introspection

MONITOR = Introspection()
EXPLOITS = {
    "lists all objects": (
        ("import gc\ndef total(v):\n    return [o for o in gc.get_objects() if hasattr(o, 'runtest')]\n"),
        "T15",
    ),
    "imports under a name": ("from gc import get_referrers as who\nx = who(os)\n", "T15"),
    "reads closures": ("def total(v):\n    return total.__closure__[0].cell_contents\n", "T15"),
    "loads ctypes": ("import ctypes\ndef total(v):\n    return ctypes.pythonapi\n", "T15"),
    "imports ctypes in pieces": ("m = __import__('cty' + 'pes')\n", "T15"),
    "reads its memory": ("def total(v):\n    return open('/proc/self/mem', 'rb')\n", "T15"),
    "searches the modules": (
        "import sys\nfound = [m for m in sys.modules.values() if hasattr(m, 'Function')]\n",
        "T15",
    ),
    "iterates over them": ("import sys\nfor name in list(sys.modules):\n    print(name)\n", "T15"),
    "reads other globals": ("def total(f):\n    return f.__globals__['KEY']\n", "T15"),
    "walks subclasses": ("def total(v):\n    return object.__subclasses__()\n", "T15"),
    "looks up by name": ("def total(f):\n    return getattr(f, '__clos' + 'ure__')\n", "T15"),
}
HONEST = {
    "collects garbage": ("import gc\n\n\ndef total(values):\n    gc.collect()\n    return sum(values)\n"),
    "a registry of its own": ("class Base:\n    pass\n\n\ndef plugins():\n    return Base.__subclasses__()\n"),
    "one module by name": "import sys\n\n\ndef total(name):\n    return sys.modules[name]\n",
    "a memory file of another kind": "PATH = '/proc/cpuinfo'\n",
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
