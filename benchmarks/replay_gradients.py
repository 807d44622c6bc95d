"""What the default losses of the replay channel learn: their gradient, beside those of its two parts.

usage: python benchmarks/replay_gradients.py --pairs FILE [--model DIR] [--random] [--most 48] [--updates 0,10,40]

The default is ``sigmoid_norm`` (DPO with length normalisation) + 0.2 ``sft`` (cross-entropy on chosen turns). Printed
are, over the first pairs of FILE (``etude replay`` writes it), the norm of each weighted part and the cosines between
the gradient of the default and that of each part, for a policy after so many updates on the default alone (AdamW, four
pairs an update, at --rate). The reference is the policy before them. DIR is a model's folder, by default
recipes/drill_base; --random draws new weights for it.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

import etude
from etude.trainers.replay.channel.encoding import Encoded, encode
from etude.trainers.replay.channel.loss import DEFAULT, Scores, preference_loss, turn_logps
from etude.trainers.replay.pairs import read_pairs

BETA, BATCH, AT_ONCE = 0.1, 4, 8
"""Beta and pairs of an update, as in a recipe by default; pairs of one forward pass of a measurement."""
Reference = list[tuple[float, float]]
"""Log-probabilities of each pair's chosen and rejected turn before any update."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--model", type=Path, default=Path(etude.__file__).parent / "recipes" / "drill_base")
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--most", type=int, default=48)
    parser.add_argument("--updates", default="0,10,40")
    parser.add_argument("--rate", type=float, default=3e-4)
    options = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model: Any = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32)
    if options.random:
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(model.config, dtype=torch.float32)
    pairs, _ = encode(read_pairs(options.pairs)[: options.most], tokenizer, max_ids=32_768, enable_thinking=False)
    print(f"{len(pairs)} pairs; {options.model.name}{' with random weights' * options.random}\n")
    print("| updates | margin | norm of sigmoid_norm | norm of 0.2 sft | cosine with sft | cosine with sigmoid_norm |")
    print("|---|---|---|---|---|---|")
    reference, done = references(model, pairs), 0
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate, weight_decay=0.0)
    for updates in map(int, options.updates.split(",")):
        for number in range(done, updates):
            chosen = random.Random(f"pairs {number}").sample(range(len(pairs)), min(BATCH, len(pairs)))
            optimizer.zero_grad()
            loss_of(model, pairs, reference, chosen, DEFAULT).backward()
            optimizer.step()
        done = updates
        print(row(updates, model, pairs, reference), flush=True)


def row(updates: int, model: Any, pairs: Sequence[Encoded], reference: Reference) -> str:
    """Return a row of the table."""
    parts = {name: gradient(model, pairs, reference, {name: weight}) for name, weight in DEFAULT.items()}
    whole = sum(parts.values(), torch.zeros(()))
    cosines = {name: float(torch.nn.functional.cosine_similarity(whole, part, dim=0)) for name, part in parts.items()}
    with torch.no_grad():
        every = range(0, len(pairs), AT_ONCE)
        scored = [scores(model, pairs, reference, indices(pairs, start)) for start in every]
        margin = sum(float((one.ratio - other.ratio).sum()) for one, other in scored) / len(pairs)
    norms = " | ".join(f"{float(parts[name].norm()):.3f}" for name in ("sigmoid_norm", "sft"))
    shown = " | ".join(f"{cosines[name]:.3f}" for name in ("sft", "sigmoid_norm"))
    return f"| {updates} | {BETA * margin:.3f} | {norms} | {shown} |"


def gradient(model: Any, pairs: Sequence[Encoded], reference: Reference, weights: Mapping[str, float]) -> Tensor:
    """Return the gradient of the loss over all pairs, flattened."""
    model.zero_grad()
    tokens = sum(len(pair.chosen) for pair in pairs)
    for start in range(0, len(pairs), AT_ONCE):
        some = indices(pairs, start)
        share, sft_share = len(some) / len(pairs), sum(len(pairs[index].chosen) for index in some) / tokens
        loss_of(model, pairs, reference, some, weights, share=share, sft_share=sft_share).backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters() if parameter.grad is not None])


def loss_of(
    model: Any,
    pairs: Sequence[Encoded],
    reference: Reference,
    some: Sequence[int],
    weights: Mapping[str, float],
    **shares: float,
) -> Tensor:
    """Return the channel's loss on the pairs of these indices."""
    return preference_loss(*scores(model, pairs, reference, some), weights, beta=BETA, **shares)


def scores(model: Any, pairs: Sequence[Encoded], reference: Reference, some: Sequence[int]) -> tuple[Scores, Scores]:
    """Return the scores of the chosen and of the rejected turns."""
    prompts = [pairs[index].prompt for index in some] * 2
    turns = [pairs[index].chosen for index in some] + [pairs[index].rejected for index in some]
    sums, tokens = turn_logps(model, prompts, turns)
    first = torch.tensor([reference[index] for index in some])
    size = len(some)
    return Scores(sums[:size], first[:, 0], tokens[:size]), Scores(sums[size:], first[:, 1], tokens[size:])


@torch.no_grad()
def references(model: Any, pairs: Sequence[Encoded]) -> Reference:
    """Return the log-probabilities of all turns under the policy as it is now."""
    zero = [(0.0, 0.0)] * len(pairs)
    scored = (scores(model, pairs, zero, indices(pairs, start)) for start in range(0, len(pairs), AT_ONCE))
    return [
        (float(one), float(other))
        for chosen, rejected in scored
        for one, other in zip(chosen.policy, rejected.policy, strict=True)
    ]


def indices(pairs: Sequence[Encoded], start: int) -> range:
    """Return the indices of one forward pass."""
    return range(start, min(start + AT_ONCE, len(pairs)))


if __name__ == "__main__":
    main()
