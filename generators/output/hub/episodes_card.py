"""The card of an episodes dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ....environments.hub.manifest import MANIFEST
from ....environments.runs.reader import Stored

_COLUMNS = """## Columns

| column | content |
|---|---|
| `messages` | the prompt, the agent's turns and the results of its calls, in OpenAI's format; arguments are objects |
| `tools` | the tools' JSON schemas, as one JSON text |
| `reward`, `reward_components`, `solved` | the reward in [0, 1], its parts, and whether the reward is 1 and honest |
| `error_turns` | each turn that failed: number, place in `messages`, kind of error, whether it was injected |
| `hints` | what would have helped at an error turn; `message` is the place of the turn in `messages` |
| `findings` | what the monitors saw: evidence of reward hacking |
| `task_id`, `episode_id`, `agent`, `sample`, `end`, `turns` | which episode it is, and how it ended |"""
_LIMITS = """## Limits

- Solved episodes hold solutions of their tasks: do not evaluate on tasks of the same set after training on them.
- A call that was no valid JSON is left out of `messages`, because chat templates cannot write it; its turn is in
  `error_turns` with `message` null when nothing of it remains.
- Grades, diffs and hidden tests are not in the rows; results of tools are, and may quote code of the tasks' sources."""


def episodes_page(
    stored: Sequence[Stored], rows: Mapping[str, Sequence[Mapping[str, Any]]], repo_id: str, *, pairs: int
) -> str:
    """Return the card's text below the front matter."""
    episodes = [item.episode for item in stored]
    mean = sum(episode.reward.value for episode in episodes if episode.reward) / len(episodes)
    kinds = Counter(error.kind for episode in episodes for error in episode.error_turns)
    agents = Counter(item.agent for item in stored)
    numbers = {
        "episodes": str(len(episodes)),
        "tasks": str(len({episode.task_id for episode in episodes})),
        "agents": ", ".join(f"{name} {number}" for name, number in sorted(agents.items())),
        "mean reward": f"{mean:.3f}",
        "splits": ", ".join(f"{name} {len(of_split)}" for name, of_split in rows.items()),
        "error turns": ", ".join(f"{name} {number}" for name, number in sorted(kinds.items())) or "none",
        "hints": str(sum(len(error.hints) for episode in episodes for error in episode.error_turns)),
        "preference pairs": str(pairs),
    }
    parts = [
        f"# {len(episodes)} episodes of coding agents",
        "Played with Etude. Split `train` has the solved episodes, `unsolved` all others.",
        "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in numbers.items())]),
        _COLUMNS,
        "\n".join(["## Train on it", "", *_training(repo_id, pairs)]),
        _LIMITS,
        f"`{MANIFEST}` has the sha256 of each data file.",
    ]
    return "\n\n".join(parts)


def _training(repo_id: str, pairs: int) -> list[str]:
    lines = [
        "```python",
        f'solved = datasets.load_dataset("{repo_id}", "default", split="train")',
        "trl.SFTTrainer(model, train_dataset=solved)",
    ]
    if pairs:
        lines += [
            f'pairs = datasets.load_dataset("{repo_id}", "preference", split="train")',
            "trl.DPOTrainer(model, train_dataset=pairs)",
        ]
    return [*lines, "```"]
