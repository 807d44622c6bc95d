"""Attention of TRL's packed rows, and of the plain passes that distillation and replay make through the same model.

TRL packs the samples of a micro-batch into a tree of shared prefixes and loads the model with an attention that only
reads such trees. ``register`` replaces it by one that reads plain ids too.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

from torch import Tensor
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from trl.experimental.async_grpo.packing import TREE_ATTENTION, tree_attention

from ...errors import UnsuitableModel
from ..distillation.hidden_states import READ

_PLAIN = "sdpa"
"""Attention of plain passes. Its masks are those of transformers; a tree has none."""


def check_attention(config: Any) -> None:
    """Raise UnsuitableModel for a config whose attention TRL's trees or our plain passes do not compute."""
    text = config.get_text_config()
    others = sorted(set(getattr(text, "layer_types", None) or ()) - {"full_attention", "sliding_attention"})
    if others:
        raise UnsuitableModel(f"asynchronous training reads no layers of the type {others[0]}; train synchronously")
    if getattr(text, "attn_logit_softcapping", None):
        raise UnsuitableModel(f"{text.model_type} caps the logits of its attention; train it synchronously")


def register() -> None:
    """Replace TRL's attention in transformers' table. TRL registers its own whenever it builds a trainer."""
    AttentionInterface.register(TREE_ATTENTION, attention)


def read_plainly(model: Any) -> None:
    """Let ``hidden_states`` read plain ids, with or without stored keys, through a model that TRL has loaded."""
    setattr(model, READ, MethodType(_read_hidden, model))


def attention(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **options: Any) -> tuple[Tensor, None]:
    """Return the attention [B, T, H, D] of queries [B, H, T, D]: TRL's if the indices of a tree are in ``options``.

    A pass that recomputes its activations has left ``_read_hidden``, so the indices decide, and not the config.
    """
    if "tree_kv_index" not in options:
        plain: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, mask, **options)
        return plain
    tree: tuple[Tensor, None] = tree_attention(module, query, key, value, mask, **options)
    return tree


def _read_hidden(self: Any, **inputs: Any) -> tuple[Tensor]:
    """Return the last hidden states [B, T, H] of plain ids, in a tuple, with transformers' masks."""
    config = self.config.get_text_config()
    before, config._attn_implementation = config._attn_implementation, _PLAIN
    try:
        return (self.base_model(**inputs).last_hidden_state,)
    finally:
        config._attn_implementation = before
