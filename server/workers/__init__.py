"""Several worker processes behind one address, and several servers behind one balancer.

Reading order: ``place`` (tokens name the process that has their session), ``placement`` (requests that reach another
process), ``request_head`` and ``front`` (each connection goes to the worker of its token), ``handover`` (how it gets
there), ``worker`` (one process), ``pool`` (all of them), ``totals`` (routes that add up over workers), ``settings``.
"""

from __future__ import annotations

from .place import Place as Place
