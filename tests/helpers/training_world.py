"""One rank of a run with scripted turns.

Its argument is JSON: url, model, out, micro, prompts, objective, pairs, ``recipe`` (tables that replace those here),
and ``wrong``, which happens on the second rank alone: its episodes are hacks ("hacks"), its clock is ahead ("late"), it
gets Ctrl-C ("asked"), its server is lost after the first step ("lost"), or nothing (""). With "samples" the model
itself writes the turns, on all ranks.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from accelerate.utils import gather_object
from helpers.scripted_policy import Scripted

from etude.errors import ConnectionLost, ServerError
from etude.models import Finding
from etude.trainers.distributed import leave_group
from etude.trainers.recipe.load import parse
from etude.trainers.rollouts.dataset_rows import RESET
from etude.trainers.rollouts.rollout import Rollout, Sample
from etude.trainers.run.train import run


class Fixed(Scripted):
    """Trainer whose turns depend on the task and the place in its group alone.

    For every other task, half of the rollouts err and then give up; the other rollouts never err.
    """

    wrong = ""

    def _generate_turns(self, prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
        if self.wrong == "lost" and self.state.global_step == 1 and self.accelerator.process_index == 1:
            raise ConnectionLost("cannot connect")
        places = [sum(other == ids for other in prompts[:number]) for number, ids in enumerate(prompts)]
        errs = [place % 2 == 0 and self._is_hard(ids) for place, ids in zip(places, prompts, strict=True)]
        turns = zip(prompts, rooms, errs, strict=True)
        return [Sample(self._turn(ids, err, gives_up=True)[:room]) for ids, room, err in turns]

    def play(self, tasks: Sequence[Mapping[str, Any]]) -> list[Rollout]:
        rollouts = super().play(tasks)
        if not self.model.training or self.accelerator.process_index == 0:
            return rollouts
        if self.wrong == "asked" and self.state.global_step == 0:
            os.kill(os.getpid(), signal.SIGINT)
        findings = [Finding(exploit_id="a hack", severity="confirmed")] if self.wrong == "hacks" else []
        return [replace(rollout, findings=findings) for rollout in rollouts]

    def _is_hard(self, ids: list[int]) -> bool:
        names = [json.loads(row[RESET])["task_id"] for row in self.train_dataset]
        return self.task_of(ids) in names[::2]


def _speed_up_clock() -> None:
    """Let the kill switch's clock run a day in a second."""
    from etude.trainers.run.kill_switch import KillSwitch

    original = KillSwitch.__init__
    KillSwitch.__init__ = lambda self, *arguments, **options: original(  # type: ignore[method-assign]
        self, *arguments, **options, clock=lambda: 86_400 * time.monotonic()
    )


def main(options: dict[str, str]) -> None:
    torch.set_num_threads(1)
    table: dict[str, Any] = {
        "out": options["out"],
        "model": {"name": options["model"], "template": {"enable_thinking": False}},
        "environment": {"url": options["url"]},
        "train": {
            "steps": 2,
            "prompts": int(options["prompts"]),
            "group": 4,
            "micro": int(options["micro"]),
            "learning_rate": 1e-3,
            "save_every": 2,
            "evaluate_tasks": 2,
        },
        "objective": {"name": "dr_grpo"},
        "channels": {"rlvr": 1.0, "distillation": 1.0, "replay": 0.5},
        "replay": {"pairs": options["pairs"], "batch": 3},
        "distillation": {"gate": False},
        "generation": {"max_ids": 6000, "max_turn_ids": 400},
    }
    for name, keys in json.loads(options["recipe"]).items():
        table[name] = {**table.get(name, {}), **keys}
    Fixed.wrong = options["wrong"]
    if Fixed.wrong == "late":
        table["safety"] = {"hours": 1}
        if os.environ["RANK"] == "1":
            _speed_up_clock()
    if Fixed.wrong == "lost":
        try:
            run(parse(table), trainer=Fixed)
        except ServerError as error:
            assert str(error) == "cannot connect; run the same command again to resume after step 1"
            return
        raise AssertionError("the lost server was not noticed")
    result = run(parse(table), trainer=None if Fixed.wrong == "samples" else Fixed)
    if Fixed.wrong:
        assert len(set(gather_object([(result.steps, result.stopped, result.interrupted)]))) == 1
    leave_group()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
