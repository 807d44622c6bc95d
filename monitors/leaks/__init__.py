"""Leak scanner: finds what a task removed in anything that the agent can read.

``needles`` lists what would give the removed code away, ``scan`` looks for it in trees: in plain text and, recursively,
in every container of ``containers``. ``Index`` does the same for layers that many tasks share and reads them once. All
are pure functions of bytes and trees; scan only trees that no agent has touched.
"""

from __future__ import annotations

from .index import Index, fingerprint
from .needles import Needle, Needles, needles
from .scan import Leak, scan

__all__ = ["Index", "Leak", "Needle", "Needles", "fingerprint", "needles", "scan"]
