"""Stage "sft": TRL's SFTTrainer on solved episodes. The training loop and the files of a run are those of stage "rl".

The loss of a step is the mean of -log pi(id | previous ids) over all learned ids of the step, whatever the number of
micro-batches and processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.sft_config import SFTConfig
from trl.trainer.sft_trainer import SFTTrainer

from ..chat.chat_policy import never_samples
from ..distributed import world_size
from ..grpo.parts import Parts
from ..grpo.trainer import EtudeTrainer
from ..recipe.recipe import Recipe
from ..rollouts.dataset_rows import repeat_shuffled, reset_rows
from ..rollouts.rollout import Rollout
from ..rollouts.session_pool import Limits
from ..run.builder import BuiltRun, add_callbacks, generation_arguments, shared_arguments
from ..run.checkpoints import StateSaver
from ..run.memory_check import check_memory
from ..run.model_loading import LoadableModel, open_model
from ..run.optimizers import optimizer_arguments
from ..run.records import Progress, WriteDialogues
from ..sharded.training import ShardedTraining
from .rows import Rows, Solved, encode, plan

_Base: Any = SFTTrainer


class SolvedTrainer(ShardedTraining, _Base):
    """SFTTrainer that can also play episodes with the weights in training.

    ``train_dataset`` has ``input_ids`` and ``labels`` in the order of the steps. ``player`` plays the episodes of the
    evaluations; None without an environment.
    """

    def __init__(self, model: Any, player: EtudeTrainer | None = None, **arguments: Any) -> None:
        self._player = player
        super().__init__(model=model, **arguments)

    def play(self, tasks: Sequence[Mapping[str, Any]]) -> list[Rollout]:
        """Play an episode of each task, as stage "rl" does; without an environment return no rollouts."""
        if self._player is None:
            return []
        self._player.state.global_step = self.state.global_step  # TRL sends vLLM the weights when this number changes
        return self._player.play(tasks)

    def close(self) -> None:
        """Close the sessions. Idempotent."""
        if self._player:
            self._player.close()


def build(
    recipe: Recipe,
    url: str,
    solved: Solved,
    *,
    trainer: Any,
    dialogues: WriteDialogues | None,
    progress: Progress,
) -> BuiltRun:
    """Build the trainer: template and ids first, weights last. Raises RecipeError, ChatError, UnsuitableModel."""
    start = open_model(recipe, dialogues, progress)
    system, room = recipe.environment.system, recipe.generation
    rows = encode(solved.episodes, start.chat(never_samples), system=system, max_ids=room.max_ids)
    check_memory(recipe, start.config)
    arguments = SFTConfig(**_arguments(recipe, solved))  # before weights, because it joins the processes
    model = start.load_weights()
    trained = (trainer or SolvedTrainer)(
        model,
        _player(start, model, url) if url else None,
        args=arguments,
        train_dataset=dataset(rows, recipe),
        processing_class=start.tokenizer,
        **optimizer_arguments(recipe, model),
    )
    trained.load_weights = start.load_whole
    callbacks = add_callbacks(trained, recipe, StateSaver(None, rows), progress)
    warnings = [f"{number} episodes left out: {reason}" for reason, number in rows.skipped.items()]
    return BuiltRun(recipe, trained, start.tokenizer, callbacks, warnings, start.moe, start.arguments)


def dataset(rows: Rows, recipe: Recipe) -> Dataset:
    """Return ``sft.batch`` rows for each step: all rows, shuffled by the seed, then all shuffled again, and so on."""
    names = [str(number) for number in range(len(rows.rows))]
    drawn = repeat_shuffled(names, recipe.train.steps * recipe.sft.batch, recipe.seed)
    return Dataset.from_list(rows.rows).select([int(row["task_id"]) for row in drawn])


def _arguments(recipe: Recipe, solved: Solved) -> dict[str, Any]:
    """Return the arguments of SFTConfig; the rows are ids already, and are never cut."""
    return {
        **shared_arguments(recipe, Path(recipe.out)),
        "gradient_accumulation_steps": plan(recipe, world_size(), solved)["gradient_accumulation"],
        "train_sampling_strategy": "sequential",
        "dataset_kwargs": {"skip_prepare_dataset": True},
        "max_length": None,
    }


def _player(start: LoadableModel, model: Any, url: str) -> EtudeTrainer:
    """Return a trainer that plays episodes with ``model`` and is never trained."""
    recipe, room = start.recipe, start.recipe.generation
    arguments = {
        "output_dir": str(Path(recipe.out) / "player"),
        "seed": recipe.seed,
        "bf16": recipe.model.dtype == "bfloat16",
        "use_cpu": not torch.cuda.is_available(),
        "gradient_checkpointing": False,
        "per_device_train_batch_size": 2,
        "num_generations": 2,
        # The number of pairs of episodes that vLLM plays at once.
        "steps_per_generation": -(-recipe.train.evaluate_tasks // (2 * world_size())),
        "report_to": [],
        "disable_tqdm": True,
        **generation_arguments(recipe),
    }
    return EtudeTrainer(
        model,
        Parts(url, start.chat, limits=Limits(room.max_ids, room.max_turn_ids), system=recipe.environment.system),
        args=GRPOConfig(**arguments),
        train_dataset=Dataset.from_list(reset_rows([{}])),
        processing_class=start.tokenizer,
    )
