"""Asynchronous trainer: TRL's AsyncGRPOTrainer with the three channels in one loss.

    total = a * RLVR + b * distillation at error turns + c * replay-DPO

RLVR is TRL's loss. The other two are those of the synchronous trainer (``grpo/channels.py``), over the same episodes.
Episodes are played by another process while this one learns, so an episode may come from earlier weights: its lag is
the number of weight transfers since its group began.

    the process of ``worker.EpisodeWorker``
        plays groups of episodes, scores them, and queues samples with their episodes
    TRL: RolloutQueueDataset, which drops samples with a lag above ``max_staleness``, and its batcher and collator
        EpisodeCollator: the micro-batch keeps the episodes of its samples
    get_batch_samples: the micro-batches of one optimizer step
        _choose_sites                                      grpo/channels.py
        attach: rollouts and sites join the micro-batches  grpo/scored_batch.py
    compute_loss(model, inputs) -> sum_of_channels         grpo/channels.py
        TRL's loss                                         channel RLVR
        _distillation_loss -> Distiller.loss               distillation/distiller.py
        Replay.loss                                        replay/channel/loss.py

Distillation at a state that earlier weights sampled is on-policy only up to the lag. The distiller weights each token
by min(pi / pi of the sampler, ratio_clip), with the log-probabilities that came with the episode.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import TrainerCallback
from trl.experimental.async_grpo.async_grpo_trainer import AsyncGRPOTrainer

from ...errors import UnsuitableModel
from ..chat.chat_policy import TemplateChat, never_samples
from ..distillation.distill_sites import Site
from ..distillation.hidden_states import check_model
from ..distributed import sum_over_ranks, world_size
from ..grpo.channels import ChannelLosses
from ..grpo.parts import Parts
from ..grpo.scored_batch import ScoredRow, attach
from ..integrations.completions import Completions
from ..report.metrics_summary import episode_metrics
from ..rollouts.batcher import Batcher
from ..rollouts.rollout import Rollout, Sample
from ..rollouts.session_pool import SessionPool, play
from .attention import read_plainly, register
from .worker import Played

_Base: Any = AsyncGRPOTrainer
PLAYED = "etude_played"
"""Entry of a micro-batch with the origins of its samples, in their order."""


class EpisodeCollator:
    """TRL's collator, whose micro-batches also keep the episodes of their samples."""

    def __init__(self, collate: Any) -> None:
        self._collate = collate

    def __call__(self, examples: list[Any]) -> dict[str, Any]:
        batch: dict[str, Any] = self._collate(examples)
        (rows,) = examples
        batch[PLAYED] = [sample["metrics"].played for row in rows for sample in row.samples]
        return batch


class _LastTransfer(TrainerCallback):
    """Sends the weights of the last step when TRL does not: held-out tasks are played next."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if state.global_step % args.weight_sync_steps:
            self._trainer._sync_weight()


class AsyncEtudeTrainer(ChannelLosses, _Base):
    """Asynchronous trainer of a policy, on samples of an ``EpisodeWorker``.

    ``model`` is a folder or a name; TRL loads it. ``policy`` is the same model on the vLLM server, on which held-out
    tasks are played. ``Parts.effort``, ``objective``, ``patience`` and ``k1_weight`` are not read. One process only.

    Raise UnsuitableModel for a model that is not a decoder of text.
    """

    def __init__(self, model: str, parts: Parts, *, policy: Completions, **arguments: Any) -> None:
        if world_size() > 1:
            raise UnsuitableModel("asynchronous training works with one process; start one")
        self.start_channels(parts)
        super().__init__(model=model, **arguments)
        check_model(self.model.config)
        register()
        read_plainly(self.model)
        self._chat: Any = parts.chat(never_samples)
        self._runner = asyncio.Runner()
        self._sessions = SessionPool(parts.url)
        self._policy = policy
        self._player: TemplateChat = parts.chat(policy.sample)
        policy.stops = self._player.stops
        self._last: list[tuple[Rollout, list[Site]]] = []
        self._transfers = False
        init, self.weight_transfer.init_weight_transfer = self.weight_transfer.init_weight_transfer, self._init_once
        self._init_weight_transfer = init
        self.add_callback(_LastTransfer(self))

    # --- episodes ------------------------------------------------------------------------------------------------

    def play(self, tasks: Sequence[Mapping[str, Any]]) -> list[Rollout]:
        """Play one episode of each task with the current weights on the vLLM server. Raise ServerError."""
        if not self._transfers:  # the server may hold the weights of another run
            self._init_once()
            self._sync_weight()
        batcher = Batcher(_never_generates)
        arguments = (self._player, batcher, self._sessions, self.parts.limits)
        return self._runner.run(play(tasks, *arguments, system=self.parts.system))

    def close(self) -> None:
        """Close the sessions and the connections to the policy. May be called more than once."""
        runner, self._runner = self._runner, asyncio.Runner()
        with runner:
            runner.run(self._sessions.close())
            runner.run(self._policy.close())

    def _init_once(self) -> None:
        if not self._transfers:
            self._init_weight_transfer()
        self._transfers = True

    # --- batches -------------------------------------------------------------------------------------------------

    def get_train_dataloader(self) -> Any:
        """Return TRL's loader with an ``EpisodeCollator``."""
        loader = super().get_train_dataloader()
        inner = getattr(loader, "base_dataloader", loader)
        inner.collate_fn = EpisodeCollator(inner.collate_fn)
        return loader

    def get_batch_samples(self, epoch_iterator: Any, num_batches: int, device: Any) -> tuple[list[Any], Any]:
        """Return the micro-batches of one optimizer step, with the distillation sites of their episodes."""
        batches, items = super().get_batch_samples(epoch_iterator, num_batches, device)
        self.attach_sites(batches)
        return batches, items

    def attach_sites(self, batches: Sequence[dict[str, Any]]) -> None:
        """Choose the sites of a step's episodes and add them to its micro-batches, with the weight of all of them."""
        samples: list[list[Played]] = [batch.pop(PLAYED) for batch in batches]
        lags = [float(self.model_version - sample.model_version) for batch in samples for sample in batch]
        rollouts = [sample.rollout for batch in samples for sample in batch if sample.rollout is not None]
        if lags:
            self.record_metrics({"staleness/mean": sum(lags) / len(lags), "staleness/max": max(lags)})
        self.record_metrics(episode_metrics(rollouts, sum_over_ranks))
        self._last = list(zip(rollouts, self._choose_sites(rollouts), strict=True))
        total = sum(site.total_weight for _, sites in self._last for site in sites)
        weight = torch.tensor(float(total), device=self.accelerator.device)
        pairs = iter(self._last)
        for batch, of_batch in zip(batches, samples, strict=True):
            present = [sample for sample in of_batch if sample.rollout is not None]
            attach(batch, [ScoredRow(*next(pairs), []) for _ in present], weight)

    def last_rollouts(self) -> list[tuple[Rollout, list[Site]]]:
        """Return the rollouts of the last step with their sites."""
        return self._last

    def record_metric(self, name: str, value: float) -> None:
        """Add a value to a metric. The first step's episodes are measured before TRL sets the model to training."""
        self._metrics["train"][name].append(value)

    # --- the loss ------------------------------------------------------------------------------------------------

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        """Return the weighted sum of the channels."""
        return self.sum_of_channels(model, inputs, super().compute_loss)

    @property
    def _step(self) -> int:
        """Return the number of the micro-batch in its step, as ``Replay`` and ``GradientNorms`` read it."""
        return int(self._step_microbatches)

    def _micro_batches_of_a_batch(self) -> int:
        return int(self.current_gradient_accumulation_steps)


def _never_generates(prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
    raise AssertionError("turns are sampled by the vLLM server")
