"""Part of a trainer that trains sharded weights: gradients, and checkpoints that any number of processes can resume.

transformers' Trainer accepts a model that it sharded while loading. It averages adapters with an operation that gloo
lacks, keeps whole gradients between micro-batches, and writes the optimizer's state of the first rank alone; the
methods here replace those steps. The optimizer's state is written by torch's distributed checkpoint in the folder
``OPTIMIZER``, each rank its own part, and weights as transformers writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, distributed
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_optimizer_state_dict
from torch.distributed.tensor import DTensor

from ...errors import RecipeError
from ..adapters import ADAPTER, adapter_weights
from .access import is_sharded, reshard_heads

OPTIMIZER = "optimizer"
"""Folder with the optimizer's state in a checkpoint of a sharded run."""
_WHOLE_OPTIMIZER, _SCHEDULE = "optimizer.pt", "scheduler.pt"
"""Files of transformers in a checkpoint."""


class ShardedTraining:
    """Mixin of TRL's trainers, before them in the list of bases. For a whole model it changes checkpoints alone.

    ``load_weights`` must be set before a run resumes: it returns a model with the weights of a checkpoint's folder,
    divided like the one in training.
    """

    model: Any
    optimizer: Any
    lr_scheduler: Any
    accelerator: Any
    args: Any
    load_weights: Callable[[Path], Any] | None = None

    def __init__(self, *, model: Any, args: Any, **options: Any) -> None:
        # transformers refuses checkpoints of a model that it sharded, because it cannot resume them, as we can.
        requested, args.save_only_model = args.save_only_model, args.save_only_model or is_sharded(model)
        base: Any = super()
        base.__init__(model=model, args=args, **options)
        self.args.save_only_model = requested

    # --- gradients -----------------------------------------------------------------------------------------------

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """Run the step of transformers; afterwards divide the head again, and average the adapters' gradients."""
        base: Any = super()
        loss: Tensor = base.training_step(model, inputs, num_items_in_batch)
        reshard_heads(self.model)
        if is_sharded(self.model) and self.accelerator.sync_gradients:
            _average(_replicated(self.model))
        return loss

    def backward_terms(self, terms: dict[str, Tensor], around: Callable[[str], Any] = nullcontext) -> None:
        """Run the backward pass of terms of the loss, scaled as the loss will be, and leave them without a graph.

        Their gradients are divided over the ranks, and their activations freed, before the next term makes its own.
        Each pass runs in the context ``around`` of the term's name.
        """
        for name, term in terms.items():
            if term.requires_grad:
                with around(name):
                    self.accelerator.backward(term)
                    reshard_heads(self.model)
                terms[name] = term.detach()

    @contextmanager
    def _defer_fsdp_gradient_reduction(self) -> Iterator[None]:
        """Divide gradients after each micro-batch: whole ones would take the memory that sharding saves."""
        yield

    def _sync_replicated_trainable_parameters(self, model: Any) -> None:
        """Give all ranks the adapters of the first; ``training_step`` averages their gradients."""
        for parameter in _replicated(model):
            distributed.broadcast(parameter.data, src=0)

    def create_optimizer(self, model: Any = None) -> Any:
        """Make the optimizer of transformers, for the divided parameters and without empty groups.

        With adapters no parameter is left out of weight decay, and torch cannot write an empty group by name.
        """
        reshard_heads(self.model)
        base: Any = super()
        exists = self.optimizer is not None
        optimizer = base.create_optimizer(model)
        if not exists:
            optimizer.param_groups[:] = [group for group in optimizer.param_groups if group["params"]]
        return optimizer

    # --- checkpoints ---------------------------------------------------------------------------------------------

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Write the whole weights; all ranks take part."""
        reshard_heads(self.model)
        base: Any = super()
        base.save_model(output_dir, _internal_call)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if not is_sharded(self.model):
            base: Any = super()
            base._save_optimizer_and_scheduler(output_dir)
            return
        from transformers.distributed.checkpoint import save_optimizer_distributed

        save_optimizer_distributed(self.model, _unwrapped(self.optimizer), str(Path(output_dir, OPTIMIZER)))
        if self.args.should_save:
            torch.save(self.lr_scheduler.state_dict(), Path(output_dir, _SCHEDULE))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        """Load the states, whatever the number of processes that wrote them."""
        if checkpoint is None:
            return
        sharded, stored_in_parts = is_sharded(self.model), Path(checkpoint, OPTIMIZER).is_dir()
        if not sharded and not stored_in_parts:
            base: Any = super()
            base._load_optimizer_and_scheduler(checkpoint)
            return
        optimizer = _unwrapped(self.optimizer)
        if stored_in_parts:
            from transformers.distributed.checkpoint import load_optimizer_distributed

            load_optimizer_distributed(self.model, optimizer, str(Path(checkpoint, OPTIMIZER)))
        else:
            state = torch.load(Path(checkpoint, _WHOLE_OPTIMIZER), map_location="cpu", weights_only=True, mmap=True)
            options = StateDictOptions(full_state_dict=True)
            set_optimizer_state_dict(self.model, optimizer, _by_name(self.model, optimizer, state), options=options)
        self.lr_scheduler.load_state_dict(torch.load(Path(checkpoint, _SCHEDULE), weights_only=True))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        """Copy a checkpoint's weights into the model, by the names in memory.

        transformers compares names in files, which differ for stacked experts, and ignores what it misses; peft divides
        adapters of sharded weights.
        """
        reshard_heads(self.model)
        folder = Path(resume_from_checkpoint)
        if hasattr(self.model, "get_base_model"):
            weights, stored = adapter_weights(self.model), load_file(folder / ADAPTER)
        elif self.load_weights is None:
            base: Any = super()
            base._load_from_checkpoint(resume_from_checkpoint, model)
            return
        else:
            weights, stored = (dict(one.named_parameters()) for one in (self.model, self.load_weights(folder)))
        with torch.no_grad():
            for name, weight in weights.items():
                weight.copy_(stored.pop(name))


def _unwrapped(optimizer: Any) -> Any:
    """Return the optimizer inside accelerate's wrapper."""
    return getattr(optimizer, "optimizer", optimizer)


def _replicated(model: Any) -> list[Any]:
    """Return the parameters that learn and that every rank has whole, which are adapters."""
    return [p for p in model.parameters() if p.requires_grad and not isinstance(p.data, DTensor)]


def _average(parameters: list[Any]) -> None:
    """Average gradients over all ranks, in one message. All ranks must have the same ones."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        return
    packed = torch.cat([gradient.flatten() for gradient in gradients])
    distributed.all_reduce(packed)
    packed /= distributed.get_world_size()
    for gradient, part in zip(gradients, packed.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(part.view_as(gradient))


def _by_name(model: Any, optimizer: Any, state: dict[str, Any]) -> dict[str, Any]:
    """Return the state of a whole optimizer with the names of parameters in place of their numbers.

    Raise RecipeError if it belongs to another optimizer.
    """
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = [[names[id(parameter)] for parameter in group["params"]] for group in optimizer.param_groups]
    if [len(group) for group in groups] != [len(group["params"]) for group in state["param_groups"]]:
        raise RecipeError("the checkpoint was written with another optimizer; set the one of that run")
    numbered = {
        number: name
        for group, stored in zip(groups, state["param_groups"], strict=True)
        for name, number in zip(group, stored["params"], strict=True)
    }
    return {
        "state": {numbered[number]: value for number, value in state["state"].items()},
        "param_groups": [
            {**stored, "params": group} for group, stored in zip(groups, state["param_groups"], strict=True)
        ],
    }
