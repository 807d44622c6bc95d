"""Text of a plan, and plans of recipes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from ...errors import RecipeError
from ..recipe.load import load
from ..recipe.recipe import Recipe
from ..run.memory_check import VLLM_SHARE, copies_of_weights, samples_itself
from .assumptions import Assumptions
from .hardware import GIB, GPUS, Gpu
from .mesh import Mesh, mesh_of_recipe, parse_mesh
from .model_shapes import ModelShapes, model_shapes, read_config
from .step import StepPlan, plan_step

MODELS = Path(__file__).parents[2] / "benchmarks" / "models"
"""Folder with the config.json of each model that a shipped recipe names, by the last part of its name."""
_SHARES = (
    "utilisation",
    "muon_utilisation",
    "bandwidth",
    "overlap",
    "muon",
    "half",
    "distillation",
    "sampling",
    "vllm",
)
_MAY_BE_ZERO = (
    "overlap",
    "recompute",
    "dollars",
    "muon",
    "half",
    "distillation",
    "copies",
    "norms",
    "sampling",
    "vllm",
)


def plan_of(
    source: Path, gpus: int, gpu: str, mesh: str, changes: Sequence[str] = ()
) -> tuple[ModelShapes, Mesh, Assumptions, StepPlan]:
    """Return the plan of a recipe (TOML) or of a model's ``config.json``. Raise RecipeError."""
    if gpu not in GPUS:
        raise RecipeError(f"unknown GPU {gpu!r}; choose one of {', '.join(GPUS)}")
    recipe = load(source, []) if source.suffix == ".toml" else None
    config = read_config(source if recipe is None else _config_file(recipe))
    assumptions = changed(Assumptions() if recipe is None else _assumptions(recipe), changes)
    try:
        shapes = model_shapes(config, recipe.lora if recipe else None)
    except (ArithmeticError, AttributeError, RuntimeError, TypeError, ValueError) as error:
        first = str(error).partition("\n")[0][:200]
        raise RecipeError(f"{source} is not the config.json of a causal language model ({first}); name one") from error
    if recipe is not None and not mesh:
        layout = mesh_of_recipe(recipe.sharding.shards, gpus)
    else:
        layout = parse_mesh(mesh, gpus, shapes.experts)
    if layout.context > assumptions.length:
        raise RecipeError(f"--mesh context={layout.context} is more than length={assumptions.length}; lower it")
    return shapes, layout, assumptions, plan_step(shapes, layout, GPUS[gpu], assumptions)


def changed(assumptions: Assumptions, changes: Sequence[str]) -> Assumptions:
    """Return the assumptions with ``KEY=VALUE`` changes. Raise RecipeError for unknown keys and for no number."""
    names = {field.name: type(getattr(assumptions, field.name)) for field in fields(assumptions)}
    for change in changes:
        name, _, text = change.partition("=")
        try:
            value = names[name](float(text))
        except KeyError:
            raise RecipeError(f"unknown assumption {name!r}; choose one of {', '.join(names)}") from None
        except ValueError:
            raise RecipeError(f"assumption {name} must be a number, got {text!r}") from None
        except OverflowError:
            raise RecipeError(f"assumption {name} must be finite, got {text}") from None
        if not 0 <= value < math.inf or (value == 0 and name not in _MAY_BE_ZERO):
            raise RecipeError(f"assumption {name} must be positive, got {text}")
        if name in _SHARES and value > 1:
            raise RecipeError(f"assumption {name} is a share, at most 1, got {text}")
        assumptions = replace(assumptions, **{name: value})
    return assumptions


def _config_file(recipe: Recipe) -> Path:
    """Return the config.json of a recipe's model: in its folder, or of a model that a shipped recipe names."""
    name = recipe.model.name
    folder = Path(name, "config.json")
    shipped = MODELS / f"{name.rpartition('/')[2].lower()}.json"
    if not folder.is_file() and not shipped.is_file():
        raise RecipeError(
            f"model.name {name!r} is not a folder with a config.json; download the model's config.json and plan that "
            "file"
        )
    return folder if folder.is_file() else shipped


def _assumptions(recipe: Recipe) -> Assumptions:
    train, channels = recipe.train, recipe.channels
    reinforced = recipe.stage == "rl"
    episodes = train.prompts * train.group if reinforced else recipe.sft.batch
    used = sum(channel.used for channel in (channels.rlvr, channels.distillation, channels.replay))
    norms = used if used > 1 and train.gradients_every and not recipe.sharding.shards else 0
    return Assumptions(
        tokens=episodes * recipe.generation.max_ids,
        length=recipe.generation.max_ids,
        micro=train.micro,
        recompute=float(train.gradient_checkpointing),
        half=int(recipe.model.dtype == "bfloat16"),
        muon=int(recipe.optimizer.name == "muon"),
        distillation=int(reinforced and channels.distillation.used),
        copies=copies_of_weights(recipe) if reinforced else 0,
        norms=norms if reinforced else 0,
        sampling=int(samples_itself(recipe)),
        vllm=VLLM_SHARE * (reinforced and recipe.generation.vllm == "colocate"),
    )


def rows(shapes: ModelShapes, mesh: Mesh, plan: StepPlan, gpu: Gpu, assumptions: Assumptions) -> list[dict[str, str]]:
    """Return the lines of the plan: what, how much, and by which rule."""
    memory = sum(plan.memory.values())
    fits = "fits" if memory < gpu.memory else "does not fit"
    lines = [
        ("parameters", _number(shapes.total), f"{_number(shapes.active)} for one token; {shapes.experts} experts"),
        ("mesh", f"{mesh.gpus} GPUs", f"{mesh.replicas} x {mesh.shards} dense, experts over {mesh.experts}"),
        (
            "operations of a step",
            f"{plan.flops / 1e15:,.1f} PFLOP",
            "forward, backward, recomputation, attention; distillation if used",
        ),
        *((f"memory: {name}", f"{size / GIB:,.1f} GiB", "a GPU") for name, size in plan.memory.items()),
        ("memory", f"{memory / GIB:,.1f} GiB", f"of {gpu.memory / GIB:.0f} GiB: {fits}"),
        *((line.name, f"{line.bytes / 1e9:,.2f} GB", f"{line.seconds:.3f} s a GPU") for line in plan.collectives),
        *(_muon_rows(plan, mesh) if plan.muon.flops else ()),
        ("step", f"{plan.seconds:.2f} s", f"{assumptions.tokens / plan.seconds:,.0f} tokens a second"),
        ("price", f"${plan.dollars_per_billion:,.0f}", "a billion tokens, sampling not included"),
    ]
    return [{"what": what, "plan": size, "note": note} for what, size, note in lines]


def _muon_rows(plan: StepPlan, mesh: Mesh) -> list[tuple[str, str, str]]:
    return [
        ("Muon: operations", f"{plan.muon.flops / 1e15:,.3f} PFLOP", "Newton-Schulz, five steps, nothing twice"),
        ("Muon: busiest GPU", f"{plan.muon.busiest / 1e12:,.2f} TFLOP", f"{_imbalance(plan, mesh):.2f} x the mean"),
        ("Muon: exchange", f"{plan.muon.bytes / 1e9:,.3f} GB", "a GPU"),
        ("Muon: time", f"{plan.muon.seconds:.3f} s", f"{plan.muon_share:.1%} of the step"),
    ]


def table(shapes: ModelShapes, mesh: Mesh, assumptions: Assumptions, plan: StepPlan) -> Mapping[str, Any]:
    """Return the plan as a table for JSON."""
    return {
        "parameters": shapes.total,
        "active": shapes.active,
        "mesh": asdict(mesh),
        "assumptions": asdict(assumptions),
        **asdict(plan),
        "muon_share": plan.muon_share,
    }


def _imbalance(plan: StepPlan, mesh: Mesh) -> float:
    return plan.muon.busiest * mesh.gpus / plan.muon.flops if plan.muon.flops else 1.0


def _number(count: float) -> str:
    return f"{count / 1e12:.3f} T" if count >= 1e12 else f"{count / 1e9:.3f} B"
