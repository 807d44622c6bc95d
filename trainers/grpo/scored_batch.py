"""Scored batch: the record that carries rollouts and their distillation sites from scoring to the loss.

TRL passes a scored batch on as a dict, shuffles its rows and cuts it into micro-batches. ``attach`` adds two entries
to the dict: a list with one ``ScoredRow`` for each row, which TRL shuffles and cuts like its tensors, and a scalar,
which it copies. ``ScoredBatch.from_inputs`` reads them from the dict of a micro-batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from ..distillation.distill_sites import Site
from ..rollouts.rollout import Rollout
from .dynamic_sampling import SampledBatch

_ROWS, _SITE_WEIGHT = "etude_rows", "etude_site_weight"


@dataclass(frozen=True)
class ScoredRow:
    """One row of a scored batch."""

    rollout: Rollout
    """The rollout that RLVR learns from."""
    sites: list[Site]
    """Its distillation sites."""
    replaced: list[tuple[Rollout, list[Site]]]
    """Rollouts that dynamic sampling discarded in favour of ``rollout``, with their sites.

    Distillation learns from them too.
    """


@dataclass(frozen=True)
class ScoredBatch:
    """Rows of a micro-batch, or of a complete batch of episodes."""

    rows: list[ScoredRow]
    """One record for each row of TRL's tensors, [B]."""
    site_weight: Tensor
    """Weight of all site tokens in the complete batch of episodes over all ranks, a scalar: N of the distillation."""
    old_logps: Tensor | None
    """Log-probabilities of the completions [B, T] under the policy that sampled them. TRL has them if it learns more
    than once from a batch; rows are padded on the right."""

    @classmethod
    def from_inputs(cls, inputs: Mapping[str, Any]) -> ScoredBatch:
        """Return the record in the dict that TRL passes to the loss."""
        return cls(inputs[_ROWS], inputs[_SITE_WEIGHT], inputs.get("old_per_token_logps"))

    def rollouts_with_sites(self) -> list[tuple[Rollout, Sequence[Site]]]:
        """Return each rollout with its sites, replaced rollouts last.

        A rollout without log-probabilities from its sampler gets those in ``old_logps``; a replaced one has none there.
        """
        pairs: list[tuple[Rollout, Sequence[Site]]] = []
        for index, row in enumerate(self.rows):
            rollout = row.rollout
            if self.old_logps is not None and row.sites and not rollout.logprobs:
                length = len(rollout.ids) - rollout.prompt
                rollout = replace(rollout, logprobs=self.old_logps[index, :length].tolist())
            pairs.append((rollout, row.sites))
        return [*pairs, *(pair for row in self.rows for pair in row.replaced)]


def scored_rows(sampled: SampledBatch, sites: Sequence[list[Site]]) -> list[ScoredRow]:
    """Return one record for each rollout. ``sites`` has those of the rollouts, then those of the replaced ones."""
    number = len(sampled.rollouts)
    replaced_sites = iter(sites[number:])
    return [
        ScoredRow(rollout, row_sites, [(old, next(replaced_sites)) for old in replaced])
        for rollout, row_sites, replaced in zip(sampled.rollouts, sites[:number], sampled.replaced, strict=True)
    ]


def attach(output: dict[str, Any], rows: list[ScoredRow], site_weight: Tensor) -> None:
    """Add the rows and the weight of all site tokens (a scalar) to the dict of TRL's scored batch."""
    output[_ROWS], output[_SITE_WEIGHT] = rows, site_weight
