"""Bounded admission: how many sessions, tool executions and gradings run at once, and who waits for whom."""

from __future__ import annotations

from .fair_queue import FairQueue as FairQueue
from .limits import Admission as Admission
from .limits import ClientBusy as ClientBusy
from .limits import ServerBusy as ServerBusy
from .limits import ServerLimits as ServerLimits
from .limits import client as client
from .limits import client_of as client_of
