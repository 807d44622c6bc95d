"""The functions of other training engines that Etude's losses call: the installed package, or its documented contract.

The contracts are written from the engines' documentation and shapes, for one process without parallelism.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

PACKAGES = {
    "verl": "verl.trainer.distillation.losses",
    "skyrl": "skyrl.backends.skyrl_train.utils.ppo_utils",
    "slime": "slime.backends.megatron_utils.loss",
}


def engine(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module of an engine: of its ``package``, or the test is skipped; or of its ``contract``."""
    if kind == "package":
        return pytest.importorskip(PACKAGES[name])
    contract = {"verl": _verl, "skyrl": _skyrl, "slime": _slime}[name]()
    for path in contract:
        parts = path.split(".")
        for end in range(1, len(parts)):
            monkeypatch.setitem(sys.modules, ".".join(parts[:end]), ModuleType(".".join(parts[:end])))
    for path, module in contract.items():
        monkeypatch.setitem(sys.modules, path, module)
        parent, _, child = path.rpartition(".")
        setattr(sys.modules[parent], child, module)
    return contract[PACKAGES[name]]


def _module(**names: Any) -> Any:
    module = ModuleType("contract")
    vars(module).update(names)
    return module


# --- verl ---------------------------------------------------------------------------------------------------------


def _verl() -> dict[str, Any]:
    registry: dict[str, Any] = {}

    def register(settings: Any) -> Any:
        return lambda function: registry.update(dict.fromkeys(settings.names, function)) or function

    def no_padding_2_padding(values: Tensor, data: Any) -> Tensor:
        """Rows p of ``values`` predict token p + 1; return the response's, [B, R, ...]."""
        width, end, rows = data["responses"].shape[1], 0, []
        for attended in data["attention_mask"]:
            length = int(attended[-width:].sum())
            end += int(attended.sum())
            row = values.new_zeros(width, *values.shape[1:])
            row[:length] = values[end - length - 1 : end - 1]
            rows.append(row)
        return torch.stack(rows)

    def distillation_loss(config: Any, distillation_config: Any, model_output: Any, data: Any) -> Any:
        losses, metrics = registry[distillation_config.distillation_loss.loss_mode](
            config=config, distillation_config=distillation_config, model_output=model_output, data=data
        )
        mask, mode, ranks = data["response_mask"], config.loss_agg_mode, data["dp_size"]
        by_row = (losses * mask).sum(-1)
        if mode == "token-mean":
            return by_row.sum() / data["batch_num_tokens"] * ranks, metrics
        if mode == "token-sum":
            return by_row.sum() * ranks, metrics
        if mode == "seq-mean-token-mean":
            by_row = by_row / (mask.sum(-1) + 1e-8)
        if mode == "seq-mean-token-sum-norm":
            by_row = by_row / mask.shape[-1]
        return by_row.sum() / data["global_batch_size"] * ranks, metrics

    return {
        "verl.trainer.distillation.losses": _module(
            DistillationLossSettings=SimpleNamespace,
            register_distillation_loss=register,
            distillation_loss=distillation_loss,
            DISTILLATION_LOSS_REGISTRY=registry,
        ),
        "verl.workers.utils.padding": _module(no_padding_2_padding=no_padding_2_padding),
    }


# --- SkyRL --------------------------------------------------------------------------------------------------------


def _skyrl() -> dict[str, Any]:
    def regular(
        log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, config: Any, loss_mask: Any, **_: Any
    ) -> Any:
        assert config.policy_loss_type == "regular"
        ratio = (log_probs - old_log_probs).exp()
        clipped = ratio.clamp(1 - config.eps_clip_low, 1 + config.eps_clip_high)
        return -(torch.min(ratio * advantages, clipped * advantages) * loss_mask).sum(), {"clip_ratio": 0.0}

    functions: dict[str, Any] = {"regular": regular}
    registry = SimpleNamespace(register=functions.__setitem__, get=functions.__getitem__, unregister=functions.pop)
    return {"skyrl.backends.skyrl_train.utils.ppo_utils": _module(PolicyLossRegistry=registry)}


# --- slime --------------------------------------------------------------------------------------------------------


def _slime() -> dict[str, Any]:
    def log_probs(
        logits: Tensor, *, args: Any, unconcat_tokens: Any, total_lengths: Any, response_lengths: Any, **_: Any
    ) -> Any:
        rows, start = [], 0
        for tokens, total, response in zip(unconcat_tokens, total_lengths, response_lengths, strict=True):
            row = logits[0, start + total - response - 1 : start + total - 1].log_softmax(-1)
            rows.append(row.gather(-1, tokens[-response:, None])[:, 0])
            start += total
        return None, {"log_probs": rows}

    def policy_loss(args: Any, batch: Any, logits: Tensor, reduce: Any) -> Any:
        rows = log_probs(logits, args=args, **{name: batch[name] for name in LENGTHS})[1]["log_probs"]
        loss = reduce(-torch.cat(batch["advantages"]) * torch.cat(rows))
        return loss, {"loss": loss.detach(), "pg_loss": loss.detach()}

    def loss_function(args: Any, batch: Any, micro_batches: int, rollouts: int, logits: Tensor) -> Any:
        from etude.trainers.engines.slime_loss import turn_local

        def reduce(values: Tensor) -> Tensor:
            parts = zip(
                values.split(batch["response_lengths"]), batch["loss_masks"], batch["rollout_mask_sums"], strict=True
            )
            return torch.stack([(part * mask).sum() / divisor for part, mask, divisor in parts]).sum()

        assert args.custom_loss_function_path == "etude.trainers.engines.slime_loss.turn_local"
        loss, log = turn_local(args, batch, logits, reduce)
        return loss * micro_batches / rollouts * args.ranks, 1, {"keys": list(log), "values": list(log.values())}

    return {
        "slime.backends.megatron_utils.loss": _module(
            get_log_probs_and_entropy=log_probs,
            get_rollout_top_p_logprob_kwargs=lambda args, batch: {},
            policy_loss_function=policy_loss,
            loss_function=loss_function,
        )
    }


LENGTHS = ("unconcat_tokens", "total_lengths", "response_lengths")
