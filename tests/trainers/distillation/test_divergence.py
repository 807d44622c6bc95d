"""Divergences, compared with closed forms, and in blocks, compared with complete logits."""

from __future__ import annotations

import functools
import math

import pytest
import torch
from torch import Tensor

from etude.trainers.distillation.divergence import (
    Head,
    divergence,
    fused_divergence,
    fused_top_k,
    log_probabilities,
    sampled_token,
    top_k_divergence,
)

BETAS = (0.0, 0.1, 0.5, 0.9, 1.0)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def logits(rows: int = 5, vocabulary: int = 11) -> tuple[Tensor, Tensor]:
    student = torch.randn(rows, vocabulary, dtype=torch.float64, requires_grad=True)
    return student, torch.randn(rows, vocabulary, dtype=torch.float64)


def by_definition(s: Tensor, t: Tensor, beta: float) -> Tensor:
    def kl(p: Tensor, q: Tensor) -> Tensor:
        return (p * (p / q).log()).sum(-1)

    if beta == 0:
        return kl(t, s)
    if beta == 1:
        return kl(s, t)
    m = (1 - beta) * s + beta * t
    return beta * kl(t, m) + (1 - beta) * kl(s, m)


@pytest.mark.parametrize("beta", BETAS)
def test_divergence_follows_its_definition(beta: float) -> None:
    student, teacher = logits()
    expected = by_definition(student.softmax(-1), teacher.softmax(-1), beta)
    torch.testing.assert_close(divergence(student, teacher, beta), expected)


def test_divergence_of_two_tokens_equals_numbers_computed_by_hand() -> None:
    student, teacher = torch.tensor([[math.log(0.5), math.log(0.5)]]), torch.tensor([[math.log(0.9), math.log(0.1)]])
    assert divergence(student, teacher, 0).item() == pytest.approx(0.9 * math.log(1.8) + 0.1 * math.log(0.2))
    assert divergence(student, teacher, 1).item() == pytest.approx(-0.5 * math.log(1.8) - 0.5 * math.log(0.2))


@pytest.mark.parametrize("beta", BETAS)
def test_divergence_is_0_for_equal_distributions_and_positive_otherwise(beta: float) -> None:
    student, teacher = logits()
    assert divergence(student, student + 3.0, beta).abs().max() < 1e-12
    assert divergence(student, teacher, beta).min() > 0


def test_symmetric_divergence_is_at_most_log_2() -> None:
    far = 1000 * torch.eye(4, dtype=torch.float64)
    assert torch.allclose(divergence(far, far.roll(1, 0), 0.5), torch.tensor(math.log(2), dtype=torch.float64))


def test_gradient_of_forward_kl_is_student_minus_teacher() -> None:
    student, teacher = logits()
    divergence(student, teacher, 0).sum().backward()
    torch.testing.assert_close(student.grad, student.softmax(-1).detach() - teacher.softmax(-1))


def test_normalised_divergence_is_continuous_in_beta_at_both_ends() -> None:
    student, teacher = logits()
    for end, near in ((0.0, 1e-6), (1.0, 1 - 1e-6)):
        torch.testing.assert_close(
            divergence(student, teacher, near, normalised=True), divergence(student, teacher, end), rtol=1e-4, atol=0
        )
    assert divergence(student, teacher, 1e-6).max() < 1e-4


def test_teacher_gets_no_gradient() -> None:
    student, teacher = logits()
    teacher.requires_grad_()
    divergence(student, teacher).sum().backward()
    assert teacher.grad is None


@pytest.mark.parametrize("k", [0, 2, 3, 4, 5])
@pytest.mark.parametrize("beta", BETAS)
def test_tokens_without_probability_change_neither_value_nor_gradient(beta: float, k: int) -> None:
    """For k = 3 and 4 the tail is empty; for k = 4 and 5 such tokens are among the likeliest."""
    function = functools.partial(top_k_divergence, k=k) if k else divergence
    student, teacher = logits(5, 3)
    impossible = torch.full((5, 2), -math.inf, dtype=torch.float64)
    wide = torch.cat([student.detach(), impossible], dim=-1).requires_grad_()
    actual, expected = function(wide, torch.cat([teacher, impossible], dim=-1), beta), function(student, teacher, beta)
    torch.testing.assert_close(actual, expected)
    wide_gradient = torch.autograd.grad(actual.sum(), wide)[0]
    gradient = torch.autograd.grad(expected.sum(), student)[0]
    torch.testing.assert_close(wide_gradient, torch.nn.functional.pad(gradient, (0, 2)))


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("by", ["student", "teacher"])
def test_top_k_divergence_is_a_lower_bound_and_exact_when_k_is_the_vocabulary(beta: float, by: str) -> None:
    student, teacher = logits(50, 13)
    whole = divergence(student, teacher, beta)
    for k in (1, 4, 12):
        assert (top_k_divergence(student, teacher, beta, k=k, by=by) <= whole + 1e-12).all()
    torch.testing.assert_close(top_k_divergence(student, teacher, beta, k=13, by=by), whole)
    torch.testing.assert_close(top_k_divergence(student, teacher, beta, k=99, by=by), whole)


def test_sampled_token_has_the_gradient_of_reverse_kl_in_expectation() -> None:
    student, teacher = logits(1, 6)
    (exact,) = torch.autograd.grad(divergence(student, teacher, 1).sum(), student)
    log_s, log_t = student.log_softmax(-1)[0], teacher.log_softmax(-1)[0]
    expected = (log_s.exp().detach() * sampled_token(log_s, log_t)).sum()
    (gradient,) = torch.autograd.grad(expected, student)
    torch.testing.assert_close(gradient, exact)
    torch.testing.assert_close(sampled_token(log_s, log_t).detach(), (log_s - log_t).detach())


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("blocks", [(3, 4), (256, 32_768), (1, 1)])
@pytest.mark.parametrize("softcap", [0.0, 5.0])
def test_fused_divergence_has_the_values_and_gradients_of_complete_logits(
    beta: float, blocks: tuple[int, int], softcap: float
) -> None:
    hidden, weight, bias = torch.randn(7, 6), torch.randn(10, 6), torch.randn(10)
    teacher, other = torch.randn(7, 5), torch.randn(10, 5)
    outer = torch.rand(7)

    def gradients(fused: bool) -> list[Tensor]:
        leaves = [tensor.clone().requires_grad_() for tensor in (hidden, weight, bias)]
        student_head, teacher_head = Head(leaves[1], leaves[2], 1.3, softcap), Head(other, None, 0.7)
        if fused:
            value = fused_divergence(
                leaves[0], student_head, teacher, teacher_head, beta, normalised=True, rows=blocks[0], columns=blocks[1]
            )
        else:
            logits = student_head.logits(leaves[0]), teacher_head.logits(teacher)
            value = divergence(*logits, beta, normalised=True)
        (value * outer).sum().backward()
        return [value.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]

    for fused, complete in zip(gradients(True), gradients(False), strict=True):
        torch.testing.assert_close(fused, complete, rtol=1e-5, atol=1e-6)


def test_fused_divergence_has_at_most_one_block_of_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    original = Head.logits

    def recorded(self: Head, hidden: Tensor, columns: slice = slice(None)) -> Tensor:
        block = original(self, hidden, columns)
        sizes.append(block.numel())
        return block

    monkeypatch.setattr(Head, "logits", recorded)
    student, weight = torch.randn(40, 8, requires_grad=True), torch.randn(300, 8)
    fused_divergence(student, Head(weight), torch.randn(40, 8), Head(weight), rows=16, columns=64).sum().backward()
    assert max(sizes) == 16 * 64


def test_log_probabilities_in_blocks_equal_those_of_complete_logits() -> None:
    hidden, weight = torch.randn(9, 4, requires_grad=True), torch.randn(12, 4)
    tokens = torch.randint(12, (9,))
    expected = (hidden @ weight.T).log_softmax(-1).gather(-1, tokens[:, None])[:, 0]
    actual = log_probabilities(hidden, Head(weight), tokens, rows=4)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(*(torch.autograd.grad(logps.sum(), hidden)[0] for logps in (actual, expected)))


def test_beta_outside_its_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"beta must lie in \[0, 1\], got 1.5"):
        divergence(*logits(), 1.5)


@pytest.mark.parametrize("rows", [2, 256])
def test_fused_top_k_equals_the_top_k_divergence_of_complete_logits(rows: int) -> None:
    hidden, weight = torch.randn(7, 6, requires_grad=True), torch.randn(10, 6, requires_grad=True)
    student_head, teacher_head = Head(weight), Head(torch.randn(10, 5))
    teacher = torch.randn(7, 5)
    logits = student_head.logits(hidden), teacher_head.logits(teacher)
    expected = top_k_divergence(*logits, 0.3, k=4, normalised=True)
    actual = fused_top_k(hidden, student_head, teacher, teacher_head, 0.3, k=4, normalised=True, rows=rows)
    torch.testing.assert_close(actual, expected)
    gradients = [torch.autograd.grad(value.sum(), (hidden, weight)) for value in (actual, expected)]
    for actual_gradient, expected_gradient in zip(*gradients, strict=True):
        torch.testing.assert_close(actual_gradient, expected_gradient)
