"""Injected faults: they are not errors of the policy, so its right calls there do not become less likely."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from helpers.made_up_rollouts import drilled
from helpers.scripted_policy import TASKS, Scripted

from etude.trainers.distillation.distill_sites import Site
from etude.trainers.distillation.distiller import Settings
from etude.trainers.distillation.teachers import Teacher
from etude.trainers.grpo.parts import ChannelWeights
from etude.trainers.rollouts.rollout import Rollout, Sample

FAULTY = [{"task_id": f"drill-choose-{seed}-l1", "faults": "transient@0,timeout@1"} for seed in (1, 2)]


class Retrying(Scripted):
    """Trainer that repeats the right call until it succeeds, then submits; some rollouts first call a missing tool."""

    played: list[tuple[Rollout, list[Site]]]
    erring = 0.0

    def _generate_turns(self, prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
        places = [prompts[:number].count(ids) for number, ids in enumerate(prompts)]
        return [
            Sample(self._next_call(ids, place % 2 < 2 * self.erring))
            for ids, place in zip(prompts, places, strict=True)
        ]

    def _next_call(self, ids: list[int], errs: bool) -> list[int]:
        text = self.processing_class.decode(ids)
        drill = TASKS.drill(self.task_of(ids))
        ((name, arguments),) = drill.solution()
        if "<tool_response>\nok" in text:
            return self._call("submit", {"answer": drill.answer})
        return self._call("no_such_tool" if errs and "<tool_response>" not in text else name, arguments)

    def _choose_sites(self, played: Sequence[Rollout]) -> list[list[Site]]:
        sites = super()._choose_sites(played)
        self.played = [*getattr(self, "played", []), *zip(played, sites, strict=True)]
        return sites


def trained(url: str, out: Path, erring: float) -> tuple[Retrying, dict[str, torch.Tensor]]:
    """Return a trainer after two steps of distillation only, and the weights before them."""
    trainer: Retrying = drilled(
        Retrying,
        url,
        out,
        {
            "channels": ChannelWeights(rlvr=lambda share: 0.0, distillation=lambda share: 1.0),
            "distillation": Settings(gate=False),
            "teacher": Teacher("frozen"),
        },
        tasks=FAULTY,
        max_steps=2,
        learning_rate=1e-2,
    )
    trainer.erring = erring
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    trainer.train()
    trainer.close()
    return trainer, before


@torch.no_grad()
def right_calls(model: Any, played: list[tuple[Rollout, list[Site]]]) -> torch.Tensor:
    """Return the log-probability of each turn into which a fault was injected."""
    sums = []
    for rollout, _ in played:
        logps = model(torch.tensor([rollout.ids])).logits[0, :-1].log_softmax(-1)
        logps = logps.gather(-1, torch.tensor(rollout.ids)[1:, None])[:, 0]
        for turn in {error.turn for error in rollout.error_turns if error.injected}:
            sums.append(logps[rollout.turns[turn].start - 1 : rollout.turns[turn].end - 1].sum())
    return torch.stack(sums)


def test_weights_do_not_change_when_all_faults_are_injected(drill_url: str, tmp_path: Path) -> None:
    trainer, before = trained(drill_url, tmp_path, 0.0)
    errors = [error for rollout, _ in trainer.played for error in rollout.error_turns]
    assert len(errors) == 2 * len(trainer.played) == 32
    assert all(error.injected for error in errors)
    assert all(rollout.reward.value == 1.0 for rollout, _ in trainer.played)
    assert [sites for _, sites in trainer.played] == [[]] * 16
    after = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    assert all(torch.equal(before[name], after[name]) for name in before)
    now = right_calls(trainer.model, trainer.played)
    trainer.model.load_state_dict(before)
    assert bool((now >= right_calls(trainer.model, trainer.played)).all()) and len(now) == 32


def test_sites_leave_out_injected_faults_when_there_are_real_errors(drill_url: str, tmp_path: Path) -> None:
    trainer, before = trained(drill_url, tmp_path, 0.5)
    sites = [(rollout, site) for rollout, chosen in trainer.played for site in chosen]
    assert len(sites) == 8
    for rollout, chosen in trainer.played:
        erring = {error.turn for error in rollout.error_turns if not error.injected}
        injected = {error.turn for error in rollout.error_turns if error.injected}
        assert {site.turn for site in chosen} == erring and injected and not erring & injected
        taught = {place for site in chosen for place in range(site.start, site.end)}
        for turn in injected:
            assert not taught & set(range(rollout.turns[turn].start, rollout.turns[turn].end))
    assert any(not torch.equal(before[name], value) for name, value in trainer.model.state_dict().items())
