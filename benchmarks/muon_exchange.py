"""Bytes and operations of one Muon step on several meshes, measured, beside the least that is possible.

usage: python benchmarks/muon_exchange.py [--width 256] [--experts 16] [--layers 2]

A Qwen3-MoE model with random weights and gradients takes one step on gloo ranks. Printed are, for each mesh:

- the largest difference of a parameter from one process (float32);
- bytes between ranks in one step, summed over ranks, with matrices in bfloat16, and the ratio to the least for
  matrices with one owner each: a cut matrix comes from all ranks but the one that holds most of it, and goes back; and
  each other replica gets it once;
- Newton-Schulz operations of all ranks relative to one process, and of the busiest rank relative to the mean.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, multiprocessing, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM, Qwen3MoeConfig

from etude.trainers.muon import Muon, divide
from etude.trainers.muon.sharding.exchange_plan import make_buckets
from etude.trainers.muon.sharding.shards import layouts, overlap, volume

MESHES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "FSDP 2": ((2,), (2,)),
    "FSDP 4": ((4,), (4,)),
    "FSDP 8": ((8,), (8,)),
    "HSDP 2 x 2": ((2, 2), (2, 2)),
    "HSDP 2 x 4": ((2, 4), (2, 4)),
    "HSDP 2 x 4, experts over 8": ((2, 4), (8,)),
    "FSDP 8, experts over 8": ((8,), (8,)),
}
"""Mesh of dense parameters and of experts: replicas by shards, or shards. The last two shard experts whole."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--experts", type=int, default=16)
    parser.add_argument("--layers", type=int, default=2)
    options = parser.parse_args()
    model = make_model(options)
    muon = sum(division.parameter.numel() for division in divide(model) if division.blocks is not None)
    print(f"{muon / 1e6:.1f} M parameters in matrices, {muon * 2 / 1e6:.1f} MB in bfloat16\n")
    print("| mesh | largest difference | MB sent | ratio to the least | operations | busiest rank |")
    print("|---|---|---|---|---|---|")
    for name in MESHES:
        with tempfile.TemporaryDirectory() as folder:
            ranks = math.prod(MESHES[name][0])
            multiprocessing.spawn(run, (ranks, name, options, folder), nprocs=ranks)
            rows = [torch.load(Path(folder, str(rank))) for rank in range(ranks)]
        sent, flops = sum(row["sent"] for row in rows), [row["flops"] for row in rows]
        least, single = rows[0]["least"], rows[0]["single"]
        ratio = f"{sent / least:.3f}" if least else "1 (nothing)"
        busiest = max(flops) / (sum(flops) / ranks)
        print(
            f"| {name} | {max(row['difference'] for row in rows):.1e} | {sent / 1e6:.1f} | {ratio} | "
            f"{sum(flops) / single:.3f} | {busiest:.2f} |",
            flush=True,
        )


def make_model(options: argparse.Namespace) -> nn.Module:
    """Return a model with random weights and gradients, the same on every rank."""
    torch.manual_seed(0)
    config = Qwen3MoeConfig(
        hidden_size=options.width,
        num_hidden_layers=options.layers,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=64,
        num_experts=options.experts,
        moe_intermediate_size=options.width * 3 // 8,
        intermediate_size=2 * options.width,
        vocab_size=512,
    )
    model = AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    return model


def run(rank: int, ranks: int, name: str, options: argparse.Namespace, folder: str) -> None:
    """Take steps on one rank, and write what they cost."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/met", rank=rank, world_size=ranks)
    reference = make_model(options)
    single = Muon(divide(reference), 0.02, dtype=torch.float32)
    with FlopCounterMode(display=False) as alone:
        single.step()
    sharded = shard(make_model(options), name)
    Muon(divide(sharded), 0.02, dtype=torch.float32).step()
    difference = max(
        (whole(mine) - other).abs().max().item()
        for mine, other in zip(sharded.parameters(), reference.parameters(), strict=True)
    )
    counted = count(sharded)
    torch.save({**counted, "difference": difference, "single": alone.get_total_flops()}, Path(folder, str(rank)))
    distributed.barrier()
    distributed.destroy_process_group()


def shard(model: nn.Module, name: str) -> nn.Module:
    """Return the model with parameters and gradients as DTensors of a mesh."""
    dense_shape, experts_shape = MESHES[name]
    dense = init_device_mesh("cpu", dense_shape)
    experts = init_device_mesh("cpu", experts_shape)
    for module in list(model.modules()):
        for leaf, parameter in list(module.named_parameters(recurse=False)):
            mesh = experts if parameter.ndim == 3 else dense
            spread = nn.Parameter(_spread(parameter.detach(), mesh))
            spread.grad = _spread(parameter.grad, mesh)
            setattr(module, leaf, spread)
    return model


def _spread(tensor: Any, mesh: DeviceMesh) -> DTensor:
    placements = [Replicate()] * (mesh.ndim - 1) + [Shard(0)]
    return distribute_tensor(tensor, mesh, placements)


def whole(tensor: Tensor) -> Tensor:
    """Return all of a tensor."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def count(model: nn.Module) -> dict[str, float]:
    """Return bytes that this rank sends in a step, its operations, and the least bytes of all ranks."""
    divisions = [division for division in divide(model) if division.blocks is not None]
    optimizer = Muon(divisions, 0.02)
    optimizer.step()
    sent = 0

    def counted(call: Any) -> Any:
        def instead(received: Tensor, given: Tensor, *sizes: Any, group: Any, **keywords: Any) -> Any:
            nonlocal sent
            others = distributed.get_world_size(group) - 1
            me = distributed.get_rank(group)
            sent += sum(sizes[1]) - sizes[1][me] if sizes else given.numel() * others
            return call(received, given, *sizes, group=group, **keywords)

        return instead

    for call in ("all_to_all_single", "all_gather_single"):
        setattr(distributed, call, counted(getattr(distributed, call)))
    with FlopCounterMode(display=False) as counter:
        optimizer.step()
    return {"sent": sent, "flops": counter.get_total_flops(), "least": 2 * least_elements(divisions)}


def least_elements(divisions: Any) -> int:
    """Return the elements that must be sent when each matrix has one owner."""
    spread = layouts([division.parameter for division in divisions])
    shapes = [tuple(division.parameter.shape) for division in divisions]
    total = 0
    for bucket in make_buckets(shapes, [division.blocks for division in divisions], spread):
        for unit in bucket.units:
            parts = [overlap(unit.box, box) for box in spread[unit.index].boxes]
            most = max(volume(box) for box in parts if box is not None)
            total += 2 * (volume(unit.box) - most) + (len(bucket.ranks.table) - 1) * volume(unit.box)
    return total


if __name__ == "__main__":
    main()
