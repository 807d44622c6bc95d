"""Objectives by name, and the parts of them that TRL does not have."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from etude.errors import UnknownName
from etude.trainers.grpo.objectives import OBJECTIVES, flat_groups, objective, overlong_penalty, subtract_k1


def test_dr_grpo_has_no_standard_deviation() -> None:
    assert objective("dr_grpo").arguments == {"loss_type": "dr_grpo", "scale_rewards": "none"}


def test_dapo_has_all_its_parts() -> None:
    dapo = objective("dapo")
    assert dapo.arguments["loss_type"] == "dapo" and dapo.arguments["epsilon_high"] == 0.28
    assert dapo.dynamic_sampling and dapo.mask_truncated and dapo.overlong


def test_trl_accepts_the_arguments_of_every_objective() -> None:
    from trl import GRPOConfig

    for name, one in OBJECTIVES.items():
        config = GRPOConfig(output_dir="x", use_cpu=True, bf16=False, report_to=[], **one.arguments)
        assert config.loss_type == one.arguments["loss_type"], name


def test_objective_suggests_the_nearest_name() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'dr_grpo'"):
        objective("drgrpo")


def test_flat_groups_ignores_invalid_episodes() -> None:
    nan = math.nan
    rewards = torch.tensor([1.0, 1, 0, 1, nan, 1, nan, nan])
    assert flat_groups(rewards, 2).tolist() == [True, False, True, True]


def test_overlong_penalty_falls_linearly_to_minus_one() -> None:
    assert [overlong_penalty(length, 100, 0.2) for length in (0, 80, 90, 100, 120)] == [0, 0, -0.5, -1, -1]
    assert overlong_penalty(100, 100, 0.0) == 0
    assert [overlong_penalty(0, room, 0.2) for room in (0, -10)] == [0, 0]


def test_subtract_k1_has_the_gradient_of_the_reverse_kl() -> None:
    """Enumerate six actions of one token: E[A grad log pi] is compared with the gradient of KL(pi || ref)."""
    torch.manual_seed(0)
    logits, reference = torch.randn(6, dtype=torch.float64, requires_grad=True), torch.randn(6, dtype=torch.float64)
    log_pi, log_ref = logits.log_softmax(-1), reference.log_softmax(-1)
    (exact,) = torch.autograd.grad((log_pi.exp() * (log_pi - log_ref)).sum(), logits, retain_graph=True)
    group = 2
    expected = torch.zeros_like(logits)
    for actions in itertools.product(range(6), repeat=group):
        chosen = log_pi[list(actions)]
        mask = torch.ones(group, 1, dtype=torch.float64)
        zero = torch.zeros(group, dtype=torch.float64)
        advantages = subtract_k1(zero, chosen.detach()[:, None], log_ref[list(actions)][:, None], mask, group, 1.0)
        (gradient,) = torch.autograd.grad((advantages * chosen).sum(), logits, retain_graph=True)
        expected += chosen.detach().sum().exp() * gradient
    # The mean of the group contains the sample itself, which leaves (G - 1) / G of each gradient for G samples.
    torch.testing.assert_close(expected, -exact * group * (group - 1) / group)


def test_subtract_k1_counts_sampled_tokens_and_leaves_out_empty_rollouts() -> None:
    policy = torch.tensor([[1.0, 5.0], [3.0, 0.0], [9.0, 9.0], [1.0, 1.0]])
    mask = torch.tensor([[1, 0], [1, 0], [0, 0], [1, 0]])
    zero = torch.zeros(4)
    assert subtract_k1(zero, policy, torch.zeros(4, 2), mask, 2, 0.5).tolist() == [0.5, -0.5, 0.0, 0.0]
