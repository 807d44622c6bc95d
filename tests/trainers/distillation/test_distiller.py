"""The loss at error turns, against what it is by definition."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from helpers.model_factory import VOCABULARY, model

from etude.models import Reward
from etude.trainers.distillation.distill_sites import Site
from etude.trainers.distillation.distiller import Distiller, Settings, batch_of
from etude.trainers.distillation.divergence import divergence
from etude.trainers.rollouts.rollout import Rollout, Span

OPEN = Settings(gate=False)


def rollout(length: int = 40, seed: int = 1, logprobs: list[float] | None = None) -> Rollout:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(VOCABULARY, (length,), generator=generator).tolist()
    return Rollout("t", "e", ids, 8, [Span(6, 8, 14), Span(18, 20, 26)], logprobs or [], Reward(value=0.0), "submit")


def sites(*, weight: float = 0.5) -> list[Site]:
    return [Site(0, "a", 6, 8, 14, [3, 4, 5], weight), Site(1, "b", 18, 20, 26, [9, 9], weight)]


def by_hand(student: Any, teacher: Any, played: Rollout, site: Site, settings: Settings) -> torch.Tensor:
    mine = student(torch.tensor([played.ids])).logits[0, site.start - 1 : site.end - 1]
    theirs = teacher(torch.tensor([site.teacher_ids(played.ids)])).logits[0, -(site.end - site.start) - 1 : -1]
    value = divergence(mine, theirs, settings.beta, normalised=settings.normalised)
    return value if settings.clip is None else value.clamp(max=settings.clip)


@pytest.mark.parametrize("settings", [OPEN, Settings(gate=False, beta=0.0), Settings(gate=False, beta=1.0, clip=0.3)])
def test_it_is_the_weighted_sum_over_the_tokens_of_the_sites(settings: Settings) -> None:
    student, teacher, played = model(seed=1), model(seed=2), rollout()
    loss = Distiller(settings).loss(student, teacher, [(played, sites())])
    wanted = sum(0.5 * by_hand(student, teacher, played, site, settings).sum() for site in sites())
    torch.testing.assert_close(loss.total, wanted, rtol=1e-5, atol=1e-6)
    assert loss.tokens == 12
    found, expected = (torch.autograd.grad(each, list(student.parameters())) for each in (loss.total, wanted))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_nothing_flows_to_the_teacher() -> None:
    student, teacher = model(seed=1), model(seed=2)
    Distiller(OPEN).loss(student, teacher, [(rollout(), sites())]).total.backward()
    assert all(parameter.grad is None for parameter in teacher.parameters())


def test_the_split_into_batches_and_the_order_change_nothing() -> None:
    student, teacher = model(seed=1), model(seed=2)
    batch = [(rollout(seed=seed), sites()) for seed in range(4)]
    distiller = Distiller(OPEN)
    whole = distiller.loss(student, teacher, batch)
    parts = [distiller.loss(student, teacher, batch[2:]), distiller.loss(student, teacher, batch[:2])]
    torch.testing.assert_close(sum(part.total for part in parts), whole.total)
    assert sum(part.tokens for part in parts) == whole.tokens == 48


def test_a_teacher_that_is_the_student_and_hears_nothing_new_teaches_nothing() -> None:
    student = model(seed=1)
    silent = [Site(0, "a", 6, 8, 14, [], 1.0)]
    loss = Distiller(OPEN).loss(student, copy.deepcopy(student), [(rollout(), silent)])
    assert loss.total.abs() < 1e-6


def test_a_hint_that_does_not_make_the_failed_turn_less_likely_is_left_out() -> None:
    student, teacher, played = model(seed=1), model(seed=2), rollout()
    gains = []
    for site in sites(weight=1.0):
        mine = student(torch.tensor([played.ids])).logits.log_softmax(-1)[0]
        theirs = teacher(torch.tensor([site.teacher_ids(played.ids)])).logits.log_softmax(-1)[0]
        said = range(site.start, site.end)
        shift = len(site.hint)
        gains.append(sum(float(mine[p - 1, played.ids[p]] - theirs[p + shift - 1, played.ids[p]]) for p in said))
    gated = Distiller(Settings(gate=True)).loss(student, teacher, [(played, sites(weight=1.0))])
    wanted = sum(
        by_hand(student, teacher, played, site, OPEN).sum()
        for site, gain in zip(sites(), gains, strict=True)
        if gain > 0
    )
    torch.testing.assert_close(gated.total, torch.as_tensor(wanted), rtol=1e-5, atol=1e-6)
    assert gated.metrics["sites_helped"] == sum(gain > 0 for gain in gains)
    assert {gain > 0 for gain in gains} == {True, False}, "both kinds must be there for this test to say anything"


@pytest.mark.parametrize("seed", range(8))
def test_in_bfloat16_a_gain_that_is_rounding_is_none(seed: int) -> None:
    """A hint without a word, read packed and apart."""
    made, empty = model("qwen3"), [Site(0, "a", 6, 8, 12, []), Site(1, "b", 20, 22, 30, [])]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = Distiller(Settings()).loss(made, made, [(rollout(seed=seed), empty)])
    assert found.metrics["sites_helped"] == 0


def test_tokens_of_an_older_policy_are_weighted_by_a_clipped_ratio() -> None:
    student, teacher = model(seed=1), model(seed=2)
    site = [Site(0, "a", 6, 8, 14, [3], 1.0)]
    with torch.no_grad():
        own = student(torch.tensor([rollout().ids])).logits[0].log_softmax(-1)
    said = [float(own[p - 1, rollout().ids[p]]) for p in range(8, 40)]
    plain = Distiller(OPEN).loss(student, teacher, [(rollout(), site)]).total
    same = Distiller(OPEN).loss(student, teacher, [(rollout(logprobs=said), site)]).total
    torch.testing.assert_close(same, plain, rtol=1e-4, atol=1e-5)
    halved = Distiller(OPEN).loss(student, teacher, [(rollout(logprobs=[s + 0.6931472 for s in said]), site)]).total
    torch.testing.assert_close(halved, plain / 2, rtol=1e-4, atol=1e-5)
    capped = Distiller(OPEN).loss(student, teacher, [(rollout(logprobs=[s - 9 for s in said]), site)]).total
    torch.testing.assert_close(capped, plain * 2, rtol=1e-4, atol=1e-5)


def test_an_id_that_the_sampler_did_not_score_has_no_ratio() -> None:
    student, teacher, site = model(seed=1), model(seed=2), [Site(0, "a", 6, 8, 14, [3], 1.0)]
    plain = Distiller(OPEN).loss(student, teacher, [(rollout(), site)]).total
    found = Distiller(OPEN).loss(student, teacher, [(rollout(logprobs=[math.nan] * 32), site)]).total
    torch.testing.assert_close(found, plain)


def test_an_older_policys_own_scores_stand_in_for_a_sampler_that_gave_none() -> None:
    """TRL has them when a batch is learned from more than once; rows are padded on the right."""
    one, other, before = rollout(), rollout(logprobs=[-1.0] * 32), rollout(seed=2)
    old = torch.arange(80.0).view(2, 40)
    inputs = {"rollouts": [one, other], "sites": [sites(), sites()], "before": [[], [(before, sites())]]}
    assert [played.logprobs for played, _ in batch_of(inputs)] == [[], [-1.0] * 32, []]
    found = [played.logprobs for played, _ in batch_of({**inputs, "old_per_token_logps": old})]
    assert found == [old[0, :32].tolist(), [-1.0] * 32, []]


@pytest.mark.parametrize("estimator", ["top_k", "sampled"])
def test_the_cheaper_estimators_run_through_the_same_rows(estimator: Any) -> None:
    student, teacher, played = model(seed=1), model(seed=2), rollout()
    full = Distiller(OPEN).loss(student, teacher, [(played, sites())])
    cheap = Distiller(Settings(gate=False, estimator=estimator, top_k=VOCABULARY))
    found = cheap.loss(student, teacher, [(played, sites())])
    assert found.tokens == full.tokens
    if estimator == "top_k":
        torch.testing.assert_close(found.total, full.total, rtol=1e-4, atol=1e-5)
    found.total.backward()
    assert all(parameter.grad is not None for parameter in student.parameters())


def test_a_batch_without_sites_costs_no_forward() -> None:
    def never(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a forward")

    student = model()
    student.forward = student.base_model.forward = never
    loss = Distiller().loss(student, student, [(rollout(), [])])
    assert (float(loss.total), loss.tokens) == (0.0, 0)


@pytest.mark.parametrize("name", ["mistral-window", "gemma2"])
def test_models_that_cannot_be_packed_learn_all_the_same(name: str) -> None:
    student, teacher, played = model(name, seed=1), model(name, seed=2), rollout()
    loss = Distiller(OPEN).loss(student, teacher, [(played, sites())])
    wanted = sum(0.5 * by_hand(student, teacher, played, site, OPEN).sum() for site in sites())
    torch.testing.assert_close(loss.total, wanted, rtol=1e-3, atol=1e-4)


def test_descending_on_the_loss_moves_the_erring_turn_and_leaves_the_teacher() -> None:
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
