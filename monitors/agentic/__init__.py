"""The agentic monitor: a model that judges what the mechanical monitors mark, and rollouts of one task side by side.

Reading order: ``case`` (one episode as it is judged, and which of its turns are shown), ``quoting`` (untrusted text,
made safe to show), ``prompt`` (the messages), ``verdict`` (the answer, and the check that what it cites exists),
``judge`` (asks the ``llm`` that is passed in), ``penalty`` (what a verdict may do to a reward).

A judge can be wrong and can be talked to by what it reads. So it can only lower a reward, its findings are ``suspect``
at most, and a penalty needs mechanical evidence besides, which no verdict can create.
"""

from __future__ import annotations

from .case import Case as Case
from .judge import OUTCOMES as OUTCOMES
from .judge import Judge as Judge
from .judge import Judged as Judged
from .penalty import is_of_judge as is_of_judge
from .penalty import penalty_factor as penalty_factor
from .verdict import Verdict as Verdict
