"""What is wrong with a recipe whose keys and values are all right by themselves."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...client import Client
from ...errors import BadAddress

if TYPE_CHECKING:
    from .recipe import Recipe


_OF_SEQUENCES = ("gspo", "luspo")
"""Under whose ratio k3 has about the gradient of the forward KL."""
_OF_GROUPS = ("train.prompts", "train.group", "train.epochs_on_a_batch", "train.gradients_every")
_OF_ROLLOUTS = ("environment.tasks", "safety.hack_rate", "safety.teacher_drift")
UNREAD = {
    "sft": ("objective", "channels", "distillation", "replay", *_OF_GROUPS, *_OF_ROLLOUTS),
    "rl": ("sft", "episodes"),
}
"""What a stage does not read, and a recipe of it must not set."""
_OF_EVALUATION = ("environment.split", "train.evaluate_tasks") + tuple(
    f"generation.{name}" for name in ("max_turn_ids", "temperature", "vllm", "vllm_url")
)
_READ_WITH = (
    ("every", "teacher", ("periodic",), None),
    ("rate", "teacher", ("trust_region", "ema"), 0.0),
    ("top_k", "estimator", ("top_k",), None),
    ("beta", "estimator", ("full", "top_k"), 1.0),
    ("normalised", "estimator", ("full", "top_k"), None),
)
"""Options of [distillation], the key that decides whether they are read, its values with which they are, and what is
true of the others: nothing of the student comes in, and one sampled token has the reverse KL."""


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
    found += _place_problems(recipe)
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
    found += [*_channel_problems(recipe), *_loss_problems(recipe), *_option_problems(recipe)]
    if (recipe.objective.kl == "off") != (recipe.objective.kl_weight == 0):
        found.append("objective.kl and objective.kl_weight go together: set both, or neither")
    if recipe.objective.kl != "off" and not channels.rlvr.used:
        found.append("objective.kl is a part of RLVR, but channels.rlvr is 0: leave out objective.kl and kl_weight")
    if recipe.objective.kl == "k3" and recipe.objective.name in _OF_SEQUENCES:
        found.append(
            f'objective.kl = "k3" is corrected by the ratio of each token, and "{recipe.objective.name}" has that of '
            'whole sequences: set objective.kl = "k1_in_reward"'
        )
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


def _place_problems(recipe: Recipe) -> list[str]:
    """Of the model, of the server's address and of where vLLM is."""
    model, room, found = recipe.model, recipe.generation, []
    if not model.make and model.sizes != type(model.sizes)():
        found.append("model.sizes are of a model that is made here: they go with model.make (-o model.sizes={})")
    if model.name and os.path.realpath(os.path.expanduser(model.name)) == os.path.realpath(Path(recipe.out, "model")):
        found.append(f"out: what is learned would be written over {model.name}, where it starts: choose another out")
    if recipe.environment.url:
        try:
            Client(recipe.environment.url)
        except BadAddress as error:
            found.append(f"environment.url: {error}")
    if room.vllm_url and room.vllm != "server":
        found.append('generation.vllm_url is read with generation.vllm = "server" alone: set that, or take it out')
    return found


def _channel_problems(recipe: Recipe) -> list[str]:
    channels, steps, found = recipe.channels, recipe.train.steps, []
    if not (channels.rlvr.used or channels.distillation.used or channels.replay.used):
        found.append("every channel's weight is 0: there is nothing to learn from")
    if channels.replay.used and not recipe.replay.pairs:
        found.append("channels.replay has a weight, but replay.pairs names no file: `etude replay` writes one")
    if channels.replay.used and not any(recipe.replay.weights):
        found.append("channels.replay has a weight, but none of replay.weights has: name a loss with one")
    for name, weight in channels:  # none is ever more than at its first or at its last step
        if weight.used and not max(weight(0.0), weight((steps - 1) / steps)):
            found.append(f"channels.{name} is 0 at each of {steps} steps: let it begin sooner, or raise train.steps")
    return found


def ignored(recipe: Recipe) -> set[str]:
    """Dotted names, and tables, that a run of this recipe never reads: older recipes may set them."""
    options = recipe.distillation
    unread = {f"distillation.{name}" for name, by, values, _ in _READ_WITH if getattr(options, by) not in values}
    return {*UNREAD[recipe.stage], *unread}


def _option_problems(recipe: Recipe) -> list[str]:
    options, found = recipe.distillation, []
    if not recipe.channels.distillation.used:
        return []
    for name, decides, values, same in _READ_WITH:
        value, by = getattr(options, name), getattr(options, decides)
        if by not in values and value not in (type(options).model_fields[name].default, same):
            known = " or ".join(values)
            found.append(f'distillation.{name} is not read by {decides} = "{by}", but by {known}: take it out')
    return found


def unread(stage: str, written: Mapping[str, Any]) -> list[str]:
    """The same, for what a recipe of this stage sets; a resolved one has everything."""
    tables = {table: inner for table, inner in written.items() if isinstance(inner, Mapping)}
    keys = {*written, *(f"{table}.{name}" for table, inner in tables.items() for name in inner)}
    names = [name if "." in name or name == "episodes" else f"[{name}]" for name in UNREAD[stage] if name in keys]
    found = [f'stage = "{stage}" does not read {", ".join(names)}: take it out'] if names else []
    for name in ("distillation", "replay") if stage == "rl" else ():
        if written.get(name) and f"channels.{name}" not in keys:
            found.append(f"[{name}] is read where channels.{name} has a weight: give it one, or 0 to leave it off")
    return found


def _set_for_evaluation(recipe: Recipe) -> Iterator[str]:
    for name in _OF_EVALUATION:
        table, key = name.split(".")
        inner = getattr(recipe, table)
        if getattr(inner, key) != type(inner).model_fields[key].get_default(call_default_factory=True):
            yield name


def _sft_problems(recipe: Recipe) -> list[str]:
    found = []
    evaluated = recipe.environment.url or recipe.environment.serve
    if not evaluated and (alone := list(_set_for_evaluation(recipe))):
        found.append(
            f'stage = "sft" reads {", ".join(alone)} in an environment alone: take it out, or give environment.url or '
            "environment.serve to be evaluated in"
        )
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
    names = [Path(name) for name in recipe.episodes]
    twice = [str(name) for name in names if names.count(name) > 1]
    if twice:
        found.append(f"episodes names {twice[0]} twice: name it once")
    return found
