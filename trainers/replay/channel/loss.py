"""Replay channel: preference losses on the turns of pairs, from log-probabilities of turn tokens alone.

The losses have TRL's names. With s = log pi(turn) - log pi_ref(turn) summed over a turn's ids, |y| the number of ids,
D = s_chosen - s_rejected, and D' the same difference of s / |y|:

| name | loss | source |
|---|---|---|
| sigmoid | -log sigma(beta D) | DPO, arXiv:2305.18290 |
| sigmoid_norm | -log sigma(beta D') | DPO with length normalisation |
| ipo | (D' - 1 / (2 beta))^2 | arXiv:2310.12036 |
| hinge | relu(1 - beta D) | SLiC, arXiv:2305.10425 |
| robust | sigmoid corrected for a rate of wrong pairs | arXiv:2403.00409 |
| sft | mean of -log pi over all ids of chosen turns | |

The reference is the model before training: its log-probabilities are computed once.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ....errors import ReplayError
from ....registry import did_you_mean
from ...distillation.divergence import log_probabilities
from ...distillation.hidden_states import head_of, hidden_states
from ...distributed import sum_over_ranks
from ...sharded.access import causal_model, idle_pass, is_sharded
from ..pairs import read_pairs
from .encoding import Encoded, encode

DEFAULT = {"sigmoid_norm": 1.0, "sft": 0.2}
NO_PAIR_METRICS = dict.fromkeys(("loss", "margin", "accuracy", "chosen_logp", "rejected_logp"), 0.0)
"""Metrics of a rank without a pair in this micro-batch."""


@dataclass(frozen=True)
class Scores:
    """Scores of B turns, each [B]: summed log-probability of the ids, the reference's, and the number of ids."""

    policy: Tensor
    reference: Tensor
    tokens: Tensor

    @property
    def ratio(self) -> Tensor:
        """Return s, the log-ratio of policy and reference, [B]."""
        return self.policy - self.reference

    @property
    def mean_ratio(self) -> Tensor:
        """Return s / |y|, [B]."""
        return self.ratio / self.tokens.clamp(min=1)


Loss = Callable[[Scores, Scores, float, float], Tensor]
"""``loss(chosen, rejected, beta, flipped)`` returns [B], or a scalar for ``sft``; flipped: the rate of wrong pairs."""


def _robust(chosen: Scores, rejected: Scores, beta: float, flipped: float) -> Tensor:
    margin = beta * (chosen.ratio - rejected.ratio)
    return (-(1 - flipped) * logsigmoid(margin) + flipped * logsigmoid(-margin)) / (1 - 2 * flipped)


LOSSES: dict[str, Loss] = {
    "sigmoid": lambda c, r, beta, _: -logsigmoid(beta * (c.ratio - r.ratio)),
    "sigmoid_norm": lambda c, r, beta, _: -logsigmoid(beta * (c.mean_ratio - r.mean_ratio)),
    "ipo": lambda c, r, beta, _: (c.mean_ratio - r.mean_ratio - 1 / (2 * beta)) ** 2,
    "hinge": lambda c, r, beta, _: torch.relu(1 - beta * (c.ratio - r.ratio)),
    "robust": _robust,
    "sft": lambda c, r, beta, _: -c.policy.sum() / c.tokens.sum().clamp(min=1),
}
"""The losses of the table above; ``c`` are the chosen turns, ``r`` the rejected ones."""


def preference_loss(
    chosen: Scores,
    rejected: Scores,
    weights: Mapping[str, float],
    *,
    beta: float,
    flipped: float = 0.0,
    share: float = 1.0,
    sft_share: float = 1.0,
) -> Tensor:
    """Return the weighted sum of the named losses, each a mean over B.

    ``share`` is the share of these pairs in a larger batch; ``sft_share`` is the share of their chosen turns' ids, over
    which ``sft`` is a mean.
    """
    terms = [
        weight * (sft_share if name == "sft" else share) * LOSSES[name](chosen, rejected, beta, flipped).mean()
        for name, weight in weights.items()
    ]
    return torch.stack(terms).sum()


def open_replay(path: Path, tokenizer: Any, *, max_ids: int, **options: Any) -> tuple[Replay, Counter[str]]:
    """Return the channel of a file of pairs, and how many pairs were skipped, by reason.

    ``options`` are ``Replay``'s, and ``template`` the arguments of the tokenizer's template. Raises ReplayError,
    ChatError.
    """
    encoded, skipped = encode(read_pairs(path), tokenizer, max_ids=max_ids, **options.pop("template", {}))
    if not encoded:
        reasons = ", ".join(f"{reason} {number}" for reason, number in skipped.most_common())
        remedy = f"; raise generation.max_ids = {max_ids}" if skipped["too long"] else ""
        raise ReplayError(f"no pair of {path} can be learned from: {reasons}{remedy}")
    return Replay(encoded, **options), skipped


def turn_logps(model: Any, prompts: Sequence[Sequence[int]], turns: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Return the summed log-probabilities of the turns' ids after their prompts, [B], and the numbers of ids, [B].

    Rows are padded on the right. Only turn ids are targets: only their hidden states go through the head.
    """
    rows = [[*prompt, *turn] for prompt, turn in zip(prompts, turns, strict=True)]
    width = max(map(len, rows))
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows], device=model.device)
    attention = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows], device=model.device)
    hidden = hidden_states(model, ids, attention_mask=attention)
    positions = [(b, p) for b, row in enumerate(rows) for p in range(len(prompts[b]) - 1, len(row) - 1)]
    batch, position = torch.tensor(positions, device=model.device).unbind(1)
    logps = log_probabilities(hidden[batch, position], head_of(model), ids[batch, position + 1])
    sums = torch.zeros(len(rows), dtype=logps.dtype, device=model.device).index_add(0, batch, logps)
    return sums, torch.tensor([len(turn) for turn in turns], device=model.device)


class _Trainer(Protocol):
    """The part of ``EtudeTrainer`` that this module uses."""

    args: Any
    state: Any
    accelerator: Any
    current_gradient_accumulation_steps: int
    _step: int

    def record_metric(self, name: str, value: float) -> None: ...


@dataclass
class Replay:
    """The replay channel: the pairs, the reference, and the loss of each step.

    Raises ReplayError for no pairs, an unknown loss, an impossible rate of wrong pairs, or a pair without a prompt or
    a turn.
    """

    pairs: Sequence[Encoded]
    weights: Mapping[str, float] = field(default_factory=lambda: dict(DEFAULT))
    """Weights of the losses, by name."""
    batch: int = 4
    """Pairs of a step, divided among its micro-batches and ranks."""
    beta: float = 0.1
    """beta of the losses."""
    flipped: float = 0.0
    """Measured rate of wrong pairs, for ``robust``."""

    def __post_init__(self) -> None:
        for name in self.weights:
            if name not in LOSSES:
                raise ReplayError(did_you_mean("loss", name, LOSSES))
        if not 0 <= self.flipped < 0.5:
            raise ReplayError(f"the rate of wrong pairs must lie in [0, 0.5), got {self.flipped}")
        if not self.pairs:
            raise ReplayError("no pairs to learn from; write some with `etude replay`")
        for pair in self.pairs:
            if not (pair.prompt and pair.chosen and pair.rejected):
                raise ReplayError(f"the pair {pair.key} lacks a prompt or a turn; write the pairs again")
        self._reference: list[tuple[float, float]] = []

    @torch.no_grad()
    def prepare(self, model: Any) -> None:
        """Score all pairs with ``model`` before training: as it is now, it becomes the reference."""
        self._reference = []
        training = model.training
        model.eval()
        for start in range(0, len(self.pairs), self.batch):
            chosen, rejected = self._scored(model, self.pairs[start : start + self.batch])
            self._reference += zip(chosen[0].tolist(), rejected[0].tolist(), strict=True)
        model.train(training)

    def loss(self, trainer: _Trainer, model: Any) -> Tensor:
        """Return the part of this micro-batch and rank in the loss of the step's pairs, scaled as TRL scales it.

        Summed over micro-batches and averaged over ranks, it is the loss of one batch. Raises ReplayError in the middle
        of a run without a reference: a resumed run must load it.
        """
        student = causal_model(trainer.accelerator.unwrap_model(model))
        if not self._reference:
            if trainer.state.global_step:
                raise ReplayError("the replay channel has no reference; load the checkpoint's with load_state_dict")
            self.prepare(student)
        drawn = self.drawn(trainer)
        parts = trainer.current_gradient_accumulation_steps if student.training else 1
        ranks = trainer.accelerator.num_processes
        place = trainer._step % parts * ranks + trainer.accelerator.process_index
        part = drawn[place :: parts * ranks]
        if part:
            loss, metrics = self._part_loss(student, part, drawn)
        else:
            idle = idle_pass(student) if is_sharded(student) else torch.zeros((), device=student.device)
            loss, metrics = idle, NO_PAIR_METRICS
        for name, value in zip(metrics, sum_over_ranks([*metrics.values()]), strict=True):
            trainer.record_metric(f"replay/{name}", value * parts)  # TRL averages the metrics of a step's micro-batches
        return loss * ranks

    def drawn(self, trainer: _Trainer) -> list[int]:
        """Return the indices of the step's pairs, by the run's seed: equal in all micro-batches and on all ranks."""
        # "0 0" keeps the draws of the published runs of research/error_turns, whose steps had one micro-batch.
        rng = random.Random(f"replay {trainer.args.seed} {int(trainer.state.global_step)} 0 0")
        return rng.sample(range(len(self.pairs)), min(self.batch, len(self.pairs)))

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint must hold so that a resumed run has the same reference."""
        return {"reference": self._reference, "keys": [pair.key for pair in self.pairs]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the reference. Raises ReplayError for another file of pairs."""
        if state["keys"] != [pair.key for pair in self.pairs]:
            raise ReplayError("the checkpoint was made with other pairs; set replay.pairs to the file of that run")
        self._reference = [(float(one), float(other)) for one, other in state["reference"]]

    def _part_loss(self, model: Any, part: Sequence[int], drawn: Sequence[int]) -> tuple[Tensor, dict[str, float]]:
        """Return the contribution of ``part`` to the loss and the metrics of ``drawn``."""
        chosen, rejected = self._scores(model, part)
        share = len(part) / len(drawn)
        part_tokens, tokens = (sum(len(self.pairs[index].chosen) for index in indices) for indices in (part, drawn))
        shares = {"share": share, "sft_share": part_tokens / tokens}
        loss = preference_loss(chosen, rejected, self.weights, beta=self.beta, flipped=self.flipped, **shares)
        return loss, {"loss": float(loss.detach()), **metrics_of(chosen, rejected, self.beta, share)}

    def _scores(self, model: Any, indices: Sequence[int]) -> tuple[Scores, Scores]:
        chosen, rejected = self._scored(model, [self.pairs[index] for index in indices])
        reference = torch.tensor([self._reference[index] for index in indices]).to(chosen[0])
        return Scores(chosen[0], reference[:, 0], chosen[1]), Scores(rejected[0], reference[:, 1], rejected[1])

    def _scored(self, model: Any, pairs: Sequence[Encoded]) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        prompts = [pair.prompt for pair in pairs]
        turns = [pair.chosen for pair in pairs] + [pair.rejected for pair in pairs]
        sums, tokens = turn_logps(model, prompts * 2, turns)
        first = len(pairs)
        return (sums[:first], tokens[:first]), (sums[first:], tokens[first:])


def metrics_of(chosen: Scores, rejected: Scores, beta: float, share: float) -> dict[str, float]:
    """Return means over the pairs, times ``share``.

    ``chosen_logp`` falls when chosen turns become less likely together with the rejected ones.
    """
    margin = (chosen.ratio - rejected.ratio).detach()
    columns = {
        "margin": beta * margin,
        "accuracy": (margin > 0).float(),
        "chosen_logp": (chosen.policy / chosen.tokens).detach(),
        "rejected_logp": (rejected.policy / rejected.tokens).detach(),
    }
    return {name: float(column.mean()) * share for name, column in columns.items()}
