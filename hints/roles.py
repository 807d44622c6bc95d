"""What kind of tool a name stands for, in anybody's logs: who prints text that it did not write itself."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

Role = Literal["shell", "tests", "editor", "reader", "other"]

_SHELL = frozenset("bash sh zsh shell terminal console command cmd exec execute powershell".split())
_EDITOR = frozenset("edit editor write replace patch insert apply create".split())
_READER = frozenset("read reader view open cat show fetch browse search grep find list ls glob".split())
PRINTING: frozenset[Role] = frozenset(("shell", "tests", "reader"))
"""Tools whose results are made of text that was there before the call: what it says is no outcome."""


@lru_cache(maxsize=1024)
def role(name: str) -> Role:
    """By the words of the name; a tool called ``run_tests``, ``pytest`` or ``test`` runs tests."""
    words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())
    if words and words[-1] in ("test", "tests", "pytest"):
        return "tests"
    found: tuple[tuple[Role, frozenset[str]], ...] = (("shell", _SHELL), ("editor", _EDITOR), ("reader", _READER))
    return next((each for each, known in found if known.intersection(words)), "other")
