"""Stage "sft": the loss on solved episodes, and a run from `etude run` to a model."""

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
from etude.cli.train import read_episodes, write_dialogues
from etude.errors import RecipeError
from etude.models import Episode
from etude.trainers.recipe.load import parse
from etude.trainers.report import toml
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
    """Drills as `etude run` plays them: solved at once, solved after mistakes, and not at all."""
    folder = tmp_path_factory.mktemp("runs")
    for agent, limit in (("oracle", "5"), ("stumbler", "3"), ("noop", "4")):
        assert cli.main(["run", "--tasks", "drill", "-a", agent, "--limit", limit, "-o", str(folder / agent)]) == 0
    return folder


def play(table: dict[str, Any], trainer: Any = None) -> Result:
    return run(parse(table), dialogues=write_dialogues, episodes=read_episodes, trainer=trainer)


# --- the loss -----------------------------------------------------------------------------------------------------


def by_hand(model: Any, rows: Sequence[dict[str, list[int]]]) -> float:
    """The mean of -log softmax at the learned ids of all rows, one row at a time."""
    total, number = 0.0, 0
    for row in rows:
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([row["input_ids"]])).logits[0]
        for place, label in enumerate(row["labels"]):
            if label != -100:
                total, number = total - torch.log_softmax(logits[place - 1].double(), -1)[label].item(), number + 1
    return total / number


def unlike() -> list[Episode]:
    """Episodes of different lengths and numbers of learned ids."""
    long = episode(2, erred(1)).model_copy(update={"prompt": "Find it. " * 30})
    return [episode(0), episode(1, erred(0), erred(1)), long, episode(3, erred(0, injected=True))]


def made_of(model: Path, out: Path, **tables: Any) -> Any:
    options = parse(recipe(model, out, **tables))
    solved = Solved(unlike(), 4)
    return sft.build(options, "", solved, trainer=None, dialogues=None, progress=lambda phase, done, total: None)


def test_the_first_batch_is_the_cross_entropy_of_the_learned_ids(model: Path, tmp_path: Path) -> None:
    trainer = made_of(model, tmp_path, train={"micro": 4}).trainer
    batch = next(iter(trainer.get_train_dataloader()))
    loss = trainer.compute_loss(trainer.model, dict(batch), num_items_in_batch=(batch["labels"] != -100).sum())
    rows = [trainer.train_dataset[place] for place in range(4)]
    assert {len(row["input_ids"]) for row in rows} != {len(rows[0]["input_ids"])}
    assert abs(loss.item() - by_hand(AutoModelForCausalLM.from_pretrained(model), rows)) <= 1e-6


def test_micro_batches_weigh_ids_and_not_episodes(model: Path, tmp_path: Path) -> None:
    table = recipe(model, tmp_path, train={"micro": 1, "steps": 1})
    assert run(parse(table), episodes=lambda folder: unlike()).ok
    rows = encode(unlike(), chat_of(model), system="", max_ids=10_000).rows
    expected = by_hand(AutoModelForCausalLM.from_pretrained(model), rows)
    assert abs(read_metrics(tmp_path / "metrics.jsonl")[0]["loss"] - expected) <= 1e-6


def test_nothing_flows_from_masked_turns_prompts_and_results(model: Path, tmp_path: Path) -> None:
    trainer = made_of(model, tmp_path, train={"micro": 4}).trainer
    kept: list[torch.Tensor] = []

    def keep(module: Any, given: Any, output: Any) -> None:
        output.last_hidden_state.retain_grad()
        kept.append(output.last_hidden_state)

    trainer.model.base_model.register_forward_hook(keep)
    batch = next(iter(trainer.get_train_dataloader()))
    trainer.compute_loss(trainer.model, dict(batch)).backward()
    (hidden,) = kept
    assert hidden.grad is not None
    learned = torch.nn.functional.pad(batch["labels"][:, 1:] != -100, (0, 1))
    size = hidden.grad.abs().sum(-1)
    assert torch.equal(size > 0, learned)


def test_the_player_has_the_weights_of_the_step() -> None:
    """TRL gives them to vLLM anew only where its step has changed, and the player's own never does."""
    trainer, asked = SolvedTrainer.__new__(SolvedTrainer), []
    trainer._player = SimpleNamespace(state=SimpleNamespace(global_step=0))
    trainer._player.play = lambda tasks: asked.append(trainer._player.state.global_step) or []
    for step in (0, 7):
        trainer.state = SimpleNamespace(global_step=step)
        trainer.play([{}])
    assert asked == [0, 7]


def test_a_model_that_no_gpu_holds_is_refused_before_its_weights_are_read(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (1000, 1000))
    with pytest.raises(RecipeError, match="^model.name: .* train a smaller model"):
        made_of(model, tmp_path)


# --- a run --------------------------------------------------------------------------------------------------------


def test_from_played_drills_to_a_model_that_rl_starts_from(runs: Path, drill_url: str, tmp_path: Path) -> None:
    made = {"make": "drill", "name": "", "sizes": TINY}
    table = recipe(Path(), tmp_path / "sft", runs / "oracle", runs / "stumbler", model=made, train={"steps": 8})
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
    with pytest.raises(RecipeError, match="holds a run that is done"):
        play(table)


def arguments(table: dict[str, Any]) -> dict[str, Any]:
    """Of the chat template, as a run of this recipe gives them."""
    return dict(loading.open_model(parse(table), None, lambda phase, done, total: None).arguments)


def test_a_recipe_s_own_arguments_come_first(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    loading.keep_arguments(folder, {"enable_thinking": False, "other": 1})
    table = recipe(folder, tmp_path / "out")
    assert arguments({**table, "model": {"name": str(folder)}}) == {"enable_thinking": False, "other": 1}
    own = {"name": str(folder), "template": {"enable_thinking": True}}
    assert arguments({**table, "model": own}) == {"enable_thinking": True, "other": 1}
    (folder / loading.ARGUMENTS).write_text("[")
    with pytest.raises(RecipeError, match="holds no arguments: remove it, and give them as model.template"):
        arguments({**table, "model": own})


def test_it_is_evaluated_where_there_is_an_environment(model: Path, runs: Path, drill_url: str, tmp_path: Path) -> None:
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
    """Gets Ctrl-C in the middle of its second step, once."""

    at, number = 2, signal.SIGINT

    def compute_loss(self, *arguments: Any, **more: Any) -> Any:
        if self.state.global_step + 1 == type(self).at:
            type(self).at = 0
            os.kill(os.getpid(), self.number)
        return super().compute_loss(*arguments, **more)


def test_interrupted_and_resumed_gives_the_same_losses(model: Path, runs: Path, tmp_path: Path) -> None:
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
    ours, theirs = (load_file(tmp_path / out / "model" / "model.safetensors") for out in ("whole", "parts"))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_run_goes_on_with_the_episodes_that_it_began_with(model: Path, runs: Path, tmp_path: Path) -> None:
    Stopping.at = 2
    table = recipe(model, tmp_path, runs / "oracle")
    assert play(table, Stopping).interrupted
    fewer = read_episodes(runs / "oracle")[1:]
    with pytest.raises(RecipeError, match="they have changed since the run was interrupted"):
        run(parse(table), episodes=lambda folder: fewer)


GOES_ON = "error: interrupted: run again, `generate`, `run`, `replay` and `train` go on where they stopped"


@pytest.fixture
def sigterm() -> Iterator[None]:
    """Where nobody hears SIGTERM, it is an error and not the end of all tests."""

    def unheard(number: int, frame: Any) -> None:
        raise AssertionError("nobody heard SIGTERM")

    before = signal.signal(signal.SIGTERM, unheard)
    yield
    assert signal.signal(signal.SIGTERM, before) is unheard


def test_sigterm_saves_and_says_what_ctrl_c_does(
    model: Path,
    runs: Path,
    tmp_path: Path,
    sigterm: None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = toml(parse(recipe(model, tmp_path / "run", runs / "oracle")).model_dump(mode="json"))
    (tmp_path / "r.toml").write_text(text)
    monkeypatch.setattr(sft, "SolvedTrainer", type("Ended", (Stopping,), {"at": 2, "number": signal.SIGTERM}))
    assert cli.main(["train", str(tmp_path / "r.toml")]) == 143
    assert capsys.readouterr().err.splitlines()[-1] == GOES_ON
    assert (tmp_path / "run" / "checkpoints" / "checkpoint-2").is_dir()
    monkeypatch.undo()
    assert cli.main(["train", str(tmp_path / "r.toml")]) == 0
    assert [row["step"] for row in read_metrics(tmp_path / "run" / "metrics.jsonl")] == [1, 2, 3, 4]


@pytest.mark.parametrize("interrupts", [signal.default_int_handler, signal.SIG_IGN])
def test_sigterm_before_the_first_step_ends_it_at_once(
    interrupts: Any,
    model: Path,
    runs: Path,
    tmp_path: Path,
    sigterm: None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = toml(parse(recipe(model, tmp_path / "run", runs / "oracle")).model_dump(mode="json"))
    (tmp_path / "r.toml").write_text(text)
    monkeypatch.setattr(loading.Start, "weights", lambda start: os.kill(os.getpid(), signal.SIGTERM))
    before = signal.signal(signal.SIGINT, interrupts)
    try:
        assert cli.main(["train", str(tmp_path / "r.toml")]) == 143
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err.splitlines()[-1] == GOES_ON
    assert not (tmp_path / "run").exists()


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"episodes": []}, 'set episodes = "runs/x"'),
        ({"sft": {"batch": 3}}, "sft.batch = 3 episodes do not divide into micro-batches of 2"),
        ({"sft": {"rewards": 1.0}}, "[sft]: unknown key 'rewards'. Did you mean 'reward'?"),
        ({"sft": {"reward": 2.0}}, "sft.reward: Input should be less than or equal to 1"),
        ({"safety": {"kl_to_base": 1.0}}, "safety.kl_to_base is measured on rollouts"),
        ({"environment": {"url": "http://h", "serve": "drill"}}, "environment.url or environment.serve, not both"),
    ],
)
def test_a_bad_recipe_is_one_line(change: dict[str, Any], said: str) -> None:
    with pytest.raises(RecipeError) as refused:
        parse(recipe(Path("m"), Path("o"), **change))
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_one_folder_or_several() -> None:
    assert parse(recipe(Path("m"), Path("o"), episodes="runs/a")).episodes == ("runs/a",)
    assert parse(recipe(Path("m"), Path("o"), episodes=["runs/a", "runs/b"])).episodes == ("runs/a", "runs/b")


@pytest.mark.parametrize(
    ("folder", "tables", "said"),
    [
        ("nowhere", {}, "play some with `etude run --out"),
        ("noop", {}, "0 of 4 episodes are solved (a reward of 1 or more)"),
        ("oracle", {"generation": {"max_ids": 100}}, "5 longer than generation.max_ids = 100 ids"),
    ],
)
def test_bad_episodes_are_one_line_before_weights_load(
    folder: str, tables: dict[str, Any], said: str, model: Path, runs: Path, tmp_path: Path, no_weights: None
) -> None:
    with pytest.raises(Exception) as refused:
        play(recipe(model, tmp_path / "out", runs / folder, **tables))
    assert type(refused.value).__module__.startswith("etude.")
    assert said in str(refused.value) and "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_a_template_without_tools_is_refused(model: Path, runs: Path, tmp_path: Path, no_weights: None) -> None:
    made = AutoTokenizer.from_pretrained(model)
    made.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    made.save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text((model / "config.json").read_text())
    with pytest.raises(ValueError, match="does not render tools"):
        play(recipe(tmp_path / "model", tmp_path / "out", runs / "oracle"))


@pytest.fixture
def no_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: Any, **more: Any) -> None:
        raise AssertionError("weights were loaded")

    monkeypatch.setattr(loading, "AutoModelForCausalLM", type("No", (), {"from_pretrained": never}))


def test_a_dry_run_counts_episodes_and_turns(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = f'stage = "sft"\nepisodes = ["{runs / "stumbler"}", "{runs / "noop"}"]\n[model]\nname = "some/model"\n'
    (tmp_path / "r.toml").write_text(text)
    capsys.readouterr()
    assert cli.main(["train", str(tmp_path / "r.toml"), "--dry-run", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["episodes"], shown["episodes_read"], shown["episodes_left_out"]) == (3, 7, {"not solved": 4})
    episodes = read_episodes(runs / "stumbler")
    assert shown["turns_masked"] == sum(len(masked(one)) for one in episodes) > 0
    assert shown["turns_learned"] + shown["turns_masked"] == sum(len(one.turns) for one in episodes)


def test_the_plan_of_several_processes() -> None:
    options = parse(recipe(Path("m"), Path("o")))
    assert plan(options, 2, Solved([episode(0)], 1))["gradient_accumulation"] == 1
    with pytest.raises(RecipeError, match="micro-batches of 2 on 3 processes"):
        plan(options, 3, Solved([episode(0)], 1))
