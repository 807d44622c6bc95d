"""Fragments of a model: lists of parameters that DiLoCo exchanges together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_BLOCK = re.compile(r"(?:^|\.)(\d+)\.")


def whole(named_parameters: Iterable[tuple[str, Any]]) -> list[list[tuple[str, Any]]]:
    """Return one fragment with all trainable parameters: DiLoCo without streaming."""
    return [[(name, parameter) for name, parameter in named_parameters if parameter.requires_grad]]


def strided(named_parameters: Iterable[tuple[str, Any]], count: int) -> list[list[tuple[str, Any]]]:
    """Return ``count`` fragments: block i of the model is in fragment i mod ``count``.

    A block is the first number in a parameter's name (``model.layers.7.mlp.weight``). Parameters before the first
    block are in the first fragment, those after the last block in the last one. This is the strided pattern of
    streaming DiLoCo (arXiv:2501.18512, section 2.2). Raise ValueError when there are fewer blocks than fragments.
    """
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}")
    parameters = [(name, parameter) for name, parameter in named_parameters if parameter.requires_grad]
    numbers = [_block(name) for name, _ in parameters]
    blocks = sorted({number for number in numbers if number is not None})
    if len(blocks) < count:
        raise ValueError(f"the model has {len(blocks)} blocks for {count} fragments; use fewer fragments")
    fragments: list[list[tuple[str, Any]]] = [[] for _ in range(count)]
    seen_blocks = False
    for pair, number in zip(parameters, numbers, strict=True):
        seen_blocks = seen_blocks or number is not None
        place = blocks.index(number) % count if number is not None else (count - 1 if seen_blocks else 0)
        fragments[place].append(pair)
    return fragments


def _block(name: str) -> int | None:
    match = _BLOCK.search(name)
    return int(match[1]) if match else None
