"""What is wrong with a recipe whose keys and values are all right by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .recipe import Recipe


_OF_GROUPS = ("train.prompts", "train.group", "train.epochs_on_a_batch", "train.gradients_every")
UNREAD = {"sft": ("objective", "channels", "distillation", "replay", *_OF_GROUPS), "rl": ("sft", "episodes")}
"""What a stage does not read, and a recipe of it must not set."""


def problems(recipe: Recipe) -> list[str]:
    """One line each, with the remedy; none for a recipe that can be run."""
    train, room = recipe.train, recipe.generation
    found = []
    if recipe.model.name and recipe.model.make:
        found.append('model.name and model.make are both given: set one to "" (-o \'model.make=""\')')
    elif not (recipe.model.name or recipe.model.make):
        found.append('give model.name (a folder, or a name on the Hub), or model.make = "drill"')
    if recipe.model.make and recipe.model.sizes.hidden % (2 * recipe.model.sizes.heads):
        found.append("model.sizes.hidden must be an even multiple of model.sizes.heads")
    if recipe.environment.knobs and not recipe.environment.serve:
        found.append("environment.knobs are for a server of the run's own: they go with environment.serve")
    if recipe.safety.dollars and not recipe.safety.dollars_per_hour:
        found.append("safety.dollars counts hours at safety.dollars_per_hour: set both")
    if recipe.stage == "sft":
        return [*found, *_sft_problems(recipe)]
    if recipe.environment.url and recipe.environment.serve:
        found.append(
            'environment.url and environment.serve are both given: set one to "" (-o \'environment.serve=""\')'
        )
    elif not (recipe.environment.url or recipe.environment.serve):
        found.append('give environment.url of a running server, or environment.serve = "drill" (or a folder of tasks)')
    if train.prompts * train.group % train.micro:
        found.append(
            f"train.prompts x train.group = {train.prompts * train.group} episodes do not divide into micro-batches "
            f"of {train.micro}: set train.micro to a divisor of it"
        )
    if room.max_turn_ids > room.max_ids:
        found.append(f"generation.max_turn_ids ({room.max_turn_ids}) is more than max_ids ({room.max_ids})")
    channels = recipe.channels
    if not (channels.rlvr.used or channels.distillation.used or channels.replay.used):
        found.append("every channel's weight is 0: there is nothing to learn from")
    if channels.replay.used and not recipe.replay.pairs:
        found.append("channels.replay has a weight, but replay.pairs names no file: `etude replay` writes one")
    if channels.replay.used and not any(recipe.replay.weights):
        found.append("channels.replay has a weight, but none of replay.weights has: name a loss with one")
    found += _loss_problems(recipe)
    if (recipe.objective.kl == "off") != (recipe.objective.kl_weight == 0):
        found.append("objective.kl and objective.kl_weight go together: set both, or neither")
    if recipe.objective.kl != "off" and not channels.rlvr.used:
        found.append("objective.kl is a part of RLVR, but channels.rlvr is 0: leave out objective.kl and kl_weight")
    if recipe.objective.name == "dapo" and not channels.rlvr.used:
        found.append('objective.name = "dapo" plays groups again for RLVR alone, but channels.rlvr is 0: leave it out')
    moving = recipe.distillation.teacher != "frozen"
    if channels.distillation.used and moving and not recipe.safety.teacher_drift:
        found.append(
            f'distillation.teacher = "{recipe.distillation.teacher}" moves with its student, and such teachers '
            "collapse: set safety.teacher_drift"
        )
    if train.save_every % train.epochs_on_a_batch:
        found.append(
            f"train.save_every ({train.save_every}) must be a multiple of train.epochs_on_a_batch "
            f"({train.epochs_on_a_batch}): a run resumes where a batch of episodes is used up"
        )
    if room.vllm == "server" and not room.vllm_url:
        found.append('generation.vllm = "server" needs generation.vllm_url')
    return found


def _loss_problems(recipe: Recipe) -> list[str]:
    losses, flipped, found = recipe.replay.losses, recipe.replay.flipped, []
    if len(losses) != len(recipe.replay.weights):
        found.append("replay.losses and replay.weights have different lengths")
    twice = [name for name in losses if losses.count(name) > 1]
    if twice:
        found.append(f'replay.losses names "{twice[0]}" twice: name it once, with the sum of its weights')
    if "robust" in losses and not flipped:
        found.append('"robust" is "sigmoid" when no pair is wrong: set replay.flipped to the rate of wrong pairs')
    if flipped and "robust" not in losses:
        found.append('replay.flipped is read by "robust" alone: name it in replay.losses, or take flipped out')
    return found


def unread(stage: str, written: Mapping[str, Any]) -> list[str]:
    """The same, for what a recipe of this stage sets; a resolved one has everything."""
    keys = {*written, *(f"train.{name}" for name in written.get("train", {}))}
    names = [name if "." in name or name == "episodes" else f"[{name}]" for name in UNREAD[stage] if name in keys]
    return [f'stage = "{stage}" does not read {", ".join(names)}: take it out'] if names else []


def _sft_problems(recipe: Recipe) -> list[str]:
    found = []
    if not recipe.episodes:
        found.append('stage = "sft" learns from episodes: set episodes = "runs/x"')
    if recipe.environment.url and recipe.environment.serve:
        found.append("give environment.url or environment.serve, not both")
    if recipe.sft.batch % recipe.train.micro:
        found.append(
            f"sft.batch = {recipe.sft.batch} episodes do not divide into micro-batches of {recipe.train.micro}: "
            "set train.micro to a divisor of it"
        )
    if recipe.safety.kl_to_base:
        found.append('safety.kl_to_base is measured on rollouts: leave it out in stage = "sft"')
    return found
