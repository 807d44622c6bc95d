"""Sampling of turns with TRL's own sampler: transformers, or vLLM inside this process or as a server."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch

from ..rollouts.rollout import Sample
from ..sharded.access import gathered, is_sharded, reshard_heads, whole


def seed_sampling(seed: int) -> None:
    """Seed all randomness of sampling: torch's, and numpy's, which vLLM inside this process draws from.

    The randomness of a vLLM server cannot be seeded from here. With vLLM inside this process, a resumed run samples the
    same only in lockstep (``Parts.patience = None``).
    """
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)


def configure_sampler(trainer: Any, max_turn_ids: int, stop_ids: Iterable[int]) -> None:
    """Limit the turns of a GRPOTrainer to ``max_turn_ids`` ids, and end them at one of ``stop_ids``."""
    stops = sorted(stop_ids)
    trainer.eos_token_ids = stops
    if trainer.use_vllm:
        vllm = trainer.vllm_generation
        if is_sharded(trainer.model):
            send_whole_weights(vllm, trainer.model)
        vllm.max_completion_length = max_turn_ids
        vllm.generation_kwargs = {**vllm.generation_kwargs, "stop_token_ids": stops}
    else:
        trainer.generation_config.max_new_tokens = max_turn_ids
        trainer.generation_config.eos_token_id = stops
        # A policy that has diverged is still sampled from: its loss is NaN, and the kill switch reports that.
        trainer.generation_config.remove_invalid_values = True


def send_whole_weights(vllm: Any, model: Any) -> None:
    """Let a VLLMGeneration of TRL send the weights of a model that transformers sharded, which TRL sends as they are.

    Weights are made whole one by one, or all at once if there are adapters to merge into them. All ranks take part.
    """
    parameters = vllm._iter_named_params

    def whole_parameters() -> Iterator[tuple[str, Any]]:
        reshard_heads(model)
        with gathered(model) if hasattr(model, "get_base_model") else nullcontext():
            for name, parameter in parameters():
                yield name, whole(parameter)

    vllm._iter_named_params = whole_parameters


def generate(trainer: Any, prompts: Sequence[list[int]], rooms: Sequence[int]) -> list[Sample]:
    """Return a turn after each prompt, of at most its room in ids.

    A vLLM server refuses a request for more than its context holds, so prompts with the same room are sent together.
    The other samplers get all prompts at once, and longer turns are cut. An id that vLLM scores as None has NaN here.
    """
    samples: dict[int, Sample] = {}
    separate = trainer.use_vllm and trainer.vllm_mode == "server"
    for room in sorted(set(rooms)) if separate else [max(rooms)]:
        places = [place for place in range(len(prompts)) if not separate or rooms[place] == room]
        if trainer.use_vllm:
            trainer.vllm_generation.max_completion_length = room
        ids, logprobs = trainer._generate_single_turn([prompts[place] for place in places], None, {}, num_generations=1)
        scores = logprobs or [[] for _ in ids]
        for place, sampled, scored in zip(places, ids, scores, strict=True):
            numbers = [math.nan if score is None else score for score in scored[: rooms[place]]]
            samples[place] = Sample(list(sampled[: rooms[place]]), numbers)
    return [samples[place] for place in range(len(prompts))]
