"""Plan of one step of training: operations, bytes and seconds, each from a formula that its line names.

Assumptions are the fields of ``Assumptions``, which can be changed. Nothing is measured here; docs/plan.md compares
plans with what was measured and published.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ..muon.coefficients import newton_schulz_flops
from ..muon.sharding.exchange_plan import Bucket, make_buckets
from ..muon.sharding.shards import Box, Layout, Ranks, overlap, volume, whole
from .assumptions import Assumptions
from .hardware import Gpu
from .mesh import Mesh
from .model_shapes import ModelShapes, Parameter
from .traced_step import Passes, trace

WIRE = 2
"""Bytes of a weight or a matrix that travels, in bfloat16."""
HALF, FULL = 2, 4


@dataclass(frozen=True)
class Line:
    """One collective of a step."""

    name: str
    bytes: float
    """Bytes that one rank sends in a step."""
    seconds: float
    """Time at the assumed bandwidth, before anything is hidden."""


@dataclass(frozen=True)
class MuonPlan:
    """Cost of Muon in one step."""

    flops: float
    """Operations of all ranks."""
    busiest: float
    """Operations of the busiest rank."""
    bytes: float
    """Bytes that the average rank sends."""
    seconds: float
    """Time: products, memory, and the communication that nothing hides."""


@dataclass(frozen=True)
class StepPlan:
    """Plan of one step."""

    flops: float
    """Operations of forward and backward passes, of all ranks."""
    memory: dict[str, float]
    """Bytes of one rank by use."""
    collectives: tuple[Line, ...]
    muon: MuonPlan
    seconds: float
    """Time of the step, Muon included."""
    dollars_per_billion: float
    """Price of a billion tokens."""

    @property
    def muon_share(self) -> float:
        """Return Muon's share of the step."""
        return self.muon.seconds / self.seconds


def plan_step(shapes: ModelShapes, mesh: Mesh, gpu: Gpu, assumptions: Assumptions) -> StepPlan:
    """Return the plan of a step of supervised or policy-gradient training. Sampling is not part of it."""
    passes = (2 if shapes.adapters else 3) + assumptions.recompute  # frozen weights need no gradient
    passes += assumptions.distillation * (passes + 1)
    flops = shapes.forward_flops(assumptions.tokens, assumptions.length) * passes
    lines = collectives(shapes, mesh, gpu, assumptions)
    muon = plan_muon(shapes, mesh, gpu, assumptions)
    compute = flops * idle_factor(mesh, assumptions) / mesh.gpus / (gpu.flops * assumptions.utilisation)
    seconds = compute + sum(line.seconds for line in lines) * (1 - assumptions.overlap) + muon.seconds
    dollars = seconds * mesh.gpus * assumptions.dollars / 3600
    memory = memory_of_a_rank(shapes, mesh, assumptions)
    if assumptions.vllm:
        memory["vLLM"] = assumptions.vllm * gpu.memory
    return StepPlan(flops, memory, lines, muon, seconds, dollars / assumptions.tokens * 1e9)


def idle_factor(mesh: Mesh, assumptions: Assumptions) -> float:
    """Return the time of a step relative to one in which sequences divide evenly among the GPUs."""
    even = assumptions.tokens * mesh.context / (assumptions.length * mesh.gpus)
    return math.ceil(even) / even


def memory_of_a_rank(
    shapes: ModelShapes, mesh: Mesh, assumptions: Assumptions, *, gpu: bool = True
) -> dict[str, float]:
    """Return the bytes of one rank by use: formulas for what is stored, and a trace of the passes of a micro-batch.

    Weights, gradients, states and copies are sharded; two layers and the head are gathered in the type of the
    computation, and a gathered layer has a gradient in both types. ``gpu`` is explained in ``traced_step.Passes``.
    """
    held: dict[str, float] = defaultdict(float)
    wire, lora = _wire(assumptions), shapes.lora.rank > 0
    trained = float(shapes.adapters)
    for parameter in shapes.parameters:
        size = parameter.size / _ranks_of(parameter, mesh)
        held["copies of weights"] += size * FULL * assumptions.copies
        if lora:
            held["frozen weights"] += size * wire
            continue
        trained += size
        held["weights in float32"] += size * FULL
        held["gradients"] += size * assumptions.gradient
        held["optimizer"] += size * (FULL if assumptions.muon and parameter.blocks is not None else 2 * FULL)
    held["adapters, gradients and states"] = shapes.adapters * 4 * FULL
    held["gradients of channels"] = assumptions.norms * trained * FULL
    if mesh.shards == 1:
        held["gradient buckets"] = trained * FULL * (mesh.gpus > 1)
    else:
        layer = _dense(shapes, mesh) / shapes.layers
        held["two gathered layers and the head"] = wire * (2 * layer + shapes.vocabulary * shapes.hidden)
        held["gradient of a gathered layer"] = 0 if lora else (wire + FULL) * layer
        held["experts in the type of the computation"] = wire * (shapes.total - _dense(shapes, mesh)) / mesh.experts
    passes = Passes(
        assumptions.micro,
        max(assumptions.length // mesh.context, 1),
        half=bool(assumptions.half),
        lora=shapes.lora,
        checkpointing=assumptions.recompute > 0,
        distillation=bool(assumptions.distillation),
        sharded=mesh.shards > 1,
        expert_ranks=mesh.experts,
        gpu=gpu,
    )
    traced = trace(shapes.config, passes)
    held["activations"], held["temporary tensors"] = traced.activations, traced.temporary
    if assumptions.sampling:
        passing = [held[name] for name in ("two gathered layers and the head", "activations", "temporary tensors")]
        held["sampling beyond the passes"] = max(_sampling_bytes(shapes, mesh, assumptions) - sum(passing), 0)
    return {name: size for name, size in held.items() if size}


def _sampling_bytes(shapes: ModelShapes, mesh: Mesh, assumptions: Assumptions) -> float:
    """Return the bytes of gathered weights, and of keys and values of all sequences of a rank."""
    weights = shapes.total if mesh.shards > 1 else 0
    text = shapes.config.get_text_config()
    heads = getattr(text, "num_key_value_heads", None) or shapes.heads
    cached = assumptions.tokens / mesh.gpus * shapes.layers * heads * (shapes.query + shapes.value)
    return (weights + cached) * _wire(assumptions)


def collectives(shapes: ModelShapes, mesh: Mesh, gpu: Gpu, assumptions: Assumptions) -> tuple[Line, ...]:
    """Return the collectives of forward and backward passes; ring formulas, (n - 1) / n of the data for each rank."""
    dense = _dense(shapes, mesh)
    experts = shapes.total - dense
    learning = 0.0 if shapes.lora.rank else 1.0
    reads = (1 + assumptions.distillation) * max(
        assumptions.tokens * mesh.context / (mesh.gpus * assumptions.micro * assumptions.length), 1
    )
    shards, copies = mesh.shards, mesh.gpus // mesh.experts
    tokens = assumptions.tokens / mesh.gpus
    exchanged = tokens * shapes.chosen * shapes.hidden * HALF * _share(mesh.experts)
    layers = shapes.layers if experts else 0
    per_layer = 2 * (2 + assumptions.recompute)  # dispatch and combine, forward, backward and repeated
    names = [
        ("gather dense weights", 2 * reads * dense * _wire(assumptions) * _share(shards), shards),
        ("scatter dense gradients", reads * learning * dense * assumptions.gradient * _share(shards), shards),
        ("sum replicas' gradients", learning * _sum_bytes(dense / shards, assumptions, mesh.replicas), mesh.gpus),
        ("sum adapters' gradients", _sum_bytes(shapes.adapters, assumptions, mesh.gpus), mesh.gpus),
        ("tokens to experts and back", exchanged * layers * per_layer, mesh.experts),
        ("sum experts' gradients", learning * _sum_bytes(experts / mesh.experts, assumptions, copies), mesh.gpus),
        ("keys and values of other parts", _context_bytes(shapes, mesh, assumptions), mesh.context),
    ]
    return tuple(
        Line(name, sent, sent / (_link(gpu, ranks) * assumptions.bandwidth)) for name, sent, ranks in names if sent
    )


def plan_muon(shapes: ModelShapes, mesh: Mesh, gpu: Gpu, assumptions: Assumptions) -> MuonPlan:
    """Return Muon's cost, from the plan that the optimizer itself would make."""
    matrices = [parameter for parameter in shapes.parameters if assumptions.muon and parameter.blocks is not None]
    spread = layouts_of(matrices, mesh)
    buckets = make_buckets([m.shape for m in matrices], [m.blocks for m in matrices if m.blocks], spread)
    load: dict[int, float] = defaultdict(float)
    for bucket in buckets:
        cost = newton_schulz_flops(*bucket.shape)
        for unit in bucket.units:
            load[bucket.ranks.table[unit.replica][unit.shard]] += unit.number * cost
    sent = WIRE * elements_sent(buckets, spread) / mesh.gpus
    local_size = sum(matrix.size / _ranks_of(matrix, mesh) for matrix in matrices)
    compute = max(load.values(), default=0.0) / (gpu.flops * assumptions.muon_utilisation)
    memory = local_size * 4 * FULL / gpu.memory_bytes  # gradient and momentum are read, momentum and weight written
    link = _link(gpu, mesh.gpus if _crosses(mesh) else mesh.shards)
    talk = sent / (link * assumptions.bandwidth)
    hidden = min(talk * assumptions.overlap, compute)
    total = sum(load.values())
    return MuonPlan(total, max(load.values(), default=0.0), sent, compute + memory + talk - hidden)


def layouts_of(parameters: Sequence[Parameter], mesh: Mesh) -> list[Layout]:
    """Return where each parameter is: dense ones over the shards of each replica, experts over their own ranks."""
    dense = _table(mesh.replicas, mesh.shards)
    experts = _table(mesh.gpus // mesh.experts, mesh.experts)
    result = []
    for parameter in parameters:
        ranks = experts if parameter.is_expert and mesh.experts > 1 else dense
        result.append(Layout(ranks, tuple(_rows(parameter.shape, len(ranks.table[0])))))
    return result


def elements_sent(buckets: Sequence[Bucket], spread: Sequence[Layout]) -> int:
    """Return the elements that all ranks send in one step of Muon.

    A cut matrix travels to its owner and back, without the owner's own part; each other replica gets every matrix.
    """
    total = 0
    for bucket in buckets:
        for unit in bucket.units:
            size = volume(unit.box)
            if unit.home is None:
                held = overlap(unit.box, spread[unit.index].boxes[unit.shard])
                total += 2 * (size - (0 if held is None else volume(held)))
            total += (len(bucket.ranks.table) - 1) * size
    return total


def _table(replicas: int, shards: int) -> Ranks:
    return Ranks(tuple(tuple(range(row * shards, (row + 1) * shards)) for row in range(replicas)))


def _rows(shape: Sequence[int], shards: int) -> list[Box]:
    """Return the parts of a tensor sharded along its first dimension, as torch cuts it."""
    step = -(-shape[0] // shards)
    edges = [min(step * place, shape[0]) for place in range(shards + 1)]
    return [((first, stop), *whole(shape[1:])) for first, stop in zip(edges, edges[1:], strict=False)]


def _ranks_of(parameter: Parameter, mesh: Mesh) -> int:
    return mesh.experts if parameter.is_expert and mesh.experts > 1 else mesh.shards


def _dense(shapes: ModelShapes, mesh: Mesh) -> int:
    """Return the number of parameters that are sharded and gathered, without experts that stay where they are."""
    return shapes.total - (shapes.expert_size if mesh.experts > 1 else 0)


def _wire(assumptions: Assumptions) -> int:
    """Return the bytes of a gathered weight's element."""
    return HALF if assumptions.half else FULL


def _sum_bytes(elements: float, assumptions: Assumptions, ranks: int) -> float:
    """Return the bytes that a rank sends to sum gradients over ``ranks``."""
    return 2 * elements * assumptions.gradient * _share(ranks)


def _share(ranks: int) -> float:
    return (ranks - 1) / ranks


def _link(gpu: Gpu, ranks: int) -> float:
    """Return the bytes per second between so many ranks: those of the node while they fit in it."""
    return gpu.node_bytes if ranks <= gpu.node else gpu.network_bytes


def _crosses(mesh: Mesh) -> bool:
    """Return whether replicas, of dense parameters or of experts, send results to each other."""
    return mesh.replicas > 1 or mesh.gpus > mesh.experts > 1


def _context_bytes(shapes: ModelShapes, mesh: Mesh, assumptions: Assumptions) -> float:
    """Return the bytes of keys and values that a rank sends round a ring, forward, backward and repeated."""
    tokens = assumptions.tokens / mesh.gpus
    width = shapes.heads * (shapes.query + shapes.value)
    return tokens * width * HALF * shapes.layers * (mesh.context - 1) * (2 + assumptions.recompute)
