"""Hidden states at distillation sites: the student's along the rollout, the teacher's with each hint inserted.

All sites of a rollout share its ids up to the last site, the trunk. It is read once, its keys and values are stored,
and each branch, which is a hint and the ids after it, attends to itself and to the keys of the trunk up to the place of
the hint. So memory grows with the ids and not with their square, and every kind of attention may be used. A model whose
keys and values do not say all of its past (sliding windows, recurrent layers) reads each site separately. ``can_pack``
decides that from the model's config and a test on a few ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from ...errors import UnsuitableModel
from .distill_sites import Site
from .divergence import Head, log_probabilities

READ = "read_hidden"
"""Name of a model's own method that reads hidden states; it returns them in a tuple."""
_NARROW = "sliding_window attention_chunk_size window_size keep_window_size index_topk index_topk_blocks".split()
"""Names in configs for the number of tokens, or blocks of tokens, that some layer attends to at most."""

_REMEDY = "leave out distillation, replay, k1_in_reward and safety.kl_to_base, or train another model"


def head_of(model: Any, temperature: float = 1.0) -> Head:
    """Return the output head of a causal language model according to its config; ``check_head`` tests it.

    Raise UnsuitableModel.
    """
    head = model.get_output_embeddings()
    if head is None or getattr(head, "weight", None) is None:
        raise UnsuitableModel(f"{type(model).__name__} has no output head over a vocabulary; train another model")
    config = model.config.get_text_config()
    scaling = float(getattr(config, "logits_scaling", None) or 1.0)
    divisor = 1 / scaling if config.model_type == "hyperclovax" else scaling  # Granite divides by it
    divisor /= float(getattr(config, "logit_scale", None) or getattr(config, "lm_head_multiplier", None) or 1.0)
    softcap = float(getattr(config, "final_logit_softcapping", None) or 0.0)
    if softcap and divisor != 1.0:
        raise UnsuitableModel(f"{type(model).__name__} both caps and scales its logits; train another model")
    return Head(head.weight, getattr(head, "bias", None), temperature * divisor, softcap)


@torch.no_grad()
def check_head(model: Any) -> None:
    """Raise UnsuitableModel if a model's logits are not those of ``head_of``.

    A model may change its logits in a way that no known config key describes. Everything computed from its hidden
    states would then belong to another distribution than the sampled one.
    """
    name, training = type(model).__name__, model.training
    model.eval()
    with torch.autocast(model.device.type, enabled=False):
        ids = torch.arange(4, device=model.device)[None]
        logits = model(input_ids=ids, use_cache=False).logits.float()
        try:
            hidden = hidden_states(model, ids)  # before the head, which a sharded model makes whole for this pass
            head_logits = head_of(model).logits(hidden)
        except (AttributeError, TypeError, RuntimeError) as error:
            message = str(error).splitlines()[0][:120]
            raise UnsuitableModel(f"{name} has an unknown structure ({message}); {_REMEDY}") from None
    model.train(training)
    if not logits.isfinite().all():
        raise UnsuitableModel("the model's logits are not finite: its weights hold NaN or overflow; repair them")
    if not torch.allclose(logits, head_logits, rtol=0, atol=1e-2 * float(logits.abs().max())):
        raise UnsuitableModel(f"{name} changes its logits after its head in an unknown way; {_REMEDY}")


def check_model(config: Any) -> None:
    """Raise UnsuitableModel if the config is not that of a decoder of text alone."""
    name = getattr(config, "model_type", type(config).__name__)
    if getattr(config, "is_encoder_decoder", False):
        raise UnsuitableModel(f"{name} is an encoder-decoder model; train a decoder-only one")
    if getattr(config, "vision_config", None) is not None or getattr(config, "audio_config", None) is not None:
        raise UnsuitableModel(f"{name} reads images or sound; train its text-only variant")


def hidden_states(model: Any, ids: Tensor, **options: Any) -> Tensor:
    """Return the last hidden states [B, T, H] of ids [B, T]. ``options`` are inputs of the model, such as its mask.

    A sharded model and a teacher without its adapters read them by a method of their own, ``READ``.
    """
    inputs: dict[str, Any] = {"input_ids": ids, "use_cache": False, **options}
    read = getattr(model, READ, None)
    hidden: Tensor = read(**inputs)[0] if read else model.base_model(**inputs).last_hidden_state
    return hidden


def student_rows(model: Any, ids: Sequence[int], sites: Sequence[Site]) -> Tensor:
    """Return the student's hidden states [R, H], which predict the tokens of the sites along the original rollout."""
    end = max(site.end for site in sites)
    hidden = hidden_states(model, torch.tensor([list(ids[:end])], device=model.device))
    rows = [row for site in sites for row in range(site.start - 1, site.end - 1)]
    return hidden[0, torch.tensor(rows, device=hidden.device)]


def teacher_rows(model: Any, ids: Sequence[int], sites: Sequence[Site], *, packed: bool) -> Tensor:
    """Return the teacher's hidden states [R, H] for the same tokens, with each site's hint inserted before it."""
    if packed and len(sites) > 1:
        return _branch_rows(model, ids, sites)
    parts = []
    for site in sites:
        hidden = hidden_states(model, torch.tensor([site.teacher_ids(ids)], device=model.device))
        length = site.end - site.start
        parts.append(hidden[0, -length - 1 : -1])
    return torch.cat(parts)


def completion_logps(
    model: Any, ids: Tensor, attention: Tensor, length: int, *, temperature: float = 1.0, rows: int = 8
) -> Tensor:
    """Return the log-probabilities [B, length] of the last ``length`` ids of each row of ids [B, T].

    ``rows`` rows are in one forward pass. This works for any suitable model; TRL's own function needs a model that TRL
    has patched, which a frozen copy need not be.
    """
    blocks = []
    for block, mask in zip(ids.split(rows), attention.split(rows), strict=True):
        hidden = hidden_states(model, block, attention_mask=mask)[:, -length - 1 : -1]
        tokens = block[:, -length:]
        logps = log_probabilities(hidden.flatten(0, 1), head_of(model, temperature), tokens.flatten())
        blocks.append(logps.view(tokens.shape))
    return torch.cat(blocks)


def tokens_read(ids: Sequence[int], sites: Sequence[Site], *, packed: bool) -> int:
    """Return the number of tokens that ``teacher_rows`` runs through the model."""
    if not packed or len(sites) < 2:
        return sum(len(site.hint) + site.end for site in sites)
    return _trunk(sites) + sum(len(site.hint) + site.end - site.at for site in sites)


def passes(sites: Sequence[Site], *, packed: bool) -> int:
    """Return the number of forward passes that ``teacher_rows`` makes."""
    return len(sites) + (packed and len(sites) > 1)


def can_pack(model: Any) -> bool:
    """Return whether rows of branches equal the rows of separate sites in this model.

    Its config decides first, since most attention windows are longer than a quick test. The test on a few ids runs
    without autocast, because rounding in bfloat16 differs.
    """
    if not _has_full_attention(model.config.get_text_config()):
        return False
    vocabulary = model.config.get_text_config().vocab_size
    ids = [(7 * number + 3) % vocabulary for number in range(24)]
    sites = [Site(0, "", 6, 8, 11, [1, 2], 1.0), Site(1, "", 16, 17, 22, [5], 1.0)]
    with torch.no_grad(), torch.autocast(model.device.type, enabled=False):
        separate = teacher_rows(model, ids, sites, packed=False)
        try:
            packed = teacher_rows(model, ids, sites, packed=True)
        except (TypeError, ValueError, RuntimeError, AttributeError, IndexError):
            return False
    scale = separate.float().abs().max().clamp(min=1e-6)
    tolerance = 1e-4 if separate.dtype == torch.float32 else 3e-2
    return bool(((separate - packed).float().abs().max() / scale) < tolerance)


def _has_full_attention(config: Any) -> bool:
    """Return whether every token attends to all earlier ones in every layer, so that our mask can replace the model's.

    A window counts even if no layer is listed as using it, because not every model reads that list.
    """
    unused = ("sliding_window",) if getattr(config, "use_sliding_window", True) is False else ()
    if any(getattr(config, name, None) for name in _NARROW if name not in unused):
        return False
    return set(getattr(config, "layer_types", None) or ()) <= {"full_attention"}


def _branch_rows(model: Any, ids: Sequence[int], sites: Sequence[Site]) -> Tensor:
    """Return the teacher's hidden states [R, H] from one pass over the trunk and one over each branch.

    Branches are read from the last to the first, so that the stored keys are only ever cut.
    """
    cache, rows = DynamicCache(), dict[int, Tensor]()
    with _evaluating(model):
        _read(model, ids[: _trunk(sites)], cache)
        for number in sorted(range(len(sites)), key=lambda number: -sites[number].at):
            site = sites[number]
            # The id before the first token predicts it, and must be in the branch.
            first = site.at if site.hint or site.start > site.at else site.at - 1
            cache.crop(first - cache.get_seq_length())  # a negative number is removed
            hidden = _read(model, [*ids[first : site.at], *site.hint, *ids[site.at : site.end]], cache)
            rows[number] = hidden[-(site.end - site.start) - 1 : -1]
    return torch.cat([rows[number] for number in range(len(sites))])


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Put a model into evaluation: one that computes activations again stores no keys in training."""
    training = getattr(model, "training", False)
    if training:
        model.eval()
    try:
        yield
    finally:
        if training:
            model.train()


def _read(model: Any, ids: Sequence[int], cache: DynamicCache) -> Tensor:
    """Return the hidden states [T, H] of ids after those in the cache, to which theirs are added."""
    options: dict[str, Any] = {"past_key_values": cache, "use_cache": True}
    return hidden_states(model, torch.tensor([list(ids)], device=model.device), **options)[0]


def _trunk(sites: Sequence[Site]) -> int:
    """Return the length of the trunk. A response begins after its hint, so no row lies in the trunk."""
    return max(site.at for site in sites)
