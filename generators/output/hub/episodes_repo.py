"""The episodes of a run as a repository: chat messages, rewards, error turns and hints in typed columns.

TRL's SFTTrainer reads ``messages`` and ``tools`` of the default configuration, DPOTrainer the configuration
``preference``. Grades and diffs stay out, because they name hidden tests and hold files of the workspace.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....environments.runs.reader import Stored, stored_episodes
from ....models import Episode
from ...export.sft import row as chat_row
from ...export.sft import solved, turn_messages
from .episodes_card import episodes_page
from .parquet import front_matter, parquet, split_paths
from .repo_tree import RepoTree

SOLVED, OTHERS = "train", "unsolved"
"""Split of the solved episodes, which a model can be trained to imitate, and that of the others."""
_TAGS = ["code", "agent", "reinforcement-learning", "openenv", "etude"]


def episodes_repo(run: Path, repo_id: str, preference: Sequence[Mapping[str, Any]] = ()) -> RepoTree:
    """Return the repository of a run's valid episodes; ``preference`` has the rows of that configuration.

    Raises RunError when the run holds no valid episode.
    """
    stored = stored_episodes(run)
    rows: dict[str, list[dict[str, Any]]] = {SOLVED: [], OTHERS: []}
    for item in stored:
        rows[SOLVED if solved(item.episode) else OTHERS].append(episode_row(item))
    rows = {split: of_split for split, of_split in rows.items() if of_split}
    paths, features = split_paths(list(rows)), episode_features()
    configs = {"default": (paths, features)}
    files: dict[str, Path | bytes] = {paths[split]: parquet(rows[split], features) for split in rows}
    numbers: dict[str, Any] = {"episodes": len(stored), "splits": {split: len(rows[split]) for split in rows}}
    if preference:
        pair_paths, pair_features = split_paths(["train"], "preference"), preference_features()
        configs["preference"] = (pair_paths, pair_features)
        files[pair_paths["train"]] = parquet(preference, pair_features)
        numbers["pairs"] = len(preference)
    fields = {"task_categories": ["text-generation"], "tags": [*_TAGS, "conversational"]}
    page = f"{front_matter(fields, configs)}\n{episodes_page(stored, rows, repo_id, pairs=len(preference))}\n"
    return RepoTree("episodes", files, page, numbers)


def episode_row(stored: Stored) -> dict[str, Any]:
    """Return an episode as a row. ``message`` of an error turn is the place of its turn in ``messages``, or None."""
    episode = stored.episode
    row, places = chat_row(episode), _places(episode)
    errors = [
        {
            **error.model_dump(include={"turn", "call_id", "kind", "site", "tool", "message", "injected", "recovered"}),
            "text": error.message,
            "message": places.get(error.turn),
        }
        for error in episode.error_turns
    ]
    hints = [
        {"turn": error.turn, "message": places.get(error.turn), **hint.model_dump()}
        for error in episode.error_turns
        for hint in error.hints
    ]
    reward = episode.reward
    assert reward is not None, "only valid episodes are rows"
    return {
        **row,
        "episode_id": episode.episode_id,
        "agent": stored.agent,
        "sample": stored.sample,
        "reward": reward.value,
        "reward_components": reward.components,
        "solved": solved(episode),
        "end": episode.end,
        "turns": len(episode.turns),
        "error_turns": errors,
        "hints": hints,
        "findings": [json.loads(finding.model_dump_json()) for finding in episode.findings],
    }


def _places(episode: Episode) -> dict[int, int]:
    """Return the index in ``messages`` of each turn that has a message; the prompt is message 0."""
    places, place = {}, 1
    for number, turn in enumerate(episode.turns):
        written = list(turn_messages(turn, number))
        if written:
            places[number] = place
        place += len(written)
    return places


def episode_features() -> Any:
    """Return the ``datasets.Features`` of an episode's row."""
    from datasets import Features, Json, List, Value

    text, number, truth = Value("string"), Value("int32"), Value("bool")
    error = {"turn": number, "message": number, "call_id": text, "kind": text, "site": text, "tool": text, "text": text}
    hint = {"turn": number, "message": number, "role": text, "text": text, "source": text, "template": text}
    return Features(
        {
            "messages": List(Json()),
            "tools": text,
            "task_id": text,
            "episode_id": text,
            "agent": text,
            "sample": number,
            "reward": Value("float64"),
            "reward_components": Json(),
            "solved": truth,
            "end": text,
            "turns": number,
            "error_turns": List({**error, "injected": truth, "recovered": truth}),
            "hints": List({**hint, "score": Value("float64")}),
            "findings": List(Json()),
        }
    )


def preference_features() -> Any:
    """Return the ``datasets.Features`` of a preference pair's row."""
    from datasets import Features, Json, List, Value

    text, messages = Value("string"), List(Json())
    return Features(
        {
            "prompt": messages,
            "chosen": messages,
            "rejected": messages,
            "tools": text,
            "task_id": text,
            "episode_id": text,
            "turn": Value("int32"),
            "kind": text,
            "error": text,
            "share": Value("float64"),
            "margin": Value("float64"),
        }
    )
