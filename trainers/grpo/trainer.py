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
        _choose_sites                                      channels.py
        attach: rollouts and sites join TRL's batch        scored_batch.py
        _subtract_k1, if the recipe asks for it            objectives.py

TRL then shuffles the rows and cuts them into micro-batches. For each micro-batch:

    _compute_loss(model, inputs) -> sum_of_channels        channels.py
        TRL's loss                                         channel RLVR
        _distillation_loss -> Distiller.loss               distillation/distiller.py
        Replay.loss                                        replay/channel/loss.py
        gradient_norms, when they are due                  gradient_norms.py
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from trl.trainer.grpo_trainer import GRPOTrainer

from ...errors import ServerError, UnsuitableModel
from ..distillation.distill_sites import Site
from ..distillation.hidden_states import check_model, completion_logps
from ..distributed import fail_on_all_ranks, sum_over_ranks
from ..report.metrics_summary import episode_metrics
from ..rollouts.batcher import Batcher
from ..rollouts.dataset_rows import RESET
from ..rollouts.rollout import Rollout, Sample
from ..rollouts.session_pool import SessionPool, play
from ..sharded.access import gathered
from ..sharded.training import ShardedTraining
from .channels import ChannelLosses
from .dynamic_sampling import SampledBatch, exclude_from_rlvr, gather_rewards, play_until_varied
from .effort import EffortPenalties
from .generation import configure_sampler, generate, seed_sampling
from .objectives import flat_groups, subtract_k1
from .parts import Parts
from .rollout_function import reward_func, rollout_func
from .scored_batch import ScoredBatch, attach, scored_rows

_Base: Any = GRPOTrainer


class EtudeTrainer(ShardedTraining, ChannelLosses, _Base):
    """Trainer of a policy on played episodes.

    ``train_dataset`` has a column ``prompt`` (a conversation that is not read) and one named ``RESET``. Raise
    UnsuitableModel for a model that is not a decoder of text.
    """

    def __init__(self, model: Any, parts: Parts, **arguments: Any) -> None:
        self.start_channels(parts)
        super().__init__(model=model, reward_funcs=[reward_func], rollout_func=rollout_func, **arguments)
        check_model(self.model.config)
        self._runner = asyncio.Runner()
        self._sessions = SessionPool(parts.url)
        self._batcher = Batcher(self._generate_turns, patience=parts.patience if self.use_vllm else None)
        self._chat: Any = parts.chat(self._batcher.sample)
        configure_sampler(self, parts.limits.max_turn_ids, self._chat.stops)
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
        return self.sum_of_channels(model, inputs, super()._compute_loss)

    def last_rollouts(self) -> list[tuple[Rollout, list[Site]]]:
        """Return the rollouts of the last batch with their sites, without those that were replaced."""
        batches = [ScoredBatch.from_inputs(inputs) for inputs in self._buffered_inputs or []]
        return [(row.rollout, row.sites) for batch in batches for row in batch.rows]
