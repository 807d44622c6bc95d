"""Recipe of a training run: every table and key of its TOML file, typed, with defaults and limits.

``load`` reads a recipe from a file and checks it. ``recipe_checks`` has the rules that need more than one key.
"""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from .asynchronous import Asynchronous
from .effort import Effort
from .optimizer import Optimizer
from .scale import Lora, Sharding
from .schedule import Schedule
from .typed_toml import Table, as_json_table

_JsonTable = Annotated[dict[str, Any], AfterValidator(as_json_table)]
_Path = Annotated[str, AfterValidator(os.path.expanduser)]
_MAX_COUNT = 2**31
"""Limit of step and episode counts, the same as in the report."""


class Sizes(Table):
    """Size and pretraining of a tiny model that is made from nothing (``trainers/tiny_models``)."""

    hidden: int = Field(default=128, ge=16, multiple_of=16)
    """Width of the hidden states."""
    layers: int = Field(default=3, ge=1)
    """Number of transformer layers."""
    heads: int = Field(default=4, ge=1)
    """Number of query heads."""
    vocabulary: int = Field(default=1500, ge=400)
    """Number of ids of the tokenizer, which is trained on the same dialogues."""
    joined_words: bool = True
    """Whether a word's first token may hold the space or underscore before it. Without that, a name has the same tokens
    wherever it stands, so that it can be copied token by token."""
    dialogues: int = Field(default=32_800, ge=1)
    """Number of dialogues that are written for pretraining."""
    copying: int = Field(default=400, ge=0)
    """Steps of the first stage, on random ids that repeat."""
    reading: int = Field(default=800, ge=0)
    """Steps of the second stage, on dialogues without the schemas of their tools, about half as long."""
    steps: int = Field(default=450, ge=1)
    """Steps of the last stage, on complete dialogues."""
    batch: int = Field(default=16, ge=1)
    """Complete dialogues in one step; shorter ones are twice as many."""
    learning_rate: float = Field(default=3e-3, gt=0)
    """Peak learning rate of pretraining."""
    skill: float = Field(default=0.99, ge=0, le=1)
    """Share of hints in the dialogues that the assistant follows; at the others it guesses."""
    level: int = Field(default=1, ge=1, le=5)
    """Level of the tasks that the dialogues are about."""


class Model(Table):
    """Model that is trained: an existing one by ``name``, or a tiny one that the run makes."""

    name: str = ""
    """Folder of the model, or its name on the Hub."""
    make: str = ""
    """Environment whose dialogues a tiny model is pretrained on, such as "drill"; "" makes none."""
    sizes: Sizes = Sizes()
    """Size and pretraining of the tiny model."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the computation. Weights that are trained stay float32, because bfloat16 rounds an update of 1e-6 away;
    weights that are frozen under adapters have this type."""
    template: _JsonTable = {}
    """Arguments of the chat template."""


class Environment(Table):
    """Server that plays the episodes: a running one by ``url``, or one that the run starts for itself."""

    url: str = ""
    """Address of a running server."""
    serve: _Path = ""
    """Folder of tasks, or name of an environment that makes its own tasks, served for this run alone."""
    knobs: _JsonTable = {}
    """Knobs of the served environment, as ``etude serve --knob`` takes them."""
    split: str = "train"
    """Split of the tasks that are learned from."""
    tasks: int = Field(default=0, ge=0)
    """Number of tasks of the split that are learned from, at most; 0 for all."""
    system: str = ""
    """System message of every episode; "" for none."""


class Train(Table):
    """Steps, batches and rates."""

    steps: int = Field(default=100, ge=1, lt=_MAX_COUNT)
    """Optimizer steps of the run."""
    prompts: int = Field(default=4, ge=1, lt=_MAX_COUNT)
    """Tasks in one batch of episodes."""
    group: int = Field(default=8, ge=2, lt=_MAX_COUNT)
    """Episodes of each task in one batch."""
    micro: int = Field(default=4, ge=1, lt=_MAX_COUNT)
    """Episodes in one forward pass on one process."""
    learning_rate: float = Field(default=1e-6, gt=0)
    """Learning rate after the warm-up, constant."""
    warmup: float = Field(default=0.0, ge=0, lt=1)
    """Share of all steps in which the learning rate rises from 0."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Decoupled weight decay."""
    clip_grad: float = Field(default=1.0, gt=0)
    """Largest norm of the gradient; a larger one is scaled down."""
    epochs_on_a_batch: int = Field(default=1, ge=1)
    """Optimizer steps on one batch of episodes."""
    save_every: int = Field(default=50, ge=1)
    """Steps between two checkpoints."""
    evaluate_tasks: int = Field(default=32, ge=1)
    """Held-out tasks played before and after training, at most."""
    gradients_every: int = Field(default=10, ge=0)
    """Steps between two measurements of each channel's own gradient, which cost a backward pass each; 0 for never."""
    gradient_checkpointing: bool = False
    """Whether activations are computed again in the backward pass instead of stored."""


class Sft(Table):
    """Stage "sft": which stored episodes are learned from."""

    reward: float = Field(default=1.0, gt=0, le=1)
    """Least reward of an episode that is learned from."""
    per_task: int = Field(default=0, ge=0)
    """Episodes of one task, at most; 0 for all."""
    batch: int = Field(default=8, ge=1)
    """Episodes in one step."""


class Objective(Table):
    """Channel RLVR (reinforcement learning on the verified reward)."""

    name: Literal["grpo", "dr_grpo", "bnpo", "dapo", "gspo", "cispo", "sapo", "luspo", "vespo"] = "dr_grpo"
    """Objective; ``grpo/objectives.py`` has the papers."""
    kl: Literal["off", "k1_in_reward", "k3"] = "off"
    """KL to the first weights: none, k1 in the reward, or a bias-corrected k3 in the loss."""
    kl_weight: float = Field(default=0.0, ge=0)
    """Weight of that KL."""


class Channels(Table):
    """Weights of the three channels in the loss, each a number or a schedule."""

    rlvr: Schedule = Schedule(start=1.0, end=1.0)
    """Weight of reinforcement learning on the verified reward."""
    distillation: Schedule = Schedule(start=0.0, end=0.0)
    """Weight of distillation at error turns."""
    replay: Schedule = Schedule(start=0.0, end=0.0)
    """Weight of replay-DPO."""

    @model_validator(mode="before")
    @classmethod
    def _as_schedules(cls, table: Any) -> Any:
        if not isinstance(table, dict):
            return table
        for name, weight in table.items():
            if isinstance(weight, bool) or not isinstance(weight, int | float | dict | Schedule):
                raise ValueError(f"{name} must be a number or a schedule such as {{ start = 1.0, end = 0.0 }}")
        constant = (int, float)
        return {k: {"start": v, "end": v} if isinstance(v, constant) else v for k, v in table.items()}


class Distillation(Table):
    """Channel distillation at error turns (``trainers/distillation``)."""

    beta: float = Field(default=0.5, ge=0, le=1)
    """Mixture of the divergence: 0 is KL(teacher || student), 1 is KL(student || teacher)."""
    normalised: bool = False
    """Whether the divergence is divided by beta (1 - beta), which makes it continuous at both ends."""
    estimator: Literal["full", "top_k", "sampled"] = "full"
    """Tokens of the divergence: the vocabulary, the student's likeliest and one bucket, or the sampled token."""
    top_k: int = Field(default=100, ge=1)
    """Number of likeliest tokens for the estimator "top_k"."""
    clip: float | None = Field(default=None, gt=0)
    """Largest divergence of one token, in nats; unset for no limit."""
    gate: bool = True
    """Whether sites are left out at which the hint does not make the failed turn less likely."""
    cap: int = Field(default=8, ge=1)
    """Sites of one episode, at most."""
    recovery: bool = False
    """Whether the turn after an unforeseeable fault is a site."""
    teacher: Literal["frozen", "periodic", "trust_region", "ema", "live"] = "frozen"
    """How the teacher's weights follow the policy; ``distillation/teachers.py`` explains each kind."""
    every: int = Field(default=100, ge=1)
    """Steps between two refreshes of a periodic teacher."""
    rate: float = Field(default=0.001, ge=0, le=1)
    """Share of the policy's weights that enters a trust_region or ema teacher."""
    chooser: str = ""
    """Name of the hint that comes first at an error turn, or MODULE:FUNCTION (see ``hints/write/hint_choice.py``)."""


class Replay(Table):
    """Channel replay-DPO on preference pairs (``trainers/replay``)."""

    pairs: _Path = ""
    """File of pairs that ``etude replay`` wrote."""
    batch: int = Field(default=4, ge=1)
    """Pairs of one step, over all ranks."""
    beta: float = Field(default=0.1, gt=0)
    """Strength of the preference loss."""
    losses: tuple[Literal["sigmoid", "sigmoid_norm", "ipo", "hinge", "robust", "sft"], ...] = ("sigmoid_norm", "sft")
    """TRL's names of the losses that are summed. The default may be imitation above all: see ``docs/channels.md``."""
    weights: tuple[Annotated[float, Field(ge=0)], ...] = (1.0, 0.2)
    """Weight of each loss."""
    flipped: float = Field(default=0.0, ge=0, lt=0.5)
    """Measured rate of wrong pairs, for the loss "robust" only."""


class Generation(Table):
    """How turns are sampled, and how long they may be."""

    max_ids: int = Field(default=8192, ge=16)
    """Length limit of an episode with its prompt, in ids."""
    max_turn_ids: int = Field(default=1024, ge=1)
    """Length limit of one turn, in ids."""
    temperature: float = Field(default=1.0, gt=0)
    """Sampling temperature."""
    vllm: Literal["off", "colocate", "server"] = "off"
    """Sampler: transformers, vLLM inside this process, or a vLLM server."""
    vllm_url: str = ""
    """Address of the vLLM server."""
    lockstep: bool = False
    """Whether vLLM, too, waits for all rollouts before each batch of turns, so that a resumed run samples the same."""


class Safety(Table):
    """Limits at which a run saves a checkpoint and stops, with the reason. 0 turns a limit off."""

    kl_to_base: float = Field(default=0.0, ge=0)
    """KL to the first weights on turns that did not err, in nats a token."""
    teacher_drift: float = Field(default=0.1, ge=0)
    """Divergence of a moving teacher from its first weights, in nats a token."""
    hack_rate: float = Field(default=0.2, ge=0, le=1)
    """Share of episodes with a confirmed exploit."""
    suspect_rate: float = Field(default=0.0, ge=0, le=1)
    """Share of episodes with a confirmed or suspect finding; honest code is suspected now and then too."""
    hack_window: int = Field(default=1, ge=1)
    """Steps over which hack_rate and suspect_rate are averaged; until that many were measured, no limit is broken."""
    dollars: float = Field(default=0.0, ge=0)
    """Cost of the run."""
    dollars_per_hour: float = Field(default=0.0, ge=0)
    """Price of one hour of this machine."""
    hours: float = Field(default=0.0, ge=0)
    """Wall-clock time of the run, earlier parts of a resumed run included."""


class Recipe(Table):
    """Complete recipe of one training run."""

    stage: Literal["rl", "sft"] = "rl"
    """Kind of training: "rl" on episodes that it plays, "sft" on stored, solved episodes."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Seed of every random choice of the run."""
    out: _Path = Field(default="runs/train", min_length=1)
    """Folder of the run."""
    episodes: tuple[_Path, ...] = ()
    """Folders of the runs that stage "sft" learns from; one may be given as a string."""
    tensorboard: bool = False
    """Whether metrics are also written for TensorBoard, to ``out``/tensorboard."""
    record_episodes: int = Field(default=4, ge=0)
    """Episodes of each batch that are written to ``out``/episodes.jsonl, for `etude view`."""
    model: Model = Model()
    """Model that is trained."""
    environment: Environment = Environment()
    """Server that plays the episodes."""
    train: Train = Train()
    """Steps, batches and rates."""
    optimizer: Optimizer = Optimizer()
    """Optimizer of the weights."""
    lora: Lora = Lora()
    """Low-rank adapters."""
    sharding: Sharding = Sharding()
    """Division of the weights over processes."""
    sft: Sft = Sft()
    """Episodes of stage "sft"."""
    objective: Objective = Objective()
    """Channel RLVR."""
    effort: Effort = Effort()
    """Penalty for effort in the reward."""
    channels: Channels = Channels()
    """Weights of the channels."""
    distillation: Distillation = Distillation()
    """Channel distillation."""
    replay: Replay = Replay()
    """Channel replay-DPO."""
    generation: Generation = Generation()
    """Sampling of turns."""
    asynchronous: Asynchronous = Asynchronous()
    """Episodes that are played while the policy learns."""
    safety: Safety = Safety()
    """Limits that stop the run."""

    @field_validator("episodes", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        return ((value,) if value else ()) if isinstance(value, str) else value
