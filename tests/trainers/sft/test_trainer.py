"""Tests of stage "sft": the loss on solved episodes, and a run from `etude run` to a model."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers.scripted_policy import Scripted, base
from helpers.solved_episodes import chat_of, episode, erred, recipe
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from etude.cli import app as cli
from etude.cli.commands.train import DIALOGUES, read_episodes
from etude.errors import RecipeError
from etude.models import Episode
from etude.trainers.recipe.load import parse
from etude.trainers.report.page import recipe_toml
from etude.trainers.run import model_loading as loading
from etude.trainers.run.callbacks import read_metrics
from etude.trainers.run.train import Result, plan, run
from etude.trainers.sft import trainer as sft
from etude.trainers.sft.rows import Solved, encode, masked
from etude.trainers.sft.trainer import SolvedTrainer

TINY = {"hidden": 32, "layers": 1, "heads": 2, "vocabulary": 700, "dialogues": 24, "steps": 8, "batch": 2}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return base(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Play drills with `etude run`: solved at once, solved after mistakes, and not solved."""
    folder = tmp_path_factory.mktemp("runs")
    for agent, limit in (("oracle", "5"), ("stumbler", "3"), ("noop", "4")):
        assert cli.main(["run", "--tasks", "drill", "-a", agent, "--limit", limit, "-o", str(folder / agent)]) == 0
    return folder


def play(table: dict[str, Any], trainer: Any = None) -> Result:
    return run(parse(table), dialogues=DIALOGUES, episodes=read_episodes, trainer=trainer)


# --- the loss -----------------------------------------------------------------------------------------------------


def reference_loss(model: Any, rows: Sequence[dict[str, list[int]]]) -> float:
    """Return the mean of -log softmax at the learned ids of all rows, computed one row at a time."""
    total, number = 0.0, 0
    for row in rows:
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([row["input_ids"]])).logits[0]
        for place, label in enumerate(row["labels"]):
            if label != -100:
                total, number = total - torch.log_softmax(logits[place - 1].double(), -1)[label].item(), number + 1
    return total / number


def varied_episodes() -> list[Episode]:
    """Return episodes with different lengths and numbers of learned ids."""
    long = episode(2, erred(1)).model_copy(update={"prompt": "Find it. " * 30})
    return [episode(0), episode(1, erred(0), erred(1)), long, episode(3, erred(0, injected=True))]


def built(model: Path, out: Path, **tables: Any) -> Any:
    options = parse(recipe(model, out, **tables))
    solved = Solved(varied_episodes(), 4)
    return sft.build(options, "", solved, trainer=None, dialogues=None, progress=lambda phase, done, total: None)


def test_loss_of_a_batch_is_the_cross_entropy_of_its_learned_ids(model: Path, tmp_path: Path) -> None:
    trainer = built(model, tmp_path, train={"micro": 4}).trainer
    batch = next(iter(trainer.get_train_dataloader()))
    loss = trainer.compute_loss(trainer.model, dict(batch), num_items_in_batch=(batch["labels"] != -100).sum())
    rows = [trainer.train_dataset[place] for place in range(4)]
    assert {len(row["input_ids"]) for row in rows} != {len(rows[0]["input_ids"])}
    assert abs(loss.item() - reference_loss(AutoModelForCausalLM.from_pretrained(model), rows)) <= 1e-6


def test_loss_of_a_step_weighs_ids_equally_over_micro_batches(model: Path, tmp_path: Path) -> None:
    table = recipe(model, tmp_path, train={"micro": 1, "steps": 1})
    assert run(parse(table), episodes=lambda folder: varied_episodes()).ok
    rows = encode(varied_episodes(), chat_of(model), system="", max_ids=10_000).rows
    expected = reference_loss(AutoModelForCausalLM.from_pretrained(model), rows)
    assert abs(read_metrics(tmp_path / "metrics.jsonl")[0]["loss"] - expected) <= 1e-6


def test_gradient_comes_from_learned_ids_alone(model: Path, tmp_path: Path) -> None:
    trainer = built(model, tmp_path, train={"micro": 4}).trainer
    outputs: list[torch.Tensor] = []

    def record(module: Any, inputs: Any, output: Any) -> None:
        output.last_hidden_state.retain_grad()
        outputs.append(output.last_hidden_state)

    trainer.model.base_model.register_forward_hook(record)
    batch = next(iter(trainer.get_train_dataloader()))
    trainer.compute_loss(trainer.model, dict(batch)).backward()
    (hidden,) = outputs
    assert hidden.grad is not None
    learned = torch.nn.functional.pad(batch["labels"][:, 1:] != -100, (0, 1))
    size = hidden.grad.abs().sum(-1)
    assert torch.equal(size > 0, learned)


def test_player_has_the_step_of_the_trainer() -> None:
    """TRL sends vLLM new weights only when the step has changed, and the player's own step never changes."""
    trainer, steps = SolvedTrainer.__new__(SolvedTrainer), []
    trainer._player = SimpleNamespace(state=SimpleNamespace(global_step=0))
    trainer._player.play = lambda tasks: steps.append(trainer._player.state.global_step) or []
    for step in (0, 7):
        trainer.state = SimpleNamespace(global_step=step)
        trainer.play([{}])
    assert steps == [0, 7]


def test_model_larger_than_the_gpu_is_refused_before_weights_load(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (1000, 1000))
    with pytest.raises(RecipeError, match="^model.name: .* train a smaller model"):
        built(model, tmp_path)


# --- a run --------------------------------------------------------------------------------------------------------


def test_run_makes_a_model_that_rl_can_start_from(runs: Path, drill_url: str, tmp_path: Path) -> None:
    tiny = {"make": "drill", "name": "", "sizes": TINY}
    table = recipe(Path(), tmp_path / "sft", runs / "oracle", runs / "stumbler", model=tiny, train={"steps": 8})
    result = play(table)
    assert result.ok and result.steps == 8
    losses = [row["loss"] for row in read_metrics(tmp_path / "sft" / "metrics.jsonl")]
    assert len(losses) == 8 and losses[-1] < losses[0] - 0.3
    assert json.loads((tmp_path / "sft" / "result.json").read_text())["steps"] == 8
    learned = AutoModelForCausalLM.from_pretrained(tmp_path / "sft" / "model")
    assert len(AutoTokenizer.from_pretrained(tmp_path / "sft" / "model")) == learned.config.vocab_size
    rl = {
        "out": str(tmp_path / "rl"),
        "model": {"name": str(tmp_path / "sft" / "model")},
        "environment": {"url": drill_url},
        "train": {"steps": 1, "prompts": 1, "group": 2, "micro": 2, "evaluate_tasks": 1},
    }
    for name in ("sft/model", "sft/base"):
        assert arguments({**rl, "model": {"name": str(tmp_path / name)}}) == {"enable_thinking": False}
    assert play(rl, Scripted).ok
    onward = {**rl, "out": str(tmp_path / "more"), "model": {"name": str(tmp_path / "rl" / "model")}}
    assert arguments(onward) == {"enable_thinking": False}
    with pytest.raises(RecipeError, match="holds a finished run; choose another out"):
        play(table)


def arguments(table: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of the chat template in a run of this recipe."""
    return dict(loading.open_model(parse(table), None, lambda phase, done, total: None).arguments)


def test_recipe_arguments_override_those_of_the_model(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    loading.save_template_arguments(folder, {"enable_thinking": False, "other": 1})
    table = recipe(folder, tmp_path / "out")
    assert arguments({**table, "model": {"name": str(folder)}}) == {"enable_thinking": False, "other": 1}
    with_template = {"name": str(folder), "template": {"enable_thinking": True}}
    assert arguments({**table, "model": with_template}) == {"enable_thinking": True, "other": 1}
    (folder / loading.ARGUMENTS).write_text("[")
    with pytest.raises(RecipeError, match="holds no arguments; remove it, and give them as model.template"):
        arguments({**table, "model": with_template})


def test_run_is_evaluated_when_there_is_an_environment(model: Path, runs: Path, drill_url: str, tmp_path: Path) -> None:
    result = play(
        recipe(
            model,
            tmp_path,
            runs / "oracle",
            environment={"url": drill_url},
            generation={"max_turn_ids": 4},
            train={"steps": 1, "evaluate_tasks": 2},
        )
    )
    assert result.before is not None and result.after is not None
    assert result.before.episodes == result.after.valid == 2


class Stopping(sft.SolvedTrainer):
    """Trainer that gets Ctrl-C in the middle of its second step, once."""

    at, number = 2, signal.SIGINT

    def compute_loss(self, *arguments: Any, **more: Any) -> Any:
        if self.state.global_step + 1 == type(self).at:
            type(self).at = 0
            os.kill(os.getpid(), self.number)
        return super().compute_loss(*arguments, **more)


def test_interrupted_run_resumes_to_the_same_losses_and_weights(model: Path, runs: Path, tmp_path: Path) -> None:
    whole, parts = (
        recipe(model, tmp_path / name, runs / "oracle", runs / "stumbler", train={"warmup": 0.5})
        for name in ("whole", "parts")
    )
    play(whole)
    first = play(parts, Stopping)
    assert (first.interrupted, first.steps) == (True, 2)
    second = play(parts)
    assert (second.ok, second.resumed_from, second.steps) == (True, 2, 4)
    names = ("step", "loss", "grad_norm", "learning_rate")
    traces = [
        [[row[name] for name in names] for row in read_metrics(tmp_path / out / "metrics.jsonl")]
        for out in ("whole", "parts")
    ]
    assert traces[0] == traces[1] and len(traces[0]) == 4
    expected, resumed = (load_file(tmp_path / out / "model" / "model.safetensors") for out in ("whole", "parts"))
    assert all(torch.equal(expected[name], resumed[name]) for name in expected)


def test_resume_is_refused_when_the_episodes_changed(model: Path, runs: Path, tmp_path: Path) -> None:
    Stopping.at = 2
    table = recipe(model, tmp_path, runs / "oracle")
    assert play(table, Stopping).interrupted
    fewer = read_episodes(runs / "oracle")[1:]
    with pytest.raises(RecipeError, match="they have changed since the run was interrupted"):
        run(parse(table), episodes=lambda folder: fewer)


INTERRUPTED = "error: Interrupted. Run the same command again to resume."


@pytest.fixture
def sigterm() -> Iterator[None]:
    """Make an unhandled SIGTERM an error instead of the end of all tests."""

    def unhandled(number: int, frame: Any) -> None:
        raise AssertionError("SIGTERM was not handled")

    before = signal.signal(signal.SIGTERM, unhandled)
    yield
    assert signal.signal(signal.SIGTERM, before) is unhandled


@pytest.fixture
def recipe_file(model: Path, runs: Path, tmp_path: Path) -> str:
    """Return the path of a recipe's file; the run goes to ``tmp_path / "run"``."""
    file = tmp_path / "r.toml"
    file.write_text(recipe_toml(parse(recipe(model, tmp_path / "run", runs / "oracle")).model_dump(mode="json")))
    return str(file)


def test_sigterm_saves_a_checkpoint_like_ctrl_c(
    recipe_file: str,
    tmp_path: Path,
    sigterm: None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sft, "SolvedTrainer", type("Ended", (Stopping,), {"at": 2, "number": signal.SIGTERM}))
    assert cli.main(["train", recipe_file]) == 143
    assert capsys.readouterr().err.splitlines()[-1] == INTERRUPTED
    assert (tmp_path / "run" / "checkpoints" / "checkpoint-2").is_dir()
    monkeypatch.undo()
    assert cli.main(["train", recipe_file]) == 0
    assert [row["step"] for row in read_metrics(tmp_path / "run" / "metrics.jsonl")] == [1, 2, 3, 4]


@pytest.mark.parametrize("interrupts", [signal.default_int_handler, signal.SIG_IGN])
def test_sigterm_before_the_first_step_leaves_no_run(
    interrupts: Any,
    recipe_file: str,
    tmp_path: Path,
    sigterm: None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loading.LoadableModel, "load_weights", lambda start: os.kill(os.getpid(), signal.SIGTERM))
    before = signal.signal(signal.SIGINT, interrupts)
    try:
        assert cli.main(["train", recipe_file]) == 143
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err.splitlines()[-1] == INTERRUPTED
    assert not (tmp_path / "run").exists()


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"episodes": []}, 'set episodes = "runs/x"'),
        ({"sft": {"batch": 3}}, "sft.batch = 3 episodes do not divide into micro-batches of 2"),
        ({"sft": {"rewards": 1.0}}, "[sft]: unknown key 'rewards'. Did you mean 'reward'?"),
        ({"sft": {"reward": 2.0}}, "sft.reward: Input should be less than or equal to 1"),
        ({"safety": {"kl_to_base": 1.0}}, "safety.kl_to_base is measured on rollouts"),
        (
            {"environment": {"url": "http://h", "serve": "drill"}},
            "environment.url and environment.serve are both given; set one to",
        ),
    ],
)
def test_mistake_in_a_recipe_is_a_one_line_error(change: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError) as refused:
        parse(recipe(Path("m"), Path("o"), **change))
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_recipe_takes_one_folder_of_episodes_or_several() -> None:
    assert parse(recipe(Path("m"), Path("o"), episodes="runs/a")).episodes == ("runs/a",)
    assert parse(recipe(Path("m"), Path("o"), episodes=["runs/a", "runs/b"])).episodes == ("runs/a", "runs/b")


@pytest.mark.parametrize(
    ("folder", "tables", "message"),
    [
        ("nowhere", {}, "play some with `etude run --out"),
        ("noop", {}, "0 of 4 episodes are solved (a reward of 1 or more)"),
        ("oracle", {"generation": {"max_ids": 100}}, "5 longer than generation.max_ids = 100 ids"),
    ],
)
def test_unusable_episodes_are_a_one_line_error_before_weights_load(
    folder: str, tables: dict[str, Any], message: str, model: Path, runs: Path, tmp_path: Path, no_weights: None
) -> None:
    with pytest.raises(Exception) as refused:
        play(recipe(model, tmp_path / "out", runs / folder, **tables))
    assert type(refused.value).__module__.startswith("etude.")
    assert message in str(refused.value) and "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_template_without_tools_is_refused(model: Path, runs: Path, tmp_path: Path, no_weights: None) -> None:
    words = AutoTokenizer.from_pretrained(model)
    words.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    words.save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text((model / "config.json").read_text())
    with pytest.raises(ValueError, match="does not render tools"):
        play(recipe(tmp_path / "model", tmp_path / "out", runs / "oracle"))


@pytest.fixture
def no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: Any, **more: Any) -> None:
        raise AssertionError("weights were loaded")

    monkeypatch.setattr(loading, "AutoModelForCausalLM", type("No", (), {"from_pretrained": never}))


def test_dry_run_counts_episodes_and_turns(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = f'stage = "sft"\nepisodes = ["{runs / "stumbler"}", "{runs / "noop"}"]\n[model]\nname = "some/model"\n'
    (tmp_path / "r.toml").write_text(text)
    capsys.readouterr()
    assert cli.main(["train", str(tmp_path / "r.toml"), "--dry-run", "--offline", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["episodes"], shown["episodes_read"], shown["episodes_left_out"]) == (3, 7, {"not solved": 4})
    episodes = read_episodes(runs / "stumbler")
    assert shown["turns_masked"] == sum(len(masked(one)) for one in episodes) > 0
    assert shown["turns_learned"] + shown["turns_masked"] == sum(len(one.turns) for one in episodes)


def test_plan_divides_the_batch_among_processes() -> None:
    options = parse(recipe(Path("m"), Path("o")))
    assert plan(options, 2, Solved([episode(0)], 1))["gradient_accumulation"] == 1
    with pytest.raises(RecipeError, match="micro-batches of 2 on 3 processes"):
        plan(options, 3, Solved([episode(0)], 1))
