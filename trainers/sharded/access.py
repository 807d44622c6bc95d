"""Access to a model whose weights FSDP2 divides over ranks: hidden states, whole weights, and forward passes in step.

FSDP2 gathers a module's weights when its forward pass begins, so the pass must enter through the outermost module, and
all ranks must make the same passes in the same order: a rank with less to do makes idle ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule, register_fsdp_forward_method
from torch.distributed.tensor import DTensor

from ..distillation.hidden_states import READ
from ..distributed import gather_from_ranks

_HEADS = "modules_with_head"
"""Name of a sharded model's list of the modules in whose group its head is."""
_MANAGED = "_is_fsdp_managed_module"
"""Name of transformers' mark of a model that is sharded."""


def is_sharded(model: Any) -> bool:
    """Return whether the weights of a causal language model, with or without adapters, are divided over ranks."""
    return isinstance(causal_model(model), FSDPModule)


def causal_model(model: Any) -> Any:
    """Return the causal language model inside a model with adapters, and any other model as it is."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def prepare_sharded(model: Any) -> Any:
    """Return a freshly loaded sharded model, made ready for ``hidden_states`` and for losses that read its head.

    The modules that hold the head stay whole between the passes of one backward pass; ``reshard_heads`` divides them
    again.
    """
    setattr(model, READ, MethodType(_read_hidden, model))
    register_fsdp_forward_method(model, READ)
    setattr(model, _HEADS, _head_modules(model))
    for module in getattr(model, _HEADS):
        module.set_reshard_after_backward(False, recurse=False)
    return model


def reshard_heads(model: Any) -> None:
    """Divide the modules with the head again: after a backward pass, and before anyone lists the parameters.

    It does nothing to a model that is not sharded.
    """
    for module in getattr(causal_model(model), _HEADS, ()):
        module.reshard()


def reshard(model: Any) -> None:
    """Divide all modules of a model again, which forward passes without gradients may have left whole.

    It does nothing to a model that is not sharded.
    """
    for module in causal_model(model).modules():
        if isinstance(module, FSDPModule):
            module.reshard()


def own_part(tensor: Tensor) -> Tensor:
    """Return this rank's part of a tensor, detached and in the same memory; all of one that is not divided."""
    data = tensor.detach()
    return data.to_local() if isinstance(data, DTensor) else data


def whole(tensor: Tensor) -> Tensor:
    """Return a tensor without divisions; for a divided one, all ranks must call it together."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


@contextmanager
def gathered(model: Any) -> Iterator[None]:
    """Hold all weights of the model on this rank, so that forward passes need no other rank. No gradients inside.

    All ranks must enter together. A model that is not sharded is left as it is.
    """
    inner = causal_model(model)
    if not is_sharded(inner):
        yield
        return
    modules = [module for module in inner.modules() if isinstance(module, FSDPModule)]
    before = [_reshards_after_forward(module) for module in modules]
    for module in modules:
        module.unshard()
        module.set_reshard_after_forward(False, recurse=False)
    setattr(inner, _MANAGED, False)  # generation would wait for the other ranks after every token
    try:
        with torch.no_grad():
            yield
    finally:
        setattr(inner, _MANAGED, True)
        for module, reshards in zip(modules, before, strict=True):
            module.set_reshard_after_forward(reshards, recurse=False)
            module.reshard()


def idle_pass(model: Any) -> Tensor:
    """Return 0 from a forward pass over one id, with a gradient of 0 for every weight that learns."""
    inner = causal_model(model)
    read = getattr(inner, READ)
    hidden: Tensor = read(input_ids=torch.zeros(1, 1, dtype=torch.long, device=inner.device), use_cache=False)[0]
    head = inner.get_output_embeddings()
    total = hidden.sum() + head.weight[:1].sum()
    bias = getattr(head, "bias", None)
    return (total if bias is None else total + bias[:1].sum()) * 0.0


def missing_passes(model: Any, passes: int) -> int:
    """Return by how many passes the rank with the most exceeds this one, whose number is ``passes``; 0 if not sharded.

    All ranks must call it together, before their passes.
    """
    return max(gather_from_ranks(passes)) - passes if is_sharded(model) else 0


@torch.no_grad()
def idle(model: Any, passes: int) -> None:
    """Make forward passes over one id whose result is not used."""
    for _ in range(passes):
        idle_pass(model)


def _read_hidden(self: Any, **inputs: Any) -> tuple[Tensor]:
    """Return the last hidden states, in a tuple, whose tensors FSDP2 finds."""
    return (self.base_model(**inputs).last_hidden_state,)


def _head_modules(model: Any) -> list[FSDPModule]:
    """Return the sharded modules in whose group the output head is, which may be shared with the input embedding."""
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    heads = {id(head), id(embedding)} if embedding.weight is head.weight else {id(head)}
    return [module for module in model.modules() if isinstance(module, FSDPModule) and _holds(module, heads)]


def _holds(module: FSDPModule, modules: set[int]) -> bool:
    group = module._get_fsdp_state()._fsdp_param_group
    return group is not None and any(id(member) in modules for member in group.modules)


def _reshards_after_forward(module: FSDPModule) -> bool:
    group = module._get_fsdp_state()._fsdp_param_group
    return group is not None and group.post_forward_mesh_info is not None
