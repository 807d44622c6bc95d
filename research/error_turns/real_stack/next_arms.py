"""Arms of PREREGISTERED_NEXT.md: another gate, another teacher or another use of hints in the channel of distillation.

``gap_gated``: the gate of SDAR (arXiv:2605.15155) on the divergence of each token. ``dagger``: a scripted teacher acts,
without a hint, in the states that the student reached (arXiv:2605.12913); ``dagger_right``, which is not registered,
has a teacher without faults. ``hindsight``: failed episodes are played
again with a hint that was written after them, and those that succeed are learned without it (arXiv:2605.11556).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import torch
from torch import Tensor

from etude.research.error_turns.real_stack.arm_trainer import ArmTrainer
from etude.research.error_turns.real_stack.base_models import Hinted
from etude.research.error_turns.real_stack.scripted_teachers import Call
from etude.research.error_turns.small_world.arms import Arm
from etude.research.error_turns.worlds.world import World, turns_before
from etude.trainers.distillation.distill_sites import CAP, Site
from etude.trainers.distillation.distiller import Distiller
from etude.trainers.distillation.divergence import log_probabilities
from etude.trainers.distillation.hidden_states import head_of
from etude.trainers.grpo.dynamic_sampling import SampledBatch
from etude.trainers.grpo.scored_batch import ScoredBatch
from etude.trainers.replay.turns.prefixes import as_message
from etude.trainers.rollouts.rollout import Rollout

BETA = 5.0
"""Sharpness of the gate: the default of SDAR's code."""
ACCURACY = {"dagger": 0.9, "dagger_right": 1.0}
"""Probability that the scripted teacher of an arm is right; 0.9 is that of the best of experiment B's teachers."""
IMITATING = (*ACCURACY, "hindsight")


@dataclass(frozen=True)
class Example:
    """Ids to imitate. The loss counts the tokens of ``spans``, places [start, end) in ``ids``."""

    ids: list[int]
    spans: tuple[tuple[int, int], ...]


class GapGated(Distiller):
    """Distiller whose divergence of each token is multiplied by SDAR's gap gate.

    The gate is sigmoid(BETA (log T(y) - log S(y))) of the sampled token y, without a gradient. It is near 0 where the
    hinted teacher rejects what the student sampled, and 1/2 where both agree. The normaliser is that of the loss.
    """

    def _gate(self, sites: Sequence[Site], student_logps: Tensor, teacher_logps: Tensor) -> tuple[Tensor, int]:
        _, helped = super()._gate(sites, student_logps, teacher_logps)
        return torch.sigmoid(BETA * (teacher_logps - student_logps)), helped


class NextTrainer(ArmTrainer):
    """ArmTrainer with the arms of this module."""

    def __init__(self, model: Any, parts: Any, *, arm: Arm, world: World, **arguments: Any) -> None:
        super().__init__(model, parts, arm=arm, world=world, **arguments)
        self._scaffolded: list[Example] = []
        self._labels: dict[str, list[int]] = {}
        if arm.learns == "gap_gated":
            self._distiller = GapGated(parts.distillation)

    def _choose_sites(self, played: Sequence[Rollout]) -> list[list[Site]]:
        if self.arm.learns not in IMITATING:
            return super()._choose_sites(played)
        self.read += 2 * sum(len(rollout.ids) for rollout in played)
        return [[] for _ in played]

    def _distillation_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        if self.arm.learns not in IMITATING:
            return super()._distillation_loss(model, inputs)
        examples = self._scaffolded
        if self.arm.learns in ACCURACY:
            played = [row.rollout for row in ScoredBatch.from_inputs(inputs).rows]
            examples = [example for rollout in played for example in self._relabelled(rollout)]
        self.record_metric("imitation/examples", len(examples))
        self.read += sum(len(example.ids) for example in examples)
        return imitation_loss(self.accelerator.unwrap_model(model), examples)

    # --- DAgger ---------------------------------------------------------------------------------------------------

    def _relabelled(self, rollout: Rollout) -> Iterator[Example]:
        """Yield the teacher's action in each state of a rollout, at most ``CAP``; none for an invalid episode."""
        for turn, span in enumerate(rollout.turns[:CAP] if rollout.reward.valid else []):
            label = self._label(self._teachers_call(rollout, turn), rollout.ids[span.begin : span.start])
            yield Example([*rollout.ids[: span.start], *label], ((span.start, span.start + len(label)),))

    def _teachers_call(self, rollout: Rollout, turn: int) -> Call:
        """Return the teacher's call in the state before a turn; it depends on that state alone."""
        earlier = turns_before(rollout, turn)
        rng = random.Random(f"dagger {rollout.task_id} {rollout.ids[: rollout.turns[turn].start]}")
        if rng.random() < ACCURACY[self.arm.learns]:
            return self._knows.right(rollout.task_id, earlier)
        return self._knows.wrong(rollout.task_id, earlier, rng)

    def _label(self, call: Call, opening: list[int]) -> list[int]:
        key = f"{call} {opening}"
        if key not in self._labels:
            action = {"text": "", "tool_calls": [{"name": call[0], "arguments": call[1]}]}
            self._labels[key] = self._chat.turn(as_message(action, 0), opening)
        return self._labels[key]

    # --- hindsight ------------------------------------------------------------------------------------------------

    def _play_batch(self) -> SampledBatch:
        sampled = super()._play_batch()
        if self.arm.learns == "hindsight":
            self._scaffolded = self._scaffold(sampled.rollouts)
        return sampled

    def _scaffold(self, played: Sequence[Rollout]) -> list[Example]:
        """Return the solved episodes among those that the policy plays again with a hint, without the hint.

        Failed episodes are played again in turn until there are as many new episodes as there were ``played``, so that
        an update has no more episodes than one of the other arms.
        """
        failed = [rollout for rollout in played if rollout.reward.valid and rollout.reward.value < 1]
        if not failed:
            self.record_metrics({"hindsight/played": 0, "hindsight/solved": 0})
            return []
        hints = hindsight(failed, self.world)
        again = list(islice(cycle(failed), len(played)))
        chat, self._chat = self._chat, Hinted(self._chat, hints)
        try:
            scaffolded = self.play([{"task_id": rollout.task_id} for rollout in again])
        finally:
            self._chat = chat
        self.read += sum(len(rollout.ids) for rollout in scaffolded)
        pairs = zip(again, scaffolded, strict=True)
        solved = [(plain, hinted) for plain, hinted in pairs if hinted.reward.valid and hinted.reward.value >= 1]
        self.record_metrics({"hindsight/played": len(again), "hindsight/solved": len(solved)})
        return [without_hint(plain, hinted) for plain, hinted in solved]


def plain_tasks(arm: Arm, world: World) -> int:
    """Return the number of tasks of one update; ``hindsight`` plays half of its episodes with a hint."""
    return max(world.prompts // 2, 1) if arm.learns == "hindsight" else world.prompts


def hindsight(failed: Sequence[Rollout], world: World) -> Mapping[str, str]:
    """Return a hint for each failed task, by its prompt.

    It is the environment's hint for the first turn that erred at the start of one of its episodes; for a task that
    failed in another way, what the environment would have said.
    """
    hints = dict(world.right_hints(sorted({rollout.task_id for rollout in failed})))
    for rollout in reversed(failed):
        first = next((error for error in rollout.error_turns if error.turn == 0 and error.hints), None)
        if first is not None:
            hints[str(rollout.messages[0]["content"])] = first.hints[0].text
    return hints


def without_hint(plain: Rollout, hinted: Rollout) -> Example:
    """Return the turns of an episode behind the prompt of another episode of the same task, which had no hint."""
    shift = plain.prompt - hinted.prompt
    ids = [*plain.ids[: plain.prompt], *hinted.ids[hinted.prompt :]]
    return Example(ids, tuple((turn.start + shift, turn.end + shift) for turn in hinted.turns))


def imitation_loss(model: Any, examples: Sequence[Example]) -> Tensor:
    """Return the mean cross-entropy of the tokens of all spans, in nats; 0 without any."""
    if not examples:
        return torch.zeros((), device=model.device)
    longest = max(len(example.ids) for example in examples)
    ids = torch.zeros(len(examples), longest, dtype=torch.long)
    attention, learned = torch.zeros_like(ids), torch.zeros_like(ids, dtype=torch.bool)
    for row, example in enumerate(examples):
        ids[row, : len(example.ids)] = torch.tensor(example.ids)
        attention[row, : len(example.ids)] = 1
        for start, end in example.spans:
            learned[row, start:end] = True
    ids, attention, learned = (each.to(model.device) for each in (ids, attention, learned))
    hidden = model.base_model(input_ids=ids, attention_mask=attention, use_cache=False).last_hidden_state
    rows, tokens = hidden[:, :-1][learned[:, 1:]], ids[:, 1:][learned[:, 1:]]
    return -log_probabilities(rows, head_of(model), tokens).mean()
