"""GPUs that plans know, with the figures of their data sheets."""

from __future__ import annotations

from dataclasses import dataclass

GIB, GIGA = 2**30, 10**9


@dataclass(frozen=True)
class Gpu:
    """Figures of one GPU, per second where they are rates."""

    flops: float
    """Dense matrix operations in bfloat16."""
    memory: float
    """Bytes of memory."""
    memory_bytes: float
    """Bytes that memory reads or writes."""
    node_bytes: float
    """Bytes that one GPU sends to others of its node."""
    network_bytes: float
    """Bytes that one GPU sends to other nodes."""
    node: int = 8
    """GPUs of one node."""


GPUS = {
    "h100": Gpu(989e12, 80 * GIB, 3350 * GIGA, 450 * GIGA, 50 * GIGA),
    "h200": Gpu(989e12, 141 * GIB, 4800 * GIGA, 450 * GIGA, 50 * GIGA),
    "b200": Gpu(2250e12, 180 * GIB, 8000 * GIGA, 900 * GIGA, 50 * GIGA),
    "gb300": Gpu(2500e12, 279 * GIB, 8000 * GIGA, 900 * GIGA, 100 * GIGA, node=72),
}
"""GPUs by name. One direction of NVLink; one 400 Gbit/s network port for each GPU, 800 Gbit/s for gb300."""
