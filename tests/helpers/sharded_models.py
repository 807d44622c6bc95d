"""Tiny models whose weights are divided over forked ranks, and checkpoints of their training."""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from helpers.model_factory import model
from torch import Tensor, distributed
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict
from transformers import AutoModelForCausalLM
from transformers.distributed.configuration_utils import DistributedConfig

from etude.trainers.muon import Muon, divide
from etude.trainers.sharded.access import is_sharded, prepare_sharded, reshard_heads, whole
from etude.trainers.sharded.training import ShardedTraining


def saved(folder: Path, name: str = "qwen3") -> Path:
    """Save a tiny model with random weights, and return its folder."""
    model(name).save_pretrained(folder)
    return folder


@contextmanager
def launched() -> Iterator[None]:
    """Set the variables by which torchrun tells a process its rank, which transformers reads."""
    if distributed.is_initialized():
        rank, world = str(distributed.get_rank()), str(distributed.get_world_size())
        os.environ |= {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank}
    yield


def load(folder: Path, shards: int = 0) -> Any:
    """Return the model of a folder, divided over ``shards`` ranks, with copies on the others; whole with 0."""
    if not shards:
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with launched():
        copies = distributed.get_world_size() // shards
        config = DistributedConfig(fsdp_size=shards, dp_replicate_size=copies)
        loaded = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, distributed_config=config)
    return prepare_sharded(loaded)


def gradients(policy: Any) -> dict[str, Tensor]:
    """Return the whole gradient of each parameter, after dividing the head again."""
    if is_sharded(policy):
        reshard_heads(policy)
    return {name: whole(parameter.grad).clone() for name, parameter in policy.named_parameters()}


class Checkpoints(ShardedTraining):
    """The checkpoints of a trainer, with a model, an optimizer and a schedule of its own."""

    def __init__(self, folder: Path, shards: int, optimizer: str) -> None:
        self.model = load(folder, shards)
        options: dict[str, Any] = {"lr": 1e-2, "weight_decay": 0.1}
        if optimizer == "muon":
            self.optimizer = Muon(divide(self.model), 1e-2, weight_decay=0.1)
        else:
            self.optimizer = torch.optim.AdamW(self.model.parameters(), **options)
        self.lr_scheduler = torch.optim.lr_scheduler.ConstantLR(self.optimizer)
        rank = distributed.get_rank() if distributed.is_initialized() else 0
        self.args = SimpleNamespace(should_save=rank == 0)
        self.load_weights = lambda where: load(where, shards)

    def train(self, steps: int) -> None:
        """Take steps on ids that depend on the step alone."""
        for step in range(steps):
            ids = torch.arange(1, 9)[None] * (step + 2) % 97
            self.model(input_ids=ids, labels=ids).loss.backward()
            if is_sharded(self.model):
                reshard_heads(self.model)
            self.optimizer.step()
            self.lr_scheduler.step()
            self.optimizer.zero_grad()

    def save(self, folder: Path) -> None:
        """Write a checkpoint as transformers and the mixin do."""
        self.model.save_pretrained(folder, is_main_process=self.args.should_save)
        if is_sharded(self.model):
            self._save_optimizer_and_scheduler(str(folder))
        else:
            torch.save(self.optimizer.state_dict(), folder / "optimizer.pt")
            torch.save(self.lr_scheduler.state_dict(), folder / "scheduler.pt")

    def resume(self, folder: Path) -> None:
        """Load a checkpoint."""
        self._load_from_checkpoint(str(folder))
        if is_sharded(self.model) or (folder / "optimizer").is_dir():
            self._load_optimizer_and_scheduler(str(folder))
        else:
            self.optimizer.load_state_dict(torch.load(folder / "optimizer.pt"))

    def digest(self) -> str:
        """Return a hash of all bits of the weights and of the optimizer's state."""
        options = StateDictOptions(full_state_dict=True, cpu_offload=False)
        state = get_optimizer_state_dict(self.model, self.optimizer, options=options)["state"]
        weights = {name: whole(parameter.detach()) for name, parameter in self.model.named_parameters()}
        rows = [(name, weights[name].numpy().tobytes()) for name in sorted(weights)]
        for name, values in sorted(state.items()):
            rows += [(f"{name}.{key}", torch.as_tensor(values[key]).numpy().tobytes()) for key in sorted(values)]
        return hashlib.sha256(pickle.dumps(rows)).hexdigest()


def write(base: Path, shards: int, optimizer: str, folder: Path) -> str:
    """Train two steps, write a checkpoint, and return its digest."""
    run = Checkpoints(base, shards, optimizer)
    run.train(2)
    run.save(folder)
    return run.digest()


def read(base: Path, shards: int, optimizer: str, folder: Path) -> str:
    """Resume the checkpoint and return the digest of what was loaded."""
    run = Checkpoints(base, shards, optimizer)
    run.resume(folder)
    return run.digest()
