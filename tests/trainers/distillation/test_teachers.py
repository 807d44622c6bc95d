"""Teachers that stand still, follow or move on to another device, and how far they are from where they began."""

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
from etude.trainers.run.callbacks import Watch
from etude.trainers.run.checkpoints import STATE, Keeper

RATE = 0.001


def rollout(length: int = 40, seed: int = 1, vocabulary: int = VOCABULARY) -> Rollout:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(vocabulary, (length,), generator=generator).tolist()
    return Rollout("t", "e", ids, 8, [Span(6, 8, length)], [], Reward(value=0.0), "submit")


def held() -> list[tuple[Rollout, list[Site]]]:
    return [(rollout(seed=seed), [Site(0, "a", 6, 8, 14, [3, 4]), Site(1, "b", 18, 20, 30, [9])]) for seed in (1, 2)]


def moved(made: Any, by: float = 1.2) -> Any:
    """A copy whose every weight is another, its head's too."""
    found = copy.deepcopy(made)
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.mul_(by)
    return found


def weights(made: Any) -> dict[str, torch.Tensor]:
    return {name: value.detach().float() for name, value in made.named_parameters()}


# --- Where it is -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["frozen", "periodic", "ema", "trust_region"])
def test_a_teacher_that_was_started_elsewhere_goes_to_its_student(kind: str) -> None:
    student, teacher = model().to(torch.bfloat16), Teacher(kind, every=1)
    teacher.start(student)
    student.to("meta")
    found = teacher.model(student)
    assert {each.device.type for each in (*found.parameters(), *found.buffers())} == {"meta"}
    teacher.step(student, 1)  # with all that it keeps
    assert teacher.model(student) is found


# --- How it moves ------------------------------------------------------------------------------------------------


def test_an_average_of_bfloat16_moves_with_its_student() -> None:
    """A hundred steps of a thousandth, each of which bfloat16 would round away."""
    first = model().to(torch.bfloat16)
    student, teacher = moved(first, 2.0), Teacher("ema", rate=RATE)
    teacher.start(first)
    for number in range(1, 101):
        teacher.step(student, number)
    found, begin, goal = weights(teacher.model(student)), weights(first), weights(student)
    assert {parameter.dtype for parameter in teacher.model(student).parameters()} == {torch.bfloat16}
    for name, value in found.items():
        wanted = torch.lerp(begin[name], goal[name], 1 - (1 - RATE) ** 100)
        torch.testing.assert_close(value, wanted, rtol=2**-8, atol=1e-6)


def test_an_average_of_float32_is_kept_once() -> None:
    student, teacher = model(), Teacher("ema", rate=0.5)
    teacher.start(student)
    teacher.step(moved(student, 2.0), 1)
    assert not teacher.state_dict()["average"]
    torch.testing.assert_close(weights(teacher.model(student)), weights(moved(student, 1.5)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_resumed_average_goes_on_as_the_uninterrupted_one(dtype: torch.dtype) -> None:
    first = model().to(dtype)
    student, whole, resumed = moved(first, 2.0), Teacher("ema", rate=RATE), Teacher("ema", rate=RATE)
    whole.start(first)
    for number in range(1, 11):
        whole.step(student, number)
    resumed.load_state_dict(copy.deepcopy(whole.state_dict()), student)
    for number in range(11, 21):
        whole.step(student, number)
        resumed.step(student, number)
    ours, theirs = whole.model(student).state_dict(), resumed.model(student).state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_checkpoint_without_the_finer_average_is_gone_on_from() -> None:
    first = model().to(torch.bfloat16)
    old = {"copy": moved(first, 1.5).state_dict(), "first": {}}
    teacher = Teacher("ema", rate=0.5)
    teacher.load_state_dict(old, first)
    teacher.step(first, 1)
    torch.testing.assert_close(weights(teacher.model(first)), weights(moved(first, 1.25)), rtol=2**-7, atol=1e-6)


# --- How far it went ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["qwen3", "qwen3-tied", "gemma2"])
def test_drift_is_the_divergence_from_the_first_self_head_and_all(name: str) -> None:
    first, drift = model(name), Drift(held())
    now, kept = moved(first), copy.deepcopy(first)
    assert drift.measure(first) == pytest.approx(0, abs=1e-6)
    with torch.no_grad():
        first.get_output_embeddings().weight.zero_()  # the first self goes on itself: a live one, or one in place
    found = drift.measure(now)
    each = []
    with torch.no_grad():
        for played, sites in held():
            rows = (head_of(m).logits(teacher_rows(m, played.ids, sites, packed=False)) for m in (now, kept))
            each.append(divergence(*rows))
    assert found == pytest.approx(float(torch.cat(each).mean()), abs=1e-6)
    assert found > 0.001


def test_drift_holds_rows_and_one_head_and_not_the_logits() -> None:
    vocabulary, length = 2000, 400
    made = qwen(vocabulary)
    drift = Drift([(rollout(length, vocabulary=vocabulary), [Site(0, "a", 6, 8, length, [3])])])
    drift.measure(made)
    file = io.BytesIO()
    torch.save(drift, file)
    head = made.get_output_embeddings().weight.nbytes
    assert head < file.tell() < head + (length - 8) * 32 * 4 + 20_000 < (length - 8) * vocabulary * 4 / 5


def loaded(folder: Path, drift: Drift) -> Any:
    watch, teacher = SimpleNamespace(drift=drift), SimpleNamespace(state_dict=dict, load_state_dict=lambda *_: None)
    (folder / "checkpoint-3").mkdir()
    keeper: Any = Keeper(teacher, None, watch)  # type: ignore[arg-type]
    keeper.on_save(SimpleNamespace(output_dir=folder), SimpleNamespace(is_world_process_zero=True, global_step=3), None)
    watch.drift = None
    assert (folder / "checkpoint-3" / STATE).exists()
    keeper.load(folder / "checkpoint-3", SimpleNamespace(device="cpu"))
    return watch.drift


def test_a_resumed_run_measures_from_the_same_self(tmp_path: Path) -> None:
    first, drift = model(), Drift(held())
    drift.measure(first)
    assert loaded(tmp_path, drift).measure(moved(first)) == drift.measure(moved(first)) > 0


def test_a_checkpoint_with_logits_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    drift = Drift(held())
    drift.__dict__ = {"_probe": held(), "_first": [torch.zeros(16, VOCABULARY)]}
    with pytest.raises(RecipeError, match="was written by another version of Etude: choose another out"):
        loaded(tmp_path, drift)


# --- When it is measured -----------------------------------------------------------------------------------------


class Watched:
    """What Watch needs of a trainer, and whether models ran in bfloat16."""

    def __init__(self) -> None:
        self.model = model()
        self.accelerator = SimpleNamespace(
            unwrap_model=lambda made: made,
            autocast=lambda: torch.autocast("cpu", dtype=torch.bfloat16),
            gather=lambda value: value,
            device="cpu",
        )
        self.noted: dict[str, float] = {}
        self.played = held()
        self.cast: set[bool] = set()
        self.model.base_model.register_forward_hook(lambda *_: self.cast.add(torch.is_autocast_enabled("cpu")))

    def measured(self) -> list[tuple[Rollout, list[Site]]]:
        return self.played

    def _note(self, name: str, value: float) -> None:
        self.noted[name] = value


def test_what_is_watched_is_computed_as_the_model_trains() -> None:
    trainer = Watched()
    watch = Watch(trainer, Teacher("live"), drift=True, kl=True)
    watch.on_step_end(None, SimpleNamespace(global_step=1), None)
    trainer.model.load_state_dict(moved(trainer.model).state_dict())
    watch.on_step_end(None, SimpleNamespace(global_step=5), None)
    assert trainer.cast == {True}
    assert trainer.noted["teacher_drift"] > 0.001 and trainer.noted["kl_good_turns"] > 0.001


def test_drift_is_measured_from_the_first_self_however_late_the_first_sites_come() -> None:
    trainer, teacher = Watched(), Teacher("ema", rate=0.5)
    teacher.start(trainer.model)
    first = copy.deepcopy(trainer.model)
    watch = Watch(trainer, teacher, drift=True, kl=False)
    trainer.model.load_state_dict(moved(trainer.model).state_dict())
    trainer.played = []
    watch.on_step_end(None, SimpleNamespace(global_step=1), None)
    trainer.played = held()
    watch.on_step_end(None, SimpleNamespace(global_step=5), None)
    drift = Drift(held())
    with trainer.accelerator.autocast():
        drift.measure(first)
        assert trainer.noted["teacher_drift"] == drift.measure(teacher.model(trainer.model)) > 0.001
