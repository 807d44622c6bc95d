"""Channels of the loss: distillation sites, the two losses beside RLVR, and the weighted sum of all three."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from ...errors import UnsuitableModel
from ...hints.write.hint_choice import HintChoice
from ...models import ErrorTurn
from ..distillation.distill_sites import Site, choose_sites
from ..distillation.distiller import Distiller
from ..distributed import gather_from_ranks, sum_over_ranks
from ..rollouts.rollout import Rollout
from ..sharded.access import causal_model, is_sharded, reshard_heads
from .gradient_norms import GradientNorms, is_due, is_last_micro_batch
from .parts import Parts
from .scored_batch import ScoredBatch


class ChannelLosses:
    """Mixin of TRL's GRPO trainers, before them in the list of bases: a x RLVR + b x distillation + c x replay.

    A trainer calls ``start_channels`` in its constructor, puts rows and sites into each micro-batch
    (``scored_batch.attach``), and computes its loss with ``sum_of_channels``.
    """

    parts: Parts
    model: Any
    args: Any
    state: Any
    accelerator: Any
    current_gradient_accumulation_steps: int
    _metrics: Any
    _chat: Any

    def start_channels(self, parts: Parts) -> None:
        """Set the parts, and forget what was measured."""
        self.parts = parts
        self._distiller = Distiller(parts.distillation)
        self._norms = GradientNorms()

    def sum_of_channels(self, model: Any, inputs: dict[str, Any], rlvr: Callable[..., Tensor]) -> Tensor:
        """Return the loss of a micro-batch. ``rlvr`` is TRL's loss; it is not called while its weight is 0."""
        losses = {"rlvr": rlvr, "distillation": self._distillation_loss, "replay": self._replay_loss}
        weights = {name: weight for name in losses if (weight := self._weight(name))}
        due = len(weights) > 1 and is_due(self, self.parts.gradients_every)
        in_turn = self.model.training and is_sharded(self.model)
        around: Any = self._norms.adding if due else nullcontext
        if due:
            reshard_heads(self.model)
            self._norms.begin(weights, self.model)
        terms: dict[str, Tensor] = {}
        for name, weight in weights.items():
            if in_turn:
                self.backward_terms(terms, around)
            terms[name] = weight * losses[name](model, inputs)
        if due and in_turn:
            self.backward_terms(terms, around)
        elif due:
            self._norms.add(terms, self.model)
        if due and is_last_micro_batch(self):
            self.record_metrics(self._norms.norms())
        # Every rank must reach every parameter through the wrapper, even if it has no site.
        start: Any = 0.0 if "rlvr" in terms else _zero_through_model(model, inputs)
        total: Tensor = sum(terms.values(), start)
        if not total.requires_grad:  # the terms have had their backward passes, and the last one has no site
            total = total + torch.zeros_like(total, requires_grad=True)
        return total

    def backward_terms(self, terms: dict[str, Tensor], around: Callable[[str], Any]) -> None:
        """Run the backward pass of terms of the loss; ``ShardedTraining`` does it for sharded weights."""
        raise NotImplementedError("this trainer does not train sharded weights")

    def _choose_sites(self, rollouts: Sequence[Rollout]) -> list[list[Site]]:
        """Return the distillation sites of each rollout; none, at no cost, while the channel's weight is 0."""
        if not self._weight("distillation"):
            return [[] for _ in rollouts]
        skipped: Counter[str] = Counter()
        chosen = []
        for rollout in rollouts:
            if self.parts.chooser is not None:
                rollout.error_turns = _order_hints(self.parts.chooser, rollout.error_turns)
            sites, skipped_reasons = choose_sites(
                rollout,
                self._chat.insert_for,
                cap=self.parts.cap,
                max_ids=self.parts.limits.max_ids,
                recovery=self.parts.recovery,
                rng=random.Random(f"{self.args.seed} {rollout.task_id} {rollout.ids} {self.state.global_step}"),
            )
            chosen.append(sites)
            skipped += skipped_reasons
        skipped = sum(gather_from_ranks(skipped), Counter[str]())
        self.record_metric("distillation/chosen", sum_over_ranks([sum(map(len, chosen))])[0])
        self.record_metrics(
            {f"distillation/left_out/{reason.replace(' ', '_')}": count for reason, count in skipped.items()}
        )
        return chosen

    def divergences(self) -> Mapping[str, Mapping[int, float]]:
        """Return the divergence of the sites that steps have learned from lately: by episode id, then by turn."""
        return self._distiller.by_turn

    def _replay_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        with self.accelerator.autocast():
            loss: Tensor = self.parts.replay.loss(self, model)
        return loss

    def _distillation_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        """Return the distillation loss divided by the weight of the whole step's sites, as TRL divides ``dapo``."""
        student = causal_model(self.accelerator.unwrap_model(model))
        if self.parts.teacher is None:
            raise UnsuitableModel("distillation has a weight; give Parts a teacher")
        teacher, batch = self.parts.teacher.model(student), ScoredBatch.from_inputs(inputs)
        with self.accelerator.autocast():
            loss = self._distiller.loss(student, teacher, batch.rollouts_with_sites())
        micro_batches = self.current_gradient_accumulation_steps if student.training else 1
        share = micro_batches / self._micro_batches_of_a_batch() if student.training else 1.0
        ranks = self.accelerator.num_processes
        weight = batch.site_weight / ranks * share
        weight = torch.where(weight > 0, weight, torch.ones_like(weight))  # without sites the sum is 0 too
        local = {"loss": float(loss.total.detach() / weight) / ranks, **loss.metrics}
        sums = dict(zip(local, sum_over_ranks([*local.values()]), strict=True))
        # TRL averages metrics over the micro-batches of a step, but these are sums over them.
        self.record_metrics({f"distillation/{name}": value * micro_batches for name, value in sums.items()})
        return loss.total / weight

    def _micro_batches_of_a_batch(self) -> int:
        """Return the number of micro-batches over whose sites ``ScoredBatch.site_weight`` is summed."""
        return int(self.args.steps_per_generation)

    def _weight(self, channel: str) -> float:
        share = self.state.global_step / max(self.state.max_steps, 1)
        return float(getattr(self.parts.channels, channel)(share))

    # --- metrics -------------------------------------------------------------------------------------------------

    def record_metric(self, name: str, value: float) -> None:
        """Add a value to a metric, which TRL averages over a step and logs."""
        self._metrics["train" if self.model.training else "eval"][name].append(value)

    def record_metrics(self, values: Mapping[str, float]) -> None:
        """Add one value to each of several metrics."""
        for name, value in values.items():
            self.record_metric(name, value)


def _order_hints(chooser: HintChoice, errors: list[ErrorTurn]) -> list[ErrorTurn]:
    return [error.model_copy(update={"hints": chooser(error, errors)}) for error in errors]


def _zero_through_model(model: Any, inputs: dict[str, Any]) -> Tensor:
    """Return 0 with a gradient of 0 for every parameter."""
    ids = inputs["prompt_ids"] if "prompt_ids" in inputs else inputs["input_ids"]
    logits: Tensor = model(input_ids=ids[:1, -1:]).logits
    return logits.sum() * 0.0
