"""Distillation at error turns: the policy with a hint teaches the policy without it, on the erring turn alone.

The idea is Cursor's (Composer 2.5, targeted textual feedback); the loss is that of on-policy self-distillation (OPSD,
arXiv:2601.18734; SDPO, arXiv:2601.20802), restricted to the tokens of the turns that went wrong:

    L = sum over sites w_site sum over tokens min(D_p, clip) / N,

where D_p is the divergence of the student's next-token distribution from the teacher's at token p, and N the number of
site tokens in the whole optimizer step, over all ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from ..rollouts.rollout import Rollout
from . import divergence
from .distill_sites import Site
from .divergence import Head
from .hidden_states import can_pack, head_of, student_rows, teacher_rows, tokens_read

_LEAST_GAIN, _LEAST_ROUNDED = 1e-4, 1e-2
"""Nats: a site's gain that is less is rounding; in bfloat16 that is times the root of its tokens. AdamW makes whole
steps of gradients that small."""


MEASURED = ("tokens", "sites", "sites_helped", "divergence", "teacher_gain", "teacher_tokens", "student_tokens")
"""Metrics of a batch, summed over it."""


@dataclass(frozen=True)
class Settings:
    """``beta``, ``normalised``: see ``divergence``. ``estimator``: over the whole vocabulary, over the ``top_k`` of the
    student and one bucket for the rest, or from the sampled tokens alone (reverse KL). ``clip`` bounds a token's
    divergence, in nats. ``gate`` leaves out a site whose hint does not make what was said less likely. ``ratio_clip``
    bounds the importance weight of tokens that an older policy sampled.
    """

    beta: float = 0.5
    normalised: bool = False
    estimator: Literal["full", "top_k", "sampled"] = "full"
    top_k: int = 100
    temperature: float = 1.0
    clip: float | None = None
    gate: bool = True
    ratio_clip: float = 2.0


@dataclass
class Loss:
    """``total`` is the weighted sum over tokens, not yet divided by N. ``tokens`` are the site tokens of this batch."""

    total: Tensor
    tokens: int
    metrics: dict[str, float] = field(default_factory=dict)


def batch_of(inputs: Mapping[str, Any]) -> list[tuple[Rollout, Sequence[Site]]]:
    """Each rollout of TRL's scored batch with its sites, and those that were replaced before.

    Where the sampler gave no log-probabilities they are TRL's of the policy that sampled, if a batch is learned from
    more than once and TRL so has them (not of replaced rollouts).
    """
    old = inputs.get("old_per_token_logps")
    pairs = []
    for row, (rollout, sites) in enumerate(zip(inputs["rollouts"], inputs["sites"], strict=True)):
        if old is not None and sites and not rollout.logprobs:
            rollout = replace(rollout, logprobs=old[row, : len(rollout.ids) - rollout.prompt].tolist())
        pairs.append((rollout, sites))
    return [*pairs, *(pair for left in inputs["before"] for pair in left)]


class Distiller:
    """Computes the loss; whether the model can read packed branches is found out at the first batch."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self._packs: dict[int, bool] = {}

    def loss(self, model: Any, teacher: Any, batch: Sequence[tuple[Rollout, Sequence[Site]]]) -> Loss:
        """``model`` learns, ``teacher`` does not; both are causal language models over the same vocabulary.

        A batch without sites costs nothing and gives 0. Raises UnfitModel.
        """
        parts = [self._of_one(model, teacher, rollout, sites) for rollout, sites in batch if sites]
        if not parts:
            return Loss(torch.zeros((), device=model.device), 0, dict.fromkeys(MEASURED, 0.0))
        tokens = sum(part.tokens for part in parts)
        metrics = {name: sum(part.metrics[name] for part in parts) for name in MEASURED}
        return Loss(torch.stack([part.total for part in parts]).sum(), tokens, metrics)

    def _of_one(self, model: Any, teacher: Any, rollout: Rollout, sites: Sequence[Site]) -> Loss:
        options = self.settings
        packed = self._can_pack(teacher)
        with torch.no_grad():
            theirs = teacher_rows(teacher, rollout.ids, sites, packed=packed)
        torch.clear_autocast_cache()  # older torch keeps a live teacher's casts for the student, without a gradient
        mine = student_rows(model, rollout.ids, sites)
        heads = head_of(model, options.temperature), head_of(teacher, options.temperature)
        tokens = torch.tensor([rollout.ids[p] for site in sites for p in range(site.start, site.end)]).to(mine.device)
        said = divergence.log_probabilities(mine, heads[0], tokens)
        with torch.no_grad():
            told = divergence.log_probabilities(theirs, heads[1], tokens)
        each = self._divergence(mine, heads[0], theirs, heads[1], said, told)
        if options.clip is not None:
            each = each.clamp(max=options.clip)
        kept, helped = self._kept(sites, said.detach(), told)
        weights = torch.tensor([w for site in sites for w in [site.weight] * (site.end - site.start)]).to(each)
        weights = weights * kept * self._ratio(rollout, sites, said.detach())
        length = len(tokens)
        return Loss(
            (each * weights).sum(),
            length,
            {
                "tokens": length,
                "sites": len(sites),
                "sites_helped": helped,
                "divergence": float((each.detach() * kept).sum()),
                "teacher_gain": float((said.detach() - told).sum()),
                "teacher_tokens": tokens_read(rollout.ids, sites, packed=packed),
                "student_tokens": max(site.end for site in sites),
            },
        )

    def _divergence(self, mine: Tensor, my: Head, theirs: Tensor, their: Head, said: Tensor, told: Tensor) -> Tensor:
        options = self.settings
        if options.estimator == "sampled":
            return divergence.sampled_token(said, told)
        if options.estimator == "top_k":
            k, beta, normalised = options.top_k, options.beta, options.normalised
            return divergence.fused_top_k(mine, my, theirs, their, beta, k=k, normalised=normalised)
        return divergence.fused_divergence(mine, my, theirs, their, options.beta, normalised=options.normalised)

    def _kept(self, sites: Sequence[Site], said: Tensor, told: Tensor) -> tuple[Tensor, int]:
        """1 for each token of a site that teaches, and how many sites those are.

        A teacher that finds the failed turn as likely as before has not understood the hint: there is nothing to learn.
        """
        lengths = [site.end - site.start for site in sites]
        gains = [float((s - t).sum()) for s, t in zip(said.split(lengths), told.split(lengths), strict=True)]
        rounded = torch.is_autocast_enabled(said.device.type)
        least = [_LEAST_ROUNDED * length**0.5 if rounded else _LEAST_GAIN for length in lengths]
        helps = [gain > bound for gain, bound in zip(gains, least, strict=True)]
        good = [help_ or not self.settings.gate for help_ in helps]
        kept = [float(g) for g, length in zip(good, lengths, strict=True) for _ in range(length)]
        return torch.tensor(kept).to(said), sum(helps)

    def _ratio(self, rollout: Rollout, sites: Sequence[Site], said: Tensor) -> Tensor:
        """min(pi / pi of the sampler, ratio_clip), or 1 where the sampler's log-probability is not known."""
        if not rollout.logprobs:
            return torch.ones_like(said)
        old = [rollout.logprobs[p - rollout.prompt] for site in sites for p in range(site.start, site.end)]
        gap = (said - torch.tensor(old).to(said)).nan_to_num(0.0).clamp(-20, 20)
        return gap.exp().clamp(max=self.settings.ratio_clip)

    def _can_pack(self, teacher: Any) -> bool:
        if id(teacher) not in self._packs:
            self._packs[id(teacher)] = can_pack(teacher)
        return self._packs[id(teacher)]
