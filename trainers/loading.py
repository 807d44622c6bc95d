"""What a run starts from: a recipe's tokenizer, chat template and model, each checked before weights are loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.trainer_utils import set_seed
from transformers.utils import logging as hf_logging

from .chat import Sampler, TemplateChat
from .forwards import check_model
from .recipe import Recipe, RecipeError
from .small.pretrain import is_made, make_base
from .train import Progress, WriteDialogues, world

BASE = "base"


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
        """The model, in the recipe's type. Seeds every chance first. Raises RecipeError."""
        set_seed(self.recipe.seed)
        dtype = getattr(torch, self.recipe.model.dtype)
        try:
            return AutoModelForCausalLM.from_pretrained(self.where, config=self.config, dtype=dtype)
        except (OSError, ValueError, RuntimeError, SafetensorError) as error:
            raise RecipeError(f"model.name: no weights can be read from {self.where}: {_line(error)}") from None

    @property
    def moe(self) -> bool:
        text = self.config.get_text_config()
        return bool(getattr(text, "num_experts", 0) or getattr(text, "num_local_experts", 0))


async def never(ids: Sequence[int], room: int) -> Any:
    """The sampler of a chat that only reads and writes."""
    raise AssertionError("only looked at")


def open_model(recipe: Recipe, dialogues: WriteDialogues | None, progress: Progress) -> Start:
    """Raises RecipeError, ChatError for a template without tools, UnfitModel for what is no text decoder."""
    hf_logging.disable_progress_bar()
    hf_logging.set_verbosity_error()
    where = _base(recipe, Path(recipe.out), dialogues, progress)
    plain = {"enable_thinking": False} if recipe.model.make else {}
    tokenizer, arguments = _tokenizer(where), {**plain, **recipe.model.template}
    TemplateChat(tokenizer, never, arguments=arguments)
    return Start(recipe, where, tokenizer, arguments, _config(where))


def _base(recipe: Recipe, out: Path, dialogues: WriteDialogues | None, progress: Progress) -> str:
    """Where the first weights are; a small model is made there when it is not there yet."""
    if not recipe.model.make:
        return str(Path(recipe.model.name).expanduser()) if recipe.model.name[:1] in "./~" else recipe.model.name
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
    return str(folder)


def _tokenizer(where: str) -> Any:
    try:
        tokenizer = AutoTokenizer.from_pretrained(where)
    except (OSError, ValueError) as error:
        raise RecipeError(f"model.name: no tokenizer can be read from {where}: {_line(error)}") from None
    if getattr(tokenizer, "pad_token", None) is None and getattr(tokenizer, "eos_token", None) is not None:
        tokenizer.pad_token = tokenizer.eos_token
    if getattr(tokenizer, "pad_token", None) is None:
        raise RecipeError(f"model.name: the tokenizer of {where} has no eos_token: name one in tokenizer_config.json")
    return tokenizer


def _config(where: str) -> Any:
    try:
        config = AutoConfig.from_pretrained(where)
    except (OSError, ValueError) as error:
        raise RecipeError(f"model.name: no model can be read from {where}: {_line(error)}") from None
    check_model(config)
    return config


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
