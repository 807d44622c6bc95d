"""Recipes: what a training run is, as typed TOML. Whatever is wrong in one is said in one line, before a model loads.

etude train recipe.toml -o train.steps=20 -o channels.distillation=0.5
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from ...errors import RecipeError, TableError, UnknownName
from ...hints.write.hint_choice import HintChoice, load_choice
from .recipe_checks import problems, unread
from .typed_toml import of_json, read_toml, validated


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


_Plain = Annotated[dict[str, Any], AfterValidator(of_json)]
_Path = Annotated[str, AfterValidator(os.path.expanduser)]
_MANY = 2**31
"""What a report takes for a number of steps or episodes."""


class Schedule(_Table):
    """A weight over the run. ``start`` goes to ``end`` between the shares ``after`` and ``until`` of all steps; where
    these are equal it is a step: ``start`` before, ``end`` from there on."""

    start: float = Field(ge=0)
    end: float = Field(ge=0)
    after: float = Field(default=0.0, ge=0, le=1)
    until: float = Field(default=1.0, ge=0, le=1)

    @model_validator(mode="after")
    def _forward(self) -> Schedule:
        if self.until < self.after:
            raise ValueError(f"until ({self.until:g}) is less than after ({self.after:g}): swap them")
        return self

    def __call__(self, done: float) -> float:
        """The weight when the share ``done`` of the steps has been made."""
        if self.until == self.after:
            return self.start if done < self.after else self.end
        part = min(max((done - self.after) / (self.until - self.after), 0.0), 1.0)
        return self.start + part * (self.end - self.start)

    @property
    def used(self) -> bool:
        """Whether it is ever more than 0."""
        return self.start > 0 or self.end > 0


class Sizes(_Table):
    """Of a model that is made here, in ``copying`` steps on ids that repeat, ``reading`` steps on dialogues without the
    tools' schemas, half as long, and ``steps`` on whole ones. ``skill``: how often its base heeds a hint, and else
    guesses as without one; ``level``: of the drills it reads."""

    hidden: int = Field(default=128, ge=16, multiple_of=16)
    layers: int = Field(default=3, ge=1)
    heads: int = Field(default=4, ge=1)
    vocabulary: int = Field(default=1500, ge=400)
    dialogues: int = Field(default=32_800, ge=1)
    copying: int = Field(default=400, ge=0)
    reading: int = Field(default=800, ge=0)
    steps: int = Field(default=450, ge=1)
    batch: int = Field(default=16, ge=1)
    learning_rate: float = Field(default=3e-3, gt=0)
    skill: float = Field(default=0.99, ge=0, le=1)
    level: int = Field(default=1, ge=1, le=5)


class Model(_Table):
    """``name``: a folder, or a name on the Hub; or ``make``: a small one of ``sizes``, made from nothing on
    dialogues of drills. ``dtype``: that is computed in; weights are float32 all the same, since bfloat16 rounds an
    update of 1e-6 away. ``template``: arguments of the chat template."""

    name: str = ""
    make: Literal["", "drill"] = ""
    sizes: Sizes = Sizes()
    dtype: Literal["float32", "bfloat16"] = "float32"
    template: _Plain = {}


class Environment(_Table):
    """``url`` of a running server, or ``serve``: the word ``drill`` or a folder of tasks, served for this run alone,
    with ``knobs`` as ``etude serve --knob`` takes them. ``tasks``: at most so many of the split are learned from."""

    url: str = ""
    serve: _Path = ""
    knobs: _Plain = {}
    split: str = "train"
    tasks: int = Field(default=256, ge=1)
    system: str = ""


class Train(_Table):
    """``prompts`` tasks a step, ``group`` episodes each; ``micro`` episodes in one forward. ``gradients_every``: each
    channel's own gradient is measured once in so many steps, at the cost of its backward pass; 0: never.
    ``gradient_checkpointing``: activations are made again for the backward pass, not kept."""

    steps: int = Field(default=100, ge=1, lt=_MANY)
    prompts: int = Field(default=4, ge=1, lt=_MANY)
    group: int = Field(default=8, ge=2, lt=_MANY)
    micro: int = Field(default=4, ge=1, lt=_MANY)
    learning_rate: float = Field(default=1e-6, gt=0)
    warmup: float = Field(default=0.0, ge=0, lt=1)
    weight_decay: float = Field(default=0.0, ge=0)
    clip_grad: float = Field(default=1.0, gt=0)
    epochs_on_a_batch: int = Field(default=1, ge=1)
    save_every: int = Field(default=50, ge=1)
    evaluate_tasks: int = Field(default=32, ge=1)
    gradients_every: int = Field(default=10, ge=0)
    gradient_checkpointing: bool = False


class Sft(_Table):
    """Stage "sft": learned from are ``batch`` episodes a step that have at least this ``reward`` and no confirmed
    finding, at most ``per_task`` of a task (0: all)."""

    reward: float = Field(default=1.0, gt=0, le=1)
    per_task: int = Field(default=0, ge=0)
    batch: int = Field(default=8, ge=1)


class Objective(_Table):
    """Channel one. ``kl``: to the first weights, off, as k1 in the reward, or as a bias-corrected k3 in the loss."""

    name: Literal["grpo", "dr_grpo", "bnpo", "dapo", "gspo", "cispo", "sapo", "luspo", "vespo"] = "dr_grpo"
    kl: Literal["off", "k1_in_reward", "k3"] = "off"
    kl_weight: float = Field(default=0.0, ge=0)


class Channels(_Table):
    """The weights a, b and c of the three channels: numbers, or schedules."""

    rlvr: Schedule = Schedule(start=1.0, end=1.0)
    distillation: Schedule = Schedule(start=0.0, end=0.0)
    replay: Schedule = Schedule(start=0.0, end=0.0)

    @model_validator(mode="before")
    @classmethod
    def _numbers(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        for name, weight in given.items():
            if isinstance(weight, bool) or not isinstance(weight, int | float | dict | Schedule):
                raise ValueError(f"{name} is a number, or a schedule such as {{ start = 1.0, end = 0.0 }}")
        plain = (int, float)
        return {k: {"start": v, "end": v} if isinstance(v, plain) else v for k, v in given.items()}


class Distillation(_Table):
    """Channel two; see ``distillation`` and ``teachers``. ``chooser``: the name of the hint that comes
    first, or MODULE:FUNCTION (see ``hints.write.hint_choice``)."""

    beta: float = Field(default=0.5, ge=0, le=1)
    normalised: bool = False
    estimator: Literal["full", "top_k", "sampled"] = "full"
    top_k: int = Field(default=100, ge=1)
    clip: float | None = Field(default=None, gt=0)
    gate: bool = True
    cap: int = Field(default=8, ge=1)
    recovery: bool = False
    teacher: Literal["frozen", "periodic", "trust_region", "ema", "live"] = "frozen"
    every: int = Field(default=100, ge=1)
    rate: float = Field(default=0.001, ge=0, le=1)
    chooser: str = ""


class Replay(_Table):
    """Channel three. ``pairs``: what ``etude replay`` wrote. ``batch``: pairs of a step, over all ranks. ``losses``:
    TRL's names; see ``replay.loss``. ``flipped``: the rate of wrong pairs, for ``robust`` alone."""

    pairs: _Path = ""
    batch: int = Field(default=4, ge=1)
    beta: float = Field(default=0.1, gt=0)
    losses: tuple[Literal["sigmoid", "sigmoid_norm", "ipo", "hinge", "robust", "sft"], ...] = ("sigmoid_norm", "sft")
    weights: tuple[Annotated[float, Field(ge=0)], ...] = (1.0, 0.2)
    flipped: float = Field(default=0.0, ge=0, lt=0.5)


class Generation(_Table):
    """Room in ids of a whole episode and of one turn; how turns are sampled; vLLM inside (colocate) or beside us."""

    max_ids: int = Field(default=8192, ge=16)
    max_turn_ids: int = Field(default=1024, ge=1)
    temperature: float = Field(default=1.0, gt=0)
    vllm: Literal["off", "colocate", "server"] = "off"
    vllm_url: str = ""


class Safety(_Table):
    """When a run stops by itself, saves, and says why. 0 turns a limit off."""

    kl_to_base: float = Field(default=0.0, ge=0)
    teacher_drift: float = Field(default=0.1, ge=0)
    hack_rate: float = Field(default=0.2, ge=0, le=1)
    dollars: float = Field(default=0.0, ge=0)
    dollars_per_hour: float = Field(default=0.0, ge=0)
    hours: float = Field(default=0.0, ge=0)


class Recipe(_Table):
    """A whole run. ``episodes``: the folder of a run, or several; stage "sft" learns from them. ``tensorboard``: its
    files too, in ``out``/tensorboard."""

    stage: Literal["rl", "sft"] = "rl"
    seed: int = Field(default=0, ge=0, lt=2**32)
    out: _Path = Field(default="runs/train", min_length=1)
    episodes: tuple[_Path, ...] = ()
    tensorboard: bool = False
    model: Model = Model()
    environment: Environment = Environment()
    train: Train = Train()
    sft: Sft = Sft()
    objective: Objective = Objective()
    channels: Channels = Channels()
    distillation: Distillation = Distillation()
    replay: Replay = Replay()
    generation: Generation = Generation()
    safety: Safety = Safety()

    @field_validator("episodes", mode="before")
    @classmethod
    def _folders(cls, given: Any) -> Any:
        return ((given,) if given else ()) if isinstance(given, str) else given

    @model_validator(mode="after")
    def _possible(self) -> Recipe:
        for problem in problems(self):
            raise ValueError(problem)
        return self


def load(path: Path, changes: Sequence[str] = ()) -> Recipe:
    """The recipe of a file, with ``key.key=value`` put over it. Raises RecipeError."""
    try:
        table = read_toml(path)
    except FileNotFoundError:
        raise RecipeError(f"there is no recipe {path}") from None
    except TableError as error:
        raise RecipeError(str(error)) from None
    for change in changes:
        _put(table, change)
    return parse(table, str(path))


def parse(table: dict[str, Any], where: str = "the recipe") -> Recipe:
    """Raises RecipeError that names the first wrong key, with the nearest right one."""
    try:
        recipe = validated(Recipe, table, where)
    except TableError as error:
        raise RecipeError(str(error)) from None
    for problem in unread(recipe.stage, table):
        raise RecipeError(f"{where}: {problem}")
    return recipe


def chooser_of(recipe: Recipe) -> HintChoice | None:
    """Return the choice among hints that the recipe names. Raises RecipeError for one that cannot be loaded."""
    name = recipe.distillation.chooser
    try:
        return load_choice(name) if name else None
    except UnknownName as error:
        raise RecipeError(f"distillation.chooser: {error}") from None


def _put(table: dict[str, Any], change: str) -> None:
    """``train.steps=20`` into the table; a value that is no TOML is a string."""
    key, equals, text = change.partition("=")
    if not equals or not key.strip():
        raise RecipeError(f"-o {change!r} is not KEY=VALUE, such as -o train.steps=20")
    try:
        found = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        found = {"value": text}
    if len(found) > 1:
        raise RecipeError(f"-o {change!r} is more than one KEY=VALUE: give each its own -o")
    value = found["value"]
    *tables, last = key.strip().split(".")
    inner = table
    for name in tables:
        inner = inner.setdefault(name, {})
        if not isinstance(inner, dict):
            raise RecipeError(f"-o {change!r}: {name} is a value, not a table")
    inner[last] = value
