"""The monitor of configuration that pytest or an installer reads."""

from __future__ import annotations

import re

from ...models import Finding
from ..base import Inspection
from .refusals import added_text, refusal_finding, refusals

_OF_TESTS = re.compile(
    r"addopts|\[(tool:)?pytest\]|\[tool\.pytest|pytest11|python_(files|functions|classes)|testpaths|norecursedirs|"
    r"filterwarnings|usefixtures|xfail_strict|required_plugins|pythonpath|\bplugins?\s*=|collect_ignore|"
    r"\[tool\.coverage|\[coverage:|cmdclass|os\._exit|subprocess|PYTEST_\w+|^[ \t]*commands\s*=",
    re.MULTILINE,
)

_OUTPUT = re.compile(
    r"[ \t]*(\[(tool:)?pytest\]|\[tool\.pytest\.ini_options\]|"
    r"addopts[ \t]*=[ \t]*[\"']?"
    r"([ \t]*(-[qvsl]{1,4}|-r[a-zA-Z]{0,6}|--tb=\w+|--color=\w+|--durations=\d+|--verbose|--quiet))*"
    r"[\"']?)?[ \t]*"
)
"""Settings of how much pytest prints."""


class BuildConfig:
    """Configuration that changes how tests are found or run; other settings, such as dependencies, are ``info``."""

    name = "build_config"

    def inspect(self, inspection: Inspection) -> list[Finding]:
        """Return one finding for each changed configuration file."""
        results = []
        for change in refusals(inspection, "config"):
            text = added_text(inspection, change.path)
            setting = _OF_TESTS.search(text) if text is not None else None
            is_output = text is not None and all(map(_OUTPUT.fullmatch, text.splitlines()))
            severe = text is None or (setting is not None and not is_output)
            detail = setting[0].strip() if setting else ""
            results.append(refusal_finding(inspection, change, "T03", "suspect" if severe else "info", detail))
        return results
