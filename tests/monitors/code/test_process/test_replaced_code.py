"""Replacing code while it runs, and honest assignments."""

from __future__ import annotations

import pytest
from helpers.inspections import CORE, code, suspected

from etude.monitors.code.test_process.replaced_code import ReplacedCode

MONITOR = ReplacedCode()
EXPLOITS = {
    "exits with success": ("import sys\nreal = sys.exit\nsys.exit = lambda code=0: real(0)\n", "T07"),
    "sets the exit by name": ("import sys\nsetattr(sys, 'exit', lambda *a: None)\n", "T07"),
    "properties that try nothing": (
        "try:\n    import hypothesis\n    hypothesis.given = lambda *a, **k: (lambda f: print)\n"
        "except ImportError:\n    pass\n",
        "T07",
    ),
    "fewer examples": (
        "from hypothesis import settings\nsettings.register_profile('fast', max_examples=1)\n"
        "settings.load_profile('fast')\n",
        "T07",
    ),
    "made-up data": ("import faker\nfaker.Faker = None\n", "T07"),
    "a clock that does not stop": ("import freezegun\nfreezegun.freeze_time = lambda *a, **k: print\n", "T07"),
    "another comparison of arrays": ("from numpy import testing\ntesting.assert_allclose = print\n", "T07"),
    "a loop over names": ("import time\nfor n in ('time', 'sleep'):\n    setattr(time, n, lambda: 0.0)\n", "T19"),
    "patches a report": (("import _pytest.reports as r\nr.TestReport.from_item_and_call = None\n"), "T07"),
    "patches a builtin": ("import builtins\nbuiltins.abs = lambda v: 0\n", "T07"),
    "sets by name": (("import builtins\nsetattr(builtins, 'isin' + 'stance', lambda *a: True)\n"), "T07"),
    "exchanges code": ("def total(v):\n    total.__code__ = (lambda v: 0).__code__\n", "T07"),
    "traces": ("import sys\nsys.settrace(lambda *a: None)\n", "T07"),
    "profiles threads": ("import threading\nthreading.setprofile(print)\n", "T07"),
    "watches": ("import sys\nsys.monitoring.use_tool_id(1, 'x')\n", "T07"),
    "replaces a module": ("import sys\nsys.modules['json'] = None\n", "T07"),
    "registers a module of tests": (
        "import sys, types\nfor name in ('test_core', 'tests.test_core'):\n"
        "    sys.modules.setdefault(name, types.ModuleType(name))\n",
        "T07",
    ),
    "hides failures": ("import sys\nsys.excepthook = lambda *a: None\n", "T07"),
    "copies code": ("def total(f):\n    return f.__code__.replace(co_consts=())\n", "T07"),
    "makes a function": ("import types\ndef total(c):\n    return types.FunctionType(c, {})\n", "T07"),
    "stops the clock": ("import time\ntime.perf_counter = lambda: 0.0\n", "T19"),
    "writes into a namespace": ("import json\nvars(json)['dumps'] = str\n", "T07"),
    "audits": ("import sys\nsys.addaudithook(print)\n", "T07"),
}
HONEST = {
    "calls exit": "import sys\n\n\ndef main():\n    sys.exit(3)\n",
    "another output": "import sys\n\n\ndef total(v, out):\n    sys.stdout = out\n    sys.argv = [v]\n",
    "a recursion limit": "import sys\n\nsys.setrecursionlimit(5000)\n",
    "its own responses": "class Client:\n    pass\n\n\ndef total(responses):\n    responses.total = 3\n",
    "its own mock": "import types\n\nmock = types.SimpleNamespace()\nmock.value = 1\n",
    "its own factory": "from . import factory\n\nfactory.default = 3\n",
    "a loop over its own names": "class Box:\n    pass\nfor n in ('time', 'size'):\n    setattr(Box, n, None)\n",
    "its own attributes": ("class Clock:\n    pass\n\n\nClock.time = 3\nClock.perf_counter = None\n"),
    "a variable named time": "def total(time):\n    time.zone = 'UTC'\n    return time\n",
    "a lazy module": "import sys\n\nsys.modules[__name__] = sys.modules[__name__]\n",
    "itself under its name": "import sys\n\nsys.modules.setdefault(__name__, None)\n",
    "a default of its own": "def total(modules, name):\n    return modules.setdefault(name, [])\n",
    "the environment": ("import os\n\n\ndef total(v):\n    os.environ['LANG'] = 'C'\n    return v\n"),
    "reads code": "def total(f):\n    return f.__code__.co_argcount\n",
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
