"""One rank of a run with scripted turns. Its argument is JSON: url, model, out, micro, prompts and objective."""

from __future__ import annotations

import json
import sys

import torch
from scripted_here import Scripted

from etude.trainers.recipe import parse
from etude.trainers.rollouts import Sample
from etude.trainers.train import run
from etude.trainers.trainer import RESET


class Fixed(Scripted):
    """What is said depends on the task and the place in its group alone: of every other task, half of the rollouts err
    and then give up; the others never err."""

    def _generate_turns(self, prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
        places = [sum(other == ids for other in prompts[:number]) for number, ids in enumerate(prompts)]
        errs = [place % 2 == 0 and self._is_hard(ids) for place, ids in zip(places, prompts, strict=True)]
        each = zip(prompts, rooms, errs, strict=True)
        return [Sample(self._turn(ids, err, gives_up=True)[:room]) for ids, room, err in each]

    def _is_hard(self, ids: list[int]) -> bool:
        names = [json.loads(row[RESET])["task_id"] for row in self.train_dataset]
        return self.task_of(ids) in names[::2]


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
        "channels": {"rlvr": 1.0, "distillation": 1.0},
        "distillation": {"gate": False},
        "generation": {"max_ids": 6000, "max_turn_ids": 400},
    }
    run(parse(table), trainer=Fixed)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
