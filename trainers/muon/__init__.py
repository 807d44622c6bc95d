"""Muon at natural granularity, for any PyTorch model: per head, per expert, on one device or sharded.

``divide(model)`` finds the matrices, ``describe`` prints them, ``Muon`` updates them. Read ``divide.py`` for the rules,
``newton_schulz.py`` for the iteration, ``optimizer.py`` for the update, ``sharding/`` for sharded models.
Nothing here needs more than PyTorch.
"""

from .blocks import COLUMNS, ROWS, Blocks
from .coefficients import COEFFICIENTS
from .divide import Division, describe, divide
from .newton_schulz import orthogonalize
from .optimizer import Muon
from .qk_clip import clip_heads_, clip_latent_

__all__ = [
    "COEFFICIENTS",
    "COLUMNS",
    "ROWS",
    "Blocks",
    "Division",
    "Muon",
    "clip_heads_",
    "clip_latent_",
    "describe",
    "divide",
    "orthogonalize",
]
