"""References of error turns on a trace, and what prime-rl's loss makes of them."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from etude.trainers.distillation.distill_sites import Site
from etude.trainers.distillation.distiller import Distiller, Settings
from etude.trainers.engines.trace_references import add_references

HINT = {"role": "user", "text": "Read the file first."}


def error(node: int | None, **fields: Any) -> dict[str, Any]:
    return {"node": node, "injected": False, "site": "erring", "hints": [HINT], **fields}


def trace_of(rollout: Any, errors: list[dict[str, Any]]) -> Any:
    """Return a rollout as a trace: its prompt, then one node for each turn and one for what is between two turns."""
    nodes = [SimpleNamespace(parent=None, token_ids=rollout.ids[: rollout.prompt], mask=[False] * rollout.prompt)]
    end = rollout.prompt
    for span in rollout.turns:
        for start, stop, sampled in ((end, span.start, False), (span.start, span.end, True)):
            if start < stop:
                logps = rollout.logprobs[start - rollout.prompt : stop - rollout.prompt] if sampled else []
                node = SimpleNamespace(
                    parent=len(nodes) - 1,
                    token_ids=rollout.ids[start:stop],
                    mask=[sampled] * (stop - start),
                    logprobs=logps,
                )
                nodes.append(node)
        end = span.end
    for node in nodes:
        node.reference_logprobs, node.loss_weights = None, None
    return SimpleNamespace(nodes=nodes, info={"error_turns": errors})


def add(trace: Any, score: Any, **options: Any) -> int:
    taught: int = asyncio.run(add_references(trace, lambda role, text: [5, 9], score, rng=random.Random(0), **options))
    return taught


async def low(ids: list[int]) -> list[float]:
    return [-90.0] * len(ids)


def spread(trace: Any, values: Any) -> Tensor:
    """Return one number for each id of the trace from a function of its nodes; 0 where that gives None."""
    return torch.tensor([value for node in trace.nodes for value in values(node) or [0.0] * len(node.token_ids)])


def ref_kl_by_contract(logps: Tensor, reference: Tensor, sampler: Tensor, weights: Tensor) -> Tensor:
    """Return the ``ref_kl`` loss of prime-rl's trainer, as its documentation describes it."""
    ratio, moved = (logps - sampler).exp(), logps.exp() - sampler.exp()
    inside = (moved >= -0.2).float()
    losses = -inside * (reference - logps).detach() * ratio + 1e-3 * (logps - sampler) ** 2
    return (losses * weights).sum() / (weights != 0).sum()


def ref_kl_by_package(logps: Tensor, reference: Tensor, sampler: Tensor, weights: Tensor) -> Tensor:
    """Return the loss of prime-rl's own code, with the ``rl`` component switched off."""
    module = pytest.importorskip("prime_rl.trainer.rl.loss")
    nothing = torch.zeros_like(logps.detach())
    loss, _ = module.compute_loss(
        trainer_logprobs=[logps],
        inference_logprobs=[sampler],
        ref_logprobs=[reference],
        advantages=[nothing],
        loss_mask=[weights != 0],
        rl_weights=[nothing],
        ce_weights=None,
        ref_kl_weights=[weights],
        rl_loss_fn=None,
        rl_scale=1,
        ce_scale=1,
        ref_kl_scale=int((weights != 0).sum()),
    )
    return loss


def test_gradient_is_distillers_up_to_the_mean_weight(step: Any, kind: str) -> None:
    """On-policy and without a gate. prime-rl divides by the number of site tokens, not by their weight."""
    logps = step.student_logps(0)
    rollout = replace(step.rollouts[0], logprobs=[])
    trace = trace_of(step.rollouts[0], [error(1), error(5)])  # the first and the third turn
    hints: list[tuple[str, str]] = []

    async def score(ids: list[int]) -> list[float | None]:
        with torch.no_grad():
            row = step.teacher(torch.tensor([ids])).logits[0, :-1].log_softmax(-1)
        return [None, *row.gather(-1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()]

    def hint_ids(role: str, text: str) -> list[int]:
        hints.append((role, text))
        return [5, 9]

    taught = asyncio.run(add_references(trace, hint_ids, score, gate=False, rng=random.Random(0)))
    assert taught == 2 and hints == [(HINT["role"], HINT["text"])] * 2
    weights = spread(trace, lambda node: (node.loss_weights or {}).get("ref_kl"))[1:]
    reference = spread(trace, lambda node: node.reference_logprobs)[1:]
    ref_kl = {"contract": ref_kl_by_contract, "package": ref_kl_by_package}[kind]
    loss = ref_kl(logps, reference, logps.detach(), weights)
    sites = [
        Site(turn, "k", span.begin, span.start, span.end, [5, 9], 0.5)
        for turn, span in ((0, rollout.turns[0]), (2, rollout.turns[2]))
    ]
    distiller = Distiller(Settings(estimator="sampled", gate=False))
    total = distiller.loss(step.student, step.teacher, [(rollout, sites)]).total
    expected = total / sum(site.end - site.start for site in sites)
    for actual, wanted in zip(step.gradient(loss), step.gradient(expected), strict=True):
        torch.testing.assert_close(actual, wanted, rtol=1e-6, atol=1e-6)


def test_only_sampled_tokens_of_foreseeable_errors_with_hints_are_taught(step: Any) -> None:
    errors = [
        error(1),
        error(1),
        error(3, injected=True),
        error(3, site="recovery"),
        error(5, hints=[]),
        error(None),
    ]
    trace = trace_of(step.rollouts[0], errors)
    assert add(trace, low) == 1
    taught = [number for number, node in enumerate(trace.nodes) if node.reference_logprobs is not None]
    assert taught == [1] and trace.nodes[1].loss_weights == {"ref_kl": [1.0] * 3}
    assert trace.nodes[1].reference_logprobs == [-90.0] * 3


def test_turns_that_the_hint_makes_likelier_are_left_out_and_the_others_keep_their_weight(step: Any) -> None:
    trace = trace_of(step.rollouts[0], [error(1), error(5)])
    first = trace.nodes[1]
    first.logprobs = [-100.0] * 3
    assert add(trace, low) == 1
    assert first.reference_logprobs is None and trace.nodes[5].loss_weights == {"ref_kl": [0.5] * 5}


def test_a_cap_draws_turns_evenly_and_other_weights_are_kept(step: Any) -> None:
    trace = trace_of(step.rollouts[0], [error(1), error(3), error(5)])
    for node in trace.nodes:
        node.loss_weights = {"ce": [0.1] * len(node.token_ids)}
    assert add(trace, low, cap=2, coefficient=0.2) == 2
    weights = [node.loss_weights.get("ref_kl") for node in trace.nodes]
    assert sum(weight is not None for weight in weights) == 2
    assert {value for weight in weights for value in weight or []} == {0.1}
    assert all("ce" in node.loss_weights for node in trace.nodes)


def test_traces_of_other_tasksets_and_short_answers_are_refused(step: Any) -> None:
    async def short(ids: list[int]) -> list[float]:
        return [0.0]

    with pytest.raises(ValueError, match="etude-verifiers taskset"):
        add(SimpleNamespace(info={}), low)
    trace = trace_of(step.rollouts[0], [error(1)])
    with pytest.raises(ValueError, match="score every id"):
        add(trace, short)
    assert trace.nodes[1].reference_logprobs is None
