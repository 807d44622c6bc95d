"""The objectives of channel one, by name, as TRL's GRPOTrainer is to be configured for them.

==========  =====================================================================================================
name        what it is
==========  =====================================================================================================
grpo        GRPO (arXiv:2402.03300): advantages over the group's standard deviation, a mean over each sequence
dr_grpo     Dr.GRPO (arXiv:2503.20783), whole: no standard deviation, and a constant length as normaliser
bnpo        GRPO, normalised by the tokens of the local batch
dapo        DAPO (arXiv:2503.14476), whole: a higher upper clip, token-level loss, truncated episodes masked, groups
            without variance replaced, and a soft penalty for what runs too long
gspo        GSPO (arXiv:2507.18071): the ratio of whole sequences, length-normalised
cispo       CISPO (arXiv:2506.13585): clipped importance weights instead of clipped updates
sapo        SAPO (arXiv:2511.20347): soft gates instead of clips
luspo       LUSPO (arXiv:2602.05261): GSPO with a sum over each sequence instead of a mean, and wider clips
vespo       VESPO (arXiv:2602.10693): weights by a Gamma-shaped kernel of the sequence's ratio
==========  =====================================================================================================

TRL's ``loss_type="dr_grpo"`` alone is not Dr.GRPO: it leaves the standard deviation on. Its
``mask_truncated_completions`` goes by an episode's last id, and so misses one that ran out of room behind a whole turn.
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
    """``arguments`` are GRPOConfig's. ``dynamic_sampling``: groups without variance are played again with another
    task, and those that stay so are no part of the loss. ``mask_truncated``: nor are episodes that the policy's context
    was too short for. ``overlong``: the share of the room within which an episode's reward falls by up to 1."""

    arguments: dict[str, Any] = field(default_factory=dict)
    dynamic_sampling: bool = False
    mask_truncated: bool = False
    overlong: float = 0.0


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
    """Raises UnknownName with the nearest."""
    if name not in OBJECTIVES:
        raise UnknownName(did_you_mean("objective", name, list(OBJECTIVES)))
    return OBJECTIVES[name]


def flat_groups(rewards: Tensor, group: int) -> Tensor:
    """Which groups of ``group`` consecutive rewards [B] teach nothing, [B / group]: all equal, or none valid (NaN)."""
    rows = rewards.view(-1, group)
    unknown = rows.isnan()
    return ~(rows.masked_fill(unknown, torch.inf).amin(-1) < rows.masked_fill(unknown, -torch.inf).amax(-1))


def overlong_penalty(length: int, room: int, share: float) -> float:
    """DAPO's soft punishment (equation 13): 0 up to (1 - share) of the room, then falling to -1 at its end. Where a
    prompt leaves no room it is 0: nothing was said."""
    soft = share * room
    if soft <= 0 or length <= room - soft:
        return 0.0
    return max(-1.0, (room - soft - length) / soft)


def k1_in_reward(
    advantages: Tensor, policy: Tensor, reference: Tensor, mask: Tensor, group: int, weight: float
) -> Tensor:
    """Advantages [B] less ``weight`` times each sequence's KL to the reference, centred in its group.

    KL is k1 of the sampled tokens, the sum of log pi - log ref [B, T] under the mask. In the reward, k1 has exactly the
    gradient of the reverse KL; as a loss term it has none, and k3 in the reward points the wrong way. Exact where all
    tokens weigh the same; in grpo, gspo and sapo those of a sequence weigh one over their number. Sequences without
    tokens are left out of the mean.
    """
    kl = ((policy - reference) * mask).sum(-1)
    there = (mask.sum(-1) > 0).to(kl)
    rows, kept = (kl * there).view(-1, group), there.view(-1, group)
    mean = rows.sum(-1, keepdim=True) / kept.sum(-1, keepdim=True).clamp(min=1)
    return advantages - weight * ((rows - mean) * kept).view(-1)
