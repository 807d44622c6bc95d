"""Parts that the trainer is built from, besides TRL's own arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...hints.write.hint_choice import HintChoice
from ..distillation.distill_sites import CAP
from ..distillation.distiller import Settings
from ..distillation.teachers import Teacher
from ..recipe.effort import Effort
from ..rollouts.session_pool import Limits
from .objectives import Objective

Weight = Callable[[float], float]
"""Weight of a channel after a share of the run, 0 at its start and 1 at its end."""


@dataclass(frozen=True)
class ChannelWeights:
    """Weights of the channels in the loss."""

    rlvr: Weight = lambda share: 1.0
    """Weight a, of reinforcement learning on the verified reward."""
    distillation: Weight = lambda share: 0.0
    """Weight b, of distillation at error turns."""
    replay: Weight = lambda share: 0.0
    """Weight c, of replay-DPO."""


@dataclass
class Parts:
    """Parts of an EtudeTrainer."""

    url: str
    """Address of the server that plays the episodes."""
    chat: Callable[[Any], Any]
    """Builds the policy's chat (``rollout.Chat``) around a sampler."""
    objective: Objective = field(default_factory=Objective)
    """Objective of the channel RLVR."""
    effort: Effort = field(default_factory=Effort)
    """Penalty for effort in the reward."""
    channels: ChannelWeights = field(default_factory=ChannelWeights)
    """Weights of the channels."""
    distillation: Settings = field(default_factory=Settings)
    """Loss at the distillation sites."""
    teacher: Teacher | None = None
    """Teacher of the distillation."""
    replay: Any = None
    """Channel replay-DPO (``replay.channel.loss.Replay``)."""
    patience: float | None = 1.0
    """With vLLM: how long a turn waits for others, in durations of the last batch (``rollouts/batcher.py``); None waits
    for all. Transformers' sampler always waits for all, so that a resumed run samples the same."""
    limits: Limits = field(default_factory=Limits)
    """Length limits of episodes and turns."""
    system: str = ""
    """System message of every episode."""
    cap: int = CAP
    """Distillation sites of one rollout, at most."""
    recovery: bool = False
    """Whether the turn after an unforeseeable fault is a site."""
    chooser: HintChoice | None = None
    """Orders the hints of an error turn; a site gets the first one."""
    k1_weight: float = 0.0
    """Weight of the k1 KL in the reward."""
    reference: Teacher | None = None
    """First weights of the policy, to which k1 is measured."""
    gradients_every: int = 0
    """Steps between two measurements of each channel's gradient; 0 for never."""
