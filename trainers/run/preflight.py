"""Checks before weights are loaded: this machine, the files that a recipe names, and a vLLM server.

Nothing here imports torch, except for questions about GPUs.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from ...errors import RecipeError
from ..adapters import is_adapter
from ..distributed import world_size
from ..recipe.load import load_chooser
from ..recipe.recipe import Recipe
from ..replay.pairs import read_pairs
from ..rollouts.local_server import HUB
from ..sharded.layout import check_layout

_START_VLLM = "start it with `trl vllm-serve --model MODEL`"


def check_machine(recipe: Recipe) -> None:
    """Raise RecipeError if a package that the recipe needs is missing, or its vLLM server does not fit."""
    for name in ("torch", "transformers", "trl", "datasets", "accelerate"):
        if importlib.util.find_spec(name) is None:
            raise RecipeError(f"training needs {name}; pip install 'etude[train]'")
    if recipe.tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise RecipeError("tensorboard = true needs tensorboard; pip install 'etude[train]'")
    if recipe.lora.rank and importlib.util.find_spec("peft") is None:
        raise RecipeError("lora.rank needs peft; pip install 'etude[train]'")
    check_layout(recipe, world_size())
    generation = recipe.generation
    if generation.vllm != "off" and importlib.util.find_spec("vllm") is None:
        raise RecipeError("generation.vllm needs vllm; pip install 'etude[vllm]'")
    if generation.vllm == "colocate" and not _has_gpu():
        raise RecipeError(
            'generation.vllm = "colocate" needs a GPU, and torch finds none; set generation.vllm = "off", or install a '
            "torch for this machine's GPU"
        )
    # With a server, TRL gathers the requests of all ranks into one, but our ranks have different numbers of turns.
    if generation.vllm == "server" and world_size() > 1:
        raise RecipeError('generation.vllm = "server" works with one process only; set "colocate" for several')
    if recipe.asynchronous.episodes and not _has_gpu():
        raise RecipeError(
            "asynchronous.episodes needs a GPU, and torch finds none; remove [asynchronous], or install a torch for "
            "this machine's GPU"
        )
    if generation.vllm == "server":
        check_vllm_server(generation.vllm_url.rstrip("/"), generation.max_ids)


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def check_devices() -> None:
    """Raise RecipeError if a single process sees several GPUs: TRL refuses torch's DataParallel, but late."""
    import torch

    count = torch.cuda.device_count()
    if count > 1 and world_size() == 1 and "LOCAL_RANK" not in os.environ:
        raise RecipeError(
            f"one process sees {count} GPUs; set CUDA_VISIBLE_DEVICES=0, or start {count} processes with "
            f"`torchrun --nproc-per-node {count} --shutdown-timeout 3600 -m etude.cli train RECIPE.toml`"
        )


def check_files(recipe: Recipe) -> None:
    """Raise RecipeError or ReplayError for a file or folder in the recipe that is missing or cannot be used."""
    name, serve = recipe.model.name, recipe.environment.serve
    # A name without these marks may be one on the Hub.
    is_path = name.startswith(("/", "./", "../", "~")) or name.count("/") > 1
    folder = os.path.expanduser(name)
    if is_path and not (Path(folder, "config.json").is_file() or is_adapter(folder)):
        raise RecipeError(f"model.name: {name} holds no model; give a folder with a config.json")
    # A name without a slash may be an environment that makes its own tasks; the server refuses an unknown one.
    if os.sep in serve and not serve.startswith(HUB) and not Path(serve).exists():
        raise RecipeError(f"environment.serve: the folder {serve} does not exist; `etude generate` makes tasks")
    load_chooser(recipe)
    if recipe.channels.replay.used:
        if not Path(recipe.replay.pairs).is_file():
            raise RecipeError(f"replay.pairs: the file {recipe.replay.pairs} does not exist; `etude replay` writes one")
        read_pairs(Path(recipe.replay.pairs))


def check_vllm_server(url: str, max_ids: int) -> None:
    """Raise RecipeError unless a vLLM server answers, takes weights as TRL sends them, and has room for an episode."""
    import httpx

    try:
        httpx.get(f"{url}/health", timeout=10.0).raise_for_status()
        info = httpx.get(f"{url}/server_info", params={"config_format": "json"}, timeout=10.0)
        models = httpx.get(f"{url}/v1/models", timeout=10.0).raise_for_status().json()["data"]
        config = {} if info.status_code == 404 else info.raise_for_status().json()["vllm_config"]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, LookupError) as error:
        raise RecipeError(f"generation.vllm_url: no vLLM server answers at {url} ({error}); {_START_VLLM}") from None
    if not config.get("weight_transfer_config"):
        raise RecipeError(f"generation.vllm_url: the server at {url} does not take weights; {_START_VLLM}")
    if (mode := config.get("model_config", {}).get("logprobs_mode")) != "processed_logprobs":
        raise RecipeError(
            f"generation.vllm_url: the server at {url} returns {mode}, not processed_logprobs; {_START_VLLM}"
        )
    context = min((model["max_model_len"] for model in models if model.get("max_model_len")), default=max_ids)
    if context < max_ids:
        raise RecipeError(
            f"generation.max_ids ({max_ids}) is more than the context of the server at {url} (--max-model-len "
            f"{context}); set it to {context} or less"
        )


def served_model(url: str) -> str:
    """Return the name of the model on a vLLM server. Raise RecipeError for a server without one."""
    import httpx

    try:
        models = httpx.get(f"{url.rstrip('/')}/v1/models", timeout=10.0).raise_for_status().json()["data"]
        return str(models[0]["id"])
    except (httpx.HTTPError, ValueError, LookupError) as error:
        raise RecipeError(f"generation.vllm_url: the server at {url} names no model ({error}); {_START_VLLM}") from None
