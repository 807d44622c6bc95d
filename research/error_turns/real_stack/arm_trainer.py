"""Arms of the experiments through the real stack: an EtudeTrainer that an arm changes.

An arm changes the reward of a rollout, which turns are sites, which hint a site has, or what is learned there. Weights,
teacher, gate and pairs of an arm are in the recipe (``runs.recipe_of``). Most arms are those of experiment A; the arms
with replay-DPO and with other sources of hints are added here.
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
ARMS |= {"sparse_replay": replace(ARMS["grpo_sparse"], replay=True)}
ARMS |= {"sparse_chosen": replace(ARMS["sparse_replay"], chosen_only=True)}
ARMS |= {"sparse_tenth_replay": replace(ARMS["sparse_tenth"], replay=True)}
ARMS |= {"muon_tenth": replace(ARMS["sparse_tenth"], optimizer="muon")}
ARMS |= {
    name: replace(ARMS["sparse_tenth"], learns=name) for name in ("gap_gated", "dagger", "dagger_right", "hindsight")
}


class ArmTrainer(EtudeTrainer):
    """EtudeTrainer of one arm in one world.

    ``read`` counts the forward tokens of training as experiment A does, with a cache for sampling and one packed
    forward pass. A pair counts with its prompt once and both turns, and all pairs count once more for the reference.
    """

    model_wrapped: Any

    def __init__(self, model: Any, parts: Any, *, arm: Arm, world: World, **arguments: Any) -> None:
        super().__init__(model, parts, **arguments)
        self.arm, self.world = arm, world
        self.read = 0 if parts.replay is None else tokens_of(parts.replay.pairs)
        self._texts: list[tuple[str, str]] = []
        self._knows = world.knows()

    # --- rewards -------------------------------------------------------------------------------------------------

    def _play_batch(self) -> SampledBatch:
        sampled = super()._play_batch()
        if self.arm.reward != "dense":
            return sampled
        return replace(sampled, rollouts=[with_dense_reward(rollout) for rollout in sampled.rollouts])

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if self.arm.reward == "penalty":
            width = output["completion_ids"].shape[1]
            output["advantages"] = output["advantages"][:, None] + penalties(
                self.sampled.rollouts, self.num_generations, width
            )
        return output

    # --- sites and hints -----------------------------------------------------------------------------------------

    def _choose_sites(self, played: Sequence[Rollout]) -> list[list[Site]]:
        self.read += sum(len(rollout.ids) for rollout in played) * (2 if self.arm.reward else 1)
        if not self.arm.hint:
            return [[] for _ in played]
        self._texts += [text for rollout in played for text in self._task_hints(rollout)]
        changed = [
            replace(rollout, error_turns=self._error_turns(rollout, place, played))
            for place, rollout in enumerate(played)
        ]
        if self.arm.where == "due":
            rng = random.Random(f"due {self.args.seed} {self.state.global_step}")
            changed = at_due_turns(changed, functools.partial(due, self._knows), rng)
        sites: list[list[Site]] = super()._choose_sites(changed)
        if self.arm.hint == "null":
            return [[replace(site, hint=[]) for site in rollout_sites] for rollout_sites in sites]
        return sites

    def _task_hints(self, rollout: Rollout) -> list[tuple[str, str]]:
        """Return (task id, text) of the hints that are right for their own task only."""
        kinds = self.world.task_specific
        errors = [error for error in rollout.error_turns if error.hints and (not kinds or error.kind in kinds)]
        return [(rollout.task_id, error.hints[0].text) for error in errors]

    def _error_turns(self, rollout: Rollout, place: int, played: Sequence[Rollout]) -> list[ErrorTurn]:
        """Return a rollout's error turns as this arm has them: at other turns, or with other hints."""
        rng = random.Random(f"arm {self.args.seed} {rollout.task_id} {place} {self.state.global_step}")
        errors = at_good_turns(rollout, rng) if self.arm.where == "good" else rollout.error_turns
        if self.arm.hint in SOURCES:
            source = SOURCES[self.arm.hint]
            return [hinted(error, source(error, rollout, played, self.world)) for error in errors]
        if self.arm.hint == "wrong":
            others = [text for task, text in self._texts if task != rollout.task_id]
            return [hinted(error, rng.choice(others)) for error in errors] if others else []
        return errors

    # --- losses --------------------------------------------------------------------------------------------------

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
        """Return the loss of arms that learn from samples: the hinted teacher samples each site's turn again.

        Samples that work are learned by cross-entropy, without the hint. Weights and normaliser are those of the
        distillation, so that the two differ in the target alone.
        """
        student = self.accelerator.unwrap_model(model)
        total = torch.zeros((), device=student.device)
        batch = ScoredBatch.from_inputs(inputs)
        for rollout, sites in ((row.rollout, row.sites) for row in batch.rows):
            samples = self._sample_again(student, rollout, sites)
            tried = [(s, replace(site, end=site.start + len(s.ids))) for s, site in zip(samples, sites, strict=True)]
            working = [(s, site) for s, site in tried if self._works(rollout.task_id, s)]
            for sample, site in working:
                rows = student_rows(student, [*rollout.ids[: site.start], *sample.ids], [site])
                logps = log_probabilities(rows, head_of(student), torch.tensor(sample.ids, device=student.device))
                total = total - site.weight * logps.sum()
            for read in ([site for _, site in tried], [replace(site, hint=[]) for _, site in working]):
                self.read += tokens_read(rollout.ids, read, packed=True) if read else 0
            self.record_metric("samples/worked", len(working) / max(len(tried), 1))
        return total / torch.where(batch.site_weight > 0, batch.site_weight, torch.ones_like(batch.site_weight))

    def _sample_again(self, student: Any, rollout: Rollout, sites: Sequence[Site]) -> list[Sample]:
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
    """Drops gradients that are rounding errors, as experiment A does: AdamW would make full steps of them."""

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **more: Any) -> None:
        gradients = [value.grad for value in model.parameters() if value.grad is not None]
        if torch.nn.utils.get_total_norm(gradients) < ROUNDING:
            model.zero_grad()


def tokens_of(pairs: Sequence[Encoded]) -> int:
    """Return the number of tokens of the pairs, each prompt counted once."""
    return sum(len(pair.prompt) + len(pair.chosen) + len(pair.rejected) for pair in pairs)


def with_dense_reward(rollout: Rollout) -> Rollout:
    """Return the rollout with its verified reward minus the share of turns that erred."""
    value = rollout.reward.value - len(rollout.erring_turns) / max(len(rollout.turns), 1)
    return replace(rollout, reward=rollout.reward.model_copy(update={"value": value}))


def penalties(played: Sequence[Rollout], group: int, width: int) -> Tensor:
    """Return the penalty of each token after the prompt, [B, width].

    It is -1 in a turn that erred, centred over the episodes of the group that have a turn of this number.
    """
    result = torch.zeros(len(played), width)
    for start in range(0, len(played), group):
        members = played[start : start + group]
        for turn in range(max(len(rollout.turns) for rollout in members)):
            present = [(row, rollout) for row, rollout in enumerate(members, start) if turn < len(rollout.turns)]
            mean = sum(turn in rollout.erring_turns for _, rollout in present) / len(present)
            for row, rollout in present:
                span, first = rollout.turns[turn], rollout.prompt
                result[row, span.start - first : span.end - first] = mean - (turn in rollout.erring_turns)
    return result


def at_good_turns(rollout: Rollout, rng: random.Random) -> list[ErrorTurn]:
    """Return the error turns, each moved to a random turn that did not err; those without such a turn are left out."""
    good = good_turns(rollout)
    errors = [error for error in rollout.error_turns if error.hints]
    turns = rng.sample(good, min(len(good), len(errors)))
    return [error.model_copy(update={"turn": turn}) for error, turn in zip(errors, turns, strict=False)]


def at_due_turns(played: Sequence[Rollout], due: Callable[[Rollout, int], Any], rng: random.Random) -> list[Rollout]:
    """Return the rollouts with each error turn moved to a random good turn of its task at which the same call is due.

    So its hint is right there too. A turn takes one error turn; an error turn without such a place is left out.
    """
    free = [(index, turn) for index, rollout in enumerate(played) for turn in good_turns(rollout)]
    rng.shuffle(free)
    moved: list[list[ErrorTurn]] = [[] for _ in played]
    for rollout in played:
        for error in rollout.error_turns:
            call, task = due(rollout, error.turn), rollout.task_id
            fits = ((i, turn) for i, turn in free if played[i].task_id == task and due(played[i], turn) == call)
            if error.hints and (place := next(fits, None)):
                free.remove(place)
                moved[place[0]].append(error.model_copy(update={"turn": place[1]}))
    return [replace(rollout, error_turns=errors) for rollout, errors in zip(played, moved, strict=True)]


def good_turns(rollout: Rollout) -> list[int]:
    """Return the numbers of the turns that did not err."""
    return [turn for turn in range(len(rollout.turns)) if turn not in rollout.erring_turns]


def hinted(error: ErrorTurn, text: str | None) -> ErrorTurn:
    """Return the error with this hint alone; without hints if the text is empty, or if it had none."""
    return error.model_copy(update={"hints": [Hint(text=text)] if error.hints and text else []})
