"""The gradient of the real total loss, all three channels on, is exactly 0 on every row of logits whose target is not
the policy's: the ids of the environment and of the prompt, and padding.

A row of logits is the head times a row of the last hidden states, and nothing else reads those: their gradient is seen
where each channel's forward ends.
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
from etude.trainers.grpo.trainer import Channels
from etude.trainers.replay.encoding import Encoded
from etude.trainers.replay.loss import Replay
from etude.trainers.rollouts.rollout import Sample

PAIR = Encoded([5, 6, 7, 8, 9], [11, 12, 13], [14, 15], "k")
CHANNELS = ("rlvr", "distillation", "replay")


class Watched(Scripted):
    """Half of each group errs and gives up. ``seen``: channel, ids [B, T] and last hidden states [B, T, H] of each
    forward that a gradient goes through."""

    channel = ""

    def _generate_turns(self, prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
        places = [prompts[:number].count(ids) for number, ids in enumerate(prompts)]
        each = zip(prompts, rooms, places, strict=True)
        return [Sample(self._turn(ids, place % 2 == 0, gives_up=True)[:room]) for ids, room, place in each]

    def watch(self) -> None:
        self.seen: list[tuple[str, Tensor, Tensor]] = []
        self.batches: list[dict[str, Any]] = []
        self.model.base_model.register_forward_hook(self._hook, with_kwargs=True)

    def _hook(self, module: Any, args: Any, given: dict[str, Any], output: Any) -> None:
        hidden = output.last_hidden_state
        if hidden.requires_grad and self.channel:
            hidden.retain_grad()
            self.seen.append((self.channel, given["input_ids"], hidden))

    def _get_per_token_logps_and_entropies(self, *args: Any, **more: Any) -> Any:
        return self._in("rlvr", super()._get_per_token_logps_and_entropies, *args, **more)

    def _distilled(self, *args: Any) -> Tensor:
        found: Tensor = self._in("distillation", super()._distilled, *args)
        return found

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
        found: Tensor = trainer._in("replay", super().loss, trainer, model)
        return found


@pytest.fixture(scope="module", params=["dr_grpo", "dapo"])
def trained(request: pytest.FixtureRequest, drill_url: str, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """One step of real episodes, real sites, and a pair."""
    found: Watched = drilled(
        Watched,
        drill_url,
        tmp_path_factory.mktemp("out"),
        {
            "objective": objective(request.param),
            "channels": Channels(*[lambda done: 1.0] * 3),
            "distillation": Settings(gate=False),
            "teacher": Teacher("frozen"),
            "replay": WatchedReplay([PAIR, PAIR], batch=2),
        },
        max_steps=1,
        **objective(request.param).arguments,
    )
    with torch.no_grad():  # a hidden row is then zero only where the row of logits is
        found.model.lm_head.weight.normal_(0, 0.2)
    found.watch()
    found.train()
    found.close()
    return found


def touched(ids: Tensor, hidden: Tensor) -> list[set[int]]:
    """Which rows of each sequence have any gradient at all."""
    assert hidden.grad is not None
    return [set(row.abs().amax(-1).nonzero().flatten().tolist()) for row in hidden.grad]


def of(trained: Watched, channel: str) -> list[tuple[Tensor, set[int]]]:
    found = [(ids, hidden) for name, ids, hidden in trained.seen if name == channel]
    return [pair for ids, hidden in found for pair in zip(ids, touched(ids, hidden), strict=True)]


def test_rlvr_touches_the_rows_of_sampled_tokens_alone(trained: Watched) -> None:
    """All of them, in each sequence with an advantage."""
    some = False
    sequences = [(r, a) for b in trained.batches for r, a in zip(b["rollouts"], b["advantages"].tolist(), strict=True)]
    rows = of(trained, "rlvr")
    assert len(rows) == len(sequences)
    for (rollout, advantage), (ids, found) in zip(sequences, rows, strict=True):
        start = next(at for at in range(len(ids)) if ids[at : at + len(rollout.ids)].tolist() == rollout.ids)
        mask = [0] * rollout.prompt + rollout.mask
        sampled = {start + place - 1 for place, mine in enumerate(mask) if mine}
        assert found == (sampled if advantage else set())
        some = some or bool(found)
    assert some


def test_distillation_touches_the_rows_of_its_sites_alone(trained: Watched) -> None:
    pairs = [(r, s) for b in trained.batches for r, s in zip(b["rollouts"], b["sites"], strict=True) if s]
    rows = of(trained, "distillation")
    assert len(rows) == len(pairs) > 0
    for (rollout, sites), (ids, found) in zip(pairs, rows, strict=True):
        assert rollout.ids[: len(ids)] == ids.tolist()
        assert found == {row for site in sites for row in range(site.start - 1, site.end - 1)}
        mask = [0] * rollout.prompt + rollout.mask
        assert all(mask[row + 1] for row in found)


def test_replay_touches_the_rows_of_turns_alone(trained: Watched) -> None:
    rows = of(trained, "replay")
    assert len(rows) == 2 * len(trained.batches)
    for ids, found in rows:
        turn = PAIR.chosen if ids.tolist()[5:8] == PAIR.chosen else PAIR.rejected
        assert found == set(range(len(PAIR.prompt) - 1, len(PAIR.prompt) + len(turn) - 1))


def test_every_forward_with_a_gradient_belongs_to_a_channel(trained: Watched) -> None:
    assert {name for name, _, _ in trained.seen} == set(CHANNELS)
