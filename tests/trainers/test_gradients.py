"""Gradient of the real loss with all three channels: exactly 0 on every row of logits whose target the policy did not
sample, which are the ids of the environment and of the prompt, and padding.

A row of logits is the head times a row of the last hidden states, and nothing else uses those. So the test reads their
gradient where the forward pass of each channel ends.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.made_up_rollouts import drilled
from helpers.scripted_policy import Scripted
from torch import Tensor

from etude.trainers.distillation.distiller import Settings
from etude.trainers.distillation.teachers import Teacher
from etude.trainers.grpo.objectives import objective
from etude.trainers.grpo.parts import ChannelWeights
from etude.trainers.grpo.scored_batch import ScoredBatch
from etude.trainers.replay.channel.encoding import Encoded
from etude.trainers.replay.channel.loss import Replay
from etude.trainers.rollouts.rollout import Sample

PAIR = Encoded([5, 6, 7, 8, 9], [11, 12, 13], [14, 15], "k")
CHANNELS = ("rlvr", "distillation", "replay")


class Watched(Scripted):
    """Trainer that records its forward passes; half of each group errs and gives up.

    ``forwards`` has the channel, ids [B, T] and last hidden states [B, T, H] of each forward pass with a gradient.
    """

    channel = ""

    def _generate_turns(self, prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
        places = [prompts[:number].count(ids) for number, ids in enumerate(prompts)]
        turns = zip(prompts, rooms, places, strict=True)
        return [Sample(self._turn(ids, place % 2 == 0, gives_up=True)[:room]) for ids, room, place in turns]

    def watch(self) -> None:
        self.forwards: list[tuple[str, Tensor, Tensor]] = []
        self.batches: list[dict[str, Any]] = []
        self.model.base_model.register_forward_hook(self._hook, with_kwargs=True)

    def _hook(self, module: Any, args: Any, inputs: dict[str, Any], output: Any) -> None:
        hidden = output.last_hidden_state
        if hidden.requires_grad and self.channel:
            hidden.retain_grad()
            self.forwards.append((self.channel, inputs["input_ids"], hidden))

    def _get_per_token_logps_and_entropies(self, *args: Any, **more: Any) -> Any:
        return self._in("rlvr", super()._get_per_token_logps_and_entropies, *args, **more)

    def _distillation_loss(self, *args: Any) -> Tensor:
        loss: Tensor = self._in("distillation", super()._distillation_loss, *args)
        return loss

    def _in(self, channel: str, call: Any, *args: Any, **more: Any) -> Any:
        self.channel = channel
        try:
            return call(*args, **more)
        finally:
            self.channel = ""

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        self.batches.append(inputs)
        return super()._compute_loss(model, inputs)


class WatchedReplay(Replay):
    def loss(self, trainer: Any, model: Any) -> Tensor:
        loss: Tensor = trainer._in("replay", super().loss, trainer, model)
        return loss


@pytest.fixture(scope="module", params=["dr_grpo", "dapo"])
def trained(request: pytest.FixtureRequest, drill_url: str, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """Return a trainer after one step on real episodes, real sites, and a pair."""
    trainer: Watched = drilled(
        Watched,
        drill_url,
        tmp_path_factory.mktemp("out"),
        {
            "objective": objective(request.param),
            "channels": ChannelWeights(*[lambda share: 1.0] * 3),
            "distillation": Settings(gate=False),
            "teacher": Teacher("frozen"),
            "replay": WatchedReplay([PAIR, PAIR], batch=2),
        },
        max_steps=1,
        **objective(request.param).arguments,
    )
    with torch.no_grad():  # so that a row of hidden states is 0 only where the row of logits is
        trainer.model.lm_head.weight.normal_(0, 0.2)
    trainer.watch()
    trainer.train()
    trainer.close()
    return trainer


def touched(ids: Tensor, hidden: Tensor) -> list[set[int]]:
    """Return the rows of each sequence that have a gradient other than 0."""
    assert hidden.grad is not None
    return [set(row.abs().amax(-1).nonzero().flatten().tolist()) for row in hidden.grad]


def rows_of(trained: Watched, channel: str) -> list[tuple[Tensor, set[int]]]:
    forwards = [(ids, hidden) for name, ids, hidden in trained.forwards if name == channel]
    return [pair for ids, hidden in forwards for pair in zip(ids, touched(ids, hidden), strict=True)]


def test_rlvr_gradient_reaches_exactly_the_rows_of_sampled_tokens(trained: Watched) -> None:
    """It reaches all of them, in each sequence with an advantage."""
    any_touched = False
    sequences = [
        (row.rollout, advantage)
        for inputs in trained.batches
        for row, advantage in zip(ScoredBatch.from_inputs(inputs).rows, inputs["advantages"].tolist(), strict=True)
    ]
    rows = rows_of(trained, "rlvr")
    assert len(rows) == len(sequences)
    for (rollout, advantage), (ids, touched_rows) in zip(sequences, rows, strict=True):
        start = next(at for at in range(len(ids)) if ids[at : at + len(rollout.ids)].tolist() == rollout.ids)
        mask = [0] * rollout.prompt + rollout.mask
        sampled = {start + place - 1 for place, own in enumerate(mask) if own}
        assert touched_rows == (sampled if advantage else set())
        any_touched = any_touched or bool(touched_rows)
    assert any_touched


def test_distillation_gradient_reaches_exactly_the_rows_of_its_sites(trained: Watched) -> None:
    scored = [row for inputs in trained.batches for row in ScoredBatch.from_inputs(inputs).rows]
    pairs = [(row.rollout, row.sites) for row in scored if row.sites]
    rows = rows_of(trained, "distillation")
    assert len(rows) == len(pairs) > 0
    for (rollout, sites), (ids, touched_rows) in zip(pairs, rows, strict=True):
        assert rollout.ids[: len(ids)] == ids.tolist()
        assert touched_rows == {row for site in sites for row in range(site.start - 1, site.end - 1)}
        mask = [0] * rollout.prompt + rollout.mask
        assert all(mask[row + 1] for row in touched_rows)


def test_replay_gradient_reaches_exactly_the_rows_of_the_turns(trained: Watched) -> None:
    rows = rows_of(trained, "replay")
    assert len(rows) == 2 * len(trained.batches)
    for ids, touched_rows in rows:
        turn = PAIR.chosen if ids.tolist()[5:8] == PAIR.chosen else PAIR.rejected
        assert touched_rows == set(range(len(PAIR.prompt) - 1, len(PAIR.prompt) + len(turn) - 1))


def test_every_forward_pass_with_a_gradient_belongs_to_a_channel(trained: Watched) -> None:
    assert {name for name, _, _ in trained.forwards} == set(CHANNELS)
