"""Peak of tensors in a real step on the CPU: two micro-batches and an update of AdamW.

torch's MemTracker counts it where all parameters learn. It cannot track frozen ones, where ``StorageTracker`` counts.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.distributed._tools.mem_tracker import MemTracker
from transformers import AutoConfig, AutoModelForCausalLM
from trl.trainer.utils import add_fused_lm_head

from etude.trainers.adapters import WithoutAdapters, add_adapters
from etude.trainers.plan.traced_step import StorageTracker, distillation_loss, policy_loss
from etude.trainers.recipe.scale import Lora


def measured_peak(
    table: dict[str, Any],
    rows: int,
    length: int,
    *,
    half: bool = False,
    lora: Lora | None = None,
    checkpointing: bool = False,
    distillation: bool = False,
) -> int:
    """Return the most bytes that tensors have at once in the second of two steps of training.

    A loss is TRL's fused head on padded rows and, with ``distillation``, the divergence from a frozen teacher too.
    """
    torch.manual_seed(0)
    lora = lora or Lora()
    dtype = torch.bfloat16 if half and lora.rank else torch.float32
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**table), dtype=dtype)
    teacher = copy.deepcopy(model).requires_grad_(False) if distillation and not lora.rank else None
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    student = add_adapters(model, lora) if lora.rank else model
    if distillation and lora.rank:
        teacher = WithoutAdapters(student)
    if checkpointing:
        student.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if lora.rank:
            student.enable_input_require_grads()
    student.train()
    optimizer = torch.optim.AdamW([p for p in student.parameters() if p.requires_grad], fused=True)
    ids = torch.randint(0, table["vocab_size"], (rows, length))
    mask = torch.ones_like(ids)
    mask[:, :3] = 0  # a row without padding would need no mask of its own in attention
    models = [student, *([teacher] if isinstance(teacher, torch.nn.Module) else [])]

    def step() -> None:
        for _ in range(2):
            loss = policy_loss(student, ids, mask, half=half)
            if teacher is not None:
                loss = loss + distillation_loss(student, teacher, ids, half=half)
            loss.backward()
            del loss
            between()
        optimizer.step()

    def between() -> None:
        if isinstance(tracker, MemTracker):
            tracker.reset_mod_stats()  # it reads a module once only

    tensors = {t.untyped_storage()._cdata: t for m in models for t in (*m.parameters(), *m.buffers())}
    learning = all(p.requires_grad for m in models for p in m.parameters())
    tracker = MemTracker() if learning else StorageTracker(tensors.values())
    if isinstance(tracker, MemTracker):
        tracker.track_external(student, optimizer)
    with tracker:
        step()
        optimizer.zero_grad()
        step()
    if isinstance(tracker, MemTracker):
        return int(tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"])
    return tracker.peak + sum(t.untyped_storage().nbytes() for t in tensors.values())
