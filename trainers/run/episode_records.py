"""Episodes of a training run: some of each batch are written, so that a point of a curve leads to what happened."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from ...models import Episode, ToolMessage, Turn
from ..distillation.distill_sites import Site
from ..report.run_files import EPISODES, write_atomically
from ..rollouts.rollout import Rollout

AGENT = "policy"
"""Agent that the rows name."""


class EpisodeRecords(TrainerCallback):
    """Writes ``episodes.jsonl``: the rows that `etude run` writes, with the step in their settings.

    Only the first rank writes. The steps that learn from the same batch record it once, at the first of them.
    """

    def __init__(
        self,
        out: Path,
        rollouts: Callable[[], Sequence[tuple[Rollout, list[Site]]]],
        number: int,
        divergences: Callable[[], Mapping[str, Mapping[int, float]]] = dict,
    ) -> None:
        """``rollouts`` returns the last batch; ``number`` of its episodes are written.

        ``divergences`` returns how far the policy is from the teacher that reads the hint, at the turns where the
        distillation has measured it: by episode id, then by turn.
        """
        self.path, self._rollouts, self._number = out / EPISODES, rollouts, number
        self._divergences = divergences
        self._last: list[str] = []

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Remove the episodes of steps that a resumed run repeats."""
        self._last = []
        if not state.is_world_process_zero or not self.path.exists():
            return
        lines = self.path.read_bytes().split(b"\n")[:-1]
        retained = [line for line in lines if _step(line) <= state.global_step]
        write_atomically(self.path, b"".join(line + b"\n" for line in retained).decode("utf-8", "replace"))

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if not state.is_world_process_zero:
            return
        rollouts = [rollout for rollout, _ in self._rollouts()]
        batch = [rollout.episode_id for rollout in rollouts]
        if not rollouts or batch == self._last:
            return
        self._last = batch
        chosen = spread(rollouts, self._number)
        measured = self._divergences()
        rows = [
            episode_row(rollout, state.global_step, sample, measured.get(rollout.episode_id, {}))
            for sample, rollout in enumerate(chosen)
        ]
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        with self.path.open("ab") as file:
            file.write(text.encode("utf-8", "replace"))


def spread(rollouts: Sequence[Rollout], number: int) -> list[Rollout]:
    """Return ``number`` rollouts at equal distances, so that they come from different groups."""
    if len(rollouts) <= number:
        return list(rollouts)
    return [rollouts[place * len(rollouts) // number] for place in range(number)]


def episode_row(rollout: Rollout, step: int, sample: int, divergences: Mapping[int, float]) -> dict[str, Any]:
    """Return the row of a rollout. The server's record of the episode has more: its diff, its times, its sandbox."""
    messages = list(rollout.messages)
    prompt = next((str(message.get("content") or "") for message in messages if message.get("role") == "user"), "")
    turns: list[Turn] = []
    for message in messages:
        if message.get("role") == "assistant":
            turns.append(Turn(action={name: value for name, value in message.items() if name != "role"}))
        elif turns:
            turns[-1].messages.append(_answer(message))
    episode = Episode(
        episode_id=rollout.episode_id,
        task_id=rollout.task_id,
        prompt=prompt,
        turns=turns,
        error_turns=rollout.error_turns,
        findings=rollout.findings,
        reward=rollout.reward,
        end=rollout.end,  # type: ignore[arg-type]  # the server's word, checked by the record
    )
    settings: dict[str, Any] = {"step": step}
    if divergences:
        settings["divergence"] = {str(turn): round(value, 6) for turn, value in sorted(divergences.items())}
    about = {"agent": AGENT, "cause": "", "sample": sample, "settings": settings, "usage": {}}
    return {**about, **episode.model_dump(mode="json")}


def _answer(message: Mapping[str, Any]) -> ToolMessage:
    fields = {name: message[name] for name in ("role", "tool_call_id", "name", "content") if name in message}
    return ToolMessage.model_validate(fields)


def _step(line: bytes) -> float:
    """Return the step of a row; infinity for a line that is not one."""
    try:
        return float(json.loads(line)["settings"]["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")
