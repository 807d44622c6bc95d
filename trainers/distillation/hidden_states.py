"""Hidden states at error turns: the student's along the rollout, the teacher's with each hint spliced in.

All sites of a rollout share its trunk, so that one forward serves them all: trunk and branches in one row of ids, a
branch's tokens seeing the trunk up to where its hint goes in, and themselves. A model that cannot be given such a mask
(sliding windows, recurrent layers) reads each site by itself; which of the two a model can, its config tells, and it is
tried out once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...errors import UnsuitableModel
from .distill_sites import Site
from .divergence import Head, log_probabilities

_NARROW = "sliding_window attention_chunk_size window_size keep_window_size index_topk index_topk_blocks".split()
"""What configs call the tokens, or blocks of tokens, that some layer sees at most."""


_INSTEAD = "leave out distillation, replay, k1_in_reward and safety.kl_to_base, or train another model"


def head_of(model: Any, temperature: float = 1.0) -> Head:
    """The output head of a causal language model, as far as its config tells; see ``check_head``.

    Raises UnsuitableModel.
    """
    head = model.get_output_embeddings()
    if head is None or getattr(head, "weight", None) is None:
        raise UnsuitableModel(f"{type(model).__name__} has no output head over a vocabulary")
    config = model.config.get_text_config()
    scaling = float(getattr(config, "logits_scaling", None) or 1.0)
    divisor = 1 / scaling if config.model_type == "hyperclovax" else scaling  # Granite divides by it
    divisor /= float(getattr(config, "logit_scale", None) or getattr(config, "lm_head_multiplier", None) or 1.0)
    softcap = float(getattr(config, "final_logit_softcapping", None) or 0.0)
    if softcap and divisor != 1.0:
        raise UnsuitableModel(f"{type(model).__name__} both caps and scales its logits")
    return Head(head.weight, getattr(head, "bias", None), temperature * divisor, softcap)


@torch.no_grad()
def check_head(model: Any) -> None:
    """Raises UnsuitableModel where a model's logits are not those of ``head_of``: where something that no config is
    known to tell happens to them, all that is made of hidden states would be of another distribution than the
    sampled one."""
    training = model.training
    model.eval()
    with torch.autocast(model.device.type, enabled=False):
        ids = torch.arange(4, device=model.device)[None]
        own = model(input_ids=ids, use_cache=False).logits.float()
        try:
            found = head_of(model).logits(_hidden(model, ids))
        except (AttributeError, TypeError, RuntimeError) as error:
            told = str(error).splitlines()[0][:120]
            raise UnsuitableModel(f"{type(model).__name__} is not built as others are ({told}): {_INSTEAD}") from None
    model.train(training)
    if not own.isfinite().all():
        raise UnsuitableModel("the model's own logits are no numbers: its weights hold NaN, or overflow")
    if not torch.allclose(own, found, rtol=0, atol=1e-2 * float(own.abs().max())):
        raise UnsuitableModel(
            f"{type(model).__name__} changes its logits behind its head in an unknown way: {_INSTEAD}"
        )


def check_model(config: Any) -> None:
    """Raises UnsuitableModel for what is no decoder of text alone."""
    name = getattr(config, "model_type", type(config).__name__)
    if getattr(config, "is_encoder_decoder", False):
        raise UnsuitableModel(f"{name} is an encoder-decoder model: train a decoder-only one")
    if getattr(config, "vision_config", None) is not None or getattr(config, "audio_config", None) is not None:
        raise UnsuitableModel(f"{name} reads images or sound: train its text-only variant")


def student_rows(model: Any, ids: Sequence[int], sites: Sequence[Site]) -> Tensor:
    """Hidden states [R, H] that predict the tokens of the sites' responses, along the rollout as it was."""
    end = max(site.end for site in sites)
    hidden = _hidden(model, torch.tensor([list(ids[:end])], device=model.device))
    rows = [row for site in sites for row in range(site.start - 1, site.end - 1)]
    return hidden[0, torch.tensor(rows, device=hidden.device)]


def teacher_rows(model: Any, ids: Sequence[int], sites: Sequence[Site], *, packed: bool) -> Tensor:
    """The same rows [R, H] when each site's hint goes before it."""
    if packed:
        return _packed_rows(model, ids, sites)
    parts = []
    for site in sites:
        hidden = _hidden(model, torch.tensor([site.teacher_ids(ids)], device=model.device))
        length = site.end - site.start
        parts.append(hidden[0, -length - 1 : -1])
    return torch.cat(parts)


def completion_logps(
    model: Any, ids: Tensor, attention: Tensor, keep: int, *, temperature: float = 1.0, rows: int = 8
) -> Tensor:
    """Log-probabilities [B, keep] of the last ``keep`` ids of each row of [B, T], ``rows`` rows in one forward.

    For any model of the kind; TRL's own way is only for one that TRL has patched, which a frozen copy need not be.
    """
    found = []
    for part, seen in zip(ids.split(rows), attention.split(rows), strict=True):
        hidden = _hidden(model, part, attention_mask=seen)[:, -keep - 1 : -1]
        wanted = part[:, -keep:]
        each = log_probabilities(hidden.flatten(0, 1), head_of(model, temperature), wanted.flatten())
        found.append(each.view(wanted.shape))
    return torch.cat(found)


def tokens_read(ids: Sequence[int], sites: Sequence[Site], *, packed: bool) -> int:
    """Tokens that ``teacher_rows`` runs through the model."""
    if not packed:
        return sum(len(site.hint) + site.end for site in sites)
    return _trunk(sites) + sum(len(site.hint) + site.end - site.at for site in sites)


def can_pack(model: Any) -> bool:
    """Whether packed rows equal the rows of single sites in this model: by its config, since most windows are longer
    than what is quickly tried out, and as tried out on a few ids, without autocast: in bfloat16 rounding differs."""
    if not _sees_everything(model.config.get_text_config()):
        return False
    vocabulary = model.config.get_text_config().vocab_size
    ids = [(7 * number + 3) % vocabulary for number in range(24)]
    sites = [Site(0, "", 6, 8, 11, [1, 2], 1.0), Site(1, "", 16, 17, 22, [5], 1.0)]
    with torch.no_grad(), torch.autocast(model.device.type, enabled=False):
        alone = teacher_rows(model, ids, sites, packed=False)
        try:
            together = teacher_rows(model, ids, sites, packed=True)
        except (TypeError, ValueError, RuntimeError, AttributeError, IndexError):
            return False
    scale = alone.float().abs().max().clamp(min=1e-6)
    tolerance = 1e-4 if alone.dtype == torch.float32 else 3e-2
    return bool(((alone - together).float().abs().max() / scale) < tolerance)


def _sees_everything(config: Any) -> bool:
    """Whether each token attends to all before it in each layer: a mask of ours takes the place of the layers' own. A
    window counts also where no layer is listed as using it, as not every model heeds the list."""
    unused = ("sliding_window",) if getattr(config, "use_sliding_window", True) is False else ()
    if any(getattr(config, name, None) for name in _NARROW if name not in unused):
        return False
    return set(getattr(config, "layer_types", None) or ()) <= {"full_attention"}


def _packed_rows(model: Any, ids: Sequence[int], sites: Sequence[Site]) -> Tensor:
    trunk = _trunk(sites)
    packed, positions = list(ids[:trunk]), list(range(trunk))
    rows: list[int] = []
    seen = torch.ones(trunk, trunk, dtype=torch.bool).tril()
    blocks: list[tuple[int, int, int]] = []
    for site in sites:
        branch = [*site.hint, *ids[site.at : site.end]]
        first = len(packed)
        blocks.append((first, len(branch), site.at))
        packed += branch
        positions += range(site.at, site.at + len(branch))
        last = len(packed)
        rows += range(last - (site.end - site.start) - 1, last - 1)
    mask = torch.zeros(len(packed), len(packed), dtype=torch.bool)
    mask[:trunk, :trunk] = seen
    for first, length, at in blocks:
        mask[first : first + length, :at] = True
        mask[first : first + length, first : first + length] = torch.ones(length, length, dtype=torch.bool).tril()
    device = model.device
    hidden = _hidden(
        model,
        torch.tensor([packed], device=device),
        attention_mask=mask[None, None].to(device),
        position_ids=torch.tensor([positions], device=device),
    )
    return hidden[0, torch.tensor(rows, device=device)]


def _trunk(sites: Sequence[Site]) -> int:
    """Ids that branches stand on. A response begins behind its hint, so no row lies in the trunk."""
    return max(site.at for site in sites)


def _hidden(model: Any, ids: Tensor, **more: Tensor) -> Tensor:
    output = model.base_model(input_ids=ids, use_cache=False, **more)
    hidden: Tensor = output.last_hidden_state
    return hidden
