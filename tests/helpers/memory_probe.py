"""Print this process's peak memory in MiB, as JSON, after each divergence or measurement of a growing size."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

from etude.trainers.distillation.divergence import Head, divergence, fused_divergence, fused_top_k

H, ROWS, COLUMNS = 8, 64, 8192


def peak() -> float:
    """Return the peak memory in MiB. That of getrusage starts with the memory of the parent when it forked."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def learn(kind: str, vocabulary: int, rows: int) -> None:
    """Compute a divergence forward and backward."""
    hidden, weight = torch.randn(rows, H, requires_grad=True), torch.randn(vocabulary, H, requires_grad=True)
    teacher, other = torch.randn(rows, H), torch.randn(vocabulary, H)
    arguments = hidden, Head(weight), teacher, Head(other)
    if kind == "fused":
        value = fused_divergence(*arguments, rows=ROWS, columns=COLUMNS)
    elif kind == "top_k":
        value = fused_top_k(*arguments, k=10, rows=ROWS)
    else:
        value = divergence(arguments[1].logits(hidden), arguments[3].logits(teacher))
    value.sum().backward()


def measure(kind: str, vocabulary: int, rows: int) -> None:
    """Measure a turn of this many ids, in blocks as small as those of ``learn``."""
    from helpers.model_factory import qwen

    from etude.models import Reward
    from etude.trainers.distillation.distill_sites import Site
    from etude.trainers.distillation.teachers import Drift
    from etude.trainers.rollouts.rollout import Rollout, Span
    from etude.trainers.run.callbacks import good_turns_kl

    fused_divergence.__kwdefaults__.update(rows=ROWS, columns=COLUMNS)  # type: ignore[attr-defined]
    ids = [number % vocabulary for number in range(rows + 8)]
    played = Rollout("t", "e", ids, 8, [Span(6, 8, len(ids))], [], Reward(value=1.0), "submit")
    one, other = qwen(vocabulary, 0), qwen(vocabulary, 1)
    if kind == "good_turns":
        assert (good_turns_kl(one, other, [(played, [])]) or 0) > 0
        return
    drift = Drift([(played, [Site(0, "a", 6, 8, len(ids), [3])])])
    assert drift.measure(one) < 1e-6 < drift.measure(other)


def main(kind: str, sizes: list[list[int]]) -> None:
    torch.set_num_threads(1)
    run_once = measure if kind in ("good_turns", "drift") else learn
    run_once(kind, 100, 4)
    peaks = [peak()]
    for vocabulary, rows in sizes:
        run_once(kind, vocabulary, rows)
        peaks.append(peak())
    print(json.dumps(peaks))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
