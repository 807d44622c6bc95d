"""Turns sampled by whatever TRL samples with: transformers, or vLLM inside this process or beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from ..rollouts.rollout import Sample


def seeded(number: int) -> None:
    """All chance in sampling: torch's, and numpy's, which vLLM inside this process draws from. A vLLM server's own is
    not ours to seed."""
    torch.manual_seed(number)
    np.random.seed(number % 2**32)


def prepare(trainer: Any, longest: int, stops: Iterable[int]) -> None:
    """Turns have at most ``longest`` ids and end with one of ``stops``, whichever samples them."""
    ends = sorted(stops)
    trainer.eos_token_ids = ends
    if trainer.use_vllm:
        vllm = trainer.vllm_generation
        vllm.max_completion_length = longest
        vllm.generation_kwargs = {**vllm.generation_kwargs, "stop_token_ids": ends}
    else:
        trainer.generation_config.max_new_tokens = longest
        trainer.generation_config.eos_token_id = ends
        # A policy that has diverged is sampled all the same: its loss is no number, and the kill-switch says so.
        trainer.generation_config.remove_invalid_values = True


def generate(trainer: Any, prompts: Sequence[list[int]], rooms: Sequence[int]) -> list[Sample]:
    """A turn after each prompt, of at most its room. A vLLM server refuses a request for more than its context holds,
    so there prompts with the same room go together; otherwise all are sampled at once, and what is too long is cut.

    vLLM scores an id as None when it has no number for it, which is NaN here.
    """
    samples: dict[int, Sample] = {}
    apart = trainer.use_vllm and trainer.vllm_mode == "server"
    for room in sorted(set(rooms)) if apart else [max(rooms)]:
        places = [place for place in range(len(prompts)) if not apart or rooms[place] == room]
        if trainer.use_vllm:
            trainer.vllm_generation.max_completion_length = room
        ids, logprobs = trainer._generate_single_turn([prompts[place] for place in places], None, {}, num_generations=1)
        scores = logprobs or [[] for _ in ids]
        for place, sampled, scored in zip(places, ids, scores, strict=True):
            known = [math.nan if score is None else score for score in scored[: rooms[place]]]
            samples[place] = Sample(list(sampled[: rooms[place]]), known)
    return [samples[place] for place in range(len(prompts))]
