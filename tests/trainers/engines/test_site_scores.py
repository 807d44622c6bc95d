"""Scores of sites by a teacher behind a server, and the errors of the shared loss."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from etude.trainers.distillation.distill_sites import Site
from etude.trainers.distillation.distiller import Settings
from etude.trainers.engines.site_scores import SiteScores, divide_by_step, score_sites
from etude.trainers.engines.turn_local import token_losses


async def numbers(ids: list[int]) -> Sequence[float | None]:
    """Score each id by its place, so that a test sees where a score comes from."""
    return [None, *(-float(place) for place in range(1, len(ids)))]


def scored(step: Any, *sites: Site, score: Any = numbers) -> SiteScores:
    return asyncio.run(score_sites(step.rollouts[0], sites, score))


def test_teacher_reads_the_hint_and_scores_stand_at_the_sites_tokens(step: Any) -> None:
    rollout, first = step.rollouts[0], step.sites[0][0]
    scores = scored(step, first)
    before = first.start + len(first.hint)  # ids that the teacher reads before the turn
    assert scores.teacher_logps[:4] == [-float(before), -float(before + 1), -float(before + 2), 0.0]
    assert scores.weights == [0.5] * 3 + [0.0] * (len(rollout.ids) - rollout.prompt - 3)
    assert scores.total_weight == 1.5 and scores.pairs()[0] == [-float(before), 0.5]


def test_sites_that_cannot_be_told_apart_are_refused(step: Any) -> None:
    site = step.sites[0][0]
    with pytest.raises(ValueError, match="leave an id between two sites"):
        scored(step, site, replace(site, at=site.end, start=site.end, end=site.end + 2))
    with pytest.raises(ValueError, match="outside the response"):
        scored(step, replace(site, start=1, end=3))
    with pytest.raises(ValueError, match="outside the response"):
        scored(step, replace(site, end=10_000))


@pytest.mark.parametrize(
    ("answer", "message"),
    [([-1.0], "scored 1 of 10 ids"), ([None] * 10, "is None"), ([float("nan")] * 10, "is nan")],
)
def test_answers_without_a_number_for_each_token_are_refused(step: Any, answer: Any, message: str) -> None:
    async def score(ids: list[int]) -> Any:
        return answer

    with pytest.raises(ValueError, match=message):
        scored(step, step.sites[0][0], score=score)


def test_weights_of_a_step_sum_to_one(step: Any) -> None:
    assert sum(each.total_weight for each in step.divided) == pytest.approx(1.0)
    assert sum(each.total_weight for each in divide_by_step(step.scores, 4)) == pytest.approx(4.0)
    without = [step.scores[3]]
    assert divide_by_step(without) == without
    with pytest.raises(ValueError, match="optimizer_steps must be at least 1"):
        divide_by_step(without, 0)


def test_loss_refuses_other_estimators_and_shapes() -> None:
    row = torch.zeros(1, 3)
    with pytest.raises(ValueError, match="estimator must be 'sampled'"):
        token_losses(row, row, row, settings=Settings())
    with pytest.raises(ValueError, match=r"must all be \[B, R\]"):
        token_losses(row, row, torch.zeros(1, 4))


def test_padding_may_hold_any_number() -> None:
    weights = torch.tensor([[0.0, 1.0, 0.0]])
    student = torch.tensor([[float("nan"), -1.0, float("-inf")]], requires_grad=True)
    teacher = torch.tensor([[0.0, -0.5, float("nan")]])
    losses = token_losses(student, teacher, weights, settings=Settings(estimator="sampled", gate=False))
    losses.values.sum().backward()
    assert losses.values.tolist() == [[0.0, -0.5, 0.0]]
    assert student.grad is not None and student.grad.tolist() == [[0.0, -0.5, 0.0]]


def test_bfloat16_has_a_wider_gate() -> None:
    weights, teacher = torch.ones(1, 4), torch.full((1, 4), -1.0)
    student = torch.full((1, 4), -0.9975)  # a gain of 0.01, which bfloat16 would round
    assert token_losses(student, teacher, weights).metrics["sites_helped"] == 1
    assert token_losses(student.bfloat16(), teacher, weights).metrics["sites_helped"] == 0
