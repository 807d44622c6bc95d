"""Sharded models: hidden states and gradients of one process, whole weights for sampling, passes in step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.made_up_rollouts import made_up
from helpers.model_factory import VOCABULARY
from helpers.ranks import run_on_ranks
from helpers.sharded_models import gradients, load, saved
from torch import Tensor, distributed

from etude.trainers.adapters import WithoutAdapters, add_adapters
from etude.trainers.distillation.distill_sites import Site
from etude.trainers.distillation.distiller import Distiller, Settings
from etude.trainers.distillation.hidden_states import check_head, head_of, hidden_states
from etude.trainers.distillation.teachers import Teacher, fingerprint
from etude.trainers.recipe.scale import Lora
from etude.trainers.rollouts.rollout import Rollout
from etude.trainers.sharded.access import gathered, idle, idle_pass, missing_passes

MODELS = ["qwen3", "qwen3-tied", "qwen3-moe"]
IDS = torch.arange(1, 9)[None]


def logits_of(policy: Any) -> Tensor:
    hidden = hidden_states(policy, IDS)[0]  # before the head, which this pass makes whole
    return head_of(policy).logits(hidden)


def several_passes(policy: Any, rank: int) -> Tensor:
    """Return a loss of two passes through the head and one through the model, with another target on each rank."""
    first, second = (logits_of(policy).log_softmax(-1)[:, target + rank].mean() for target in (3, 11))
    return first + 2 * second + policy(input_ids=IDS).logits.log_softmax(-1)[0, :, 5 + rank].mean()


def sharded_gradients(folder: Path, shards: int) -> dict[str, Tensor]:
    policy = load(folder, shards)
    check_head(policy)
    for _ in range(2):  # the second pass starts where the first one ended
        policy.zero_grad()
        several_passes(policy, distributed.get_rank()).backward()
        result = gradients(policy)
    return result


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", MODELS)
def test_several_passes_have_the_gradient_of_one_process(name: str, ranks: int, tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", name)
    policy = load(folder)
    (sum(several_passes(policy, rank) for rank in range(ranks)) / ranks).backward()
    expected = gradients(policy)
    for result in run_on_ranks(ranks, sharded_gradients, tmp_path, folder, 2):
        for key, value in expected.items():
            torch.testing.assert_close(result[key], value, rtol=0, atol=2e-6)


def sampled_by_the_first_rank(folder: Path) -> list[int]:
    policy = load(folder, 2)
    several_passes(policy, 0).backward()
    gradients(policy)
    ids: Tensor = IDS
    with gathered(policy):
        if distributed.get_rank() == 0:  # any collective call would wait for the second rank
            ids = policy.generate(IDS, max_new_tokens=5, do_sample=False)
    several_passes(policy, 0).backward()
    gradients(policy)
    return ids[0].tolist()


@pytest.mark.parametrize("name", MODELS)
def test_rank_with_gathered_weights_samples_alone(name: str, tmp_path: Path) -> None:
    folder = saved(tmp_path / "model", name)
    expected = load(folder).generate(IDS, max_new_tokens=5, do_sample=False)[0].tolist()
    assert run_on_ranks(2, sampled_by_the_first_rank, tmp_path, folder) == [expected, IDS[0].tolist()]


def distilled(folder: Path, rollouts: list[list[tuple[Rollout, list[Site]]]], shards: int, rank: int) -> Any:
    policy, teacher = load(folder, shards), Teacher(source=lambda student: load(folder, shards))
    teacher.start(policy)
    loss = Distiller(Settings(gate=False)).loss(policy, teacher.model(policy), rollouts[rank])
    loss.total.backward()
    return gradients(policy), loss.metrics


def _distilled_on_ranks(folder: Path, rollouts: list[list[tuple[Rollout, list[Site]]]]) -> Any:
    return distilled(folder, rollouts, 2, distributed.get_rank())


@pytest.mark.parametrize("name", ["qwen3", "mistral-window"])
def test_ranks_with_different_numbers_of_rollouts_and_sites_distill_together(name: str, tmp_path: Path) -> None:
    """The first model reads packed branches, the second one each site in a pass of its own."""
    folder = saved(tmp_path / "model", name)
    many, few = (
        [(made_rollout(length), [Site(0, "", 3, 4, 7, [1, 2]), Site(1, "", 8, 9, 12, [3])][:sites])]
        for length, sites in ((14, 2), (13, 1))
    )
    for work in ([many + few, []], [few, many], [many, few + many]):
        whole_gradients: dict[str, Tensor] = {}
        for rollouts in work:
            for key, value in (distilled(folder, [rollouts], 0, 0)[0] if rollouts else {}).items():
                whole_gradients[key] = whole_gradients.get(key, 0) + value / 2
        for result, _ in run_on_ranks(2, _distilled_on_ranks, tmp_path, folder, work):
            for key, value in whole_gradients.items():
                torch.testing.assert_close(result[key], value, rtol=0, atol=2e-6)


def made_rollout(length: int) -> Rollout:
    ids = [(7 * place + length) % VOCABULARY for place in range(length)]
    return replace(made_up(0.0), ids=ids, prompt=2, logprobs=[])


def passes_in_step(folder: Path) -> float:
    policy = load(folder, 2)
    rank = distributed.get_rank()
    missing = missing_passes(policy, 3 * rank)
    with torch.no_grad():
        for _ in range(3 * rank):
            hidden_states(policy, IDS)
    idle(policy, missing)
    idle_pass(policy).backward()
    return sum(float(gradient.abs().sum()) for gradient in gradients(policy).values())


def test_idle_passes_have_a_gradient_of_zero_for_every_weight(tmp_path: Path) -> None:
    assert run_on_ranks(2, passes_in_step, tmp_path, saved(tmp_path / "model")) == [0.0, 0.0]


def adapted(folder: Path) -> tuple[Tensor, Tensor, Tensor]:
    shards = 2 if distributed.is_initialized() else 0
    torch.manual_seed(0)
    policy = add_adapters(load(folder, shards), Lora(rank=2))
    for name, parameter in policy.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter)
    inner = policy.get_base_model()
    with torch.no_grad():
        off = logits_of(WithoutAdapters(policy))
        on = logits_of(inner)
    return off, on, policy(input_ids=IDS).logits[0].detach()


def test_model_without_its_adapters_is_the_first_model(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model")
    with torch.no_grad():
        first = load(folder)(input_ids=IDS).logits[0]
    results = [result for ranks in (2, 4) for result in run_on_ranks(ranks, adapted, tmp_path, folder)]
    for off, on, output in [adapted(folder), *results]:
        torch.testing.assert_close(off, first)
        torch.testing.assert_close(on, output)
        assert not torch.allclose(on, first, atol=1e-2)


def _fingerprint(folder: Path, shards: int) -> str:
    return fingerprint(load(folder, shards))


def test_fingerprint_depends_on_weights_and_not_on_their_division(tmp_path: Path) -> None:
    folder, other = saved(tmp_path / "model"), saved(tmp_path / "other", "qwen3-tied")
    expected = fingerprint(load(folder))
    assert {
        *run_on_ranks(2, _fingerprint, tmp_path, folder, 2),
        *run_on_ranks(4, _fingerprint, tmp_path, folder, 2),
    } == {expected}
    changed = load(folder)
    with torch.no_grad():
        changed.lm_head.weight[3, 4] += 1e-6
    assert len({expected, fingerprint(changed), fingerprint(load(other))}) == 3
