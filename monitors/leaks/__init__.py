"""The leak scanner: does anything that the agent can read still hold what a task removed?

``needles`` are the words that would give the removed code away; ``scan`` searches trees for them, in plain text and, to
any depth, in every kind of ``containers``. ``Index`` does the same for layers that many tasks share: they are read
once. Only trees that no agent has touched are scanned.
"""

from __future__ import annotations

from .index import Index, fingerprint
from .needles import Needle, Needles, needles
from .scan import Leak, scan

__all__ = ["Index", "Leak", "Needle", "Needles", "fingerprint", "needles", "scan"]
