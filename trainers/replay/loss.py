"""Preference losses on the turns of pairs, under TRL's names, from log-probabilities of turn tokens alone.

With s = log pi(turn) - log pi_ref(turn), summed over a turn's ids, |y| their number and D = s_chosen - s_rejected:
sigmoid -log sigma(beta D) (DPO, arXiv:2305.18290); sigmoid_norm the same on s / |y|; ipo (D' - 1 / 2 beta)^2 with D' of
s / |y| (arXiv:2310.12036); hinge relu(1 - beta D) (SLiC, arXiv:2305.10425); robust (arXiv:2403.00409) with the rate of
wrong pairs; sft the mean of -log pi over all ids of chosen turns. The reference is the model before training: its
log-probabilities are made once.
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

from ...errors import ReplayError
from ...registry import did_you_mean
from ..distillation.divergence import log_probabilities
from ..distillation.hidden_states import head_of
from ..distributed import sum_over_ranks
from .encoding import Encoded, encode
from .pairs import read_pairs

DEFAULT = {"sigmoid_norm": 1.0, "sft": 0.2}
NOTHING = dict.fromkeys(("loss", "margin", "accuracy", "chosen_logp", "rejected_logp"), 0.0)
"""What a rank notes that has no pair."""


@dataclass(frozen=True)
class Scores:
    """Of B turns, each [B]: the summed log-probability of their ids, that of the reference, and how many they are."""

    policy: Tensor
    reference: Tensor
    tokens: Tensor

    @property
    def ratio(self) -> Tensor:
        return self.policy - self.reference

    @property
    def mean_ratio(self) -> Tensor:
        return self.ratio / self.tokens.clamp(min=1)


Loss = Callable[[Scores, Scores, float, float], Tensor]
"""Chosen, rejected, beta, the rate of wrong pairs, to [B]; a scalar for ``sft``."""


def _sigmoid(chosen: Scores, rejected: Scores, beta: float, flipped: float) -> Tensor:
    return -logsigmoid(beta * (chosen.ratio - rejected.ratio))


def _sigmoid_norm(chosen: Scores, rejected: Scores, beta: float, flipped: float) -> Tensor:
    return -logsigmoid(beta * (chosen.mean_ratio - rejected.mean_ratio))


def _ipo(chosen: Scores, rejected: Scores, beta: float, flipped: float) -> Tensor:
    return (chosen.mean_ratio - rejected.mean_ratio - 1 / (2 * beta)) ** 2


def _hinge(chosen: Scores, rejected: Scores, beta: float, flipped: float) -> Tensor:
    return torch.relu(1 - beta * (chosen.ratio - rejected.ratio))


def _robust(chosen: Scores, rejected: Scores, beta: float, flipped: float) -> Tensor:
    margin = beta * (chosen.ratio - rejected.ratio)
    return (-(1 - flipped) * logsigmoid(margin) + flipped * logsigmoid(-margin)) / (1 - 2 * flipped)


def _sft(chosen: Scores, rejected: Scores, beta: float, flipped: float) -> Tensor:
    return -chosen.policy.sum() / chosen.tokens.sum().clamp(min=1)


LOSSES: dict[str, Loss] = {
    "sigmoid": _sigmoid,
    "sigmoid_norm": _sigmoid_norm,
    "ipo": _ipo,
    "hinge": _hinge,
    "robust": _robust,
    "sft": _sft,
}


def check_losses(names: Sequence[str], flipped: float = 0.0) -> None:
    """Raises ReplayError."""
    for name in names:
        if name not in LOSSES:
            raise ReplayError(did_you_mean("loss", name, LOSSES))
    if not 0 <= flipped < 0.5:
        raise ReplayError(f"the rate of wrong pairs must lie in [0, 0.5), got {flipped}")


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
    """The weighted sum of the named losses, each a mean over B; ``share`` is that of these pairs in a larger batch, and
    ``sft_share`` that of their chosen turns' ids, over which ``sft`` is a mean."""
    each = [
        weight * (sft_share if name == "sft" else share) * LOSSES[name](chosen, rejected, beta, flipped).mean()
        for name, weight in weights.items()
    ]
    return torch.stack(each).sum()


def open_replay(path: Path, tokenizer: Any, *, max_ids: int, **options: Any) -> tuple[Replay, Counter[str]]:
    """The channel of a file of pairs, and how many pairs were left out, by reason. ``options`` are ``Replay``'s, and
    ``template`` the arguments of the tokenizer's template. Raises ReplayError, ChatError.
    """
    found, left = encode(read_pairs(path), tokenizer, max_ids=max_ids, **options.pop("template", {}))
    if not found:
        why = ", ".join(f"{reason} {number}" for reason, number in left.most_common())
        remedy = f"; generation.max_ids = {max_ids} is how long one may be" if left["too long"] else ""
        raise ReplayError(f"no pair of {path} can be learned from: {why}{remedy}")
    return Replay(found, **options), left


def turn_logps(model: Any, prompts: Sequence[Sequence[int]], turns: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the turns' ids behind their prompts: sums [B], numbers [B]. Nothing else is ever a target.

    Rows are padded on the right; hidden states of turn positions alone go through the head.
    """
    rows = [[*prompt, *turn] for prompt, turn in zip(prompts, turns, strict=True)]
    width = max(map(len, rows))
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows], device=model.device)
    seen = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows], device=model.device)
    hidden = model.base_model(input_ids=ids, attention_mask=seen, use_cache=False).last_hidden_state
    places = [(b, p) for b, row in enumerate(rows) for p in range(len(prompts[b]) - 1, len(row) - 1)]
    batch, place = torch.tensor(places, device=model.device).unbind(1)
    each = log_probabilities(hidden[batch, place], head_of(model), ids[batch, place + 1])
    sums = torch.zeros(len(rows), dtype=each.dtype, device=model.device).index_add(0, batch, each)
    return sums, torch.tensor([len(turn) for turn in turns], device=model.device)


class _Trainer(Protocol):
    """What of ``trainer.EtudeTrainer`` is used here."""

    args: Any
    state: Any
    accelerator: Any
    current_gradient_accumulation_steps: int
    _step: int

    def record_metric(self, name: str, value: float) -> None: ...


@dataclass
class Replay:
    """Channel three. ``weights``: TRL's names of losses to their weights. ``batch``: pairs of a step, shared out over
    its micro-batches and ranks. ``flipped``: the rate of wrong pairs, as far as it was measured. Raises ReplayError for
    no pairs, an unknown loss, a pair without a prompt or a turn.
    """

    pairs: Sequence[Encoded]
    weights: Mapping[str, float] = field(default_factory=lambda: dict(DEFAULT))
    batch: int = 4
    beta: float = 0.1
    flipped: float = 0.0

    def __post_init__(self) -> None:
        check_losses(list(self.weights), self.flipped)
        if not self.pairs:
            raise ReplayError("no pair is left to learn from: `etude replay` writes some")
        for pair in self.pairs:
            if not (pair.prompt and pair.chosen and pair.rejected):
                raise ReplayError(f"the pair {pair.key} lacks a prompt or a turn: write the pairs again")
        self._reference: list[tuple[float, float]] = []

    @torch.no_grad()
    def prepare(self, model: Any) -> None:
        """Score all pairs by ``model`` as it is now, before training; it is the reference from here on."""
        self._reference = []
        training = model.training
        model.eval()
        for start in range(0, len(self.pairs), self.batch):
            chosen, rejected = self._scored(model, self.pairs[start : start + self.batch])
            self._reference += zip(chosen[0].tolist(), rejected[0].tolist(), strict=True)
        model.train(training)

    def loss(self, trainer: _Trainer, model: Any) -> Tensor:
        """The share of this micro-batch and rank in the loss of the step's pairs, scaled as TRL scales a micro-batch's:
        summed over micro-batches and averaged over ranks, it is the loss of one batch.

        Raises ReplayError in the middle of a run that has no reference: a resumed one must load it.
        """
        student = trainer.accelerator.unwrap_model(model)
        if not self._reference:
            if trainer.state.global_step:
                raise ReplayError("the replay channel has no reference: load_state_dict what the checkpoint holds")
            self.prepare(student)
        drawn = self.drawn(trainer)
        parts = trainer.current_gradient_accumulation_steps if student.training else 1
        ranks = trainer.accelerator.num_processes
        place = trainer._step % parts * ranks + trainer.accelerator.process_index
        mine = drawn[place :: parts * ranks]
        loss, found = self._share(student, mine, drawn) if mine else (torch.zeros((), device=student.device), NOTHING)
        for name, value in zip(found, sum_over_ranks([*found.values()]), strict=True):
            trainer.record_metric(
                f"replay/{name}", value * parts
            )  # TRL averages what is noted of a step's micro-batches
        return loss * ranks

    def drawn(self, trainer: _Trainer) -> list[int]:
        """Which pairs are the step's, by the run's seed: the same in all micro-batches and on all ranks."""
        # "0 0": so drew the counted runs of research/error_turns, whose steps were of one micro-batch.
        chance = random.Random(f"replay {trainer.args.seed} {int(trainer.state.global_step)} 0 0")
        return chance.sample(range(len(self.pairs)), min(self.batch, len(self.pairs)))

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must hold for a resumed run to have the same reference."""
        return {"reference": self._reference, "keys": [pair.key for pair in self.pairs]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Raises ReplayError for another file of pairs."""
        if state["keys"] != [pair.key for pair in self.pairs]:
            raise ReplayError("the checkpoint was made with other pairs: give replay.pairs of that run")
        self._reference = [(float(one), float(other)) for one, other in state["reference"]]

    def _share(self, model: Any, mine: Sequence[int], drawn: Sequence[int]) -> tuple[Tensor, dict[str, float]]:
        """The part of ``mine`` in the loss of ``drawn``, and in what is noted of it."""
        chosen, rejected = self._scores(model, mine)
        share = len(mine) / len(drawn)
        tokens, of_all = (sum(len(self.pairs[index].chosen) for index in some) for some in (mine, drawn))
        given = {"beta": self.beta, "flipped": self.flipped, "share": share, "sft_share": tokens / of_all}
        loss = preference_loss(chosen, rejected, self.weights, **given)
        return loss, {"loss": float(loss.detach()), **noted(chosen, rejected, self.beta, share)}

    def _scores(self, model: Any, drawn: Sequence[int]) -> tuple[Scores, Scores]:
        chosen, rejected = self._scored(model, [self.pairs[index] for index in drawn])
        known = torch.tensor([self._reference[index] for index in drawn]).to(chosen[0])
        return Scores(chosen[0], known[:, 0], chosen[1]), Scores(rejected[0], known[:, 1], rejected[1])

    def _scored(self, model: Any, pairs: Sequence[Encoded]) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        prompts = [pair.prompt for pair in pairs]
        turns = [pair.chosen for pair in pairs] + [pair.rejected for pair in pairs]
        sums, tokens = turn_logps(model, prompts * 2, turns)
        first = len(pairs)
        return (sums[:first], tokens[:first]), (sums[first:], tokens[first:])


def noted(chosen: Scores, rejected: Scores, beta: float, share: float) -> dict[str, float]:
    """Means over the pairs, times ``share``. ``chosen_logp`` falls when the chosen turns are pushed down with the
    rejected ones."""
    margin = (chosen.ratio - rejected.ratio).detach()
    each = {
        "margin": beta * margin,
        "accuracy": (margin > 0).float(),
        "chosen_logp": (chosen.policy / chosen.tokens).detach(),
        "rejected_logp": (rejected.policy / rejected.tokens).detach(),
    }
    return {name: float(value.mean()) * share for name, value in each.items()}
