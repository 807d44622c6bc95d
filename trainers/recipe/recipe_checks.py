"""Rules of a recipe that need more than one key: each broken rule is one line, with the remedy."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...client import Client
from ...errors import BadAddress
from .asynchronous_checks import asynchronous_problems
from .effort import effort_problems, unread_effort
from .optimizer import Optimizer
from .recipe import Recipe
from .scale_checks import scale_problems

_SEQUENCE_OBJECTIVES = ("gspo", "luspo")
"""Objectives with one ratio for a whole sequence. With that ratio, k3 has about the gradient of the forward KL."""
_GROUP_KEYS = ("train.prompts", "train.group", "train.epochs_on_a_batch", "train.gradients_every")
_ROLLOUT_KEYS = (
    "environment.tasks",
    "record_episodes",
    "safety.hack_rate",
    "safety.suspect_rate",
    "safety.teacher_drift",
)
UNREAD = {
    "sft": ("objective", "effort", "channels", "distillation", "replay", "asynchronous", *_GROUP_KEYS, *_ROLLOUT_KEYS),
    "rl": ("sft", "episodes"),
}
"""Tables and keys that a stage does not read; a recipe of that stage must not set them."""
_EVALUATION_KEYS = (
    "environment.split",
    "train.evaluate_tasks",
    "generation.max_turn_ids",
    "generation.temperature",
    "generation.vllm",
    "generation.vllm_url",
)
_OPTIONS = (
    ("every", "teacher", ("periodic",), None),
    ("rate", "teacher", ("trust_region", "ema"), 0.0),
    ("top_k", "estimator", ("top_k",), None),
    ("beta", "estimator", ("full", "top_k"), 1.0),
    ("normalised", "estimator", ("full", "top_k"), None),
)
"""Options of [distillation]: the option, the key that decides whether it is read, the values of that key with which it
is read, and a value of the option that describes the other values: a frozen or live teacher takes in 0 of the student,
and the sampled token has the reverse KL."""


def recipe_problems(recipe: Recipe) -> list[str]:
    """Return one line for each rule that the recipe breaks; an empty list for a recipe that can be run."""
    problems = [*_model_problems(recipe), *_address_problems(recipe), *scale_problems(recipe)]
    if recipe.safety.dollars and not recipe.safety.dollars_per_hour:
        problems.append("safety.dollars counts hours at safety.dollars_per_hour; set both")
    if recipe.stage == "sft":
        return [*problems, *_sft_problems(recipe)]
    if not (recipe.environment.url or recipe.environment.serve):
        problems.append(
            "an environment is missing; give environment.url of a running server, or environment.serve (a folder of "
            "tasks, or an environment that makes its own)"
        )
    return [
        *problems,
        *_batch_problems(recipe),
        *_channel_problems(recipe),
        *_replay_loss_problems(recipe),
        *_distillation_problems(recipe),
        *_objective_problems(recipe),
        *effort_problems(recipe.effort, recipe.channels.rlvr.used),
        *asynchronous_problems(recipe),
    ]


def unread_keys(stage: str, table: Mapping[str, Any]) -> list[str]:
    """Return one line for each group of keys that the recipe's TOML ``table`` sets and its stage does not read."""
    inner = {name: value for name, value in table.items() if isinstance(value, Mapping)}
    keys = {*table, *(f"{name}.{key}" for name, value in inner.items() for key in value)}
    names = [f"[{name}]" if name in inner else name for name in UNREAD[stage] if name in keys]
    problems = [f'stage = "{stage}" does not read {", ".join(names)}; remove them'] if names else []
    for name in ("distillation", "replay") if stage == "rl" else ():
        if table.get(name) and f"channels.{name}" not in keys:
            problems.append(f"[{name}] is read if channels.{name} has a weight; give it one, or 0 to leave it off")
    effort = inner.get("effort", {}) if stage == "rl" else {}
    return [*problems, *unread_effort(effort), *_optimizer_problems(inner.get("optimizer", {}))]


def _optimizer_problems(table: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for an option of Muon that AdamW does not read. Values that are the default may stand."""
    if table.get("name") == "muon":
        return
    for name, value in table.items():
        default = getattr(Optimizer(), name, value)
        if name != "name" and value != (list(default) if isinstance(default, tuple) else default):
            yield f'optimizer.{name} is for Muon; set optimizer.name = "muon", or remove it'


def ignored_keys(recipe: Recipe) -> set[str]:
    """Return the tables and dotted keys that a run of this recipe never reads. Recipes of old runs may set them."""
    options = recipe.distillation
    unread = {f"distillation.{name}" for name, by, values, _ in _OPTIONS if getattr(options, by) not in values}
    return {*UNREAD[recipe.stage], *unread}


def _model_problems(recipe: Recipe) -> Iterator[str]:
    model = recipe.model
    if model.name and model.make:
        yield 'model.name and model.make are both given; set one to "" (-o \'model.make=""\')'
    if not (model.name or model.make):
        yield "a model is missing; give model.name (a folder, or a name on the Hub), or model.make to make a tiny one"
    if model.make and model.sizes.hidden % (2 * model.sizes.heads):
        yield "model.sizes.hidden must be an even multiple of model.sizes.heads"
    if not model.make and model.sizes != type(model.sizes)():
        yield "model.sizes is read with model.make only; remove it (-o model.sizes={})"
    if model.name and os.path.realpath(os.path.expanduser(model.name)) == os.path.realpath(Path(recipe.out, "model")):
        yield f"the trained model would overwrite {model.name}, from which the run starts; choose another out"


def _address_problems(recipe: Recipe) -> Iterator[str]:
    """Yield what is wrong with the addresses of the server and of vLLM."""
    environment, generation = recipe.environment, recipe.generation
    if environment.url and environment.serve:
        yield 'environment.url and environment.serve are both given; set one to "" (-o \'environment.serve=""\')'
    if environment.knobs and not environment.serve:
        yield "environment.knobs is read with environment.serve only; set that, or remove the knobs"
    if environment.url:
        try:
            Client(environment.url)
        except BadAddress as error:
            yield f"environment.url: {error}"
    if generation.vllm_url and generation.vllm != "server":
        yield 'generation.vllm_url is read with generation.vllm = "server" only; set that, or remove the address'


def _batch_problems(recipe: Recipe) -> Iterator[str]:
    train, generation = recipe.train, recipe.generation
    if train.prompts * train.group % train.micro:
        yield (
            f"train.prompts x train.group = {train.prompts * train.group} episodes do not divide into micro-batches "
            f"of {train.micro}; set train.micro to a divisor"
        )
    if train.save_every % train.epochs_on_a_batch:
        yield (
            f"train.save_every ({train.save_every}) must be a multiple of train.epochs_on_a_batch "
            f"({train.epochs_on_a_batch}), because a run resumes between two batches of episodes"
        )
    if generation.max_turn_ids > generation.max_ids:
        yield (
            f"generation.max_turn_ids ({generation.max_turn_ids}) is more than max_ids ({generation.max_ids}); lower it"
        )
    if generation.vllm == "server" and not generation.vllm_url:
        yield 'generation.vllm = "server" needs generation.vllm_url'


def _objective_problems(recipe: Recipe) -> Iterator[str]:
    objective, rlvr_used = recipe.objective, recipe.channels.rlvr.used
    if (objective.kl == "off") != (objective.kl_weight == 0):
        yield "objective.kl and objective.kl_weight belong together; set both, or neither"
    if objective.kl != "off" and not rlvr_used:
        yield "objective.kl is a part of RLVR, but channels.rlvr is 0; remove objective.kl and kl_weight"
    if objective.kl == "k3" and objective.name in _SEQUENCE_OBJECTIVES:
        yield (
            f'objective.kl = "k3" is corrected by the ratio of each token, but "{objective.name}" has the ratio of '
            'a whole sequence; set objective.kl = "k1_in_reward"'
        )
    if objective.name == "dapo" and not rlvr_used:
        yield 'objective.name = "dapo" replays groups for RLVR only, but channels.rlvr is 0; remove objective.name'


def _channel_problems(recipe: Recipe) -> Iterator[str]:
    channels, steps = recipe.channels, recipe.train.steps
    if not (channels.rlvr.used or channels.distillation.used or channels.replay.used):
        yield "the weight of every channel is 0; give one a weight"
    if channels.replay.used and not recipe.replay.pairs:
        yield "channels.replay has a weight, but replay.pairs names no file; `etude replay` writes one"
    if channels.replay.used and not any(recipe.replay.weights):
        yield "channels.replay has a weight, but every weight in replay.weights is 0; give one a weight"
    for name, weight in channels:  # a schedule is largest at its first or at its last step
        if weight.used and not max(weight(0.0), weight((steps - 1) / steps)):
            yield f"channels.{name} is 0 at each of {steps} steps; let it start earlier, or raise train.steps"


def _replay_loss_problems(recipe: Recipe) -> Iterator[str]:
    losses, flipped = recipe.replay.losses, recipe.replay.flipped
    if len(losses) != len(recipe.replay.weights):
        yield "replay.losses and replay.weights have different lengths; give each loss one weight"
    if repeated := _repeated(losses):
        yield f'replay.losses names "{repeated}" twice; name it once, with the sum of its weights'
    if "robust" in losses and not flipped:
        yield '"robust" equals "sigmoid" when no pair is wrong; set replay.flipped to the rate of wrong pairs'
    if flipped and "robust" not in losses:
        yield 'replay.flipped is read by "robust" only; name it in replay.losses, or remove flipped'


def _distillation_problems(recipe: Recipe) -> Iterator[str]:
    options = recipe.distillation
    if not recipe.channels.distillation.used:
        return
    for name, decides, values, equivalent in _OPTIONS:
        value, by = getattr(options, name), getattr(options, decides)
        if by not in values and value not in (type(options).model_fields[name].default, equivalent):
            readers = " or ".join(values)
            yield f'distillation.{name} is not read by {decides} = "{by}", but by {readers}; remove it'
    if options.teacher != "frozen" and not recipe.safety.teacher_drift:
        yield (
            f'distillation.teacher = "{options.teacher}" moves with its student, and such teachers can collapse; '
            "set safety.teacher_drift"
        )


def _sft_problems(recipe: Recipe) -> Iterator[str]:
    evaluated = recipe.environment.url or recipe.environment.serve
    if not evaluated and (names := list(_evaluation_keys(recipe))):
        yield (
            f'stage = "sft" reads {", ".join(names)} for an evaluation only; remove them, or give environment.url '
            "or environment.serve"
        )
    if not recipe.episodes:
        yield 'stage = "sft" learns from episodes; set episodes = "runs/x"'
    if recipe.sft.batch % recipe.train.micro:
        yield (
            f"sft.batch = {recipe.sft.batch} episodes do not divide into micro-batches of {recipe.train.micro}; "
            "set train.micro to a divisor"
        )
    if recipe.safety.kl_to_base:
        yield 'safety.kl_to_base is measured on rollouts; remove it for stage = "sft"'
    if repeated := _repeated([str(Path(name)) for name in recipe.episodes]):
        yield f"episodes names {repeated} twice; name it once"


def _evaluation_keys(recipe: Recipe) -> Iterator[str]:
    """Yield the keys that only an evaluation reads and that are not at their defaults."""
    for name in _EVALUATION_KEYS:
        table_name, key = name.split(".")
        table = getattr(recipe, table_name)
        if getattr(table, key) != type(table).model_fields[key].get_default(call_default_factory=True):
            yield name


def _repeated(names: Sequence[str]) -> str:
    """Return the first name that occurs more than once, or ''."""
    return next((name for name in names if names.count(name) > 1), "")
