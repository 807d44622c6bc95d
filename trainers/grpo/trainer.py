"""The reference trainer: TRL's GRPOTrainer, with three channels in one loss.

    total = a x RLVR + b x distillation at error turns + c x replay-DPO

Channel one is TRL's own loss on the verified reward; channel two is ``distillation``; channel three is ``replay``. A
channel whose weight is 0 costs nothing: no forward, no teacher, no data. Episodes are played over the wire alone.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from trl.trainer.grpo_trainer import GRPOTrainer

from ...errors import ServerError, UnsuitableModel
from ...hints.write.hint_choice import HintChoice
from ...models import ErrorTurn
from ..distillation.distill_sites import CAP, Site, choose
from ..distillation.distiller import Distiller, Settings, batch_of
from ..distillation.hidden_states import check_model, completion_logps
from ..distillation.teachers import Teacher
from ..distributed import gathered, summed, together
from ..rollouts.batcher import Batcher
from ..rollouts.dataset_rows import RESET as RESET
from ..rollouts.dataset_rows import reset_rows as reset_rows
from ..rollouts.rollout import Rollout, Sample
from ..rollouts.session_pool import Limits, Sessions, play
from ..run.metrics_summary import of_episodes
from . import dynamic_sampling as dynamic
from . import gradient_norms as balance
from .generation import generate, prepare, seeded
from .objectives import Objective, flat_groups, k1_in_reward, overlong_penalty

Weight = Callable[[float], float]
"""A channel's weight at a share of the run, 0 at its start and 1 at its end."""


@dataclass(frozen=True)
class Channels:
    """The weights a, b and c."""

    rlvr: Weight = lambda share: 1.0
    distillation: Weight = lambda share: 0.0
    replay: Weight = lambda share: 0.0


@dataclass
class Parts:
    """What the trainer is made of besides TRL's own arguments. ``chat`` is made around the sampler it is given.

    ``chooser`` puts the hint that it takes for the best one first; a site has the first hint. ``reference``: the first
    weights, that k1 is measured to. ``gradients_every``: each channel's gradient is measured once in so
    many steps; 0: never.
    """

    url: str
    chat: Callable[[Any], Any]
    objective: Objective = field(default_factory=Objective)
    channels: Channels = field(default_factory=Channels)
    distillation: Settings = field(default_factory=Settings)
    teacher: Teacher | None = None
    replay: Any = None
    limits: Limits = field(default_factory=Limits)
    system: str = ""
    cap: int = CAP
    recovery: bool = False
    chooser: HintChoice | None = None
    k1: float = 0.0
    reference: Teacher | None = None
    gradients_every: int = 0


_Base: Any = GRPOTrainer


class EtudeTrainer(_Base):
    """``train_dataset`` has a column ``prompt`` (a conversation that only labels the row) and one named ``RESET``.

    Raises UnsuitableModel for a model that is no text decoder.
    """

    def __init__(self, model: Any, parts: Parts, **arguments: Any) -> None:
        self.parts = parts
        super().__init__(model=model, reward_funcs=[_reward], rollout_func=_play, **arguments)
        check_model(self.model.config)
        self._runner = asyncio.Runner()
        self._sessions = Sessions(parts.url)
        self._batcher = Batcher(self._generate_turns)
        self._chat: Any = parts.chat(self._batcher.sample)
        prepare(self, parts.limits.max_turn_ids, self._chat.stops)
        self._distiller = Distiller(parts.distillation)
        self._rows: Sequence[Mapping[str, Any]] = []
        self._played: list[Rollout] = []
        self._before: list[list[Rollout]] = []

    # --- episodes ------------------------------------------------------------------------------------------------

    def _generate_turns(self, prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
        return generate(self, prompts, rooms)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._rows = inputs
        # Of the step alone: a resumed run samples as the uninterrupted one, whatever was sampled between.
        seed = random.Random(f"sample {self.args.seed} {self.state.global_step} {self.accelerator.process_index}")
        seeded(seed.getrandbits(63))
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        rewards = dynamic.rewards_of(self, self._played)
        flat = flat_groups(rewards, self.num_generations)
        dynamic.leave_out(self, output, self._played, flat, self.parts.objective)
        self._note("groups/flat", float(flat.float().mean()))
        unsolved = (rewards.view(-1, self.num_generations).nan_to_num() < 1).all(-1)
        self._note("groups/unsolved", float(unsolved.float().mean()))
        everything = [*self._played, *(rollout for row in self._before for rollout in row)]
        self._note_all(of_episodes(everything, summed))
        sites = self._choose_sites(everything)
        left = iter(zip(everything[len(self._played) :], sites[len(self._played) :], strict=True))
        output["rollouts"], output["sites"] = self._played, sites[: len(self._played)]
        output["before"] = [[next(left) for _ in row] for row in self._before]
        tokens = sum(site.end - site.start for some in sites for site in some)
        output["site_tokens"] = self.accelerator.gather(torch.tensor(tokens, device=self.accelerator.device)).sum()
        if self.parts.k1:
            output["advantages"] = self._less_k1(output)
        return output

    def _sampled(self) -> list[Rollout]:
        """An episode of each row, or of the task that dynamic sampling played in its place."""
        tasks = [row[RESET] for row in self._rows]
        self._before = [[] for _ in tasks]
        if not self.parts.objective.dynamic_sampling:
            return self.play([json.loads(task) for task in tasks])
        found = dynamic.play_varied(self, tasks, self.train_dataset.unique(RESET))
        self._note("groups/replaced", found.replaced)
        self._note("groups/given_up", found.given_up)
        self._before = found.before
        return found.rollouts

    def _choose_sites(self, played: Sequence[Rollout]) -> list[list[Site]]:
        """Nothing is chosen, and no hint spliced, while the channel's weight is 0."""
        if not self._weight("distillation"):
            return [[] for _ in played]
        left: Counter[str] = Counter()
        chosen = []
        for place, rollout in enumerate(played):
            if self.parts.chooser is not None:
                rollout.error_turns = _chosen_first(self.parts.chooser, rollout.error_turns)
            sites, reasons = choose(
                rollout,
                self._chat.insert_for,
                cap=self.parts.cap,
                max_ids=self.parts.limits.max_ids,
                recovery=self.parts.recovery,
                rng=random.Random(f"{self.args.seed} {rollout.task_id} {place} {self.state.global_step}"),
            )
            chosen.append(sites)
            left += reasons
        left, number = sum(gathered(left), Counter[str]()), summed([sum(map(len, chosen))])[0]
        self._note("distillation/chosen", number)
        self._note_all({f"distillation/left_out/{reason.replace(' ', '_')}": count for reason, count in left.items()})
        return chosen

    # --- the loss ------------------------------------------------------------------------------------------------

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        rlvr, distillation, replay = (self._weight(name) for name in ("rlvr", "distillation", "replay"))
        terms: dict[str, Tensor] = {"rlvr": rlvr * super()._compute_loss(model, inputs)} if rlvr else {}
        if distillation:
            terms["distillation"] = distillation * self._distilled(model, inputs)
        if replay:
            with self.accelerator.autocast():
                terms["replay"] = replay * self.parts.replay.loss(self, model)
        if len(terms) > 1 and balance.due(self, self.parts.gradients_every):
            self._note_all(balance.gradient_norms(terms, self.model))
        # Every rank must reach every parameter through the wrapper, also when it has no site of its own.
        start: Any = 0.0 if rlvr else _anchor(model, inputs)
        total: Tensor = sum(terms.values(), start)
        return total

    def _distilled(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        """Divided by the site tokens of the whole step, as TRL divides ``dapo`` by its tokens."""
        student = self.accelerator.unwrap_model(model)
        if self.parts.teacher is None:
            raise UnsuitableModel("distillation has a weight, but no teacher")
        teacher = self.parts.teacher.model(student)
        with self.accelerator.autocast():
            loss = self._distiller.loss(student, teacher, batch_of(inputs))
        parts = self.current_gradient_accumulation_steps if student.training else 1
        share = parts / self.args.steps_per_generation if student.training else 1.0
        ranks = self.accelerator.num_processes
        tokens = inputs["site_tokens"].clamp(min=1) / ranks * share
        mine = {"loss": float(loss.total.detach() / tokens) / ranks, **loss.metrics}
        found = dict(zip(mine, summed([*mine.values()]), strict=True))
        # What is noted of a step's micro-batches is averaged, and these are sums over it.
        self._note_all({f"distillation/{name}": value * parts for name, value in found.items()})
        return loss.total / tokens

    def _weight(self, channel: str) -> float:
        done = self.state.global_step / max(self.state.max_steps, 1)
        return float(getattr(self.parts.channels, channel)(done))

    def _less_k1(self, output: dict[str, Any]) -> Tensor:
        """Advantages less k1 to the first weights, as Composer 2 reports it."""
        if self.parts.reference is None:
            raise UnsuitableModel("k1 in the reward needs a reference: give one")
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
        attention = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
        keep, mask = output["completion_ids"].size(1), output["completion_mask"] * output["tool_mask"]
        student = self.accelerator.unwrap_model(self.model)
        with torch.no_grad(), self.accelerator.autocast():
            rows, heat = self.args.per_device_train_batch_size, self.temperature
            own, reference = (
                completion_logps(which, ids, attention, keep, temperature=heat, rows=rows)
                for which in (student, self.parts.reference.model(student))
            )
        total, tokens = summed([float(((own - reference) * mask).sum()), float(mask.sum())])
        self._note("kl_k1", total / max(tokens, 1))
        return k1_in_reward(output["advantages"], own, reference, mask, self.num_generations, self.parts.k1)

    # --- what is logged ------------------------------------------------------------------------------------------

    def _note(self, name: str, value: float) -> None:
        self._metrics["train" if self.model.training else "eval"][name].append(value)

    def _note_all(self, found: Mapping[str, float]) -> None:
        for name, value in found.items():
            self._note(name, value)

    def play(self, tasks: Sequence[Mapping[str, Any]]) -> list[Rollout]:
        """An episode of each task, with the policy as it is; each is the arguments of a ``reset``. All ranks call it
        together. Raises ServerError on all of them when one has lost its server."""
        parts = self.parts
        rest = (self._chat, self._batcher, self._sessions, parts.limits)
        return together(lambda: self._runner.run(play(tasks, *rest, system=parts.system)), ServerError)

    def measured(self) -> list[tuple[Rollout, list[Site]]]:
        """The rollouts of the last batch, with the sites that were chosen in them."""
        batches: list[dict[str, Any]] = self._buffered_inputs or []
        return [pair for batch in batches for pair in zip(batch["rollouts"], batch["sites"], strict=True)]

    def close(self) -> None:
        """End the sessions. Idempotent."""
        runner, self._runner = self._runner, asyncio.Runner()
        with runner:  # whose end cancels what an interrupt left under way
            runner.run(self._sessions.close())


def _play(prompts: list[Any], trainer: EtudeTrainer) -> dict[str, Any]:
    """TRL's ``rollout_func``: the episodes of a batch, as TRL wants them."""
    began = time.monotonic()
    played = trainer._sampled()
    trainer._note("seconds/playing", time.monotonic() - began)
    trainer._played = played
    # TRL cannot take an empty completion: a rollout without turns gets one id that nothing is learned from.
    filler = trainer._tokenizer.pad_token_id
    return {
        "prompt_ids": [rollout.ids[: rollout.prompt] for rollout in played],
        "completion_ids": [rollout.ids[rollout.prompt :] or [filler] for rollout in played],
        "logprobs": [r.logprobs or [0.0] for r in played] if all(r.logprobs or not r.turns for r in played) else None,
        "env_mask": [rollout.mask or [0] for rollout in played],
        "reward": [_shaped(rollout, trainer.parts) for rollout in played],
    }


def _shaped(rollout: Rollout, parts: Parts) -> float | None:
    """An invalid episode has no reward; TRL keeps it out of the group's baseline."""
    if not rollout.reward.valid:
        return None
    room = parts.limits.max_ids - rollout.prompt
    return rollout.reward.value + overlong_penalty(len(rollout.ids) - rollout.prompt, room, parts.objective.overlong)


def _reward(prompts: Any, completions: Any, reward: list[float | None], **_: Any) -> list[float | None]:
    return reward


def _chosen_first(chooser: HintChoice, errors: list[ErrorTurn]) -> list[ErrorTurn]:
    return [error.model_copy(update={"hints": chooser(error, errors)}) for error in errors]


def _anchor(model: Any, inputs: dict[str, Any]) -> Tensor:
    """Zero, attached to every parameter."""
    logits: Tensor = model(input_ids=inputs["prompt_ids"][:1, -1:]).logits
    return logits.sum() * 0.0
