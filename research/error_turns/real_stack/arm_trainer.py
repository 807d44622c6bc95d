"""The arms of experiments through the real stack: what of ``arms.ARMS`` goes through it, as a trainer that differs by
an arm.

An arm changes what a rollout was worth, which turns are sites, which hint stands there, or what is learned there;
everything else is ``EtudeTrainer``'s, and the recipe of ``runs`` says the rest (weights, teacher, gate,
pairs). Arms with replay-DPO, and those of other sources of hints, are not in (A).
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from transformers import TrainerCallback

from etude.models import ErrorTurn, Hint
from etude.research.error_turns.hints.hint_sources import SOURCES
from etude.research.error_turns.small_world import arms
from etude.research.error_turns.small_world.arms import Arm
from etude.research.error_turns.small_world.training import ROUNDING
from etude.research.error_turns.worlds.world import World, due
from etude.trainers.distillation.distill_sites import Site
from etude.trainers.distillation.divergence import log_probabilities
from etude.trainers.distillation.hidden_states import head_of, student_rows, tokens_read
from etude.trainers.grpo.dynamic_sampling import SampledBatch
from etude.trainers.grpo.generation import generate
from etude.trainers.grpo.scored_batch import ScoredBatch
from etude.trainers.grpo.trainer import EtudeTrainer
from etude.trainers.replay.channel.encoding import Encoded
from etude.trainers.rollouts.rollout import Rollout, Sample

LEFT_OUT = ("weak_ema_05", "weak_ema_001", "weak_trust_region", "periodic", "weak_periodic", "weak_grpo_dense")
ARMS: dict[str, Arm] = {name: arm for name, arm in arms.ARMS.items() if name not in LEFT_OUT}
ARMS |= {"replay": Arm(replay=True), "sparse_distill_replay": replace(ARMS["sparse_distill"], replay=True)}
ARMS |= {name: Arm(hint=name) for name in ("introspection", "sibling")}
ARMS |= {"good_due": replace(ARMS["distill"], where="due")}
ARMS |= {f"{reward}_tenth": replace(ARMS[f"{reward}_distill"], weight=0.1) for reward in ("sparse", "dense")}


class ArmTrainer(EtudeTrainer):
    """``read``: forward tokens of training so far, counted as in (A): a cache for sampling, one packed forward. Of a
    pair, its prompt once and both turns, and all pairs once more for the reference."""

    model_wrapped: Any

    def __init__(self, model: Any, parts: Any, *, arm: Arm, world: World, **arguments: Any) -> None:
        super().__init__(model, parts, **arguments)
        self.arm, self.world = arm, world
        self.read = 0 if parts.replay is None else tokens_of(parts.replay.pairs)
        self._texts: list[tuple[str, str]] = []
        self._knows = world.knows()

    # --- what an episode is worth --------------------------------------------------------------------------------

    def _play_batch(self) -> SampledBatch:
        sampled = super()._play_batch()
        if self.arm.reward != "dense":
            return sampled
        return replace(sampled, rollouts=[less_errors(rollout) for rollout in sampled.rollouts])

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if self.arm.reward == "penalty":
            width = output["completion_ids"].shape[1]
            output["advantages"] = output["advantages"][:, None] + penalties(
                self.sampled.rollouts, self.num_generations, width
            )
        return output

    # --- which sites, which hints --------------------------------------------------------------------------------

    def _choose_sites(self, played: Sequence[Rollout]) -> list[list[Site]]:
        self.read += sum(len(rollout.ids) for rollout in played) * (2 if self.arm.reward else 1)
        if not self.arm.hint:
            return [[] for _ in played]
        self._texts += [told for rollout in played for told in self._of_its_task(rollout)]
        told = [replace(rollout, error_turns=self._told(rollout, place)) for place, rollout in enumerate(played)]
        if self.arm.where == "due":
            chance = random.Random(f"due {self.args.seed} {self.state.global_step}")
            told = at_due_turns(told, functools.partial(due, self._knows), chance)
        sites: list[list[Site]] = super()._choose_sites(told)
        if self.arm.hint == "null":
            return [[replace(site, hint=[]) for site in some] for some in sites]
        return sites

    def _of_its_task(self, rollout: Rollout) -> list[tuple[str, str]]:
        """Task and text of the hints that are wrong for others."""
        telling = self.world.telling
        errors = [error for error in rollout.error_turns if error.hints and (not telling or error.kind in telling)]
        return [(rollout.task_id, error.hints[0].text) for error in errors]

    def _told(self, rollout: Rollout, place: int) -> list[ErrorTurn]:
        """The error turns as this arm has them: at other turns, or with other hints."""
        chance = random.Random(f"arm {self.args.seed} {rollout.task_id} {place} {self.state.global_step}")
        errors = at_good_turns(rollout, chance) if self.arm.where == "good" else rollout.error_turns
        if self.arm.hint in SOURCES:
            told = SOURCES[self.arm.hint]
            return [hinted(error, told(error, rollout, self._played, self.world)) for error in errors]
        if self.arm.hint == "wrong":
            others = [text for task, text in self._texts if task != rollout.task_id]
            return [hinted(error, chance.choice(others)) for error in errors] if others else []
        return errors

    # --- what is learned there -----------------------------------------------------------------------------------

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        replay = self.parts.replay
        if replay is not None:
            self.read += tokens_of([replay.pairs[index] for index in replay.drawn(self)])
        loss: Tensor = super()._compute_loss(model, inputs)
        return loss

    def _distillation_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        if self.arm.learns == "sample":
            return self._learned_from_samples(model, inputs)
        loss: Tensor = super()._distillation_loss(model, inputs)
        for name in ("student_tokens", "teacher_tokens"):
            self.read += int(self._metrics["train"][f"distillation/{name}"][-1])
        return loss

    def _learned_from_samples(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        """Each site's turn said once more by the hinted teacher; what works, learned by cross-entropy without hint.

        Weights and normaliser are the distillation's, so that the two differ in the target alone.
        """
        student = self.accelerator.unwrap_model(model)
        total = torch.zeros((), device=student.device)
        batch = ScoredBatch.from_inputs(inputs)
        for rollout, sites in ((row.rollout, row.sites) for row in batch.rows):
            said = self._said_again(student, rollout, sites)
            fits = [(s, replace(site, end=site.start + len(s.ids))) for s, site in zip(said, sites, strict=True)]
            better = [(s, site) for s, site in fits if self._works(rollout.task_id, s)]
            for sample, site in better:
                rows = student_rows(student, [*rollout.ids[: site.start], *sample.ids], [site])
                each = log_probabilities(rows, head_of(student), torch.tensor(sample.ids, device=student.device))
                total = total - site.weight * each.sum()
            for read in ([site for _, site in fits], [replace(site, hint=[]) for _, site in better]):
                self.read += tokens_read(rollout.ids, read, packed=True) if read else 0
            self.record_metric("samples/worked", len(better) / max(len(fits), 1))
        return total / batch.site_tokens.clamp(min=1)

    def _said_again(self, student: Any, rollout: Rollout, sites: Sequence[Site]) -> list[Sample]:
        if not sites:
            return []
        assert self.parts.teacher is not None
        prompts = [[*rollout.ids[: s.at], *s.hint, *rollout.ids[s.at : s.start]] for s in sites]
        wrapped, self.model_wrapped = self.model_wrapped, self.parts.teacher.model(student)
        try:
            return generate(self, prompts, [self.parts.limits.max_turn_ids] * len(prompts))
        finally:
            self.model_wrapped = wrapped

    def _works(self, task_id: str, sample: Sample) -> bool:
        return self.world.works(task_id, self._chat.action(sample.ids).get("tool_calls") or [])


class NoRounding(TrainerCallback):
    """Gradients of rounding size are no update, as in (A): AdamW would make whole steps of them."""

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **more: Any) -> None:
        found = [value.grad for value in model.parameters() if value.grad is not None]
        if torch.nn.utils.get_total_norm(found) < ROUNDING:
            model.zero_grad()


def tokens_of(pairs: Sequence[Encoded]) -> int:
    return sum(len(pair.prompt) + len(pair.chosen) + len(pair.rejected) for pair in pairs)


def less_errors(rollout: Rollout) -> Rollout:
    """Worth the verified reward less the share of its turns that erred."""
    worth = rollout.reward.value - len(rollout.erring_turns) / max(len(rollout.turns), 1)
    return replace(rollout, reward=rollout.reward.model_copy(update={"value": worth}))


def penalties(played: Sequence[Rollout], group: int, width: int) -> Tensor:
    """-1 for each token of a turn that erred, less its mean over the group's episodes that have such a turn.

    [B, width]: columns are positions behind the prompt.
    """
    found = torch.zeros(len(played), width)
    for start in range(0, len(played), group):
        together = played[start : start + group]
        for turn in range(max(len(rollout.turns) for rollout in together)):
            there = [(row, rollout) for row, rollout in enumerate(together, start) if turn < len(rollout.turns)]
            mean = sum(turn in rollout.erring_turns for _, rollout in there) / len(there)
            for row, rollout in there:
                span, first = rollout.turns[turn], rollout.prompt
                found[row, span.start - first : span.end - first] = mean - (turn in rollout.erring_turns)
    return found


def at_good_turns(rollout: Rollout, chance: random.Random) -> list[ErrorTurn]:
    """Return the error turns, each moved to a random turn that did not err, as far as there are."""
    good = good_turns(rollout)
    errors = [error for error in rollout.error_turns if error.hints]
    turns = chance.sample(good, min(len(good), len(errors)))
    return [error.model_copy(update={"turn": turn}) for error, turn in zip(errors, turns, strict=False)]


def at_due_turns(played: Sequence[Rollout], due: Callable[[Rollout, int], Any], chance: random.Random) -> list[Rollout]:
    """The error turns, each moved to a random good turn of its task at which the same call is ``due``, so that its hint
    is right there too; a turn takes one, and what finds none is left out."""
    free = [(at, turn) for at, rollout in enumerate(played) for turn in good_turns(rollout)]
    chance.shuffle(free)
    found: list[list[ErrorTurn]] = [[] for _ in played]
    for rollout in played:
        for error in rollout.error_turns:
            call, task = due(rollout, error.turn), rollout.task_id
            fits = (each for each in free if played[each[0]].task_id == task and due(played[each[0]], each[1]) == call)
            if error.hints and (place := next(fits, None)):
                free.remove(place)
                found[place[0]].append(error.model_copy(update={"turn": place[1]}))
    return [replace(rollout, error_turns=errors) for rollout, errors in zip(played, found, strict=True)]


def good_turns(rollout: Rollout) -> list[int]:
    return [turn for turn in range(len(rollout.turns)) if turn not in rollout.erring_turns]


def hinted(error: ErrorTurn, text: str | None) -> ErrorTurn:
    """With this hint alone, or with none; one that had none gets none."""
    return error.model_copy(update={"hints": [Hint(text=text)] if error.hints and text else []})
