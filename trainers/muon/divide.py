"""Division of a model: which parameters Muon updates, and into which matrices each is divided.

The rules read module structure and shapes, so they hold for sharded models and need no library but PyTorch. They know
the names that Hugging Face's causal language models use for attention, gated feed-forward layers and experts. What they
do not know stays one matrix, which is ordinary Muon; ``describe`` prints the outcome.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from .blocks import COLUMNS, ROWS, Blocks

ADAMW = "adamw"
_INPUTS = frozenset(
    "q_proj k_proj v_proj q_b_proj qkv_proj query_key_value c_attn Wqkv wqkv wq wk wv query key value".split()
)
"""Projections whose outputs are heads beside each other. A fused one is divided by heads in any order of its parts."""
_FUSED = frozenset("qkv_proj query_key_value c_attn Wqkv wqkv".split())
_OUTPUTS = frozenset("o_proj out_proj dense c_proj wo".split())
"""Projections whose inputs are the heads."""
_HEADS = ("num_attention_heads", "num_heads", "n_head")
_WIDTHS = ("hidden_size", "embed_dim", "n_embd")
_GATED = "gate_up_proj"


@dataclass(frozen=True)
class Division:
    """One parameter of a model and what the optimizer does with it."""

    name: str
    parameter: Tensor
    blocks: Blocks | None
    """Division into matrices that Muon updates; None for AdamW."""

    @property
    def algorithm(self) -> str:
        """Name of the algorithm, "muon" or "adamw"."""
        return ADAMW if self.blocks is None else "muon"


def divide(model: nn.Module, overrides: Mapping[str, Blocks | str] | None = None) -> list[Division]:
    """Return the divisions of all parameters that need a gradient, in the model's order.

    ``overrides`` maps patterns of names, as in fnmatch, to ``Blocks()`` or "adamw"; the first that matches decides.
    Raise ValueError when no parameter needs a gradient, when blocks do not fit, or when a pattern matches no name.
    """
    overrides = dict(overrides or {})
    unused = set(overrides)
    looked_up = _looked_up(model)
    divisions, visited = [], set()
    for prefix, module in model.named_modules():
        for leaf, parameter in module.named_parameters(prefix, recurse=False):
            if not parameter.requires_grad or id(parameter) in visited:
                continue
            visited.add(id(parameter))
            pattern = next((pattern for pattern in overrides if fnmatch.fnmatchcase(leaf, pattern)), None)
            if pattern is None:
                blocks = None if id(parameter) in looked_up else _blocks(model, prefix, module, leaf, parameter)
            else:
                unused.discard(pattern)
                blocks = _override(overrides[pattern])
            if blocks is not None:
                blocks.check(parameter.shape)
            divisions.append(Division(leaf, parameter, blocks))
    if unused:
        raise ValueError(f"no trainable parameter matches {', '.join(map(repr, sorted(unused)))}; check the pattern")
    if not divisions:
        raise ValueError("no parameter needs a gradient; unfreeze the model or add adapters before the optimizer")
    return divisions


def describe(divisions: Sequence[Division]) -> str:
    """Return a table of the divisions, with layers that are alike on one line."""
    lines: dict[tuple[str, ...], int] = {}
    for division in divisions:
        name = ".".join("*" if part.isdigit() else part for part in division.name.split("."))
        shape = " x ".join(map(str, division.parameter.shape))
        lines[name, shape, _summary(division)] = lines.get((name, shape, _summary(division)), 0) + 1
    rows = [("parameter", "shape", "number", "update"), *((n, s, str(k), u) for (n, s, u), k in lines.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        f"{name:<{widths[0]}}  {shape:<{widths[1]}}  {number:>{widths[2]}}  {update}"
        for name, shape, number, update in rows
    )


def _summary(division: Division) -> str:
    blocks, shape = division.blocks, division.parameter.shape
    if blocks is None:
        return "AdamW"
    stack = shape[0] if len(shape) == 3 else 1
    parts = [f"{run.number * stack} of {' x '.join(map(str, run.shape(shape)))}" for run in blocks.runs(shape)]
    shown = ", ".join(dict.fromkeys(parts)) if len(parts) < 4 else f"{blocks.count(shape)} of {len(set(parts))} shapes"
    return f"Muon by {blocks.kind}: {shown}"


def _override(value: Blocks | str) -> Blocks | None:
    if isinstance(value, Blocks):
        return value
    if value != ADAMW:
        raise ValueError(f"an override is Blocks or {ADAMW!r}, got {value!r}")
    return None


def _looked_up(model: nn.Module) -> set[int]:
    """Return the ids of the weights of embeddings, and of those that turn hidden states into logits."""
    find = getattr(model, "get_output_embeddings", None)
    head = find() if find is not None else None
    modules = [
        module
        for name, module in model.named_modules()
        if name.rpartition(".")[2] == "lm_head" or isinstance(module, (nn.Embedding, nn.EmbeddingBag))
    ]
    return {id(parameter) for module in [head, *modules] if module is not None for parameter in module.parameters()}


def _blocks(model: nn.Module, prefix: str, module: nn.Module, name: str, parameter: Tensor) -> Blocks | None:
    """Return the division of one parameter, None for AdamW."""
    leaf = name.rpartition(".")[2]
    if min(parameter.shape[-2:], default=1) < 2 or "lora_embedding" in name:
        return None
    if parameter.ndim == 3:
        return (
            _expert_blocks(module, leaf, parameter) if "expert" in f"{prefix}.{type(module).__name__}".lower() else None
        )
    if parameter.ndim != 2 or leaf.endswith("bias"):
        return None
    owner, _, child = prefix.removesuffix(".base_layer").rpartition(".")  # which peft puts around a layer
    parent = model.get_submodule(owner)
    if isinstance(module, nn.MultiheadAttention):
        size = module.head_dim if leaf.endswith("proj_weight") else None
        return _evenly("head", ROWS, size, parameter)
    turned = any(base.__name__ == "Conv1D" for base in type(module).__mro__)  # [inputs, outputs], as in GPT-2
    outputs, inputs = (COLUMNS, ROWS) if turned else (ROWS, COLUMNS)
    if child == _GATED:
        return _gated_blocks(parent, parameter)
    if not _is_attention(parent):
        return Blocks()
    if child in {"kv_b_proj", "kv_a_proj_with_mqa"}:
        return _latent_blocks(parent, child, parameter)
    if child in _INPUTS:
        return _evenly("head", outputs, _first(model, parent, "qk_head_dim", "head_dim", "head_size"), parameter)
    if child in _OUTPUTS:
        return _evenly("head", inputs, _first(model, parent, "v_head_dim", "head_dim", "head_size"), parameter)
    return Blocks()


def _is_attention(module: nn.Module) -> bool:
    """Return whether a module has projections of queries and keys, or a fused one."""
    names = {name for name, _ in module.named_children()} & _INPUTS
    return isinstance(module, nn.MultiheadAttention) or bool(names & _FUSED) or len(names) > 1 or "q_b_proj" in names


def _evenly(kind: str, dim: int, size: int | None, parameter: Tensor) -> Blocks:
    """Return blocks of one size, or one matrix when they do not fill the parameter."""
    length = parameter.shape[dim]
    if not size or size < 2 or length % size:
        return Blocks()
    return Blocks(kind, dim, (size,) * (length // size))


def _first(model: nn.Module, parent: nn.Module, *names: str) -> int | None:
    """Return the first size of heads that the attention module or a configuration gives, the module's own first."""
    for holder in (parent, getattr(parent, "config", None), getattr(model, "config", None)):
        sizes = (_number(holder, name) for name in names)
        if size := next(filter(None, sizes), None):
            return size
        number = next(filter(None, (_number(holder, name) for name in _HEADS)), None)
        width = next(filter(None, (_number(holder, name) for name in _WIDTHS)), None)
        if number and width:
            return width // number
    return None


def _number(holder: object, name: str) -> int | None:
    value = getattr(holder, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _latent_blocks(parent: nn.Module, child: str, parameter: Tensor) -> Blocks:
    """Return the division of multi-head latent attention (DeepSeek-V2, arXiv:2405.04434).

    ``kv_b_proj`` has keys and values of each head in turn; ``kv_a_proj_with_mqa`` the latent and the rotary key.
    """
    names = ("qk_nope_head_dim", "v_head_dim") if child == "kv_b_proj" else ("kv_lora_rank", "qk_rope_head_dim")
    sizes = tuple(value for name in names if isinstance(value := getattr(parent, name, None), int) and value > 1)
    length = parameter.shape[ROWS]
    if len(sizes) < 2 or length % sum(sizes):
        return Blocks()
    kind = "head" if child == "kv_b_proj" else "part"
    return Blocks(kind, ROWS, sizes * (length // sum(sizes)))


def _gated_blocks(parent: nn.Module, parameter: Tensor) -> Blocks:
    """Return gate and up projection of a fused dense layer [2 f, d], whose ``down_proj`` is [d, f]."""
    down = getattr(getattr(parent, "down_proj", None), "weight", None)
    half = parameter.shape[ROWS] // 2
    if down is None or tuple(down.shape) != (parameter.shape[COLUMNS], half) or parameter.shape[ROWS] != 2 * half:
        return Blocks()
    return Blocks("part", ROWS, (half, half))


def _expert_blocks(module: nn.Module, leaf: str, parameter: Tensor) -> Blocks:
    """Return the division of stacked experts. Gate and up projections are two matrices unless they are interleaved."""
    down = getattr(module, "down_proj", None)
    if leaf != _GATED or not isinstance(down, Tensor) or getattr(module, "is_concatenated", True) is False:
        return Blocks("expert")
    layouts = list(_gated_layouts(parameter.shape, down.shape))
    if len(layouts) > 1:
        layouts = [COLUMNS if getattr(module, "is_transposed", False) else ROWS]
    if not layouts:
        return Blocks("expert")
    half = parameter.shape[layouts[0]] // 2
    return Blocks("expert", layouts[0], (half, half))


def _gated_layouts(gate_up: Sequence[int], down: Sequence[int]) -> Iterator[int]:
    if (gate_up[1], gate_up[2]) == (2 * down[2], down[1]):
        yield ROWS
    if (gate_up[1], gate_up[2]) == (down[2], 2 * down[1]):
        yield COLUMNS
