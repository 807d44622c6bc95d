"""The OpenEnv face of a session: wire types derived from ``models.py``, and an ``Environment`` around a session.

Everything here translates. Two errors leave it: ``SessionError`` (a mistake of the client; says what to do) and
``InfrastructureError`` (a failure of the machine; the episode is void).
"""

from __future__ import annotations

from .environment import NO_TASKS as NO_TASKS
from .environment import EtudeEnvironment as EtudeEnvironment
from .environment import closing as closing
from .penalty import PenaltySettings as PenaltySettings
from .task_provider import DESCRIPTION as DESCRIPTION
from .types import Action as Action
from .types import Observation as Observation
from .types import State as State
