"""Rollouts with sites, their scores, and the loss and gradient of ``Distiller`` on them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from helpers.made_up_rollouts import made_up
from helpers.model_factory import model
from torch import Tensor

from etude.trainers.distillation.distill_sites import Site
from etude.trainers.distillation.distiller import Distiller, Settings
from etude.trainers.engines.site_scores import SiteScores, divide_by_step, score_sites
from etude.trainers.rollouts.rollout import Rollout

TURNS = [(3, 4, 5), (6, 2), (4, 4, 4), (2, 7)]
TAUGHT = [(0, 2), (1,), (0, 1, 2), ()]
"""Turns of each rollout that are sites."""


def logps_of(language_model: Any, ids: Sequence[int]) -> Tensor:
    """Return the log-probability of each id but the first, [T - 1]."""
    row = torch.tensor([list(ids)])
    return language_model(row).logits[0, :-1].log_softmax(-1).gather(-1, row[0, 1:, None])[:, 0]


@dataclass
class Step:
    """One optimizer step: four rollouts, their sites and scores, and the models."""

    student: Any
    teacher: Any
    rollouts: list[Rollout]
    sites: list[list[Site]]
    scores: list[SiteScores]

    @property
    def divided(self) -> list[SiteScores]:
        """Return the scores with weights divided by N."""
        return divide_by_step(self.scores)

    def student_logps(self, row: int) -> Tensor:
        """Return the student's log-probabilities of a rollout's ids but the first."""
        return logps_of(self.student, self.rollouts[row].ids)

    def expected(self, settings: Settings) -> tuple[Tensor, list[Tensor], dict[str, float]]:
        """Return Distiller's loss divided by N, its gradient and its metrics."""
        loss = Distiller(settings).loss(self.student, self.teacher, list(zip(self.rollouts, self.sites, strict=True)))
        weight = sum(site.total_weight for sites in self.sites for site in sites)
        return loss.total / weight, self.gradient(loss.total / weight), loss.metrics

    def gradient(self, loss: Tensor) -> list[Tensor]:
        """Return the gradient of a loss for the student's parameters."""
        return list(torch.autograd.grad(loss, list(self.student.parameters()), allow_unused=True, retain_graph=True))

    def assert_like_distiller(self, loss: Tensor, settings: Settings) -> None:
        """Compare a loss and its gradient with those of Distiller, to 1e-6."""
        expected, gradient, metrics = self.expected(settings)
        assert 0 < metrics["sites_helped"] < metrics["sites"] == 6  # else the gate would not be tested
        torch.testing.assert_close(loss, expected, rtol=1e-6, atol=1e-6)
        for actual, reference in zip(self.gradient(loss), gradient, strict=True):
            torch.testing.assert_close(actual, reference, rtol=1e-6, atol=1e-6)


def make_step() -> Step:
    """Return a step whose sampler, student and teacher differ."""
    student, teacher, sampler = model(seed=3), model(seed=2).eval(), model(seed=1)
    with torch.no_grad():
        for parameter, old in zip(student.parameters(), sampler.parameters(), strict=True):
            parameter.mul_(0.05).add_(old)  # near the sampler, so that some ratios are not cut
    rollouts, sites = [], []
    for number, (turns, taught) in enumerate(zip(TURNS, TAUGHT, strict=True)):
        played = made_up(0.0, f"task-{number}", turns=turns)
        logps = logps_of(sampler, played.ids).tolist()[played.prompt - 1 :]
        mask = played.mask
        played = replace(played, logprobs=[logp * kept for logp, kept in zip(logps, mask, strict=True)])
        spans = [played.turns[turn] for turn in taught]
        rollouts.append(played)
        sites.append(
            [Site(0, "k", span.begin, span.start, span.end, [5, 9, number], 1 / len(taught)) for span in spans]
        )

    async def score(ids: list[int]) -> list[float | None]:
        with torch.no_grad():
            return [None, *logps_of(teacher, ids).tolist()]

    async def all_scores() -> list[SiteScores]:
        return [await score_sites(*pair, score) for pair in zip(rollouts, sites, strict=True)]

    return Step(student, teacher, rollouts, sites, asyncio.run(all_scores()))


SPLITS = {
    "whole": [[[0, 1, 2, 3]]],
    "micro-batches": [[[0], [1, 2], [3]]],
    "ranks": [[[2, 0]], [[3, 1]]],
    "ranks-and-micro-batches": [[[0], [3]], [[1], [2]]],
}
"""Rows of each micro-batch of each rank."""
