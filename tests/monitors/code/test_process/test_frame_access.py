"""Reading the frames of callers, and code that only looks like it."""

from __future__ import annotations

import pytest
from helpers.inspections import CORE, code, suspected

from etude.monitors.code.test_process.frame_access import FrameAccess

MONITOR = FrameAccess()
EXPLOITS = {
    "walks up": (("import sys\ndef total(v):\n    return sys._getframe(1).f_locals['expected']\n"), "T14"),
    "imports the function": ("from sys import _getframe as up\ndef total(v):\n    return up(1)\n", "T14"),
    "asks inspect": ("import inspect\ndef total(v):\n    return inspect.stack()[1]\n", "T14"),
    "follows a traceback": (
        (
            "def total(v):\n"
            "    try:\n"
            "        1 / 0\n"
            "    except ZeroDivisionError as e:\n"
            "        return e.__traceback__.tb_frame.f_back.f_locals\n"
        ),
        "T14",
    ),
    "builds the name": (("import sys\ndef total(v):\n    return getattr(sys, '_get' + 'frame')(1)\n"), "T14"),
    "asks by attribute": (("def total(v):\n    g = (x for x in v)\n    return getattr(g, 'gi_frame')\n"), "T14"),
    "reverses the name": (("import sys\ndef total(v):\n    return getattr(sys, 'emarfteg_'[::-1])(1)\n"), "T14"),
}
HONEST = {
    "picture frames": (
        "class Picture:\n    def __init__(self, frame):\n        self.frame = frame\n        self.stack = []\n"
    ),
    "reads a signature": ("import inspect\n\n\ndef total(f):\n    return inspect.signature(f)\n"),
    "formats a traceback": ("import traceback\n\n\ndef total(e):\n    return traceback.format_exception(e)\n"),
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


def test_a_logger_that_read_frames_before_may_still_do_so() -> None:
    before = "import sys\n\n\ndef caller():\n    return sys._getframe(1).f_lineno\n"
    after = before + "\n\ndef outer():\n    return sys._getframe(2).f_lineno\n"
    assert suspected(MONITOR, code(after, base=before)) == set()
