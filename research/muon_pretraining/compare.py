"""Muon beside AdamW at equal tuning: pretraining of the tiny base on dialogues of drills.

usage: python research/muon_pretraining/compare.py --out FOLDER [--seeds 3] [--print]

Protocol, written before the counted runs: the same model, data, batches, schedule and number of steps; the same grid of
learning rates for both arms on one tuning seed that is not counted; the rate with the lowest held-out loss; then
``--seeds`` other seeds. Seeds change the weights, the order and the copied ids. Measured are the loss of each step and
the loss on 128 held-out dialogues after the last step. Rows go to ``FOLDER/rows.jsonl``; a run that is there is not
made again. ``--print`` prints the tables of RESULTS.md from the rows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from etude.cli.commands.train import write_dialogues
from etude.trainers.chat.chat_policy import TemplateChat, never_samples
from etude.trainers.muon import Muon, divide
from etude.trainers.recipe.load import parse
from etude.trainers.tiny_models.dialogues import encode, read_dialogues, with_roles
from etude.trainers.tiny_models.pretrain import dialogue_loss, make_model, pretrain
from etude.trainers.tiny_models.tokenizer import dialogue_text, make_tokenizer

SIZES = {
    "hidden": 64,
    "layers": 2,
    "vocabulary": 1000,
    "dialogues": 4000,
    "copying": 100,
    "reading": 250,
    "steps": 50,
    "batch": 8,
}
RATES = (1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2, 6.4e-2)
ARMS = ("adamw", "muon")
TUNING_SEED, FIRST_SEED = 100, 1
HELD_OUT = 128
MILESTONES = (100, 200, 300, 350, 400)
"""Steps at which the curve is printed, as the mean of the 20 steps before."""
T_95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}
"""Student's t for a two-sided 95 % interval of the mean of so many values."""


def main() -> None:
    """Make the runs that are missing, or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--print", action="store_true")
    options = parser.parse_args()
    path = options.out / "rows.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if options.print:
        show(rows)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    data = Data(options.out)

    def run(arm: str, rate: float, seed: int) -> dict[str, Any]:
        done = next((row for row in rows if (row["arm"], row["rate"], row["seed"]) == (arm, rate, seed)), None)
        if done is None:
            done = {"arm": arm, "rate": rate, "seed": seed, **data.train(arm, rate, seed)}
            rows.append(done)
            with path.open("a") as file:
                file.write(json.dumps(done) + "\n")
            print(arm, rate, seed, round(done["held_out"], 4), round(done["seconds"]), flush=True)
        return done

    for arm in ARMS:
        best = min(RATES, key=lambda rate: run(arm, rate, TUNING_SEED)["held_out"])
        for seed in range(FIRST_SEED, FIRST_SEED + options.seeds):
            run(arm, best, seed)
    show(rows)


class Data:
    """Tokenizer and dialogues, the same for all runs."""

    def __init__(self, folder: Path) -> None:
        recipe = parse({"model": {"make": "drill", "sizes": SIZES}, "environment": {"serve": "drill"}})
        self.sizes = recipe.model.sizes
        path = folder / "dialogues.jsonl"
        write_dialogues(path, recipe)
        rows = read_dialogues(path)
        path.unlink()
        texts = [dialogue_text(with_roles(row), row.get("tools") or []) for row in rows[:500]]
        self.tokenizer = make_tokenizer(texts, self.sizes.vocabulary)
        chat = TemplateChat(self.tokenizer, never_samples, arguments={"enable_thinking": False})
        middle = len(rows) - HELD_OUT
        short = rows[: self.sizes.reading * 2 * self.sizes.batch]
        self.short = [encode({**row, "tools": []}, chat, self.tokenizer) for row in short]
        last = rows[middle - self.sizes.steps * self.sizes.batch : middle]
        self.whole = [encode(row, chat, self.tokenizer) for row in last]
        self.held_out = [encode(row, chat, self.tokenizer) for row in rows[middle:]]

    def train(self, arm: str, rate: float, seed: int) -> dict[str, Any]:
        """Return the losses of one run, its held-out loss and its seconds."""
        model = make_model(self.sizes, self.tokenizer, seed)
        if arm == "muon":
            optimizer: torch.optim.Optimizer = Muon(divide(model), rate, weight_decay=0.01, betas=(0.9, 0.98))
        else:
            optimizer = torch.optim.AdamW(model.parameters(), rate, (0.9, 0.98), weight_decay=0.01)
        start = time.monotonic()
        losses = pretrain(model, self.short, self.whole, self.sizes, seed=seed, optimizer=optimizer)
        seconds = time.monotonic() - start
        with torch.no_grad():
            parts = [self.held_out[first : first + 16] for first in range(0, HELD_OUT, 16)]
            held_out = statistics.fmean(float(dialogue_loss(model, part)) for part in parts)
        return {"held_out": held_out, "seconds": seconds, "losses": [round(loss, 5) for loss in losses]}


def show(rows: list[dict[str, Any]]) -> None:
    """Print the tuning, the held-out losses and the curves."""
    print("| arm | " + " | ".join(f"{rate:g}" for rate in RATES) + " |\n" + "|---" * (len(RATES) + 1) + "|")
    for arm in ARMS:
        tuned = {row["rate"]: row["held_out"] for row in rows if row["arm"] == arm and row["seed"] == TUNING_SEED}
        print(f"| {arm} | " + " | ".join(f"{tuned[rate]:.3f}" if rate in tuned else "" for rate in RATES) + " |")
    print("\n| arm | rate | held-out loss, mean | 95 % interval | " + " | ".join(map(str, MILESTONES)) + " | seconds |")
    print("|---" * (5 + len(MILESTONES)) + "|")
    for arm in ARMS:
        tuned = {row["rate"]: row["held_out"] for row in rows if row["arm"] == arm and row["seed"] == TUNING_SEED}
        best = min(tuned, key=tuned.__getitem__)
        counted = [row for row in rows if (row["arm"], row["rate"]) == (arm, best) and row["seed"] != TUNING_SEED]
        if len(counted) < 2:
            continue
        values = [row["held_out"] for row in counted]
        mean, spread = statistics.fmean(values), statistics.stdev(values) * T_95[len(values)] / len(values) ** 0.5
        curve = [
            statistics.fmean(statistics.fmean(row["losses"][step - 20 : step]) for row in counted)
            for step in MILESTONES
        ]
        print(
            f"| {arm} | {counted[0]['rate']:g} | {mean:.3f} | {mean - spread:.3f} to {mean + spread:.3f} | "
            + " | ".join(f"{loss:.2f}" for loss in curve)
            + f" | {statistics.fmean(row['seconds'] for row in counted):.0f} |"
        )


if __name__ == "__main__":
    main()
