"""The card of a trained model: its base, its recipe, and what it scored before and after, from the run's own files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..adapters import ADAPTER_CONFIG
from .metrics_summary import used_channels
from .run_files import Run, is_run, read_run

_MEASURES = {"solved": "share solved", "reward": "mean reward", "error_turn_rate": "share of turns that erred"}
_LOADERS = {False: "transformers.AutoModelForCausalLM", True: "peft.AutoPeftModelForCausalLM"}
"""Class that loads a model, and one that loads an adapter with its base."""
_NO_RUN = "The folder is not in the folder of a training run, so base, recipe and scores are not known."


def model_card(folder: Path, repo_id: str) -> str:
    """Return the card of the model in ``folder``, which is the folder ``model`` of a run or one of its own.

    Raises TrainingRunError for a run with a damaged file.
    """
    run = read_run(folder.parent) if is_run(folder.parent) else None
    adapter = (folder / ADAPTER_CONFIG).is_file()
    parts = [
        "\n".join(["---", *_front_matter(run, adapter), "---"]),
        f"# {repo_id.rpartition('/')[2]}",
        _about(run) if run else _NO_RUN,
        f'```python\nmodel = {_LOADERS[adapter]}.from_pretrained("{repo_id}")\n```',
    ]
    if run is not None:
        parts += [
            "\n".join(["## Scores", "", *_scores(run)]),
            "\n".join(["## Recipe", "", "```json", json.dumps(_public(run.recipe), indent=1), "```"]),
            "\n".join(["## Limits", "", *_limits(run)]),
        ]
    return "\n\n".join(parts) + "\n"


def _front_matter(run: Run | None, adapter: bool) -> Iterator[str]:
    yield f"library_name: {'peft' if adapter else 'transformers'}"
    yield "pipeline_tag: text-generation"
    if base := _base(run):
        yield f"base_model: {json.dumps(base)}"
    yield f"tags: [{', '.join(['code', 'agent', 'reinforcement-learning', 'openenv', 'etude', 'trl'])}]"


def _base(run: Run | None) -> str:
    """Return the name of the base on the Hub, '' for a local or a new model."""
    name = str(run.recipe.get("model", {}).get("name", "")) if run else ""
    return name if name.count("/") == 1 and not name.startswith(("/", ".", "~")) else ""


def _about(run: Run) -> str:
    model = run.recipe.get("model", {})
    base = _base(run) or (f"a new model for {model['make']}" if model.get("make") else "a local model")
    channels = ", ".join(used_channels(run.recipe))
    stage = "supervised on solved episodes" if run.recipe["stage"] == "sft" else f"channels {channels}"
    return f"Trained with Etude from {base}: {run.step} of {run.recipe['train']['steps']} steps, {stage}."


def _scores(run: Run) -> Iterator[str]:
    after = (run.result or {}).get("after")
    if run.before is None and after is None:
        yield "The run had no held-out tasks, so the model was not evaluated."
        return
    yield from ("| held-out tasks | before | after |", "|---|---|---|")
    for name, title in _MEASURES.items():
        yield f"| {title} | {_number(run.before, name)} | {_number(after, name)} |"
    episodes = after or run.before or {}
    yield f"| valid episodes | {_number(run.before, 'valid')} | {_number(after, 'valid')} |"
    yield ""
    yield f"One episode for each of {episodes.get('episodes', 0)} tasks, sampled as in training."


def _number(table: Mapping[str, Any] | None, name: str) -> str:
    value = (table or {}).get(name)
    return "not measured" if value is None else f"{value:.3g}"


def _public(recipe: Any) -> Any:
    """Return the recipe without folders of the machine that trained: an absolute path keeps its last part."""
    if isinstance(recipe, Mapping):
        return {name: _public(value) for name, value in recipe.items() if name != "out"}
    if isinstance(recipe, list):
        return [_public(value) for value in recipe]
    return Path(recipe).name if isinstance(recipe, str) and recipe.startswith(("/", "~")) else recipe


def _limits(run: Run) -> Iterator[str]:
    ended = run.ended
    if ended is None or ended["interrupted"]:
        yield "- The run had not ended when these weights were saved."
    elif ended["stopped"]:
        yield f"- A limit stopped the run: {ended['stopped']}."
    yield from (f"- {warning}" for warning in (ended or {}).get("warnings", []))
    yield "- Scores are of few tasks of one set; they say nothing about other tasks."
