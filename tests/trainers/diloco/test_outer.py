"""DiLoCo on several gloo ranks, compared with its formulas computed in one process."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.ranks import run_on_ranks
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from etude.trainers.diloco.fragments import strided, whole
from etude.trainers.diloco.outer import DiLoCo, Settings

INNER_LR = 0.05
PLAIN = Settings(inner_steps=3)
STREAMING = Settings(inner_steps=6, overlap=2, mixing=0.4)
DATA_PARALLEL = Settings(inner_steps=1, learning_rate=1.0, momentum=0.0)


class Model(nn.Module):
    """Four blocks between two layers."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Linear(5, 6)
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(4))
        self.head = nn.Linear(6, 1)

    def forward(self, rows: Tensor) -> Tensor:
        hidden = self.embed(rows)
        for layer in self.layers:
            hidden = hidden + torch.tanh(layer(hidden))
        return self.head(hidden)


def batch(worker: int, step: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1000 * worker + step)
    rows = torch.randn(8, 5, generator=generator)
    return rows, rows.sin().sum(-1, keepdim=True) + worker


def inner_step(model: Any, optimizer: Any, worker: int, step: int) -> None:
    rows, targets = batch(worker, step)
    optimizer.zero_grad()
    nn.functional.mse_loss(model(rows), targets).backward()
    optimizer.step()


def fragments(model: Any, count: int) -> Any:
    return strided(model.named_parameters(), count) if count > 1 else whole(model.named_parameters())


def values(model: Any) -> dict[str, Tensor]:
    """Return complete parameters; those of a sharded model are gathered."""
    return {
        name: (parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter).detach().clone()
        for name, parameter in model.named_parameters()
    }


def train(settings: Settings, count: int, steps: int, worker: int | None = None) -> Any:
    """Return this rank's parameters after each step, the outer parameters and the bytes of each step."""
    worker = distributed.get_rank() if worker is None else worker
    model = Model(seed=worker)  # the workers start with other parameters, and get those of the first
    outer = DiLoCo(fragments(model, count), settings)
    optimizer = torch.optim.SGD(model.parameters(), lr=INNER_LR)
    history, sent = [], []
    for step in range(1, steps + 1):
        inner_step(model, optimizer, worker, step)
        outer.step()
        history.append(values(model))
        sent.append(outer.traffic.last_step)
    return history, {name: tensor.clone() for name, tensor in outer.outer_parameters().items()}, sent


def simulate(settings: Settings, count: int, steps: int, workers: int = 2) -> list[list[dict[str, Tensor]]]:
    """Return every worker's parameters after each step, by the formulas of the papers, without ``DiLoCo``."""
    models = [Model(seed=0) for _ in range(workers)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=INNER_LR) for model in models]
    names = [[name for name, _ in fragment] for fragment in fragments(models[0], count)]
    theta = values(models[0])
    momentum = {name: torch.zeros_like(tensor) for name, tensor in theta.items()}
    due: dict[int, list[tuple[str, Tensor]]] = {}
    history: list[list[dict[str, Tensor]]] = [[] for _ in models]
    for step in range(1, steps + 1):
        for worker, (model, optimizer) in enumerate(zip(models, optimizers, strict=True)):
            inner_step(model, optimizer, worker, step)
        parameters = [dict(model.named_parameters()) for model in models]
        for place, fragment in enumerate(names):
            if step % settings.inner_steps == place * settings.inner_steps // count:
                for name in fragment:
                    delta = torch.stack([theta[name] - each[name].detach() for each in parameters]).mean(0)
                    due.setdefault(step + settings.overlap, []).append((name, delta))
        for name, delta in due.pop(step, []):
            momentum[name] = settings.momentum * momentum[name] + delta
            moved = delta + settings.momentum * momentum[name] if settings.nesterov else momentum[name]
            theta[name] = theta[name] - settings.learning_rate * moved
            for each in parameters:
                own = settings.mixing * each[name].detach() + (1 - settings.mixing) * theta[name]
                each[name].data.copy_(own)
        for worker, model in enumerate(models):
            history[worker].append(values(model))
    return history


def assert_same(actual: list[dict[str, Tensor]], expected: list[dict[str, Tensor]]) -> None:
    assert len(actual) == len(expected)
    for ours, theirs in zip(actual, expected, strict=True):
        for name, tensor in theirs.items():
            torch.testing.assert_close(ours[name], tensor, rtol=1e-5, atol=1e-6)


CASES = {
    "plain": (PLAIN, 1),
    "without Nesterov": (replace(PLAIN, nesterov=False), 1),
    "streaming": (STREAMING, 2),
    "more fragments than steps": (Settings(inner_steps=2, overlap=1, mixing=0.5), 4),
}


@pytest.mark.parametrize("case", CASES)
def test_workers_have_the_parameters_of_the_papers_formulas(case: str, tmp_path: Path) -> None:
    settings, count = CASES[case]
    expected = simulate(settings, count, steps=15)
    for worker, (history, _, _) in enumerate(run_on_ranks(2, train, tmp_path, settings, count, 15)):
        assert_same(history, expected[worker])


def test_one_inner_step_and_plain_outer_sgd_are_data_parallel_training(tmp_path: Path) -> None:
    model = Model(seed=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=INNER_LR)
    expected = []
    for step in range(1, 7):
        optimizer.zero_grad()
        losses = [nn.functional.mse_loss(model(batch(worker, step)[0]), batch(worker, step)[1]) for worker in (0, 1)]
        torch.stack(losses).mean().backward()
        optimizer.step()
        expected.append(values(model))
    for history, _, _ in run_on_ranks(2, train, tmp_path, DATA_PARALLEL, 1, 6):
        assert_same(history, expected)


def test_bytes_are_those_of_the_fragments_that_are_due(tmp_path: Path) -> None:
    sizes = [4 * sum(each.numel() for _, each in fragment) for fragment in fragments(Model(), 2)]
    for _, _, sent in run_on_ranks(2, train, tmp_path, STREAMING, 2, 12):
        assert sent == [0, 0, sizes[1], 0, 0, sizes[0]] * 2
    whole_model = 4 * sum(each.numel() for each in Model().parameters())
    for _, _, sent in run_on_ranks(2, train, tmp_path, PLAIN, 1, 6):
        assert sent == [0, 0, whole_model] * 2
    assert sum(sizes) == whole_model


def _interrupted(settings: Settings, count: int, steps: int, stop: int) -> Any:
    """Return the parameters of training that was saved and resumed at ``stop``, with other objects."""
    worker = distributed.get_rank()
    model, other = Model(seed=0), Model(seed=5)
    outer = DiLoCo(fragments(model, count), settings)
    optimizer = torch.optim.SGD(model.parameters(), lr=INNER_LR, momentum=0.5)
    for step in range(1, stop + 1):
        inner_step(model, optimizer, worker, step)
        outer.step()
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict())), outer.state_dict()
    inner_step(model, optimizer, worker, 99)  # what is saved must not change with the run that saved it
    outer.step()
    outer.finish()
    resumed = DiLoCo(fragments(other, count), settings)
    other_optimizer = torch.optim.SGD(other.parameters(), lr=INNER_LR, momentum=0.5)
    other.load_state_dict(saved[0][0])
    other_optimizer.load_state_dict(saved[0][1])
    resumed.load_state_dict(saved[1])
    for step in range(stop + 1, steps + 1):
        inner_step(other, other_optimizer, worker, step)
        resumed.step()
    return values(other), resumed.traffic.total, resumed.steps


def _at_every_step(settings: Settings, count: int, steps: int) -> bool:
    uninterrupted = _interrupted(settings, count, steps, 0)
    for stop in range(1, steps):
        parameters, total, number = _interrupted(settings, count, steps, stop)
        assert (total, number) == uninterrupted[1:]
        assert all(torch.equal(parameters[name], tensor) for name, tensor in uninterrupted[0].items()), stop
    return True


@pytest.mark.parametrize("case", ["plain", "streaming"])
def test_resumed_training_has_the_same_bits(case: str, tmp_path: Path) -> None:
    settings, count = CASES[case]
    assert run_on_ranks(2, _at_every_step, tmp_path, settings, count, 10) == [True, True]


def _finished() -> Any:
    worker, model = distributed.get_rank(), Model(seed=3).bfloat16()
    outer = DiLoCo(fragments(model, 2), STREAMING)
    optimizer = torch.optim.SGD(model.parameters(), lr=INNER_LR)
    for step in range(1, 8):  # an exchange is under way
        rows, targets = batch(worker, step)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(rows.bfloat16()), targets.bfloat16()).backward()
        optimizer.step()
        outer.step()
    before = values(model)
    outer.finish()
    return before, values(model), outer.outer_parameters()


def test_finish_gives_all_workers_the_same_parameters_in_sixteen_bits(tmp_path: Path) -> None:
    (before, first, outer), (other_before, second, _) = run_on_ranks(2, _finished, tmp_path)
    assert any(not torch.equal(before[name], other_before[name]) for name in before)
    for name in first:
        assert torch.equal(first[name], second[name]) and first[name].dtype == torch.bfloat16
        assert outer[name].dtype == torch.float32 and torch.equal(outer[name].bfloat16(), first[name])


def _sharded(settings: Settings, count: int, steps: int) -> Any:
    """Return the complete parameters after training where each worker is two ranks with FSDP2."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("worker", "shard"))
    worker, model = mesh.get_local_rank("worker"), Model(seed=0)
    fully_shard(model, mesh=mesh["shard"])
    outer = DiLoCo(fragments(model, count), settings, group=mesh["worker"].get_group())
    optimizer = torch.optim.SGD(model.parameters(), lr=INNER_LR)
    history = []
    for step in range(1, steps + 1):
        inner_step(model, optimizer, worker, step)  # both ranks of a worker have its rows
        outer.step()
        history.append(values(model))
    return worker, history, outer.traffic.total


def test_workers_with_sharded_parameters_train_like_whole_ones(tmp_path: Path) -> None:
    expected = simulate(STREAMING, 2, steps=9)
    results = run_on_ranks(4, _sharded, tmp_path, STREAMING, 2, 9)
    for worker, history, _ in results:
        assert_same(history, expected[worker])
    whole_run = run_on_ranks(2, train, tmp_path, STREAMING, 2, 9)[0][2]
    assert sum(total for worker, _, total in results if worker == 0) == sum(whole_run)  # each shard is sent once


def _refused() -> list[str]:
    errors = []
    sharded = Model()
    fully_shard(sharded, mesh=init_device_mesh("cpu", (2,)))
    other = nn.Linear(4 + distributed.get_rank(), 2)
    saved = DiLoCo(fragments(Model(), 1), PLAIN).state_dict()
    attempts = [
        lambda: DiLoCo(fragments(sharded, 1), PLAIN),
        lambda: DiLoCo(fragments(other, 1), PLAIN),
        lambda: DiLoCo([[], list(other.named_parameters())], PLAIN),
        lambda: DiLoCo(fragments(Model(), 2), PLAIN).load_state_dict(saved),
        lambda: DiLoCo(fragments(Model(), 1), PLAIN).load_state_dict(
            {**saved, "workers": 3, "exchanges": {0: (4, torch.zeros(1))}}
        ),
    ]
    for attempt in attempts:
        try:
            attempt()
        except ValueError as error:
            errors.append(str(error))
    return errors


def test_what_cannot_be_exchanged_is_refused_in_one_line(tmp_path: Path) -> None:
    for errors in run_on_ranks(2, _refused, tmp_path):
        assert [error.split(";")[0] for error in errors] == [
            "embed.weight is sharded over ranks of the group",
            "worker 1 has other parameters than worker 0, first weight",
            "each fragment needs parameters, and each parameter one fragment",
            "the state has other fragments than this model",
            "exchanges among 3 workers are under way, and there are 2 now",
        ]
        assert not any("\n" in error for error in errors)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inner_steps": 0}, "inner_steps must be at least 1"),
        ({"inner_steps": 4, "overlap": 4}, r"overlap must lie in \[0, inner_steps = 4\)"),
        ({"mixing": 1.0}, r"mixing must lie in \[0, 1\)"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
    ],
)
def test_settings_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings(**options)


def test_blocks_are_strided_over_fragments() -> None:
    names = [[name for name, _ in fragment] for fragment in strided(Model().named_parameters(), 2)]
    assert names == [
        ["embed.weight", "embed.bias", "layers.0.weight", "layers.0.bias", "layers.2.weight", "layers.2.bias"],
        ["layers.1.weight", "layers.1.bias", "layers.3.weight", "layers.3.bias", "head.weight", "head.bias"],
    ]
    with pytest.raises(ValueError, match="4 blocks for 5 fragments"):
        strided(Model().named_parameters(), 5)
    with pytest.raises(ValueError, match="count must be at least 1"):
        strided(Model().named_parameters(), 0)
