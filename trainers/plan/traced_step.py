"""Activations of one step: its forward and backward passes are run on tensors without values, and storages counted.

The passes are those of a micro-batch of GRPO with TRL's fused head and, if it is asked for, of the distillation loss:
one pass of the teacher and one of the student over each whole sequence, which has sites up to its end. PyTorch's fake
tensors have shapes and types but no memory, so a model of any size is traced on any machine, with the attention and
experts of the CPU.

The peak of each phase is linear in the number of equal layers: the forward passes, then the backward pass up to each
time that it reaches the embedding. So two short models stand for a long one.
"""

from __future__ import annotations

import copy
import warnings
import weakref
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoModelForCausalLM

from ...errors import RecipeError
from ..adapters import add_adapters
from ..distillation.divergence import fused_divergence
from ..distillation.hidden_states import head_of, hidden_states
from ..recipe.scale import Lora
from ..sharded.access import causal_model
from .fake_models import planned_operations, without_values
from .model_shapes import CHOSEN, EXPERTS

_SITE_TOKENS = 512
"""Tokens at the end of a sequence that the distillation loss compares, at most. It works on blocks of 256."""


@dataclass(frozen=True)
class Traced:
    """Memory of the passes of one micro-batch, beside weights, gradients and optimizer states."""

    activations: int
    """Bytes that exist after the forward passes, for the backward pass."""
    temporary: int
    """Bytes above them at the peak."""


@dataclass(frozen=True)
class Passes:
    """What is traced."""

    rows: int
    """Sequences of the micro-batch."""
    length: int
    """Tokens of a sequence."""
    half: bool = False
    """Whether the computation is in bfloat16 (autocast); frozen weights under adapters have that type too."""
    lora: Lora = Lora()
    """Adapters; their rank may be 0."""
    checkpointing: bool = False
    """Whether the backward pass computes activations again."""
    distillation: bool = False
    """Whether the distillation loss is part of the step."""
    sharded: bool = False
    """Whether weights are gathered in the type of the computation, and losses have backward passes of their own."""
    expert_ranks: int = 1
    """Ranks over which experts are divided; each computes with its part, for as many tokens as it has."""
    gpu: bool = True
    """Whether kernels are those of GPUs: Triton computes log-probabilities in place, and attention never stores its
    scores. On a CPU it does where a value has another size than a query."""


class StorageTracker(TorchDispatchMode):
    """Mode that counts the bytes of all storages that operations return, while they exist."""

    def __init__(self, counted: Iterable[Tensor]) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._live = {tensor.untyped_storage()._cdata for tensor in counted}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and count what it returns."""
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self._add(leaf.untyped_storage())
        return result

    def _add(self, storage: Any) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key not in self._live:
            self._live.add(key)
            self.now += size
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self._remove, key, size)

    def _remove(self, key: int, size: int) -> None:
        self._live.discard(key)
        self.now -= size


def trace(config: Any, passes: Passes) -> Traced:
    """Return the memory of the passes of a causal language model with this config.

    Raise RecipeError for a model that cannot be run on tensors without values.
    """
    try:
        return _traced(_phases_of_all_layers(_with_part_of_experts(config, passes.expert_ranks), passes))
    except RecipeError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:160]
        raise RecipeError(
            f"the memory of a {config.model_type} model cannot be planned, as its passes do not run without values "
            f"({type(error).__name__}: {reason}); plan a model of another architecture"
        ) from error


def _phases_of_all_layers(config: Any, passes: Passes) -> list[int]:
    """Return the phases of a model of any length, from those of two short ones where its last layers are equal."""
    layers = config.get_text_config().num_hidden_layers
    different = _layers_before_equal_ones(config)
    if layers <= different + 3:
        return _phases(config, passes)
    fewer, more = (_phases(_shortened(config, different + extra), passes) for extra in (2, 3))
    missing = layers - different - 3
    return [high + (high - low) * missing for low, high in zip(fewer, more, strict=True)]


def _traced(phases: list[int]) -> Traced:
    activations = phases[0]
    return Traced(activations, max(phases) - activations)


def _phases(config: Any, passes: Passes) -> list[int]:
    """Return the bytes after the forward passes, and the peak of each phase."""
    half_weights = passes.half and (passes.lora.rank > 0 or passes.sharded)
    dtype = torch.bfloat16 if half_weights else torch.float32
    student, teacher = _model(config, dtype, passes.lora), None
    if passes.distillation:
        teacher = causal_model(student) if passes.lora.rank else _model(config, dtype, Lora()).requires_grad_(False)
    if passes.checkpointing:
        student.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if passes.lora.rank:
            student.enable_input_require_grads()
    student.train()
    with ExitStack() as stack:
        stack.enter_context(FakeTensorMode())
        stack.enter_context(planned_operations(passes.gpu))
        counted = [tensor for model in (student, teacher) if model is not None for tensor in without_values(model)]
        ids = torch.zeros(passes.rows, passes.length, dtype=torch.long)
        mask = torch.ones_like(ids)
        tracker = stack.enter_context(StorageTracker([*counted, ids, mask]))
        return _run(student, teacher, ids, mask, passes, tracker)


def _run(student: Any, teacher: Any, ids: Tensor, mask: Tensor, passes: Passes, tracker: StorageTracker) -> list[int]:
    losses: list[Callable[[], Tensor]] = [lambda: policy_loss(student, ids, mask, half=passes.half)]
    if teacher is not None:
        losses.append(lambda: distillation_loss(student, teacher, ids, half=passes.half))
    if not passes.sharded:
        parts = losses
        losses = [lambda: torch.stack([part() for part in parts]).sum()]
    activations, peaks = 0, list[int]()

    def end_phase(*_: Any) -> None:
        peaks.append(tracker.peak)
        tracker.peak = tracker.now

    def watch(module: Any, inputs: Any, output: Tensor) -> None:
        if output.requires_grad:
            output.register_hook(end_phase)

    student.get_input_embeddings().register_forward_hook(watch)
    for compute in losses:
        loss = compute()
        activations = max(activations, tracker.now)
        end_phase()
        torch.autograd.backward(loss)
        del loss
        end_phase()
    return [activations, *peaks]


def _layers_before_equal_ones(config: Any) -> int:
    """Return how many layers come before the last ones that are all equal; all, if they are not in one list."""
    text = config.get_text_config()
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    number = text.num_hidden_layers
    stacks = [m for m in model.modules() if isinstance(m, nn.ModuleList) and len(m) == number]
    kinds = getattr(text, "layer_types", None) or [""] * number
    if len(stacks) != 1 or len(kinds) != number:
        return int(number)
    signatures = [
        (kind, type(layer), [(name, parameter.shape) for name, parameter in layer.named_parameters()])
        for kind, layer in zip(kinds, stacks[0], strict=True)
    ]
    different = [place for place, signature in enumerate(signatures) if signature != signatures[-1]]
    return different[-1] + 1 if different else 0


def _with_part_of_experts(config: Any, ranks: int) -> Any:
    """Return a copy of a config with the experts of one rank, but no fewer than a token chooses."""
    part = copy.deepcopy(config)
    text = part.get_text_config()
    least = next((n for name in CHOSEN if isinstance(n := getattr(text, name, None), int)), 1)
    for name in EXPERTS:
        if isinstance(number := getattr(text, name, None), int):
            setattr(text, name, max(number // ranks, min(least * max(getattr(text, "n_group", 1) or 1, 1), number)))
    return part


def _shortened(config: Any, layers: int) -> Any:
    """Return a copy of a config with the first ``layers`` layers."""
    short = copy.deepcopy(config)
    text = short.get_text_config()
    if getattr(text, "layer_types", None):
        text.layer_types = text.layer_types[:layers]
    text.num_hidden_layers = layers
    return short


def policy_loss(model: Any, ids: Tensor, mask: Tensor, *, half: bool) -> Tensor:
    """Return a policy-gradient loss on all ids [B, T] through TRL's fused head, which the model must have."""
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        output = model(input_ids=ids, attention_mask=mask, labels=ids, fused_lm_head=True)
    loss: Tensor = -output.log_probs.mean()
    return loss


def distillation_loss(model: Any, teacher: Any, ids: Tensor, *, half: bool) -> Tensor:
    """Return the divergence of a student from its teacher at the end of ids [B, T], one row after the other."""
    student, losses = causal_model(model), []
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        for row in ids.split(1):
            with torch.no_grad():
                taught = hidden_states(teacher, row)[0]
            hidden = hidden_states(student, row)[0]
            rows = slice(-min(len(hidden), _SITE_TOKENS), None)
            heads = head_of(student), head_of(teacher)
            losses.append(fused_divergence(hidden[rows], heads[0], taught[rows], heads[1]).mean())
    return torch.stack(losses).sum()


def _model(config: Any, dtype: torch.dtype, lora: Lora) -> Any:
    """Return a model on the device "meta" with TRL's head and with adapters."""
    from trl.trainer.utils import add_fused_lm_head

    with torch.device("meta"), warnings.catch_warnings(action="ignore"):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
        add_fused_lm_head(model, outputs=("log_probs", "entropy"))
        return add_adapters(model, lora) if lora.rank else model
