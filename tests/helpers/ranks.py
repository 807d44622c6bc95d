"""Functions that run on several ranks: forked processes with a gloo process group."""

from __future__ import annotations

import datetime
import multiprocessing
import multiprocessing.connection
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import distributed

TIMEOUT_S = 240


def run_on_ranks(world: int, function: Callable[..., Any], folder: Path, *arguments: Any) -> list[Any]:
    """Return what ``function(*arguments)`` returns on each rank, which must be picklable.

    Raise AssertionError when a rank gives no result; its traceback is on standard error.
    """
    context = multiprocessing.get_context("fork")
    folder = Path(folder, f"ranks-{len(list(folder.iterdir()))}")
    folder.mkdir()
    processes = [
        context.Process(target=_run, args=(rank, world, function, folder, arguments), daemon=True)
        for rank in range(world)
    ]
    for process in processes:
        process.start()
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end and any(process.is_alive() for process in processes):
        multiprocessing.connection.wait([process.sentinel for process in processes if process.is_alive()], 1)
        if any(process.exitcode for process in processes):  # the others would wait for the one that failed
            break
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
    files = [folder / str(rank) for rank in range(world)]
    missing = [rank for rank, path in enumerate(files) if not path.exists()]
    assert not missing, f"ranks {missing} of {world} gave no result within {TIMEOUT_S} s; exit codes {codes}"
    return [pickle.loads(path.read_bytes()) for path in files]


def _run(rank: int, world: int, function: Callable[..., Any], folder: Path, arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/met",
        rank=rank,
        world_size=world,
        timeout=datetime.timedelta(seconds=TIMEOUT_S),
    )
    result = function(*arguments)
    distributed.barrier()
    distributed.destroy_process_group()
    Path(folder, f"{rank}.part").write_bytes(pickle.dumps(result))
    Path(folder, f"{rank}.part").rename(folder / str(rank))
