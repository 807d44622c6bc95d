"""Objectives of the channel RLVR by name, each as a configuration of TRL's GRPOTrainer.

==========  =====================================================================================================
name        objective
==========  =====================================================================================================
grpo        GRPO (arXiv:2402.03300): advantages over the group's standard deviation, a mean over each sequence
dr_grpo     Dr.GRPO (arXiv:2503.20783): no standard deviation, and a constant length as normaliser
bnpo        GRPO, normalised by the tokens of the local batch
dapo        DAPO (arXiv:2503.14476): a higher upper clip, token-level loss, truncated episodes masked, groups
            without variance replaced, and a soft penalty for episodes that are too long
gspo        GSPO (arXiv:2507.18071): the ratio of whole sequences, length-normalised
cispo       CISPO (arXiv:2506.13585): clipped importance weights instead of clipped updates
sapo        SAPO (arXiv:2511.20347): soft gates instead of clips
luspo       LUSPO (arXiv:2602.05261): GSPO with a sum over each sequence instead of a mean, and wider clips
vespo       VESPO (arXiv:2602.10693): weights from a Gamma-shaped kernel of the sequence's ratio
==========  =====================================================================================================

TRL's ``loss_type="dr_grpo"`` alone is not Dr.GRPO, because it keeps the standard deviation. TRL's
``mask_truncated_completions`` looks at the last id of an episode, and so misses an episode that ran out of room after a
complete turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ...errors import UnknownName
from ...registry import did_you_mean


@dataclass(frozen=True)
class Objective:
    """Configuration of one objective."""

    arguments: dict[str, Any] = field(default_factory=dict)
    """Arguments of GRPOConfig."""
    dynamic_sampling: bool = False
    """Whether groups without variance are replaced by other tasks, and left out of the loss if they remain."""
    mask_truncated: bool = False
    """Whether episodes that ran out of room are left out of the loss."""
    overlong: float = 0.0
    """Last share of the room, in which the reward falls by up to 1; 0 for no penalty."""


OBJECTIVES: dict[str, Objective] = {
    "grpo": Objective({"loss_type": "grpo", "scale_rewards": "group"}),
    "dr_grpo": Objective({"loss_type": "dr_grpo", "scale_rewards": "none"}),
    "bnpo": Objective({"loss_type": "bnpo", "scale_rewards": "group"}),
    "dapo": Objective(
        {"loss_type": "dapo", "scale_rewards": "group", "epsilon_high": 0.28},
        dynamic_sampling=True,
        mask_truncated=True,
        overlong=0.2,
    ),
    "gspo": Objective(
        {
            "loss_type": "grpo",
            "scale_rewards": "group",
            "importance_sampling_level": "sequence",
            "epsilon": 3e-4,
            "epsilon_high": 4e-4,
        }
    ),
    "cispo": Objective({"loss_type": "cispo", "scale_rewards": "group", "epsilon_high": 5.0}),
    "sapo": Objective({"loss_type": "sapo", "scale_rewards": "group"}),
    "luspo": Objective(
        {
            "loss_type": "luspo",
            "scale_rewards": "group",
            "importance_sampling_level": "sequence",
            "epsilon": 2e-3,
            "epsilon_high": 2.5e-3,
        }
    ),
    "vespo": Objective({"loss_type": "vespo", "scale_rewards": "group"}),
}


def objective(name: str) -> Objective:
    """Return the objective of this name. Raise UnknownName with the nearest name."""
    if name not in OBJECTIVES:
        raise UnknownName(did_you_mean("objective", name, list(OBJECTIVES)))
    return OBJECTIVES[name]


def flat_groups(rewards: Tensor, group: int) -> Tensor:
    """Return which groups of ``group`` consecutive rewards [B] have no variance, [B / group].

    NaN marks an invalid episode. A group is flat when its valid rewards are equal or when it has none.
    """
    rows = rewards.view(-1, group)
    invalid = rows.isnan()
    return ~(rows.masked_fill(invalid, torch.inf).amin(-1) < rows.masked_fill(invalid, -torch.inf).amax(-1))


def overlong_penalty(length: int, room: int, share: float) -> float:
    """Return DAPO's soft overlong punishment (arXiv:2503.14476, equation 13), in [-1, 0].

    It is 0 up to (1 - share) of the room and falls linearly to -1 at its end; 0 if the prompt leaves no room.
    """
    soft = share * room
    if soft <= 0 or length <= room - soft:
        return 0.0
    return max(-1.0, (room - soft - length) / soft)


def subtract_k1(
    advantages: Tensor, policy: Tensor, reference: Tensor, mask: Tensor, group: int, weight: float
) -> Tensor:
    """Return the advantages [B] minus ``weight`` times each sequence's KL to the reference, centred in its group.

    The KL is k1 of the sampled tokens: the sum of log pi - log ref [B, T] under the mask [B, T]. In the reward, k1 has
    exactly the gradient of the reverse KL; as a loss term it has none, and k3 in the reward points the wrong way. The
    gradient is exact where all tokens have the same weight; in grpo, gspo and sapo a token weighs one over the length
    of its sequence. Sequences without tokens are left out of the group's mean.
    """
    kl = ((policy - reference) * mask).sum(-1)
    present = (mask.sum(-1) > 0).to(kl)
    group_kl, group_present = (kl * present).view(-1, group), present.view(-1, group)
    mean = group_kl.sum(-1, keepdim=True) / group_present.sum(-1, keepdim=True).clamp(min=1)
    return advantages - weight * ((group_kl - mean) * group_present).view(-1)
