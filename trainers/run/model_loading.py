"""Tokenizer, chat template and model of a recipe, each checked before weights are loaded."""

from __future__ import annotations

import copy
import json
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch
from huggingface_hub import model_info, try_to_load_from_cache
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, HFValidationError, RepositoryNotFoundError
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.trainer_utils import set_seed
from transformers.utils import logging as hf_logging

from ...errors import RecipeError
from ..adapters import add_adapters, base_of_adapter, is_adapter, merge_adapter
from ..chat.chat_policy import Sampler, TemplateChat, never_samples
from ..chat.templates import TOOLS
from ..distillation.hidden_states import check_model
from ..distributed import world_size
from ..recipe.recipe import Recipe
from ..report.metrics_summary import MOE
from ..sharded.access import prepare_sharded
from ..sharded.layout import distributed_config
from ..tiny_models.pretrain import CONTEXT, is_made, make_base
from .records import Progress, WriteDialogues
from .run_dir import write_json

logger = logging.getLogger(__name__)
BASE = "base"
ARGUMENTS = "template_arguments.json"
"""File in a saved model's folder with the arguments of the chat template that it was trained with."""
_TINY_ARGUMENTS = {"enable_thinking": False}
"""Arguments of the chat template with which a tiny model is pretrained."""
_HUB_PATIENCE_S = 10.0
_STRETCHED_ROTATIONS = ("linear", "dynamic", "yarn")
"""Rotary embeddings that extend the context by ``factor``."""


@dataclass(frozen=True)
class LoadableModel:
    """Model that has passed the checks; its weights are not loaded yet."""

    recipe: Recipe
    where: str
    """Folder, or name on the Hub."""
    tokenizer: Any
    arguments: Mapping[str, Any]
    """Arguments of the chat template."""
    config: Any
    adapter: str = ""
    """Folder of an adapter that belongs to the first weights."""

    def chat(self, sampler: Sampler) -> TemplateChat:
        """Return the policy's chat around a sampler."""
        return TemplateChat(self.tokenizer, sampler, arguments=self.arguments)

    def load_weights(self) -> Any:
        """Return the model that learns, after seeding all randomness: sharded, and with adapters, as the recipe says.

        Raise RecipeError.
        """
        set_seed(self.recipe.seed)
        model, lora = self.load_whole(), self.recipe.lora
        return add_adapters(model, lora) if lora.rank else model

    def load_whole(self, folder: Path | None = None) -> Any:
        """Return the model without adapters, sharded if the recipe says so; ``folder`` has other weights for it.

        Weights that learn are float32 (see ``recipe.Model``). Raise RecipeError.
        """
        where, adapter = (str(folder), "") if folder else (self.where, self.adapter)
        sharding = distributed_config(self.recipe, world_size())
        options = {"distributed_config": sharding} if sharding else {}
        half = self.recipe.lora.rank and self.recipe.model.dtype == "bfloat16"
        try:
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                where,
                config=copy.deepcopy(self.config),
                dtype=torch.bfloat16 if half else torch.float32,
                ignore_mismatched_sizes=True,  # they are reported below
                output_loading_info=True,
                **options,
            )
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - files of any content, read by libraries that trust them
            raise RecipeError(f"model.name: cannot read weights from {where}: {_one_line(error)}") from None
        model, info = loaded
        missing = sorted({*info["missing_keys"], *(key for key, *_ in info["mismatched_keys"])})
        if missing:
            raise RecipeError(
                f"model.name: the weights in {where} do not fit its config.json ({len(missing)} are missing or of "
                f"another shape, such as {missing[0]}); give a folder with matching files"
            )
        if adapter:
            model = merge_adapter(model, adapter)
        return prepare_sharded(model) if sharding else model

    @property
    def moe(self) -> bool:
        """Return whether the config, or a part of it, has more than one expert, under any name."""
        return _has_experts(self.config.get_text_config().to_dict())


def _has_experts(config: Mapping[str, Any]) -> bool:
    parts = (value for value in config.values() if isinstance(value, dict))
    counts = (value for name, value in config.items() if "experts" in str(name) and isinstance(value, int))
    return any(count > 1 for count in counts) or any(map(_has_experts, parts))


def open_model(recipe: Recipe, dialogues: WriteDialogues | None, progress: Progress) -> LoadableModel:
    """Check the recipe's model, after making it if it is a tiny one, and return it without its weights.

    ``dialogues`` writes what a tiny model is pretrained on. Raise RecipeError, ChatError for a template without tools,
    and UnsuitableModel for a model that is not a decoder of text.
    """
    hf_logging.disable_progress_bar()
    hf_logging.set_verbosity_error()
    if recipe.model.make:
        _check_context(recipe, CONTEXT)
    named = _model_folder(recipe, Path(recipe.out), dialogues, progress)
    where = base_of_adapter(named) if is_adapter(named) else named
    _check_on_hub(where)
    defaults = _TINY_ARGUMENTS if recipe.model.make else _saved_template_arguments(Path(named))
    tokenizer, arguments = _load_tokenizer(named), {**defaults, **recipe.model.template}
    TemplateChat(tokenizer, never_samples, arguments=arguments)
    _check_template_arguments(recipe.model.template, str(tokenizer.get_chat_template(tools=TOOLS)))
    config = _load_config(where)
    _check_context(recipe, _context_length(config))
    _check_vocabulary(where, tokenizer, config)
    model = LoadableModel(recipe, where, tokenizer, arguments, config, named if named != where else "")
    if model.moe:
        logger.warning(MOE)
    return model


def save_template_arguments(folder: Path, arguments: Mapping[str, Any]) -> None:
    """Save the arguments of the chat template beside a model; a recipe that names the folder uses them as defaults."""
    write_json(folder / ARGUMENTS, dict(arguments))


def _saved_template_arguments(folder: Path) -> dict[str, Any]:
    """Return the saved arguments, empty for a model of other origin. Raise RecipeError."""
    path = folder / ARGUMENTS
    if not path.is_file():
        return {}
    try:
        arguments = json.loads(path.read_bytes())
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        raise RecipeError(f"model.name: {path} holds no arguments; remove it, and give them as model.template")
    return arguments


def _model_folder(recipe: Recipe, out: Path, dialogues: WriteDialogues | None, progress: Progress) -> str:
    """Return the folder or Hub name of the first weights; make a tiny model if the recipe says so."""
    if not recipe.model.make:
        return os.path.expanduser(recipe.model.name) if recipe.model.name[:1] in "./~" else recipe.model.name
    folder = out / BASE
    if not is_made(folder, recipe.model.sizes, recipe.seed):
        assert dialogues is not None
        if world_size() > 1:
            raise RecipeError(
                "model.make works with one process only; make it there, and give its folder as model.name"
            )
        out.mkdir(parents=True, exist_ok=True)
        rows = out / "dialogues.jsonl"
        progress("dialogues", 0, 0)
        dialogues(rows, recipe)
        make_base(rows, recipe.model.sizes, folder, seed=recipe.seed, progress=progress)
        save_template_arguments(folder, _TINY_ARGUMENTS)
    return str(folder)


def _check_on_hub(where: str) -> None:
    """Ask the Hub once for a model that is not a folder; loading it would ask for every file several times."""
    if Path(where).is_dir():
        return
    try:
        if not isinstance(try_to_load_from_cache(where, "config.json"), str):
            model_info(where, timeout=_HUB_PATIENCE_S)
    except HfHubHTTPError as error:
        if isinstance(error, GatedRepoError):
            _refuse_name(where, "asks you to accept its terms first, with the account of HF_TOKEN")
        if isinstance(error, RepositoryNotFoundError):
            _refuse_name(where, "has no such model for you; correct the name, or set HF_TOKEN if it is private")
    except HFValidationError:
        _refuse_name(where, "allows no such name; correct it")
    except ValueError:
        return  # a mirror with other answers may still have the files
    except Exception as error:  # noqa: BLE001 - raised by any library that the Hub's client uses
        _refuse_name(where, f"was not reached: {_one_line(error)}")


def _refuse_name(where: str, hub: str) -> NoReturn:
    raise RecipeError(f"model.name: {where} is not a folder here, and the Hub {hub}") from None


def _load_tokenizer(where: str) -> Any:
    try:
        tokenizer = AutoTokenizer.from_pretrained(where)
    except Exception as error:  # noqa: BLE001 - files of any content, read by libraries that trust them
        raise RecipeError(f"model.name: cannot read a tokenizer from {where}: {_one_line(error)}") from None
    if getattr(tokenizer, "pad_token", None) is None and getattr(tokenizer, "eos_token", None) is not None:
        tokenizer.pad_token = tokenizer.eos_token
    if getattr(tokenizer, "pad_token", None) is None:
        raise RecipeError(f"model.name: the tokenizer of {where} has no eos_token; name one in tokenizer_config.json")
    return tokenizer


def _load_config(where: str) -> Any:
    try:
        config = AutoConfig.from_pretrained(where)
    except Exception as error:  # noqa: BLE001 - files of any content, read by libraries that trust them
        raise RecipeError(f"model.name: cannot read a model from {where}: {_one_line(error)}") from None
    check_model(config)
    return config


def _context_length(config: Any) -> int | None:
    """Return the number of positions that the model reads, or None if its config gives no limit."""
    text = config.get_text_config()
    positions, rope = getattr(text, "max_position_embeddings", None), getattr(text, "rope_parameters", None) or {}
    if not positions or rope.get("rope_type") not in _STRETCHED_ROTATIONS:
        return positions
    return max(positions, int((rope.get("original_max_position_embeddings") or positions) * (rope.get("factor") or 1)))


def _check_context(recipe: Recipe, context: int | None) -> None:
    max_ids = recipe.generation.max_ids
    if context and max_ids > context:
        raise RecipeError(
            f"generation.max_ids ({max_ids}) is more than the model's context (max_position_embeddings: {context}); "
            f"set it to {context} or less"
        )


def _check_vocabulary(where: str, tokenizer: Any, config: Any) -> None:
    ids = max(tokenizer.get_vocab().values(), default=-1) + 1
    rows = getattr(config.get_text_config(), "vocab_size", None)
    if rows and ids > rows:
        raise RecipeError(
            f"model.name: the tokenizer of {where} has {ids} ids, but its model's embedding has {rows} rows; give the "
            "tokenizer that it was trained with, or call resize_token_embeddings"
        )


def _check_template_arguments(arguments: Mapping[str, Any], template: str) -> None:
    """Raise RecipeError for an argument that the template does not read; Jinja would ignore it silently."""
    for name in arguments:
        if not re.search(rf"\b{re.escape(name)}\b", template):
            raise RecipeError(f"model.template: the chat template does not read {name!r}; correct or remove it")


def _one_line(error: Exception) -> str:
    message = " ".join(str(error).split())
    own_words = isinstance(error, OSError | ValueError | RuntimeError | SafetensorError)
    return (message if own_words else f"{type(error).__name__}: {message}")[:200]
