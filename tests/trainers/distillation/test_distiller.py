"""Distillation loss, compared with its definition."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from helpers.model_factory import VOCABULARY, model

from etude.models import Reward
from etude.trainers.distillation.distill_sites import Site
from etude.trainers.distillation.distiller import Distiller, Settings
from etude.trainers.distillation.divergence import divergence
from etude.trainers.grpo.scored_batch import ScoredBatch, ScoredRow
from etude.trainers.rollouts.rollout import Rollout, Span

OPEN = Settings(gate=False)


def rollout(length: int = 40, seed: int = 1, logprobs: list[float] | None = None) -> Rollout:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(VOCABULARY, (length,), generator=generator).tolist()
    return Rollout("t", "e", ids, 8, [Span(6, 8, 14), Span(18, 20, 26)], logprobs or [], Reward(value=0.0), "submit")


def sites(*, weight: float = 0.5) -> list[Site]:
    return [Site(0, "a", 6, 8, 14, [3, 4, 5], weight), Site(1, "b", 18, 20, 26, [9, 9], weight)]


def token_divergences(student: Any, teacher: Any, played: Rollout, site: Site, settings: Settings) -> torch.Tensor:
    student_logits = student(torch.tensor([played.ids])).logits[0, site.start - 1 : site.end - 1]
    hinted = torch.tensor([site.teacher_ids(played.ids)])
    teacher_logits = teacher(hinted).logits[0, -(site.end - site.start) - 1 : -1]
    values = divergence(student_logits, teacher_logits, settings.beta, normalised=settings.normalised)
    return values if settings.clip is None else values.clamp(max=settings.clip)


@pytest.mark.parametrize("settings", [OPEN, Settings(gate=False, beta=0.0), Settings(gate=False, beta=1.0, clip=0.3)])
def test_loss_is_the_weighted_sum_over_the_tokens_of_the_sites(settings: Settings) -> None:
    student, teacher, played = model(seed=1), model(seed=2), rollout()
    loss = Distiller(settings).loss(student, teacher, [(played, sites())])
    expected = sum(0.5 * token_divergences(student, teacher, played, site, settings).sum() for site in sites())
    torch.testing.assert_close(loss.total, expected, rtol=1e-5, atol=1e-6)
    assert loss.tokens == 12
    gradients = [torch.autograd.grad(total, list(student.parameters())) for total in (loss.total, expected)]
    for actual, reference in zip(*gradients, strict=True):
        torch.testing.assert_close(actual, reference, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("gate", [False, True])
def test_distiller_remembers_the_mean_divergence_of_each_site(gate: bool) -> None:
    student, teacher, played = model(seed=1), model(seed=2), rollout()
    settings = Settings(gate=gate)
    distiller = Distiller(settings)
    distiller.loss(student, teacher, [(played, sites())])
    expected = {
        site.turn: token_divergences(student, teacher, played, site, settings).mean().item() for site in sites()
    }
    assert distiller.by_turn == {played.episode_id: pytest.approx(expected, rel=1e-4)}


def test_distiller_forgets_the_oldest_rollouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("etude.trainers.distillation.distiller.REMEMBERED", 2)
    student, distiller = model(seed=1), Distiller(OPEN)
    for name in ("a", "b", "c"):
        distiller.loss(student, student, [(replace(rollout(), episode_id=name), sites())])
    assert list(distiller.by_turn) == ["b", "c"]


@pytest.mark.parametrize("number", [1, 2, 4, 8])
def test_mean_over_weights_does_not_depend_on_the_number_of_sites(number: int) -> None:
    """Sites of a rollout weigh 1 / number each; dividing by their tokens as well would count the number twice."""
    student, teacher, played = model(seed=1), model(seed=2), rollout()
    alone = Site(0, "a", 6, 8, 14, [3, 4, 5])
    alike = [replace(alone, weight=1 / number)] * number
    one, many = (Distiller(OPEN).loss(student, teacher, [(played, each)]).total for each in ([alone], alike))
    torch.testing.assert_close(
        many / sum(site.total_weight for site in alike), one / alone.total_weight, rtol=1e-5, atol=1e-6
    )


def test_teacher_gets_no_gradient() -> None:
    student, teacher = model(seed=1), model(seed=2)
    Distiller(OPEN).loss(student, teacher, [(rollout(), sites())]).total.backward()
    assert all(parameter.grad is None for parameter in teacher.parameters())


def test_loss_does_not_depend_on_the_split_into_batches_or_their_order() -> None:
    student, teacher = model(seed=1), model(seed=2)
    batch = [(rollout(seed=seed), sites()) for seed in range(4)]
    distiller = Distiller(OPEN)
    whole = distiller.loss(student, teacher, batch)
    parts = [distiller.loss(student, teacher, batch[2:]), distiller.loss(student, teacher, batch[:2])]
    torch.testing.assert_close(sum(part.total for part in parts), whole.total)
    assert sum(part.tokens for part in parts) == whole.tokens == 48


def test_loss_is_0_when_the_teacher_is_the_student_and_has_no_hint() -> None:
    student = model(seed=1)
    silent = [Site(0, "a", 6, 8, 14, [], 1.0)]
    loss = Distiller(OPEN).loss(student, copy.deepcopy(student), [(rollout(), silent)])
    assert loss.total.abs() < 1e-6


def test_gate_leaves_out_hints_that_do_not_make_the_failed_turn_less_likely() -> None:
    student, teacher, played = model(seed=1), model(seed=2), rollout()
    gains = []
    for site in sites(weight=1.0):
        student_logps = student(torch.tensor([played.ids])).logits.log_softmax(-1)[0]
        teacher_logps = teacher(torch.tensor([site.teacher_ids(played.ids)])).logits.log_softmax(-1)[0]
        shift = len(site.hint)
        gain = torch.zeros(())
        for place in range(site.start, site.end):
            token = played.ids[place]
            gain += student_logps[place - 1, token].detach() - teacher_logps[place + shift - 1, token].detach()
        gains.append(float(gain))
    gated = Distiller(Settings(gate=True)).loss(student, teacher, [(played, sites(weight=1.0))])
    expected = sum(
        token_divergences(student, teacher, played, site, OPEN).sum()
        for site, gain in zip(sites(), gains, strict=True)
        if gain > 0
    )
    torch.testing.assert_close(gated.total, torch.as_tensor(expected), rtol=1e-5, atol=1e-6)
    assert gated.metrics["sites_helped"] == sum(gain > 0 for gain in gains)
    assert {gain > 0 for gain in gains} == {True, False}, "the test needs both kinds of site"


@pytest.mark.parametrize("seed", range(8))
def test_gate_ignores_gains_that_are_rounding_in_bfloat16(seed: int) -> None:
    """The hints are empty, so all gains come from reading sites packed and separately."""
    one, empty = model("qwen3"), [Site(0, "a", 6, 8, 12, []), Site(1, "b", 20, 22, 30, [])]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = Distiller(Settings()).loss(one, one, [(rollout(seed=seed), empty)])
    assert loss.metrics["sites_helped"] == 0


def test_tokens_of_an_older_policy_have_a_clipped_importance_weight() -> None:
    student, teacher = model(seed=1), model(seed=2)
    site = [Site(0, "a", 6, 8, 14, [3], 1.0)]
    with torch.no_grad():
        logps = student(torch.tensor([rollout().ids])).logits[0].log_softmax(-1)
    old = [float(logps[p - 1, rollout().ids[p]]) for p in range(8, 40)]
    plain = Distiller(OPEN).loss(student, teacher, [(rollout(), site)]).total
    same = Distiller(OPEN).loss(student, teacher, [(rollout(logprobs=old), site)]).total
    torch.testing.assert_close(same, plain, rtol=1e-4, atol=1e-5)
    halved = (
        Distiller(OPEN).loss(student, teacher, [(rollout(logprobs=[logp + 0.6931472 for logp in old]), site)]).total
    )
    torch.testing.assert_close(halved, plain / 2, rtol=1e-4, atol=1e-5)
    capped = Distiller(OPEN).loss(student, teacher, [(rollout(logprobs=[logp - 9 for logp in old]), site)]).total
    torch.testing.assert_close(capped, plain * 2, rtol=1e-4, atol=1e-5)


def test_token_without_a_sampled_logprob_has_weight_1() -> None:
    student, teacher, site = model(seed=1), model(seed=2), [Site(0, "a", 6, 8, 14, [3], 1.0)]
    plain = Distiller(OPEN).loss(student, teacher, [(rollout(), site)]).total
    unscored = Distiller(OPEN).loss(student, teacher, [(rollout(logprobs=[math.nan] * 32), site)]).total
    torch.testing.assert_close(unscored, plain)


def test_scored_batch_takes_missing_logprobs_from_the_old_policy() -> None:
    """TRL has them if it learns more than once from a batch; rows are padded on the right."""
    unscored, scored, replaced = rollout(), rollout(logprobs=[-1.0] * 32), rollout(seed=2)
    rows = [ScoredRow(unscored, sites(), []), ScoredRow(scored, sites(), [(replaced, sites())])]
    old = torch.arange(80.0).view(2, 40)
    expected: list[tuple[torch.Tensor | None, list[float]]] = [(None, []), (old, old[0, :32].tolist())]
    for old_logps, first in expected:
        pairs = ScoredBatch(rows, torch.tensor(36), old_logps).rollouts_with_sites()
        assert [played.logprobs for played, _ in pairs] == [first, [-1.0] * 32, []]


@pytest.mark.parametrize("estimator", ["top_k", "sampled"])
def test_cheaper_estimators_use_the_same_tokens(estimator: Any) -> None:
    student, teacher, played = model(seed=1), model(seed=2), rollout()
    full = Distiller(OPEN).loss(student, teacher, [(played, sites())])
    cheap = Distiller(Settings(gate=False, estimator=estimator, top_k=VOCABULARY))
    loss = cheap.loss(student, teacher, [(played, sites())])
    assert loss.tokens == full.tokens
    if estimator == "top_k":
        torch.testing.assert_close(loss.total, full.total, rtol=1e-4, atol=1e-5)
    loss.total.backward()
    assert all(parameter.grad is not None for parameter in student.parameters())


def test_batch_without_sites_costs_no_forward_pass() -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a forward pass")

    student = model()
    student.forward = student.base_model.forward = fail
    loss = Distiller().loss(student, student, [(rollout(), [])])
    assert (float(loss.total), loss.tokens) == (0.0, 0)


@pytest.mark.parametrize("name", ["mistral-window", "gemma2"])
def test_models_that_cannot_be_packed_have_the_same_loss(name: str) -> None:
    student, teacher, played = model(name, seed=1), model(name, seed=2), rollout()
    loss = Distiller(OPEN).loss(student, teacher, [(played, sites())])
    expected = sum(0.5 * token_divergences(student, teacher, played, site, OPEN).sum() for site in sites())
    torch.testing.assert_close(loss.total, expected, rtol=1e-3, atol=1e-4)


def test_training_on_the_loss_brings_the_student_to_the_teacher() -> None:
    student, teacher, played = model(seed=1), model(seed=1), rollout()
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3)
    values = []
    for _ in range(30):
        loss = Distiller(OPEN).loss(student, teacher, [(played, sites())])
        optimizer.zero_grad()
        loss.total.backward()
        optimizer.step()
        values.append(float(loss.total.detach()))
    assert values[-1] < 0.2 * values[0]
