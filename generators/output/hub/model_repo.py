"""A trained model's folder as a repository: weights, configuration and tokenizer, with a card."""

from __future__ import annotations

from pathlib import Path

from ....environments.hub.manifest import CARD, MANIFEST
from ....errors import HubError
from .repo_tree import RepoTree

CONFIG = "config.json"
_ADAPTER_CONFIG = "adapter_config.json"
WEIGHTS = ("model*.safetensors", "adapter_model*.safetensors", "pytorch_model*.bin")
_MODEL = "model"
"""Folder of the trained model in the folder of a training run."""
_SUFFIXES = frozenset({".json", ".safetensors", ".model", ".txt", ".jinja", ".tiktoken"})
"""Suffixes of the files that a model is loaded from; training state and pickles are not among them."""


def model_folder(folder: Path) -> Path | None:
    """Return the folder of a model: itself, or that of a training run; None when neither holds one."""
    return next((place for place in (folder, folder / _MODEL) if _is_model(place)), None)


def _is_model(folder: Path) -> bool:
    """Return whether a folder holds a model or an adapter: its configuration and weights."""
    configured = any((folder / name).is_file() for name in (CONFIG, _ADAPTER_CONFIG))
    return configured and any(next(folder.glob(pattern), None) for pattern in WEIGHTS)


def model_repo(folder: Path, card: str) -> RepoTree:
    """Return the repository of a model's folder; ``card`` is used when the folder has none of its own.

    Raises HubError for weights that are a pickle, which runs code when it is loaded.
    """
    pickles = sorted(folder.glob("pytorch_model*.bin"))
    if pickles:
        raise HubError(f"{pickles[0]} is a pickle, which runs code when it is loaded; save the model as safetensors")
    names = sorted(path.name for path in folder.iterdir() if path.is_file() and path.suffix in _SUFFIXES)
    files: dict[str, Path | bytes] = {name: folder / name for name in names if name not in (CARD, MANIFEST)}
    skipped = sorted(path.name for path in folder.iterdir() if path.name not in {*files, CARD, MANIFEST})
    written = (folder / CARD).read_text("utf-8") if (folder / CARD).is_file() else ""
    weights = sum((folder / name).stat().st_size for name in files if name.endswith(".safetensors"))
    return RepoTree("model", files, written or card, {"weights": weights, "left_out": ", ".join(skipped)})
