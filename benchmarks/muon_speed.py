"""Time of Muon's orthogonalization: batches beside loops, heads beside whole matrices, ours beside other packages.

usage: python benchmarks/muon_speed.py [--repeat 7] [--dion FOLDER] [--gram FOLDER] [--device cpu|cuda]

FOLDER is a checkout of microsoft/dion, or one that holds ``gram_newton_schulz``, which computes in float16 and is left
out on a CPU, where that is a hundred times slower. All rows of a table are measured in turn, ``--repeat`` times, and
the medians are printed. The peak is that of the largest of some square matrix products in bfloat16, measured in the
same way.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.optim._muon import _zeropower_via_newtonschulz

from etude.trainers.muon import orthogonalize
from etude.trainers.muon.coefficients import newton_schulz_flops

JORDAN = (3.4445, -4.775, 2.0315)
EXPERTS = [(64, 32, 64), (64, 64, 128), (64, 128, 256), (64, 256, 512), (16, 512, 1024), (8, 768, 2048)]
"""Number, rows and columns of stacked experts; the last are those of Qwen3-30B-A3B."""
PEAK_SIZES = (1024, 2048, 3072)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--dion")
    parser.add_argument("--gram")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    sys.path[:0] = [folder for folder in (options.dion, options.gram) if folder]
    print(f"torch {torch.__version__}, {options.device}, {torch.get_num_threads()} threads\n")
    rows: dict[str, Callable[[Tensor], object]] = {
        "Etude, one batch": lambda matrices: orthogonalize(matrices, "jordan"),
        "Etude, a loop": lambda matrices: [orthogonalize(matrix, "jordan") for matrix in matrices],
        "torch.optim.Muon, a loop": lambda matrices: [
            _zeropower_via_newtonschulz(matrix, JORDAN, 5, 1e-7) for matrix in matrices
        ],
        "Etude, Gram matrices, one batch": lambda matrices: orthogonalize(matrices, "jordan", method="gram"),
    }
    rows |= peers(options.dion is not None, options.gram is not None and options.device != "cpu")
    peak = peak_flops(options.device, options.repeat)
    print(f"matrix products in bfloat16: {peak / 1e9:.0f} GFLOP/s at most\n")
    for number, height, width in EXPERTS:
        matrices = torch.randn(number, height, width, device=options.device)
        flops = number * newton_schulz_flops(height, width)
        compare(f"{number} experts of {height} x {width}", rows, matrices, options.repeat, flops, peak)
    heads(options.device, options.repeat)


def peers(dion: bool, gram: bool) -> dict[str, Callable[[Tensor], object]]:
    """Return the iterations of other packages; each takes five steps."""
    found: dict[str, Callable[[Tensor], object]] = {}
    if dion:
        from dion.muon import zeropower_via_newtonschulz5

        found["dion, compiled, one batch"] = zeropower_via_newtonschulz5
    if gram:
        from gram_newton_schulz.gram_newton_schulz import GramNewtonSchulz

        found["gram-newton-schulz, one batch"] = GramNewtonSchulz(
            ns_use_kernels=False, ns_coefficients=[list(JORDAN)] * 5, compile_kwargs={"fullgraph": True}
        )
    return found


def peak_flops(device: str, repeat: int) -> float:
    """Return the largest rate of a square matrix product in bfloat16, in operations per second."""
    rates = []
    for size in PEAK_SIZES:
        matrix = torch.randn(size, size, device=device, dtype=torch.bfloat16)
        matrix @ matrix
        rates.append(2 * size**3 / statistics.median(seconds(lambda m: m @ m, matrix) for _ in range(repeat)))
    return max(rates)


def compare(
    title: str,
    rows: dict[str, Callable[[Tensor], object]],
    matrices: Tensor,
    repeat: int,
    flops: int,
    peak: float,
) -> None:
    """Print one table: median time of each row, and its ratio to the first."""
    times: dict[str, list[float]] = {name: [] for name in rows}
    for call in rows.values():
        call(matrices)  # compiles, and warms caches
    for _ in range(repeat):
        for name, call in rows.items():
            times[name].append(seconds(call, matrices))
    medians = {name: statistics.median(measured) for name, measured in times.items()}
    first = medians[next(iter(rows))]
    print(f"{title}\n\n| iteration | ms | ratio | share of the peak |\n|---|---|---|---|")
    for name, median in medians.items():
        share = "" if "ram" in name else f"{flops / median / peak:.0%}"
        print(f"| {name} | {median * 1e3:.1f} | {median / first:.2f} | {share} |")
    print()


def heads(device: str, repeat: int) -> None:
    """Print the time of fused queries, keys and values by head and as one matrix."""
    print("Fused queries, keys and values\n")
    print("| shape | heads | by head, ms | one matrix, ms | ratio |\n|---|---|---|---|---|")
    for heads_and_keys, size, width in ((12, 64, 512), (24, 64, 1024), (32, 128, 2048)):
        fused = torch.randn(heads_and_keys * size, width, device=device)
        by_head = fused.view(heads_and_keys, size, width)
        for tensor in (fused, by_head):
            orthogonalize(tensor)
        pairs = [(seconds(orthogonalize, by_head), seconds(orthogonalize, fused)) for _ in range(repeat)]
        head, whole = (statistics.median(column) for column in zip(*pairs, strict=True))
        shape = f"{heads_and_keys * size} x {width}"
        print(f"| {shape} | {heads_and_keys} | {head * 1e3:.1f} | {whole * 1e3:.1f} | {whole / head:.1f} |")


def seconds(call: Callable[[Tensor], object], matrices: Tensor) -> float:
    """Return the duration of one call."""
    if matrices.is_cuda:
        torch.cuda.synchronize()
    start = time.perf_counter()
    call(matrices)
    if matrices.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
