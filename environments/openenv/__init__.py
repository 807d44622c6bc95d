"""The OpenEnv face of a session: wire types derived from ``models.py``, and one ``Environment`` around a session.

Everything here translates. Two errors leave it: ``SessionError`` (the client's doing; says what to do) and
``Infrastructure`` (ours; the episode is void).
"""

from __future__ import annotations

from ..base import Session as Session
from .arguments import ResetArguments as ResetArguments
from .environment import NO_TASKS as NO_TASKS
from .environment import EtudeEnvironment as EtudeEnvironment
from .environment import closing as closing
from .rows import DESCRIPTION as DESCRIPTION
from .types import Action as Action
from .types import Observation as Observation
from .types import State as State
