"""Scores of the error turns of a verifiers trace, as prime-rl's ``ref_kl`` loss reads them from the message graph.

prime-rl's orchestrator annotates the nodes of a trace: ``reference_logprobs`` has one number for each sampled token of
a node, ``loss_weights["ref_kl"]`` one for each token. Only the nodes of error turns get them here. The trainer adds

    sum over tokens of w (-sg(log T - log p) p / q + 0.001 (log p - log q)^2) / (number of tokens with w)

to its other losses, without the second factor of tokens whose probability fell by more than 0.2. Where p is still q,
its gradient is that of ``turn_local`` times (sum of the weights / number of the tokens). ``etude_verifiers`` writes the
error turns and their nodes into ``trace.info["error_turns"]``.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

from ..distillation.distill_sites import CAP
from ..distillation.distiller import MIN_GAIN
from .site_scores import Score

HintIds = Callable[[str, str], list[int]]
"""Returns the ids of a complete message from its role and its text, as the policy's chat template writes it between
two other messages."""


async def add_references(
    trace: Any,
    hint_ids: HintIds,
    score: Score,
    *,
    cap: int = CAP,
    gate: bool = True,
    coefficient: float = 1.0,
    rng: random.Random,
) -> int:
    """Annotate a trace's error turns and return the number of turns that will be taught.

    A turn is chosen as in ``choose_sites``: its error could have been foreseen and has a hint, at most ``cap`` turns of
    a trace, whose weights sum to ``coefficient``. With ``gate``, a turn that the hint does not make less likely is left
    out; the weights of the others stay. Nodes are changed only after the teacher has scored all of them. Raise
    ValueError when the trace has no ``error_turns`` or the teacher scores another number of ids.
    """
    chosen = _sites(trace)
    if len(chosen) > cap:
        chosen = sorted(rng.sample(chosen, cap), key=lambda site: site[0])
    requests = [
        [*_path_ids(trace.nodes, trace.nodes[place].parent), *hint_ids(role, text), *trace.nodes[place].token_ids]
        for place, role, text in chosen
    ]
    answers = await asyncio.gather(*(score(ids) for ids in requests))
    taught = 0
    for (place, _, _), ids, answer in zip(chosen, requests, answers, strict=True):
        node = trace.nodes[place]
        if len(answer) != len(ids):
            raise ValueError(f"the teacher scored {len(answer)} of {len(ids)} ids; score every id of the request")
        logps = [float(logp or 0.0) for logp in answer[len(ids) - len(node.token_ids) :]]
        references = [logp for logp, sampled in zip(logps, node.mask, strict=True) if sampled]
        if gate and sum(node.logprobs) - sum(references) <= MIN_GAIN:
            continue
        node.reference_logprobs = references
        weights = [coefficient / len(chosen) if sampled else 0.0 for sampled in node.mask]
        node.loss_weights = {**(node.loss_weights or {}), "ref_kl": weights}
        taught += 1
    return taught


def _sites(trace: Any) -> list[tuple[int, str, str]]:
    """Return the node, and the role and the text of its hint, of each turn that can be taught, in order."""
    if "error_turns" not in trace.info:
        raise ValueError("the trace has no error_turns; play it with the etude-verifiers taskset")
    sites: dict[int, tuple[int, str, str]] = {}
    for error in trace.info["error_turns"]:
        place = error["node"]
        if error["injected"] or error["site"] == "recovery" or not error["hints"] or place is None or place in sites:
            continue
        if any(trace.nodes[place].mask):
            hint = error["hints"][0]
            sites[place] = (place, hint["role"], hint["text"])
    return [sites[place] for place in sorted(sites)]


def _path_ids(nodes: Sequence[Any], place: int | None) -> list[int]:
    """Return the ids from the root to a node, itself included."""
    path: list[int] = []
    while place is not None:
        path = [*nodes[place].token_ids, *path]
        place = nodes[place].parent
    return path
