"""Distillation loss: the policy with a hint teaches the policy without it, on the tokens of the error turns.

The idea is Cursor's (Composer 2.5, targeted textual feedback). The loss is that of on-policy self-distillation (OPSD,
arXiv:2601.18734; SDPO, arXiv:2601.20802), restricted to the turns that went wrong:

    L = sum over sites w_site sum over tokens min(D_p, clip) / N,

where D_p is the divergence of the student's next-token distribution from the teacher's at token p, and N is the sum of
the weights of all site tokens in the whole optimizer step, over all ranks. So L is a mean of D: a rollout with several
sites, whose weights sum to 1, does not make it smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Literal

import torch
from torch import Tensor

from ..distributed import gather_from_ranks
from ..rollouts.rollout import Rollout
from ..sharded.access import idle, idle_pass, is_sharded
from . import divergence
from .distill_sites import Site
from .divergence import Head
from .hidden_states import can_pack, head_of, passes, student_rows, teacher_rows, tokens_read

MIN_GAIN, MIN_GAIN_BFLOAT16 = 1e-4, 1e-2
"""Smallest gain of a site that is not rounding, in nats; in bfloat16 it is multiplied by the root of the number of
tokens. AdamW would make full steps of gradients that small."""


REMEMBERED = 4096
"""Rollouts whose divergences are kept until the episodes are recorded."""
MEASURED = ("tokens", "sites", "sites_helped", "divergence", "teacher_gain", "teacher_tokens", "student_tokens")
"""Metrics of a batch, summed over it."""


@dataclass(frozen=True)
class Settings:
    """Settings of the loss."""

    beta: float = 0.5
    """Mixture of the divergence; see ``divergence``."""
    normalised: bool = False
    """Whether the divergence is divided by beta (1 - beta)."""
    estimator: Literal["full", "top_k", "sampled"] = "full"
    """Tokens of the divergence: the vocabulary; the student's ``top_k`` likeliest tokens and one bucket for the others;
    or the sampled token, which gives the reverse KL."""
    top_k: int = 100
    """Number of likeliest tokens."""
    temperature: float = 1.0
    """Sampling temperature, by which logits are divided."""
    clip: float | None = None
    """Largest divergence of one token, in nats."""
    gate: bool = True
    """Whether a site is left out if its hint does not make the failed turn less likely."""
    ratio_clip: float = 2.0
    """Largest importance weight of a token that an older policy sampled."""


@dataclass
class Loss:
    """Loss of a batch."""

    total: Tensor
    """Weighted sum over the site tokens, not divided by N; a scalar."""
    tokens: int
    """Number of site tokens."""
    metrics: dict[str, float] = field(default_factory=dict)


class Distiller:
    """Computes the loss. Whether a model can read packed branches is tested at the first batch."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.by_turn: dict[str, dict[int, float]] = {}
        """Mean divergence of a token, in nats, at sites of the last ``REMEMBERED`` rollouts, by episode id and turn."""
        self._packs: dict[int, bool] = {}

    def loss(self, model: Any, teacher: Any, batch: Sequence[tuple[Rollout, Sequence[Site]]]) -> Loss:
        """Return the loss of ``model``, which learns, to ``teacher``: causal language models over one vocabulary.

        A batch without sites costs nothing and gives 0, unless weights are sharded: then a rank makes idle passes where
        others have more rollouts, and all ranks must call together. Raise UnsuitableModel.
        """
        parts = [Loss(torch.zeros((), device=model.device), 0, dict.fromkeys(MEASURED, 0.0))]
        work = [(rollout, sites) for rollout, sites in batch if sites]
        for place, number in enumerate(self._teacher_passes(model, teacher, work)):
            if place < len(work):
                parts.append(self._rollout_loss(model, teacher, *work[place], number))
            else:
                idle(teacher, number)
                parts.append(Loss(idle_pass(model), 0, parts[0].metrics))
        tokens = sum(part.tokens for part in parts)
        metrics = {name: sum(part.metrics[name] for part in parts) for name in MEASURED}
        return Loss(torch.stack([part.total for part in parts]).sum(), tokens, metrics)

    def _teacher_passes(self, model: Any, teacher: Any, work: Sequence[tuple[Rollout, Sequence[Site]]]) -> list[int]:
        """Return the teacher's forward passes for each rollout, the largest number of all ranks if they are sharded."""
        if not work and not is_sharded(model):
            return []
        packed = self._can_pack(teacher)
        numbers = [passes(sites, packed=packed) for _, sites in work]
        if not is_sharded(model):
            return numbers
        return [max(of_ranks) for of_ranks in zip_longest(*gather_from_ranks(numbers), fillvalue=0)]

    def _rollout_loss(self, model: Any, teacher: Any, rollout: Rollout, sites: Sequence[Site], number: int) -> Loss:
        options = self.settings
        packed = self._can_pack(teacher)
        with torch.no_grad():
            teacher_hidden = teacher_rows(teacher, rollout.ids, sites, packed=packed)
            idle(teacher, number - passes(sites, packed=packed))
        torch.clear_autocast_cache()  # older torch reuses a live teacher's casts for the student, without a gradient
        student_hidden = student_rows(model, rollout.ids, sites)
        student_head, teacher_head = head_of(model, options.temperature), head_of(teacher, options.temperature)
        places = [place for site in sites for place in range(site.start, site.end)]
        tokens = torch.tensor([rollout.ids[place] for place in places]).to(student_hidden.device)
        student_logps = divergence.log_probabilities(student_hidden, student_head, tokens)
        with torch.no_grad():
            teacher_logps = divergence.log_probabilities(teacher_hidden, teacher_head, tokens)
        if options.estimator == "sampled":
            values = divergence.sampled_token(student_logps, teacher_logps)
        else:
            values = self._divergence(student_hidden, student_head, teacher_hidden, teacher_head)
        if options.clip is not None:
            values = values.clamp(max=options.clip)
        self._keep(rollout, sites, values.detach())
        gate, helped = self._gate(sites, student_logps.detach(), teacher_logps)
        weights = torch.tensor([w for site in sites for w in [site.weight] * (site.end - site.start)]).to(values)
        weights = weights * gate * self._ratio(rollout, places, student_logps.detach())
        return Loss(
            (values * weights).sum(),
            len(tokens),
            {
                "tokens": len(tokens),
                "sites": len(sites),
                "sites_helped": helped,
                "divergence": float((values.detach() * gate).sum()),
                "teacher_gain": float((student_logps.detach() - teacher_logps).sum()),
                "teacher_tokens": tokens_read(rollout.ids, sites, packed=packed),
                "student_tokens": max(site.end for site in sites),
            },
        )

    def _keep(self, rollout: Rollout, sites: Sequence[Site], values: Tensor) -> None:
        """Remember how far student and teacher are apart at each site, whether or not the gate leaves it out."""
        means = torch.stack([part.mean() for part in values.split([site.end - site.start for site in sites])]).tolist()
        self.by_turn[rollout.episode_id] = {site.turn: mean for site, mean in zip(sites, means, strict=True)}
        while len(self.by_turn) > REMEMBERED:
            del self.by_turn[next(iter(self.by_turn))]

    def _divergence(
        self, student_hidden: Tensor, student_head: Head, teacher_hidden: Tensor, teacher_head: Head
    ) -> Tensor:
        options = self.settings
        arguments = (student_hidden, student_head, teacher_hidden, teacher_head, options.beta)
        if options.estimator == "top_k":
            return divergence.fused_top_k(*arguments, k=options.top_k, normalised=options.normalised)
        return divergence.fused_divergence(*arguments, normalised=options.normalised)

    def _gate(self, sites: Sequence[Site], student_logps: Tensor, teacher_logps: Tensor) -> tuple[Tensor, int]:
        """Return 1 for each token of a site that teaches and 0 for the others, and the number of sites that help.

        A teacher that finds the failed turn as likely as before has not understood the hint: it has nothing to teach.
        """
        lengths = [site.end - site.start for site in sites]
        pairs = zip(student_logps.split(lengths), teacher_logps.split(lengths), strict=True)
        gains = [float((student - teacher).sum()) for student, teacher in pairs]
        rounded = torch.is_autocast_enabled(student_logps.device.type)
        bounds = [MIN_GAIN_BFLOAT16 * length**0.5 if rounded else MIN_GAIN for length in lengths]
        helps = [gain > bound for gain, bound in zip(gains, bounds, strict=True)]
        teaches = [helpful or not self.settings.gate for helpful in helps]
        gate = [float(teaching) for teaching, length in zip(teaches, lengths, strict=True) for _ in range(length)]
        return torch.tensor(gate).to(student_logps), sum(helps)

    def _ratio(self, rollout: Rollout, places: Sequence[int], student_logps: Tensor) -> Tensor:
        """Return min(pi / pi of the sampler, ratio_clip), or 1 where the sampler's log-probability is unknown."""
        if not rollout.logprobs:
            return torch.ones_like(student_logps)
        old = [rollout.logprobs[place - rollout.prompt] for place in places]
        gap = (student_logps - torch.tensor(old).to(student_logps)).nan_to_num(0.0).clamp(-20, 20)
        return gap.exp().clamp(max=self.settings.ratio_clip)

    def _can_pack(self, teacher: Any) -> bool:
        if id(teacher) not in self._packs:
            self._packs[id(teacher)] = can_pack(teacher)
        return self._packs[id(teacher)]
