"""Models without values: fake parameters, and operations of PyTorch and its libraries that fake tensors allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn


def without_values(model: nn.Module) -> Iterator[Tensor]:
    """Replace the parameters and buffers by fake ones, and yield them with the gradients of those that learn."""
    replaced: dict[int, tuple[Any, Any]] = {}
    for module in model.modules():
        for table in (module._parameters, module._buffers):
            for name, tensor in table.items():
                if tensor is None:
                    continue
                if id(tensor) not in replaced:
                    replaced[id(tensor)] = (tensor, _fake(tensor))
                table[name] = replaced[id(tensor)][1]
    for _, fake in replaced.values():
        yield fake
        if fake.grad is not None:
            yield fake.grad


def _fake(tensor: Tensor) -> Tensor:
    fake = torch.empty(tensor.shape, dtype=tensor.dtype)
    if not isinstance(tensor, nn.Parameter):
        return fake
    parameter = nn.Parameter(fake, requires_grad=tensor.requires_grad)
    parameter.grad = torch.empty_like(fake) if tensor.requires_grad else None
    return parameter


def _attention_of_one_size(attention: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return an attention that pads values to the size of queries, with which no kernel stores scores."""

    def padded(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        size = value.shape[-1]
        wide = nn.functional.pad(value, (0, max(query.shape[-1] - size, 0)))
        return attention(query, key, wide, **options)[..., :size]

    return padded


@contextmanager
def planned_operations(gpu: bool) -> Iterator[None]:
    """Use operations that fake tensors allow and, with ``gpu``, no tensors that a GPU's kernels do without."""
    import transformers.integrations.moe as experts
    import trl.kernels.chunked_logprob as head

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(experts, "_can_use_grouped_mm", lambda *_: False))
        for name in ("_forward_tile", "_backward_tile", "_addmm_fp32") if gpu else ():
            stack.enter_context(mock.patch.object(head, name, lambda *_, **__: None))
        if gpu:
            function = nn.functional.scaled_dot_product_attention
            stack.enter_context(mock.patch.object(nn.functional, function.__name__, _attention_of_one_size(function)))
        yield
