"""What a run starts from: a recipe's tokenizer, chat template and model, each checked before weights are loaded."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import model_info, try_to_load_from_cache
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, HFValidationError, RepositoryNotFoundError
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.trainer_utils import set_seed
from transformers.utils import logging as hf_logging

from ...errors import RecipeError
from ..chat.chat_policy import Sampler, TemplateChat
from ..chat.templates import TOOLS
from ..distillation.hidden_states import check_model
from ..recipe.recipe import Recipe
from ..tiny_models.pretrain import CONTEXT, is_made, make_base
from .metrics_summary import MOE
from .run_dir import write_json
from .train import Progress, WriteDialogues, world

logger = logging.getLogger(__name__)
BASE = "base"
ARGUMENTS = "template_arguments.json"
"""In a saved model's folder: the arguments of the chat template that it was trained with."""
_PLAIN = {"enable_thinking": False}
"""What a model that is made here knows."""
_PATIENCE_S = 10.0
_STRETCHED = ("linear", "dynamic", "yarn")
"""Rotations whose positions are ``factor`` times those that the config tells."""


@dataclass(frozen=True)
class Start:
    """``where``: a folder or a name on the Hub; ``arguments`` go to the chat template."""

    recipe: Recipe
    where: str
    tokenizer: Any
    arguments: Mapping[str, Any]
    config: Any

    def chat(self, sampler: Sampler) -> TemplateChat:
        return TemplateChat(self.tokenizer, sampler, arguments=self.arguments)

    def weights(self) -> Any:
        """The model, in float32 (see ``recipe.Model``). Seeds every chance first. Raises RecipeError."""
        set_seed(self.recipe.seed)
        try:
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                self.where,
                config=self.config,
                dtype=torch.float32,
                ignore_mismatched_sizes=True,  # it says which
                output_loading_info=True,
            )
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - files of any content, read by libraries that trust them
            raise RecipeError(f"model.name: no weights can be read from {self.where}: {_line(error)}") from None
        model, told = loaded
        made_up = sorted({*told["missing_keys"], *(key for key, *_ in told["mismatched_keys"])})
        if made_up:
            raise RecipeError(
                f"model.name: the weights in {self.where} are not those of its config.json: {len(made_up)} are missing "
                f"or of another shape, such as {made_up[0]}"
            )
        return model

    @property
    def moe(self) -> bool:
        """Whether the config, or a part of it, counts more than one expert, under whatever name."""
        return _counts_experts(self.config.get_text_config().to_dict())


def _counts_experts(config: Mapping[str, Any]) -> bool:
    parts = (value for value in config.values() if isinstance(value, dict))
    numbers = (value for name, value in config.items() if "experts" in str(name) and isinstance(value, int))
    return any(number > 1 for number in numbers) or any(map(_counts_experts, parts))


async def never(ids: Sequence[int], room: int) -> Any:
    """The sampler of a chat that only reads and writes."""
    raise AssertionError("only looked at")


def open_model(recipe: Recipe, dialogues: WriteDialogues | None, progress: Progress) -> Start:
    """Raises RecipeError, ChatError for a template without tools, UnfitModel for what is no text decoder."""
    hf_logging.disable_progress_bar()
    hf_logging.set_verbosity_error()
    if recipe.model.make:
        _check_room(recipe, CONTEXT)
    where = _base(recipe, Path(recipe.out), dialogues, progress)
    _check_there(where)
    plain = _PLAIN if recipe.model.make else _kept_arguments(Path(where))
    tokenizer, arguments = _tokenizer(where), {**plain, **recipe.model.template}
    TemplateChat(tokenizer, never, arguments=arguments)
    _check_arguments(recipe.model.template, str(tokenizer.get_chat_template(tools=TOOLS)))
    config = _config(where)
    _check_room(recipe, _context(config))
    _check_vocabulary(where, tokenizer, config)
    start = Start(recipe, where, tokenizer, arguments, config)
    if start.moe:
        logger.warning(MOE)
    return start


def keep_arguments(folder: Path, arguments: Mapping[str, Any]) -> None:
    """Beside a saved model: a recipe that names ``folder`` then writes the same prompts, unless it says otherwise."""
    write_json(folder / ARGUMENTS, dict(arguments))


def _kept_arguments(folder: Path) -> dict[str, Any]:
    """None in a folder of somebody else's. Raises RecipeError."""
    path = folder / ARGUMENTS
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_bytes())
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise RecipeError(f"model.name: {path} holds no arguments: remove it, and give them as model.template")
    return found


def _base(recipe: Recipe, out: Path, dialogues: WriteDialogues | None, progress: Progress) -> str:
    """Where the first weights are; a small model is made there when it is not there yet."""
    if not recipe.model.make:
        return os.path.expanduser(recipe.model.name) if recipe.model.name[:1] in "./~" else recipe.model.name
    folder = out / BASE
    if not is_made(folder, recipe.model.sizes, recipe.seed):
        assert dialogues is not None
        if world() > 1:
            raise RecipeError("model.make is for one process: make it there, and give its folder as model.name")
        out.mkdir(parents=True, exist_ok=True)
        rows = out / "dialogues.jsonl"
        progress("dialogues", 0, 0)
        dialogues(rows, recipe)
        make_base(rows, recipe.model.sizes, folder, seed=recipe.seed, progress=progress)
        keep_arguments(folder, _PLAIN)
    return str(folder)


def _check_there(where: str) -> None:
    """Asks the Hub once, where what would read a model asks for every file, again and again."""
    if Path(where).is_dir():
        return
    try:
        if not isinstance(try_to_load_from_cache(where, "config.json"), str):
            model_info(where, timeout=_PATIENCE_S)
    except HfHubHTTPError as error:
        if isinstance(error, GatedRepoError):
            _nowhere(where, "wants its terms accepted first, with the account of HF_TOKEN")
        if isinstance(error, RepositoryNotFoundError):
            _nowhere(where, "has none of that name for you: mend it, or set HF_TOKEN if it is private")
    except HFValidationError:
        _nowhere(where, "has no such names: mend it")
    except ValueError:
        return  # a mirror that answers otherwise may have the files
    except Exception as error:  # noqa: BLE001 - of whatever library the Hub's client speaks with
        _nowhere(where, f"was not reached: {_line(error)}")


def _nowhere(where: str, hub: str) -> None:
    raise RecipeError(f"model.name: {where} is no folder here, and the Hub {hub}") from None


def _tokenizer(where: str) -> Any:
    try:
        tokenizer = AutoTokenizer.from_pretrained(where)
    except Exception as error:  # noqa: BLE001 - files of any content, read by libraries that trust them
        raise RecipeError(f"model.name: no tokenizer can be read from {where}: {_line(error)}") from None
    if getattr(tokenizer, "pad_token", None) is None and getattr(tokenizer, "eos_token", None) is not None:
        tokenizer.pad_token = tokenizer.eos_token
    if getattr(tokenizer, "pad_token", None) is None:
        raise RecipeError(f"model.name: the tokenizer of {where} has no eos_token: name one in tokenizer_config.json")
    return tokenizer


def _config(where: str) -> Any:
    try:
        config = AutoConfig.from_pretrained(where)
    except Exception as error:  # noqa: BLE001 - as of a tokenizer's files
        raise RecipeError(f"model.name: no model can be read from {where}: {_line(error)}") from None
    check_model(config)
    return config


def _context(config: Any) -> int | None:
    """Positions that the model reads; None where its config tells of no end."""
    text = config.get_text_config()
    most, rope = getattr(text, "max_position_embeddings", None), getattr(text, "rope_parameters", None) or {}
    if not most or rope.get("rope_type") not in _STRETCHED:
        return most
    return max(most, int((rope.get("original_max_position_embeddings") or most) * (rope.get("factor") or 1)))


def _check_room(recipe: Recipe, context: int | None) -> None:
    room = recipe.generation.max_ids
    if context and room > context:
        raise RecipeError(
            f"generation.max_ids ({room}) is more than the model's context (max_position_embeddings: {context}): "
            f"set it to {context} or less"
        )


def _check_vocabulary(where: str, tokenizer: Any, config: Any) -> None:
    ids = max(tokenizer.get_vocab().values(), default=-1) + 1
    rows = getattr(config.get_text_config(), "vocab_size", None)
    if rows and ids > rows:
        raise RecipeError(
            f"model.name: the tokenizer of {where} has {ids} ids, but its model's embedding {rows} rows: give the "
            "tokenizer that it was trained with, or resize_token_embeddings"
        )


def _check_arguments(given: Mapping[str, Any], template: str) -> None:
    """Jinja takes a name that it does not know without a word."""
    for name in given:
        if not re.search(rf"\b{re.escape(name)}\b", template):
            raise RecipeError(f"model.template: the chat template reads no {name!r}: mend its name, or take it out")


def _line(error: Exception) -> str:
    said = " ".join(str(error).split())
    plain = isinstance(error, OSError | ValueError | RuntimeError | SafetensorError)
    return (said if plain else f"{type(error).__name__}: {said}")[:200]
