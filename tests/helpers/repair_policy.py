"""Scripted policy on repairs, in the place of a trainer's sampling."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

from etude.research.error_turns.worlds.repair_world import REPAIRS, of_id
from etude.trainers.rollouts.rollout import Sample

KNOWS = REPAIRS.knows()
ADVICE = "the nearest path is "
"""Part of the environment's hint for a missing file."""


def says(tasks: Sequence[str], *plan: str) -> Any:
    """Return a policy for ``_generate_turns`` that plays ``plan`` on these tasks, a word a turn.

    The words are right and wrong (edits), told (right with a hint in the prompt, otherwise wrong) and submit.
    """

    def turns(trainer: Any, prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
        said = []
        for ids in prompts:
            text = trainer.processing_class.decode(ids)
            task = next(name for name in tasks if of_id(name).statement.splitlines()[0] in text)
            word = plan[text.count("<tool_response>")]
            if word == "told":
                word = "right" if ADVICE in text else "wrong"
            if word == "submit":
                name, arguments = "submit", {"summary": "done"}
            elif word == "right":
                name, arguments = KNOWS.right(task, [])
            else:
                name, arguments = KNOWS.wrong(task, [], random.Random(0))
            said.append(spoken(trainer, name, arguments))
        return said

    return turns


def spoken(trainer: Any, name: str, arguments: Any) -> Sample:
    """Return a call as the policy samples it."""
    call = json.dumps({"name": name, "arguments": arguments})
    turn = f"<tool_call>\n{call}\n</tool_call><|im_end|>"
    return Sample(trainer.processing_class.encode(turn, add_special_tokens=False))
