"""Three ways to learn a family of drills: SFT on demonstrations, GRPO, and self-distillation (SDFT).

SDFT (arXiv:2601.19897): the policy plays the task itself. The teacher is an average of the policy's own weights that
also reads a demonstration; the student learns its distribution over every token that the student sampled. Here a
demonstration is one of the due call, inserted before its turn as a hint, because the base reads no longer ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from etude.environments.drill.session import DrillSession
from etude.environments.drill.tasks import default_drills
from etude.models import ErrorTurn, Hint
from etude.research.continual.demonstrated import calls_of_turn, demonstration_text, due_call
from etude.research.effort.base import TEMPLATE
from etude.research.effort.dialogues import Call, Row
from etude.trainers.chat.chat_policy import TemplateChat, never_samples
from etude.trainers.distillation.distill_sites import Site
from etude.trainers.grpo.trainer import EtudeTrainer
from etude.trainers.rollouts.rollout import Rollout
from etude.trainers.tiny_models.dialogues import encode
from etude.trainers.tiny_models.pretrain import dialogue_loss

SDFT_TABLES: dict[str, Any] = {
    "channels": {"rlvr": 0.0, "distillation": 1.0},
    "distillation": {"teacher": "ema", "rate": 0.02, "beta": 1.0, "gate": False},
}
"""KL(student || EMA teacher) over the vocabulary; the rate is one of those that the paper tried."""


# --- SDFT --------------------------------------------------------------------------------------------------------


def demonstrations(rollout: Rollout) -> list[ErrorTurn]:
    """Return an error turn for every turn before which a call was due, with the demonstration of that call as its hint.

    A site takes its hint from an error turn, whether or not the turn was wrong.
    """
    made: list[Call] = []
    turns = [message for message in rollout.messages if message["role"] == "assistant"]
    result = []
    for number, turn in enumerate(turns):
        due = due_call(rollout.task_id, made)
        if due is not None:
            hint = Hint(text=demonstration_text(rollout.task_id, due))
            result.append(ErrorTurn(turn=number, kind="wasteful", hints=[hint]))
        made += calls_of_turn(turn)
    return result


class SdftTrainer(EtudeTrainer):
    """EtudeTrainer whose sites are all turns before which a call is due, each with its demonstration as the hint."""

    def _choose_sites(self, rollouts: Sequence[Rollout]) -> list[list[Site]]:
        demonstrated = [replace(rollout, error_turns=demonstrations(rollout)) for rollout in rollouts]
        sites: list[list[Site]] = super()._choose_sites(demonstrated)
        return sites


# --- SFT ---------------------------------------------------------------------------------------------------------


async def demonstration(task_id: str) -> Row:
    """Return the dialogue of an expert who makes the solution's calls and submits the answer."""
    session = DrillSession(default_drills())
    first = await session.reset(task_id=task_id)
    messages: list[dict[str, Any]] = [{"role": "user", "content": first.prompt or ""}]
    drill = default_drills().drill(task_id)
    for name, arguments in [*drill.solution(), ("submit", {"answer": drill.answer})]:
        function = {"name": name, "arguments": dict(arguments)}
        call = {"id": f"call_{len(messages)}", "type": "function", "function": function}
        observation = await session.step({"text": "", "tool_calls": [call]})
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages += [message.model_dump(exclude_none=True) for message in observation.messages]
    await session.close()
    return {"task_id": task_id, "messages": messages, "tools": list(first.tools or [])}


def sft(base: Path, out: Path, tasks: Sequence[str], *, rate: float, steps: int) -> list[float]:
    """Train on demonstrations of the tasks, ``len(tasks) / steps`` in each step, and save to ``out``; return losses.

    The optimizer is that of the other arms: AdamW without weight decay at a constant rate, gradients clipped at 1.
    """
    tokenizer = AutoTokenizer.from_pretrained(base)
    model: Any = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    chat = TemplateChat(tokenizer, never_samples, arguments=TEMPLATE)
    with asyncio.Runner() as runner:
        learned = [encode(runner.run(demonstration(task)), chat, tokenizer) for task in tasks]
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    size, losses = len(learned) // steps, []
    model.train()
    for start in range(0, size * steps, size):
        loss = dialogue_loss(model, learned[start : start + size])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(float(loss.detach()))
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return losses


def tables_of(arm: str) -> Mapping[str, Any]:
    """Return the tables of the recipe of an arm that plays episodes."""
    return SDFT_TABLES if arm == "sdft" else {}
