"""Teachers: how each kind follows its student, where it is, and how drift measures its distance from the start."""

from __future__ import annotations

import copy
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers.model_factory import VOCABULARY, model, qwen

from etude.errors import RecipeError
from etude.models import Reward
from etude.trainers.distillation.distill_sites import Site
from etude.trainers.distillation.divergence import divergence
from etude.trainers.distillation.hidden_states import head_of, teacher_rows
from etude.trainers.distillation.teachers import Drift, Teacher
from etude.trainers.rollouts.rollout import Rollout, Span
from etude.trainers.run.callbacks import PolicyMonitor
from etude.trainers.run.checkpoints import STATE, StateSaver

RATE = 0.001


def rollout(length: int = 40, seed: int = 1, vocabulary: int = VOCABULARY) -> Rollout:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(vocabulary, (length,), generator=generator).tolist()
    return Rollout("t", "e", ids, 8, [Span(6, 8, length)], [], Reward(value=0.0), "submit")


def probe() -> list[tuple[Rollout, list[Site]]]:
    return [(rollout(seed=seed), [Site(0, "a", 6, 8, 14, [3, 4]), Site(1, "b", 18, 20, 30, [9])]) for seed in (1, 2)]


def moved(original: Any, by: float = 1.2) -> Any:
    """Return a copy with every weight multiplied, that of the head included."""
    multiplied = copy.deepcopy(original)
    with torch.no_grad():
        for parameter in multiplied.parameters():
            parameter.mul_(by)
    return multiplied


def weights(model: Any) -> dict[str, torch.Tensor]:
    return {name: value.detach().float() for name, value in model.named_parameters()}


# --- device ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["frozen", "periodic", "ema", "trust_region"])
def test_teacher_moves_to_the_device_of_its_student(kind: str) -> None:
    student, teacher = model().to(torch.bfloat16), Teacher(kind, every=1)
    teacher.start(student)
    student.to("meta")
    moved_model = teacher.model(student)
    assert {tensor.device.type for tensor in (*moved_model.parameters(), *moved_model.buffers())} == {"meta"}
    teacher.step(student, 1)  # this needs its other tensors there too
    assert teacher.model(student) is moved_model


# --- updates -----------------------------------------------------------------------------------------------------


def test_average_of_a_bfloat16_student_moves() -> None:
    """It makes a hundred steps of a thousandth, each of which bfloat16 would round away."""
    first = model().to(torch.bfloat16)
    student, teacher = moved(first, 2.0), Teacher("ema", rate=RATE)
    teacher.start(first)
    for number in range(1, 101):
        teacher.step(student, number)
    averages, begin, goal = weights(teacher.model(student)), weights(first), weights(student)
    assert {parameter.dtype for parameter in teacher.model(student).parameters()} == {torch.bfloat16}
    for name, value in averages.items():
        expected = torch.lerp(begin[name], goal[name], 1 - (1 - RATE) ** 100)
        torch.testing.assert_close(value, expected, rtol=2**-8, atol=1e-6)


def test_average_of_a_float32_student_is_stored_once() -> None:
    student, teacher = model(), Teacher("ema", rate=0.5)
    teacher.start(student)
    teacher.step(moved(student, 2.0), 1)
    assert not teacher.state_dict()["average"]
    torch.testing.assert_close(weights(teacher.model(student)), weights(moved(student, 1.5)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_resumed_average_equals_the_uninterrupted_one(dtype: torch.dtype) -> None:
    first = model().to(dtype)
    student, whole, resumed = moved(first, 2.0), Teacher("ema", rate=RATE), Teacher("ema", rate=RATE)
    whole.start(first)
    for number in range(1, 11):
        whole.step(student, number)
    resumed.load_state_dict(copy.deepcopy(whole.state_dict()), student)
    for number in range(11, 21):
        whole.step(student, number)
        resumed.step(student, number)
    expected, actual = whole.model(student).state_dict(), resumed.model(student).state_dict()
    assert all(torch.equal(actual[name], expected[name]) for name in expected)


def test_average_resumes_from_a_checkpoint_without_a_separate_one() -> None:
    first = model().to(torch.bfloat16)
    old = {"copy": moved(first, 1.5).state_dict(), "first": {}}
    teacher = Teacher("ema", rate=0.5)
    teacher.load_state_dict(old, first)
    teacher.step(first, 1)
    torch.testing.assert_close(weights(teacher.model(first)), weights(moved(first, 1.25)), rtol=2**-7, atol=1e-6)


# --- drift -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["qwen3", "qwen3-tied", "gemma2"])
def test_drift_is_the_divergence_from_the_first_weights_and_head(name: str) -> None:
    first, drift = model(name), Drift(probe())
    current, unchanged = moved(first), copy.deepcopy(first)
    assert drift.measure(first) == pytest.approx(0, abs=1e-6)
    with torch.no_grad():
        first.get_output_embeddings().weight.zero_()  # as for a live teacher, whose first weights change in place
    measured = drift.measure(current)
    parts = []
    with torch.no_grad():
        for played, sites in probe():
            rows = (head_of(m).logits(teacher_rows(m, played.ids, sites, packed=False)) for m in (current, unchanged))
            parts.append(divergence(*rows))
    assert measured == pytest.approx(float(torch.cat(parts).mean()), abs=1e-6)
    assert measured > 0.001


def test_drift_stores_hidden_states_and_one_head_but_no_logits() -> None:
    vocabulary, length = 2000, 400
    tiny = qwen(vocabulary)
    drift = Drift([(rollout(length, vocabulary=vocabulary), [Site(0, "a", 6, 8, length, [3])])])
    drift.measure(tiny)
    file = io.BytesIO()
    torch.save(drift, file)
    head = tiny.get_output_embeddings().weight.nbytes
    assert head < file.tell() < head + (length - 8) * 32 * 4 + 20_000 < (length - 8) * vocabulary * 4 / 5


def save_and_load(folder: Path, drift: Drift) -> Any:
    monitor, teacher = SimpleNamespace(drift=drift), SimpleNamespace(state_dict=dict, load_state_dict=lambda *_: None)
    (folder / "checkpoint-3").mkdir()
    saver: Any = StateSaver(teacher, None, monitor)  # type: ignore[arg-type]
    saver.on_save(SimpleNamespace(output_dir=folder), SimpleNamespace(is_world_process_zero=True, global_step=3), None)
    monitor.drift = None
    assert (folder / "checkpoint-3" / STATE).exists()
    saver.load(folder / "checkpoint-3", SimpleNamespace(device="cpu"))
    return monitor.drift


def test_drift_of_a_resumed_run_has_the_same_start(tmp_path: Path) -> None:
    first, drift = model(), Drift(probe())
    drift.measure(first)
    assert save_and_load(tmp_path, drift).measure(moved(first)) == drift.measure(moved(first)) > 0


def test_drift_refuses_a_checkpoint_of_an_earlier_version_with_logits(tmp_path: Path) -> None:
    drift = Drift(probe())
    drift.__dict__ = {"_probe": probe(), "_first": [torch.zeros(16, VOCABULARY)]}
    with pytest.raises(RecipeError, match="was written by another version of Etude; choose another out"):
        save_and_load(tmp_path, drift)


# --- the monitor -------------------------------------------------------------------------------------------------


class MonitoredTrainer:
    """The part of a trainer that PolicyMonitor needs; it records whether models ran in bfloat16."""

    def __init__(self) -> None:
        self.model = model()
        self.accelerator = SimpleNamespace(
            unwrap_model=lambda model: model,
            autocast=lambda: torch.autocast("cpu", dtype=torch.bfloat16),
            gather=lambda value: value,
            device="cpu",
        )
        self.recorded: dict[str, float] = {}
        self.rollouts = probe()
        self.cast: set[bool] = set()
        self.model.base_model.register_forward_hook(lambda *_: self.cast.add(torch.is_autocast_enabled("cpu")))

    def last_rollouts(self) -> list[tuple[Rollout, list[Site]]]:
        return self.rollouts

    def record_metric(self, name: str, value: float) -> None:
        self.recorded[name] = value


def test_monitor_computes_in_the_type_of_the_training() -> None:
    trainer = MonitoredTrainer()
    monitor = PolicyMonitor(trainer, Teacher("live"), drift=True, kl=True)
    monitor.on_step_end(None, SimpleNamespace(global_step=1), None)
    trainer.model.load_state_dict(moved(trainer.model).state_dict())
    monitor.on_step_end(None, SimpleNamespace(global_step=5), None)
    assert trainer.cast == {True}
    assert trainer.recorded["teacher_drift"] > 0.001 and trainer.recorded["kl_good_turns"] > 0.001


def test_drift_starts_at_the_first_weights_when_the_first_sites_come_late() -> None:
    trainer, teacher = MonitoredTrainer(), Teacher("ema", rate=0.5)
    teacher.start(trainer.model)
    first = copy.deepcopy(trainer.model)
    monitor = PolicyMonitor(trainer, teacher, drift=True, kl=False)
    trainer.model.load_state_dict(moved(trainer.model).state_dict())
    trainer.rollouts = []
    monitor.on_step_end(None, SimpleNamespace(global_step=1), None)
    trainer.rollouts = probe()
    monitor.on_step_end(None, SimpleNamespace(global_step=5), None)
    drift = Drift(probe())
    with trainer.accelerator.autocast():
        drift.measure(first)
        assert trainer.recorded["teacher_drift"] == drift.measure(teacher.model(trainer.model)) > 0.001
