"""Three estimators of KL(pi || ref), as a loss and in the reward, over all outcomes; and what TRL computes.

With r = ref / pi, for samples of pi: k1 = -log r, k2 = log^2 r / 2, k3 = r - 1 - log r.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers.made_up_rollouts import GROUP, Unplayed, batch, made_up, unplayed
from torch import Tensor

from etude.trainers.distillation.teachers import Teacher
from etude.trainers.rollouts.rollout import Rollout

ACTIONS = 6
ESTIMATORS: dict[str, Callable[[Tensor], Tensor]] = {
    "k1": lambda log_r: -log_r,
    "k2": lambda log_r: log_r.square() / 2,
    "k3": lambda log_r: log_r.exp() - 1 - log_r,
}


@pytest.fixture
def policy() -> tuple[Tensor, Tensor, Tensor]:
    """Return logits over six actions, their log-probabilities, and those of a reference."""
    torch.manual_seed(0)
    logits = torch.randn(ACTIONS, dtype=torch.float64, requires_grad=True)
    return logits, logits.log_softmax(-1), torch.randn(ACTIONS, dtype=torch.float64).log_softmax(-1)


def gradient(loss: Tensor, logits: Tensor) -> Tensor:
    (result,) = torch.autograd.grad(loss, logits, retain_graph=True)
    return result


def reverse_kl(log_pi: Tensor, log_ref: Tensor) -> Tensor:
    return (log_pi.exp() * (log_pi - log_ref)).sum()


def forward_kl(log_pi: Tensor, log_ref: Tensor) -> Tensor:
    return (log_ref.exp() * (log_ref - log_pi)).sum()


@pytest.mark.parametrize(("name", "unbiased"), [("k1", True), ("k2", False), ("k3", True)])
def test_mean_of_k1_and_k3_is_the_kl(name: str, unbiased: bool, policy: tuple[Tensor, Tensor, Tensor]) -> None:
    _, log_pi, log_ref = policy
    mean = (log_pi.exp() * ESTIMATORS[name](log_ref - log_pi)).sum()
    assert bool(torch.isclose(mean, reverse_kl(log_pi, log_ref), rtol=1e-9)) == unbiased


@pytest.mark.parametrize("name", ESTIMATORS)
def test_gradient_of_an_estimator_as_a_loss(name: str, policy: tuple[Tensor, Tensor, Tensor]) -> None:
    """The gradient is 0 for k1, that of the reverse KL for k2, and that of the forward KL for k3."""
    logits, log_pi, log_ref = policy
    actual = gradient((log_pi.exp().detach() * ESTIMATORS[name](log_ref - log_pi)).sum(), logits)
    expected = {
        "k1": torch.zeros(ACTIONS, dtype=torch.float64),
        "k2": gradient(reverse_kl(log_pi, log_ref), logits),
        "k3": gradient(forward_kl(log_pi, log_ref), logits),
    }[name]
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_gradient_of_an_estimator_in_the_reward(name: str, policy: tuple[Tensor, Tensor, Tensor]) -> None:
    """The gradient is that of the reverse KL for k1, near it for k2, and opposite to it for k3."""
    logits, log_pi, log_ref = policy
    actual = gradient((log_pi.exp().detach() * ESTIMATORS[name](log_ref - log_pi).detach() * log_pi).sum(), logits)
    exact = gradient(reverse_kl(log_pi, log_ref), logits)
    similarity = float(torch.nn.functional.cosine_similarity(actual, exact, dim=0))
    if name == "k1":
        torch.testing.assert_close(actual, exact, rtol=0, atol=1e-12)
    else:
        assert similarity < (0.95 if name == "k2" else 0.0)


@pytest.mark.parametrize(("name", "exact"), [("k1", True), ("k2", False), ("k3", True)])
def test_gradient_of_an_estimator_weighted_with_the_ratio_to_the_sampler(
    name: str, exact: bool, policy: tuple[Tensor, Tensor, Tensor]
) -> None:
    logits, log_pi, log_ref = policy
    ratio = (log_pi - log_pi.detach()).exp()
    actual = gradient((log_pi.exp().detach() * ratio * ESTIMATORS[name](log_ref - log_pi)).sum(), logits)
    assert torch.allclose(actual, gradient(reverse_kl(log_pi, log_ref), logits), rtol=0, atol=1e-12) == exact


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> Unplayed:
    trainer = unplayed(tmp_path_factory.mktemp("out"), "dapo")
    trainer.beta = 0.5
    trainer.current_gradient_accumulation_steps = trainer.args.steps_per_generation = 1
    return trainer


@pytest.mark.parametrize("corrected", [True, False])
def test_k3_of_trl_is_the_reverse_kl_when_corrected_and_the_forward_kl_otherwise(
    corrected: bool, trainer: Unplayed, policy: tuple[Tensor, Tensor, Tensor]
) -> None:
    """Each action is a sequence of one token, whose gradient is weighted by the probability that it is sampled."""
    logits, log_pi, log_ref = policy
    trainer.args.use_bias_correction_kl = corrected
    one = torch.ones(ACTIONS, 1, dtype=torch.long)
    current = log_pi.detach()[:, None].requires_grad_()
    trainer._get_per_token_logps_and_entropies = lambda *a, **k: (current, torch.zeros_like(current).detach(), None)
    trainer.model.train()
    loss = trainer._compute_loss(
        trainer.model,
        {
            **dict.fromkeys(("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "tool_mask"), one),
            "advantages": torch.zeros(ACTIONS, dtype=torch.float64),
            "num_items_in_batch": torch.tensor(1),
            "ref_per_token_logps": log_ref[:, None],
        },
    )
    (slopes,) = torch.autograd.grad(loss, current)
    actual = gradient((log_pi.exp().detach() * slopes[:, 0] * log_pi).sum(), logits)
    expected = gradient((reverse_kl if corrected else forward_kl)(log_pi, log_ref), logits)
    torch.testing.assert_close(actual, 0.5 * expected, rtol=0, atol=1e-9)


def test_trainer_uses_the_corrected_k3(tmp_path: Path) -> None:
    assert unplayed(tmp_path).args.use_bias_correction_kl


@pytest.mark.parametrize("teacher", [None, "live"])
def test_trainer_subtracts_k1_from_the_advantages(teacher: str | None, tmp_path: Path) -> None:
    """Each advantage loses the weight times the gain of its sequence's log-probability since the first weights.

    The gain is centred in its group. The kind of teacher does not matter.
    """
    parts = {"reference": Teacher("frozen"), "k1_weight": 0.5, "teacher": Teacher(teacher) if teacher else None}
    trainer = unplayed(tmp_path, parts=parts, invent=any_length)
    plain = unplayed(tmp_path, invent=any_length)
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            parameter.mul_(1.1)
    scored, without = batch(trainer, 0, 1), batch(plain, 0, 1)
    kl = []
    for rollout in trainer.sampled.rollouts:
        ids = torch.tensor([rollout.ids])
        current, first = (m(ids).logits[0, :-1].log_softmax(-1) for m in (trainer.model, plain.model))
        gain = (current - first).gather(-1, ids[0, 1:, None])[rollout.prompt - 1 :, 0]
        kl.append(float((gain * torch.tensor(rollout.mask)).sum()))
    groups = torch.tensor(kl).view(-1, GROUP)
    expected = without["advantages"] - 0.5 * (groups - groups.mean(-1, keepdim=True)).flatten()
    torch.testing.assert_close(scored["advantages"], expected, rtol=1e-4, atol=1e-4)
    assert float((groups - groups.mean(-1, keepdim=True)).abs().max()) > 0.01


def any_length(task: str, number: int) -> Rollout:
    return made_up(float(number % 2), task, turns=(3, 2 + number))
