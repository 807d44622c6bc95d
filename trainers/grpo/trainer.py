"""Reference trainer: TRL's GRPOTrainer with three channels in one loss.

    total = a * RLVR + b * distillation at error turns + c * replay-DPO

RLVR is TRL's own loss on the verified reward. A channel whose weight is 0 costs nothing: no forward pass, no teacher,
no data. Episodes are played through the client only.

TRL calls this class twice. For each batch of episodes, which may serve several steps:

    _generate_and_score_completions(inputs)
        seed_sampling                                      generation.py
        TRL: sample, compute rewards and advantages
            rollout_func -> _play_batch -> play            dynamic_sampling.py, rollouts/session_pool.py
                _generate_turns, once for each turn        generation.py
                effort_penalties                           effort.py
            reward_func                                    rollout_function.py
        exclude_from_rlvr                                  dynamic_sampling.py
        _choose_sites                                      distillation/distill_sites.py
        attach: rollouts and sites join TRL's batch        scored_batch.py
        _subtract_k1, if the recipe asks for it            objectives.py

TRL then shuffles the rows and cuts them into micro-batches. For each micro-batch:

    _compute_loss(model, inputs)
        TRL's loss                                         channel RLVR
        _distillation_loss -> Distiller.loss               distillation/distiller.py
        Replay.loss                                        replay/channel/loss.py
        gradient_norms, when they are due                  gradient_norms.py
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from trl.trainer.grpo_trainer import GRPOTrainer

from ...errors import ServerError, UnsuitableModel
from ...hints.write.hint_choice import HintChoice
from ...models import ErrorTurn
from ..distillation.distill_sites import Site, choose_sites
from ..distillation.distiller import Distiller
from ..distillation.hidden_states import check_model, completion_logps
from ..distributed import fail_on_all_ranks, gather_from_ranks, sum_over_ranks
from ..report.metrics_summary import episode_metrics
from ..rollouts.batcher import Batcher
from ..rollouts.dataset_rows import RESET
from ..rollouts.rollout import Rollout, Sample
from ..rollouts.session_pool import SessionPool, play
from ..sharded.access import causal_model, gathered, is_sharded, reshard_heads
from ..sharded.training import ShardedTraining
from .dynamic_sampling import SampledBatch, exclude_from_rlvr, gather_rewards, play_until_varied
from .effort import EffortPenalties
from .generation import configure_sampler, generate, seed_sampling
from .gradient_norms import GradientNorms, is_due, is_last_micro_batch
from .objectives import flat_groups, subtract_k1
from .parts import Parts
from .rollout_function import reward_func, rollout_func
from .scored_batch import ScoredBatch, attach, scored_rows

_Base: Any = GRPOTrainer


class EtudeTrainer(ShardedTraining, _Base):
    """Trainer of a policy on played episodes.

    ``train_dataset`` has a column ``prompt`` (a conversation that is not read) and one named ``RESET``. Raise
    UnsuitableModel for a model that is not a decoder of text.
    """

    def __init__(self, model: Any, parts: Parts, **arguments: Any) -> None:
        self.parts = parts
        super().__init__(model=model, reward_funcs=[reward_func], rollout_func=rollout_func, **arguments)
        check_model(self.model.config)
        self._runner = asyncio.Runner()
        self._sessions = SessionPool(parts.url)
        self._batcher = Batcher(self._generate_turns, patience=parts.patience if self.use_vllm else None)
        self._chat: Any = parts.chat(self._batcher.sample)
        configure_sampler(self, parts.limits.max_turn_ids, self._chat.stops)
        self._distiller = Distiller(parts.distillation)
        self._norms = GradientNorms()
        self._tasks: list[str] = []
        self.sampled = SampledBatch([], [])
        self.effort = EffortPenalties([], {})

    # --- episodes ------------------------------------------------------------------------------------------------

    def play(self, tasks: Sequence[Mapping[str, Any]]) -> list[Rollout]:
        """Play one episode of each task with the current policy; a task is the arguments of ``reset``.

        All ranks must call it together. Raise ServerError on all of them when one has lost its server.
        """
        parts = self.parts
        arguments = (self._chat, self._batcher, self._sessions, parts.limits)
        # Ranks have different numbers of turns, so a sampler of transformers needs the whole weights on each.
        with nullcontext() if self.use_vllm else gathered(self.model):
            return fail_on_all_ranks(
                lambda: self._runner.run(play(tasks, *arguments, system=parts.system)), failure=ServerError
            )

    def close(self) -> None:
        """Close the sessions. May be called more than once."""
        runner, self._runner = self._runner, asyncio.Runner()
        with runner:  # its end cancels what an interrupt left running
            runner.run(self._sessions.close())

    def _generate_turns(self, prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
        return generate(self, prompts, rooms)

    def _play_batch(self) -> SampledBatch:
        """Play an episode of each row's task, or of the task with which dynamic sampling replaced it."""
        if not self.parts.objective.dynamic_sampling:
            return SampledBatch(self.play([json.loads(task) for task in self._tasks]), [[] for _ in self._tasks])
        sampled = play_until_varied(self, self._tasks, self.train_dataset.unique(RESET))
        self.record_metric("groups/replaced", sampled.groups_replaced)
        self.record_metric("groups/given_up", sampled.groups_given_up)
        return sampled

    # --- scoring -------------------------------------------------------------------------------------------------

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._tasks = [row[RESET] for row in inputs]
        # The seed depends on the step alone, so that a resumed run samples what the uninterrupted one would have.
        seed = random.Random(f"sample {self.args.seed} {self.state.global_step} {self.accelerator.process_index}")
        seed_sampling(seed.getrandbits(63))
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        rollouts = self.sampled.rollouts
        rewards = gather_rewards(self, rollouts)
        flat = flat_groups(rewards, self.num_generations)
        shaped = gather_rewards(self, rollouts, self.effort.penalties) if self.parts.effort.weight else rewards
        exclude_from_rlvr(self, output, rollouts, flat_groups(shaped, self.num_generations), self.parts.objective)
        unsolved = (rewards.view(-1, self.num_generations).nan_to_num() < 1).all(-1)
        self.record_metric("groups/flat", float(flat.float().mean()))
        self.record_metric("groups/unsolved", float(unsolved.float().mean()))
        all_rollouts = [*rollouts, *(old for replaced in self.sampled.replaced for old in replaced)]
        self.record_metrics(episode_metrics(all_rollouts, sum_over_ranks))
        sites = self._choose_sites(all_rollouts)
        own_weight = sum(site.total_weight for rollout_sites in sites for site in rollout_sites)
        site_weight = self.accelerator.gather(torch.tensor(float(own_weight), device=self.accelerator.device)).sum()
        attach(output, scored_rows(self.sampled, sites), site_weight)
        if self.parts.k1_weight:
            output["advantages"] = self._subtract_k1(output)
        return output

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

    def _subtract_k1(self, output: dict[str, Any]) -> Tensor:
        """Return the advantages minus k1 to the first weights, as in the report on Composer 2."""
        if self.parts.reference is None:
            raise UnsuitableModel("k1 in the reward needs the first weights; give Parts a reference")
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
        attention = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
        length, mask = output["completion_ids"].size(1), output["completion_mask"] * output["tool_mask"]
        student = self.accelerator.unwrap_model(self.model)
        options = {"temperature": self.temperature, "rows": self.args.per_device_train_batch_size}
        with torch.no_grad(), self.accelerator.autocast():
            policy, reference = (
                completion_logps(model, ids, attention, length, **options)
                for model in (student, self.parts.reference.model(student))
            )
        total, tokens = sum_over_ranks([float(((policy - reference) * mask).sum()), float(mask.sum())])
        self.record_metric("kl_k1", total / max(tokens, 1))
        return subtract_k1(output["advantages"], policy, reference, mask, self.num_generations, self.parts.k1_weight)

    # --- the loss ------------------------------------------------------------------------------------------------

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        losses = {
            "rlvr": super()._compute_loss,
            "distillation": self._distillation_loss,
            "replay": self._replay_loss,
        }
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
        share = micro_batches / self.args.steps_per_generation if student.training else 1.0
        ranks = self.accelerator.num_processes
        weight = batch.site_weight / ranks * share
        weight = torch.where(weight > 0, weight, torch.ones_like(weight))  # without sites the sum is 0 too
        local = {"loss": float(loss.total.detach() / weight) / ranks, **loss.metrics}
        sums = dict(zip(local, sum_over_ranks([*local.values()]), strict=True))
        # TRL averages metrics over the micro-batches of a step, but these are sums over them.
        self.record_metrics({f"distillation/{name}": value * micro_batches for name, value in sums.items()})
        return loss.total / weight

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

    def last_rollouts(self) -> list[tuple[Rollout, list[Site]]]:
        """Return the rollouts of the last batch with their sites, without those that were replaced."""
        batches = [ScoredBatch.from_inputs(inputs) for inputs in self._buffered_inputs or []]
        return [(row.rollout, row.sites) for batch in batches for row in batch.rows]


def _order_hints(chooser: HintChoice, errors: list[ErrorTurn]) -> list[ErrorTurn]:
    return [error.model_copy(update={"hints": chooser(error, errors)}) for error in errors]


def _zero_through_model(model: Any, inputs: dict[str, Any]) -> Tensor:
    """Return 0 with a gradient of 0 for every parameter."""
    logits: Tensor = model(input_ids=inputs["prompt_ids"][:1, -1:]).logits
    return logits.sum() * 0.0
