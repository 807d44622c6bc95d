"""The losses in the shapes of verl, SkyRL and slime, aggregated as these engines do, compared with ``Distiller``."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers.engine_contracts import engine
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from etude.trainers.distillation.distiller import Settings
from etude.trainers.engines import forge_loss, skyrl_loss, slime_loss, verl_loss
from etude.trainers.engines.turn_local import SAMPLED

OTHER = Settings(estimator="sampled", gate=False, clip=0.4, ratio_clip=1.05)
Rows = list[list[list[int]]]


def rows_of(tensors: list[Tensor]) -> Tensor:
    return pad_sequence(tensors, batch_first=True)


# --- verl ---------------------------------------------------------------------------------------------------------


def verl_data(step: Any, rows: list[int], ranks: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return a micro-batch's model output without padding and its data, with padded prompts and responses."""
    rollouts = [step.rollouts[row] for row in rows]
    response = rows_of([torch.tensor(each.ids[each.prompt :]) for each in rollouts])
    lengths = [len(each.ids) - each.prompt for each in rollouts]
    fields = [
        verl_loss.teacher_fields(step.divided[row], each.ids[: each.prompt], each.ids[each.prompt :])
        for row, each in zip(rows, rollouts, strict=True)
    ]
    prompts = torch.tensor([[0, 0, *each.ids[: each.prompt]] for each in rollouts])  # padded on the left
    attended = [[0] * 2 + [1] * (4 + length) + [0] * (response.shape[1] - length) for length in lengths]
    output = {"log_probs": torch.cat([torch.nn.functional.pad(step.student_logps(row), (0, 1)) for row in rows])}
    return output, {
        "prompts": prompts,
        "responses": response,
        "attention_mask": torch.tensor(attended),
        "response_mask": rows_of([torch.tensor(each.mask) for each in rollouts]),
        "rollout_log_probs": rows_of([torch.tensor(each.logprobs) for each in rollouts]),
        "teacher_logprobs": torch.cat([each["teacher_logprobs"] for each in fields]),
        "dp_size": ranks,
        "batch_num_tokens": sum(sum(each.mask) for each in step.rollouts),
        "global_batch_size": len(step.rollouts),
    }


def verl_configs(mode: str = "token-mean", **options: Any) -> tuple[Any, Any]:
    chosen = {"loss_mode": verl_loss.NAME, "loss_max_clamp": None, "use_policy_gradient": False, **options}
    config = SimpleNamespace(loss_agg_mode=mode, loss_scale_factor=None, global_batch_info={})
    return config, SimpleNamespace(distillation_loss=SimpleNamespace(**chosen))


@pytest.fixture
def verl(kind: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    module = engine("verl", kind, monkeypatch)
    module.DISTILLATION_LOSS_REGISTRY.pop(verl_loss.NAME, None)
    verl_loss.register()
    return module


def as_verl_reads(data: dict[str, Any], kind: str) -> Any:
    """Return the data as the package reads it: a TensorDict whose teacher tensor is nested."""
    if kind == "contract":
        return data
    from tensordict import TensorDict

    ends = itertools.accumulate(data["attention_mask"].sum(-1).tolist())
    offsets = torch.tensor([0, *ends])
    teacher = torch.nested.nested_tensor_from_jagged(data["teacher_logprobs"], offsets=offsets)
    tensors = {name: value for name, value in data.items() if isinstance(value, Tensor)}
    read = TensorDict({**tensors, "teacher_logprobs": teacher}, batch_size=len(data["responses"]))
    for name in data.keys() - tensors.keys():
        read.set_non_tensor(name, data[name])
    return read


MODES = ["token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-sum-norm", "seq-mean-token-mean"]


@pytest.mark.parametrize("mode", MODES)
def test_verl_loss_is_distillers_in_every_aggregation(verl: Any, kind: str, step: Any, split: Rows, mode: str) -> None:
    config, distillation = verl_configs(mode)
    total = torch.zeros(())
    for rank in split:
        for rows in rank:
            output, data = verl_data(step, rows, len(split))
            loss, metrics = verl.distillation_loss(config, distillation, output, as_verl_reads(data, kind))
            total = total + loss / len(split)  # data-parallel ranks average their gradients
            assert metrics["distillation/etude_sites"] == sum(len(step.sites[row]) for row in rows)
    step.assert_like_distiller(total, SAMPLED)


def test_verl_refuses_what_would_change_the_loss(verl: Any, step: Any) -> None:
    output, data = verl_data(step, [0, 1], 1)
    with pytest.raises(ValueError, match="loss_max_clamp=null, got 10.0"):
        verl_loss.turn_local(*verl_configs(loss_max_clamp=10.0), output, data)
    with pytest.raises(ValueError, match="use_policy_gradient=false"):
        verl_loss.turn_local(*verl_configs(use_policy_gradient=True), output, data)
    with pytest.raises(ValueError, match="token-median"):
        verl_loss.turn_local(*verl_configs("token-median"), output, data)
    plain = {**data, "teacher_logprobs": data["teacher_logprobs"][:, :1]}
    with pytest.raises(ValueError, match="2 numbers for each token"):
        verl_loss.turn_local(*verl_configs(), output, plain)
    with pytest.raises(ValueError, match="the response has 3 ids"):
        verl_loss.teacher_fields(step.divided[0], [1, 2], [3, 4, 5])


# --- SkyRL --------------------------------------------------------------------------------------------------------


@dataclass
class Algorithm:
    """The fields of SkyRL's algorithm configuration that its regular policy loss reads."""

    policy_loss_type: str = skyrl_loss.NAME
    eps_clip_low: float = 0.2
    eps_clip_high: float = 0.2


def skyrl_config(kind: str) -> Any:
    if kind == "contract":
        return Algorithm()
    from skyrl.train.config import AlgorithmConfig

    return AlgorithmConfig(policy_loss_type=skyrl_loss.NAME)


def skyrl_batch(step: Any, advantages: Tensor) -> dict[str, Tensor]:
    """Return SkyRL's training batch of the step, one mini-batch, with scaled advantages [B, R, 3]."""
    sampler = rows_of([torch.tensor(each.logprobs) for each in step.rollouts])
    written = rows_of([torch.ones(len(each.mask)) for each in step.rollouts])
    scores = skyrl_loss.scores_tensor(step.scores, written)
    return {
        "log_probs": rows_of([step.student_logps(row)[each.prompt - 1 :] for row, each in enumerate(step.rollouts)]),
        "old_log_probs": sampler,
        "advantages": skyrl_loss.with_sites(advantages.expand_as(sampler), scores, [(0, len(step.rollouts))]),
        "loss_mask": rows_of([torch.tensor(each.mask) for each in step.rollouts]),
        "rollout_logprobs": sampler,
    }


@pytest.fixture
def skyrl(kind: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    return engine("skyrl", kind, monkeypatch)


@pytest.mark.parametrize("settings", [SAMPLED, OTHER])
def test_skyrl_loss_is_distillers(skyrl: Any, kind: str, step: Any, split: Rows, settings: Settings) -> None:
    skyrl_loss.register(base="", settings=settings)
    function = skyrl.PolicyLossRegistry.get(skyrl_loss.NAME)
    skyrl.PolicyLossRegistry.unregister(skyrl_loss.NAME)
    batch, total = skyrl_batch(step, torch.zeros(1, 1)), torch.zeros(())
    for rank in split:
        for rows in rank:
            part = {name: value[rows] for name, value in batch.items()}
            first = [part.pop(name) for name in ("log_probs", "old_log_probs", "advantages")]
            loss, metrics = function(*first, config=skyrl_config(kind), **part)
            total = total + loss * len(split) / len(split)  # times the ranks, then averaged over them
            assert metrics["etude_tokens"] == float((first[2][..., 2] != 0).sum())
    step.assert_like_distiller(total, settings)


def test_skyrl_adds_the_policy_loss_by_name(skyrl: Any, kind: str, step: Any) -> None:
    batch, config = skyrl_batch(step, torch.tensor([[0.01], [-0.02], [0.03], [0.0]])), skyrl_config(kind)
    both, _ = skyrl_loss.turn_local(config=config, base="regular", coefficient=0.3, **batch)
    distilled, _ = skyrl_loss.turn_local(config=config, base="", **batch)
    plain = {**batch, "advantages": batch["advantages"][..., 0]}
    policy, _ = skyrl.PolicyLossRegistry.get("regular")(config=replace(config, policy_loss_type="regular"), **plain)
    assert policy != 0 and distilled != 0
    torch.testing.assert_close(both, policy + 0.3 * distilled, rtol=1e-6, atol=1e-6)


def test_skyrl_passes_on_padding_and_refuses_plain_advantages(skyrl: Any, kind: str, step: Any) -> None:
    batch = skyrl_batch(step, torch.zeros(1, 1))
    plain = {**batch, "advantages": batch["advantages"][..., 0]}
    loss, _ = skyrl_loss.turn_local(config=skyrl_config(kind), **{**plain, "loss_mask": plain["loss_mask"] * 0})
    assert loss == 0
    with pytest.raises(ValueError, match="SitesMixin"):
        skyrl_loss.turn_local(config=skyrl_config(kind), **plain)


def test_skyrl_trainer_divides_by_the_sites_of_each_mini_batch(step: Any) -> None:
    class Trainer:
        def convert_to_training_input(self, generator_output: Any, uids: Any) -> Any:
            return {"response_mask": torch.ones(2, 3), "advantages": torch.ones(2, 3)}

        def _normalize_advantages(self, data: Any, boundaries: Any, prompts: Any = None) -> Any:
            return {**data, "advantages": data["advantages"] / 6}

    class WithSites(skyrl_loss.SitesMixin, Trainer):
        pass

    scores = [skyrl_loss.SiteScores([-1.0, 0.0, 0.0], [0.5, 0.0, 0.0])] * 2
    batch = WithSites().convert_to_training_input({skyrl_loss.FIELD: scores}, ["a", "b"])
    apart = WithSites()._normalize_advantages(batch, [(0, 1), (1, 2)])["advantages"]
    assert apart[0, 0].tolist() == pytest.approx([1 / 6, -1.0, 1.0]) and apart.shape == (2, 3, 3)
    together = WithSites()._normalize_advantages(batch, [(0, 2)])["advantages"]
    assert together[1, 0].tolist() == pytest.approx([1 / 6, -1.0, 0.5])


# --- slime --------------------------------------------------------------------------------------------------------


def slime_args(ranks: int, **options: Any) -> SimpleNamespace:
    return SimpleNamespace(
        **{
            "loss_type": "custom_loss",
            "custom_loss_function_path": "etude.trainers.engines.slime_loss.turn_local",
            "global_batch_size": 4,
            "calculate_per_token_loss": False,
            "context_parallel_size": 1,
            "etude_policy_loss": False,
            "ranks": ranks,
            "recompute_loss_function": False,
            "allgather_cp": False,
            "rollout_temperature": 1.0,
            "rollout_top_p": 1.0,
            "log_probs_chunk_size": -1,
            **options,
        }
    )


def slime_batch(step: Any, rows: list[int]) -> tuple[dict[str, Any], Tensor]:
    rollouts = [step.rollouts[row] for row in rows]
    logits = torch.cat([step.student(torch.tensor([each.ids])).logits[0] for each in rollouts])[None]
    masks = [torch.tensor(each.mask) for each in rollouts]
    batch = {
        "unconcat_tokens": [torch.tensor(each.ids) for each in rollouts],
        "total_lengths": [len(each.ids) for each in rollouts],
        "response_lengths": [len(each.mask) for each in rollouts],
        "loss_masks": masks,
        "rollout_mask_sums": torch.stack([mask.sum() for mask in masks]).float(),
        "rollout_log_probs": [torch.tensor(each.logprobs) for each in rollouts],
        "teacher_log_probs": [torch.tensor(slime_loss.teacher_log_probs(step.divided[row])) for row in rows],
        "advantages": [torch.full((len(each.mask),), 0.5) for each in rollouts],
    }
    return batch, logits


@pytest.fixture
def slime(kind: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    return engine("slime", kind, monkeypatch)


def test_slime_loss_is_distillers(slime: Any, kind: str, step: Any, split: Rows) -> None:
    ranks = len(split) if kind == "contract" else 1  # the package asks Megatron, which is one rank here
    total = torch.zeros(())
    for rank in split:
        for rows in rank:
            batch, logits = slime_batch(step, rows)
            loss, divisor, log = slime.loss_function(slime_args(ranks), batch, len(rank), 4, logits)
            total = total + loss / len(rank) / ranks / divisor  # as Megatron averages
            assert "etude_sites" in log["keys"]
    step.assert_like_distiller(total, SAMPLED)


def test_slime_adds_its_policy_loss(slime: Any, kind: str, step: Any) -> None:
    if kind == "package":
        pytest.skip("the package's policy loss needs Megatron's process groups")
    batch, logits = slime_batch(step, [0, 1, 2, 3])

    def loss(**options: Any) -> Tensor:
        value: Tensor = slime.loss_function(slime_args(1, **options), batch, 1, 4, logits)[0]
        return value

    both, distilled = loss(etude_policy_loss=True, etude_coefficient=0.3), loss()
    policy = loss(etude_policy_loss=True, etude_coefficient=0.0)
    assert policy != 0
    torch.testing.assert_close(both, policy + 0.3 * distilled, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"calculate_per_token_loss": True}, "remove --calculate-per-token-loss"),
        ({"context_parallel_size": 2}, "set --context-parallel-size 1"),
    ],
)
def test_slime_refuses_what_would_change_the_loss(slime: Any, step: Any, options: Any, message: str) -> None:
    batch, logits = slime_batch(step, [0])
    with pytest.raises(ValueError, match=message):
        slime_loss.turn_local(slime_args(1, **options), batch, logits, None)
    with pytest.raises(ValueError, match="no teacher_log_probs"):
        slime_loss.turn_local(slime_args(1), {**batch, "teacher_log_probs": None}, logits, None)


def test_slime_scores_are_one_number_for_each_token(step: Any) -> None:
    """slime's logs multiply them by the loss mask [R], which two numbers for a token would break."""
    scores = slime_loss.SiteScores([-1.5, 0.0, 0.0, 0.0], [0.25, 0.25, 0.0, 0.0])
    assert slime_loss.teacher_log_probs(scores) == [-1.5, -1e-30, 0.25, 0.25]
    whole = slime_loss.SiteScores([-1.0, -2.0, -3.0], [0.5] * 3)
    assert slime_loss.teacher_log_probs(whole) == [-1.0, -2.0, 0.5]
    assert slime_loss.teacher_log_probs(slime_loss.SiteScores([0.0], [0.0])) == [0.0]
    batch, _ = slime_batch(step, [0, 1, 2, 3])
    products = zip(batch["teacher_log_probs"], batch["loss_masks"], strict=True)
    assert all((numbers * mask).shape == mask.shape for numbers, mask in products)
    with pytest.raises(ValueError, match="must have one weight"):
        slime_loss.teacher_log_probs(slime_loss.SiteScores([-1.0, -1.0], [0.5, 0.25]))


# --- TorchForge ---------------------------------------------------------------------------------------------------


def test_forge_loss_is_distillers(step: Any, split: Rows) -> None:
    """By the contract alone: TorchForge is not on PyPI."""
    total = torch.zeros(())
    for rank in split:
        for rows in rank:
            rollouts = [step.rollouts[row] for row in rows]
            response = rows_of([torch.tensor(each.ids[each.prompt :]) for each in rollouts])
            requests = torch.tensor([each.ids[: each.prompt] for each in rollouts])
            scores = rows_of([torch.tensor(step.divided[row].pairs()) for row in rows])
            loss = forge_loss.turn_local(
                step.student(torch.cat([requests, response], dim=1)).logits,
                response,
                scores[..., 0],
                scores[..., 1],
                rows_of([torch.tensor(each.logprobs) for each in rollouts]),
                ranks=len(split),
            )
            total = total + loss / len(split)  # gradients are averaged over the ranks
    step.assert_like_distiller(total, SAMPLED)
    with pytest.raises(ValueError, match="give those of the request too"):
        forge_loss.turn_local(torch.zeros(1, 3, 5), torch.zeros(1, 3, dtype=torch.long), *[torch.zeros(1, 3)] * 2)
