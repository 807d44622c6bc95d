"""Faults that the environment injects are nobody's error: what the policy did right there becomes no less likely."""

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
from etude.trainers.grpo.trainer import Channels
from etude.trainers.rollouts.rollout import Rollout, Sample

FAULTY = [{"task_id": f"drill-choose-{seed}-l1", "faults": "transient@0,timeout@1"} for seed in (1, 2)]


class Retrying(Scripted):
    """Makes the right call until it succeeds, then submits; some rollouts name a tool that there is not, first."""

    played: list[tuple[Rollout, list[Site]]]
    erring = 0.0

    def _generate_turns(self, prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
        places = [prompts[:number].count(ids) for number, ids in enumerate(prompts)]
        return [
            Sample(self._call(ids, place % 2 < 2 * self.erring)) for ids, place in zip(prompts, places, strict=True)
        ]

    def _call(self, ids: list[int], errs: bool) -> list[int]:
        text = self.processing_class.decode(ids)
        drill = TASKS.drill(self.task_of(ids))
        ((name, arguments),) = drill.solution()
        if "<tool_response>\nok" in text:
            return self._said("submit", {"answer": drill.answer})
        return self._said("no_such_tool" if errs and "<tool_response>" not in text else name, arguments)

    def _choose_sites(self, played: Sequence[Rollout]) -> list[list[Site]]:
        found = super()._choose_sites(played)
        self.played = [*getattr(self, "played", []), *zip(played, found, strict=True)]
        return found


def trained(url: str, out: Path, erring: float) -> tuple[Retrying, dict[str, torch.Tensor]]:
    """Two steps of distillation alone; the weights before them."""
    found: Retrying = drilled(
        Retrying,
        url,
        out,
        {
            "channels": Channels(rlvr=lambda done: 0.0, distillation=lambda done: 1.0),
            "distillation": Settings(gate=False),
            "teacher": Teacher("frozen"),
        },
        tasks=FAULTY,
        max_steps=2,
        learning_rate=1e-2,
    )
    found.erring = erring
    before = {name: value.clone() for name, value in found.model.state_dict().items()}
    found.train()
    found.close()
    return found, before


@torch.no_grad()
def right_calls(model: Any, played: list[tuple[Rollout, list[Site]]]) -> torch.Tensor:
    """The log-probability of each turn that a fault was injected into."""
    sums = []
    for rollout, _ in played:
        each = model(torch.tensor([rollout.ids])).logits[0, :-1].log_softmax(-1)
        each = each.gather(-1, torch.tensor(rollout.ids)[1:, None])[:, 0]
        for turn in {error.turn for error in rollout.error_turns if error.injected}:
            sums.append(each[rollout.turns[turn].start - 1 : rollout.turns[turn].end - 1].sum())
    return torch.stack(sums)


def test_with_injected_faults_alone_nothing_is_learned(drill_url: str, tmp_path: Path) -> None:
    found, before = trained(drill_url, tmp_path, 0.0)
    errors = [error for rollout, _ in found.played for error in rollout.error_turns]
    assert len(errors) == 2 * len(found.played) == 32
    assert all(error.injected for error in errors)
    assert all(rollout.reward.value == 1.0 for rollout, _ in found.played)
    assert [sites for _, sites in found.played] == [[]] * 16
    after = {name: value.clone() for name, value in found.model.state_dict().items()}
    assert all(torch.equal(before[name], after[name]) for name in before)
    now = right_calls(found.model, found.played)
    found.model.load_state_dict(before)
    assert bool((now >= right_calls(found.model, found.played)).all()) and len(now) == 32


def test_beside_real_mistakes_injected_turns_are_in_no_site(drill_url: str, tmp_path: Path) -> None:
    found, before = trained(drill_url, tmp_path, 0.5)
    sites = [(rollout, site) for rollout, some in found.played for site in some]
    assert len(sites) == 8
    for rollout, some in found.played:
        mine = {error.turn for error in rollout.error_turns if not error.injected}
        theirs = {error.turn for error in rollout.error_turns if error.injected}
        assert {site.turn for site in some} == mine and theirs and not mine & theirs
        taught = {place for site in some for place in range(site.start, site.end)}
        for turn in theirs:
            assert not taught & set(range(rollout.turns[turn].start, rollout.turns[turn].end))
    assert any(not torch.equal(before[name], value) for name, value in found.model.state_dict().items())
