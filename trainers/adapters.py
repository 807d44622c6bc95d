"""Low-rank adapters of peft: adding them to a model, loading a trained one, and the model with them switched off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import RecipeError
from .recipe.scale import Lora

ADAPTER_CONFIG = "adapter_config.json"
"""File that makes a folder an adapter's."""

ADAPTER = "adapter_model.safetensors"
"""File with the weights of an adapter."""


def add_adapters(model: Any, lora: Lora) -> Any:
    """Return a PeftModel: ``model`` with its weights frozen and adapters in float32 that change nothing yet.

    Raise RecipeError if no module has the name of a target.
    """
    import torch
    from peft import LoraConfig, get_peft_model
    from peft.tuners.lora import Linear

    base: Any = Linear

    class WholeLinear(base):
        """Layer whose adapter has the shape of the whole weight, which peft does not know of sharded copies (HSDP)."""

        def _get_in_out_features(self, module: Any) -> tuple[int, int]:
            return module.in_features, module.out_features

    options: dict[str, Any] = {"r": lora.rank, "lora_alpha": lora.alpha, "lora_dropout": lora.dropout}
    config = LoraConfig(target_modules=list(lora.targets) or "all-linear", task_type="CAUSAL_LM", **options)
    config._register_custom_module({torch.nn.Linear: WholeLinear})
    try:
        return get_peft_model(model, config)
    except ValueError as error:
        raise RecipeError(f"lora.targets: {str(error).splitlines()[0][:200]}") from None


def is_adapter(where: str) -> bool:
    """Return whether a folder holds an adapter instead of a whole model."""
    return Path(where, ADAPTER_CONFIG).is_file()


def base_of_adapter(where: str) -> str:
    """Return the folder or Hub name of the model that an adapter's folder was trained on. Raise RecipeError."""
    from peft import PeftConfig

    try:
        base = PeftConfig.from_pretrained(where).base_model_name_or_path
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RecipeError(f"model.name: cannot read the adapter in {where}: {str(error).splitlines()[0]}") from None
    if not base:
        raise RecipeError(f"model.name: the adapter in {where} does not name its base; merge it, and give the result")
    return str(base)


def adapter_weights(model: Any) -> dict[str, Any]:
    """Return the adapters' weights in a PeftModel by their names in a file; changing them changes the model."""
    from peft import get_peft_model_state_dict

    weights: dict[str, Any] = get_peft_model_state_dict(model)
    return weights


def merge_adapter(model: Any, where: str) -> Any:
    """Return the model with the adapter in a folder added to its weights. Raise RecipeError if it does not fit."""
    from peft import PeftModel

    try:
        return PeftModel.from_pretrained(model, where).merge_and_unload().requires_grad_(True)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        reason = str(error).splitlines()[0][:200]
        raise RecipeError(f"model.name: the adapter in {where} does not fit its base: {reason}") from None


class WithoutAdapters:
    """Causal language model inside a PeftModel as it is with the adapters switched off: the first weights of a run.

    It takes no memory of its own. It has the part of a model that ``distillation/hidden_states.py`` uses.
    """

    def __init__(self, model: Any) -> None:
        self._adapters, self._model = model.base_model, model.get_base_model()

    def read_hidden(self, **inputs: Any) -> tuple[Any]:
        """Return the last hidden states, in a tuple, in evaluation mode and without the adapters."""
        training = self._model.training
        self._model.eval()
        self._adapters.disable_adapter_layers()
        try:
            read = getattr(self._model, "read_hidden", None)
            return read(**inputs) if read else (self._model.base_model(**inputs).last_hidden_state,)
        finally:
            self._adapters.enable_adapter_layers()
            self._model.train(training)

    def get_base_model(self) -> Any:
        """Return the model with its adapters."""
        return self._model

    @property
    def config(self) -> Any:
        """Return the model's config."""
        return self._model.config

    @property
    def device(self) -> Any:
        """Return the model's device."""
        return self._model.device

    def get_output_embeddings(self) -> Any:
        """Return the head, which never has an adapter."""
        return self._model.get_output_embeddings()

    def parameters(self) -> Iterator[Any]:
        """Yield the weights without those of adapters."""
        return (parameter for _, parameter in self.named_parameters())

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """Yield the names and weights without those of adapters."""
        for name, parameter in self._model.named_parameters():
            if not parameter.requires_grad:
                yield name, parameter
