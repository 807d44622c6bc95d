"""One rank of a run with scripted turns. Its argument is JSON: url, model, out, micro, prompts, objective, pairs, and
what goes wrong on the second rank alone: its episodes are hacks, its clock is late, it is asked to end, its server is
lost behind the first step, or nothing."""

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
from etude.trainers.grpo.trainer import RESET
from etude.trainers.recipe.load import parse
from etude.trainers.rollouts.rollout import Rollout, Sample
from etude.trainers.run.train import run


class Fixed(Scripted):
    """What is said depends on the task and the place in its group alone: of every other task, half of the rollouts err
    and then give up; the others never err."""

    wrong = ""

    def _generate_turns(self, prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
        if self.wrong == "lost" and self.state.global_step == 1 and self.accelerator.process_index == 1:
            raise ConnectionLost("cannot connect")
        places = [sum(other == ids for other in prompts[:number]) for number, ids in enumerate(prompts)]
        errs = [place % 2 == 0 and self._is_hard(ids) for place, ids in zip(places, prompts, strict=True)]
        each = zip(prompts, rooms, errs, strict=True)
        return [Sample(self._turn(ids, err, gives_up=True)[:room]) for ids, room, err in each]

    def play(self, tasks: Sequence[Mapping[str, Any]]) -> list[Rollout]:
        played = super().play(tasks)
        if not self.model.training or self.accelerator.process_index == 0:
            return played
        if self.wrong == "asked" and self.state.global_step == 0:
            os.kill(os.getpid(), signal.SIGINT)
        found = [Finding(exploit_id="a hack", severity="confirmed")] if self.wrong == "hacks" else []
        return [replace(rollout, findings=found) for rollout in played]

    def _is_hard(self, ids: list[int]) -> bool:
        names = [json.loads(row[RESET])["task_id"] for row in self.train_dataset]
        return self.task_of(ids) in names[::2]


def _late() -> None:
    """The kill-switch's clock goes a day in a second."""
    from etude.trainers.run.kill_switch import KillSwitch

    real = KillSwitch.__init__
    KillSwitch.__init__ = lambda self, *given, **more: real(  # type: ignore[method-assign]
        self, *given, **more, clock=lambda: 86_400 * time.monotonic()
    )


def main(given: dict[str, str]) -> None:
    torch.set_num_threads(1)
    table = {
        "out": given["out"],
        "model": {"name": given["model"], "template": {"enable_thinking": False}},
        "environment": {"url": given["url"]},
        "train": {
            "steps": 2,
            "prompts": int(given["prompts"]),
            "group": 4,
            "micro": int(given["micro"]),
            "learning_rate": 1e-3,
            "save_every": 2,
            "evaluate_tasks": 2,
        },
        "objective": {"name": given["objective"]},
        "channels": {"rlvr": 1.0, "distillation": 1.0, "replay": 0.5},
        "replay": {"pairs": given["pairs"], "batch": 3},
        "distillation": {"gate": False},
        "generation": {"max_ids": 6000, "max_turn_ids": 400},
    }
    Fixed.wrong = given["wrong"]
    if Fixed.wrong == "late":
        table["safety"] = {"hours": 1}
        if os.environ["RANK"] == "1":
            _late()
    if Fixed.wrong == "lost":
        try:
            run(parse(table), trainer=Fixed)
        except ServerError as error:
            assert str(error) == "cannot connect; the same command goes on behind step 1"
            return
        raise AssertionError("nobody noticed")
    result = run(parse(table), trainer=Fixed)
    if Fixed.wrong:
        assert len(set(gather_object([(result.steps, result.stopped, result.interrupted)]))) == 1


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
