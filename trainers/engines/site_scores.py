"""Scores of a rollout's sites by the teacher, as two numbers for each response token, which any engine can carry.

The teacher is the policy, usually frozen, behind an inference server. It reads a site's prefix with the hint in it and
reports the log-probabilities of the turn; ``score`` is that request. The loss functions of the engines get the result:
``teacher_logps`` and ``weights``, both over the response ``rollout.ids[rollout.prompt:]``.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from ..distillation.distill_sites import Site
from ..rollouts.rollout import Rollout

Score = Callable[[list[int]], Awaitable[Sequence[float | None]]]
"""Returns the log-probability of each id after the ids before it; that of the first is not read and may be None.
A vLLM server's ``prompt_logprobs`` has this form. The temperature must be that of sampling."""


@dataclass(frozen=True)
class SiteScores:
    """Scores of one rollout; both lists are as long as its response, R."""

    teacher_logps: list[float]
    """Log-probability of each site token under the teacher, which has read the hint; 0.0 outside the sites."""
    weights: list[float]
    """Weight of each token's site; 0.0 outside the sites."""

    @property
    def total_weight(self) -> float:
        """Return the sum of the weights of the site tokens."""
        return math.fsum(self.weights)

    def pairs(self) -> list[list[float]]:
        """Return [R, 2]: the teacher's log-probability and the weight of each token."""
        return [list(pair) for pair in zip(self.teacher_logps, self.weights, strict=True)]


async def score_sites(rollout: Rollout, sites: Sequence[Site], score: Score) -> SiteScores:
    """Return the scores of a rollout, with one request for each site, all at the same time.

    Raise ValueError for sites that touch or overlap, because their gates would be one, for a site in the prompt,
    and for an answer with another number of log-probabilities or without one for a site token.
    """
    ordered = sorted(sites, key=lambda site: site.start)
    _check(rollout, ordered)
    requests = [site.teacher_ids(rollout.ids) for site in ordered]
    answers = await asyncio.gather(*(score(ids) for ids in requests))
    length = len(rollout.ids) - rollout.prompt
    scores = SiteScores([0.0] * length, [0.0] * length)
    for site, ids, answer in zip(ordered, requests, answers, strict=True):
        if len(answer) != len(ids):
            raise ValueError(f"the teacher scored {len(answer)} of {len(ids)} ids; score every id of the request")
        logps = answer[len(ids) - (site.end - site.start) :]
        for place, logp in zip(range(site.start, site.end), logps, strict=True):
            if logp is None or not math.isfinite(logp):
                raise ValueError(f"the teacher's log-probability of id {place} is {logp!r}; it must be a number")
            scores.teacher_logps[place - rollout.prompt] = logp
            scores.weights[place - rollout.prompt] = site.weight
    return scores


def divide_by_step(scores: Sequence[SiteScores], optimizer_steps: int = 1) -> list[SiteScores]:
    """Return the scores of a whole batch, of all ranks, with their weights divided by N.

    For engines whose losses see one micro-batch. With several optimizer steps for a batch, N is the batch's total
    divided by their number: exact on average, and exact for each step only if all have the same total. A batch without
    sites is returned unchanged. Raise ValueError for less than one step.
    """
    if optimizer_steps < 1:
        raise ValueError(f"optimizer_steps must be at least 1, got {optimizer_steps}")
    total = math.fsum(score.total_weight for score in scores) / optimizer_steps
    if not total:
        return list(scores)
    return [replace(score, weights=[weight / total for weight in score.weights]) for score in scores]


def _check(rollout: Rollout, ordered: Sequence[Site]) -> None:
    end = -1
    for site in ordered:
        if site.start <= end:
            raise ValueError(f"the site at id {site.start} touches the one before it; leave an id between two sites")
        if site.start < rollout.prompt or site.end > len(rollout.ids) or site.start == site.end:
            response = f"[{rollout.prompt}, {len(rollout.ids)})"
            raise ValueError(
                f"the site [{site.start}, {site.end}) is outside the response {response} or empty; choose again"
            )
        end = site.end
