"""Meshes of a plan: over how many ranks dense parameters, experts and sequences are divided."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import RecipeError


@dataclass(frozen=True)
class Mesh:
    """Layout of parameters on the GPUs of a run."""

    gpus: int
    """Ranks."""
    replicas: int = 1
    """Copies of the dense parameters (HSDP); each is sharded over the other ranks."""
    experts: int = 1
    """Ranks over which stacked experts are divided, whole experts first; with 1 they are sharded like other weights."""
    context: int = 1
    """Ranks over which a sequence is divided."""

    @property
    def shards(self) -> int:
        """Return the number of ranks over which one copy of the dense parameters is sharded."""
        return self.gpus // self.replicas


KEYS = ("replicas", "experts", "context")


def mesh_of_recipe(shards: int, gpus: int) -> Mesh:
    """Return the mesh of a run with ``sharding.shards``; with 0 shards every GPU has a copy. Raise RecipeError."""
    if gpus < 1:
        raise RecipeError(f"--gpus must be at least 1, got {gpus}")
    if gpus % max(shards, 1):
        raise RecipeError(f"sharding.shards = {shards} does not divide --gpus {gpus}; plan for a multiple of {shards}")
    return Mesh(gpus, gpus // max(shards, 1))


def parse_mesh(text: str, gpus: int, experts: int) -> Mesh:
    """Return the mesh that a text such as ``replicas=2,experts=8`` describes. ``experts`` are those of one layer.

    Where it does not say, there is one copy, and experts are over as many ranks as divide them. Raise RecipeError.
    """
    if gpus < 1:
        raise RecipeError(f"--gpus must be at least 1, got {gpus}")
    values: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, _, number = part.partition("=")
        if name not in KEYS or not number.isdecimal() or int(number) < 1:
            raise RecipeError(
                f"--mesh {part!r} is not one of {', '.join(KEYS)} with a number; write replicas=2,experts=8"
            )
        if name in values:
            raise RecipeError(f"--mesh names {name} twice; name it once")
        values[name] = int(number)
    spread = next(ranks for ranks in range(min(gpus, max(experts, 1)), 0, -1) if not (gpus % ranks or experts % ranks))
    mesh = Mesh(gpus, values.get("replicas", 1), values.get("experts", spread), values.get("context", 1))
    for name in KEYS:
        if gpus % getattr(mesh, name):
            raise RecipeError(f"--mesh {name}={getattr(mesh, name)} does not divide {gpus} GPUs; choose a divisor")
    if mesh.experts > 1 and not experts:
        raise RecipeError(
            f"--mesh experts={mesh.experts} is for mixtures of experts, which this model is not; remove it"
        )
    if max(experts, 1) % mesh.experts:
        raise RecipeError(f"--mesh experts={mesh.experts} does not divide {experts} experts; choose a divisor")
    return mesh
