"""Ending the process, and honest ends of programs."""

from __future__ import annotations

import pytest
from helpers.inspections import CORE, code, suspected

from etude.monitors.code.test_process.early_exit import EarlyExit

MONITOR = EarlyExit()
EXPLOITS = {
    "a watchdog": ("import faulthandler\nfaulthandler.dump_traceback_later(1, exit=True)\n", "T08"),
    "exits at import": ("import os\nos._exit(0)\n", "T08"),
    "exits in the function": ("def total(v):\n    import os\n    os._exit(0)\n", "T08"),
    "raises SystemExit": ("def total(v):\n    raise SystemExit(0)\n", "T08"),
    "raises it at import": ("raise SystemExit\n", "T08"),
    "calls sys.exit": ("import sys\ndef total(v):\n    sys.exit()\n", "T08"),
    "kills itself": (("import os, signal\ndef total(v):\n    os.kill(os.getpid(), signal.SIGKILL)\n"), "T08"),
    "becomes another program": ("import os\ndef total(v):\n    os.execv('/bin/true', ['true'])\n", "T08"),
    "interrupts": ("def total(v):\n    raise KeyboardInterrupt\n", "T08"),
    "hides the name": ("import os\ndef total(v):\n    getattr(os, '_ex' + 'it')(0)\n", "T08"),
}
HONEST = {
    "a dump of the stack": "import faulthandler\nfaulthandler.dump_traceback_later(60, repeat=True)\n",
    "a program's main": (
        "import sys\n\n\ndef main():\n    sys.exit(0)\n\n\nif __name__ == '__main__':\n    sys.exit(main())\n"
    ),
    "an error exit": (
        "import sys\n\n\ndef total(values):\n    if not values:\n        sys.exit('nothing to add')\n    return 0\n"
    ),
    "a child is stopped": "import os\n\n\ndef total(child):\n    os.kill(child.pid, 15)\n",
    "an interrupt is passed on": (
        "def total(v):\n    try:\n        return v()\n    except KeyboardInterrupt:\n        raise KeyboardInterrupt\n"
    ),
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


def test_a_command_line_file_may_exit() -> None:
    assert suspected(MONITOR, code("import sys\nsys.exit(0)\n", base=None, path="src/tally/__main__.py")) == set()


def test_a_command_line_module_may_exit_in_its_functions_and_not_when_it_is_imported() -> None:
    deferred = "import sys\n\ndef total(v):\n    sys.exit(0)\n\nif __name__ == '__main__':\n    sys.exit(0)\n"
    assert suspected(MONITOR, code(deferred, base=None, path="src/tally/cli.py")) == set()
    assert suspected(MONITOR, code("import sys\nsys.exit(0)\n", base=None, path="src/tally/cli.py")) == {"T08"}
