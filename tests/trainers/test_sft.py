"""Stage "sft": solved episodes as ids and labels, the loss on them, and a run from `etude run` to a model."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from scripted_here import TASKS, Scripted, base
from tokenizers_made_here import tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from etude import cli
from etude.cli_train import read_episodes, write_dialogues
from etude.client import Client
from etude.models import Episode, ErrorTurn, Finding, Reward, ToolMessage, Turn
from etude.trainers import loading, sft
from etude.trainers.chat import TemplateChat
from etude.trainers.metrics import read_metrics
from etude.trainers.recipe import RecipeError, parse
from etude.trainers.report import toml
from etude.trainers.rollouts import Rollout, Sample, rollout
from etude.trainers.sft_rows import Solved, encode, masked, select
from etude.trainers.train import Result, plan, run

TINY = {"hidden": 32, "layers": 1, "heads": 2, "vocabulary": 700, "dialogues": 24, "steps": 8, "batch": 2}
TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}},
}


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


def episode(number: int = 0, *errors: ErrorTurn, task: str = "t", reward: float = 1.0, **more: Any) -> Episode:
    """Three turns: two calls and the last words."""
    turns = [
        Turn(
            action={"text": f"Now {turn}.", "tool_calls": [{"id": f"c{turn}", "name": "look", "arguments": {}}]},
            messages=[ToolMessage(tool_call_id=f"c{turn}", name="look", content=f"ok\nresult {number}")],
        )
        for turn in range(2)
    ]
    return Episode(
        episode_id=f"{task} {number}",
        task_id=task,
        prompt=f"Find {number}.",
        tools=[TOOL],
        turns=[*turns, Turn(action={"text": "It is done."})],
        error_turns=list(errors),
        reward=Reward(value=reward),
        **more,
    )


def erred(turn: int, **more: Any) -> ErrorTurn:
    return ErrorTurn(turn=turn, kind="invalid_args", **more)


def recipe(folder: Path, out: Path, /, *folders: Path, **tables: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "stage": "sft",
        "episodes": [str(each) for each in folders] or ["runs/x"],
        "out": str(out),
        "model": {"name": str(folder), "template": {"enable_thinking": False}},
        "train": {"steps": 4, "micro": 2, "learning_rate": 3e-3, "save_every": 4},
        "sft": {"batch": 4},
    }
    for name, value in tables.items():
        given[name] = {**given.get(name, {}), **value} if isinstance(value, dict) else value
    return given


def play(table: dict[str, Any], trainer: Any = None) -> Result:
    return run(parse(table), dialogues=write_dialogues, episodes=read_episodes, trainer=trainer)


def chosen(episodes: Sequence[Episode], **options: Any) -> Solved:
    found = select(parse(recipe(Path("m"), Path("o"), sft=options)), lambda folder: episodes)
    assert found is not None
    return found


async def never(ids: Sequence[int], room: int) -> Sample:
    raise AssertionError("nobody samples here")


def chat_of(model: Path) -> TemplateChat:
    return TemplateChat(AutoTokenizer.from_pretrained(model), never, arguments={"enable_thinking": False})


def learned_text(row: dict[str, list[int]], model: Path) -> str:
    labels = [label for label in row["labels"] if label != -100]
    return str(AutoTokenizer.from_pretrained(model).decode(labels))


# --- which episodes, which turns ----------------------------------------------------------------------------------


def test_solved_episodes_without_a_confirmed_finding_are_taken() -> None:
    hack = Finding(exploit_id="x", severity="confirmed")
    doubt = Finding(exploit_id="x", severity="suspect")
    solved = episode(0)
    doubted = episode(1, findings=[doubt])
    found = chosen([solved, episode(2, reward=0.5), episode(3, findings=[hack]), doubted])
    assert found.episodes == [solved, doubted]
    assert (found.valid, found.left) == (4, {"not solved": 1, "a confirmed finding": 1})


def test_an_invalid_reward_is_none() -> None:
    bad = episode(1).model_copy(update={"reward": Reward(value=1.0, valid=False)})
    assert chosen([episode(0), bad]).left == {"not solved": 1}


def test_a_lower_reward_may_do() -> None:
    assert len(chosen([episode(0, reward=0.5), episode(1, reward=0.4)], reward=0.5).episodes) == 1


def test_at_most_so_many_of_a_task_drawn_by_the_seed() -> None:
    episodes = [episode(number, task=task) for task in "ab" for number in range(5)]
    found = chosen(episodes, per_task=2)
    assert [one.task_id for one in found.episodes] == ["a", "a", "b", "b"]
    assert found.left == {"more than sft.per_task": 6}
    assert found == chosen(episodes, per_task=2)


def test_own_errors_are_masked_and_injected_faults_are_not() -> None:
    assert masked(episode(0, erred(0), erred(1, injected=True))) == {0}
    assert masked(episode(0, erred(0, injected=True), erred(0))) == {0}
    assert chosen([episode(0, erred(0)), episode(1)]).turns == 5


def test_an_episode_of_errors_alone_teaches_nothing() -> None:
    found = chosen([episode(0), episode(1, erred(0), erred(1), erred(2))])
    assert found.left == {"no turn to learn": 1}


@pytest.mark.parametrize(
    ("episodes", "said"),
    [
        ([episode(n, reward=0.0) for n in range(40)], "0 of 40 episodes are solved (a reward of 1 or more)"),
        ([episode(0, erred(0), erred(1), erred(2))], "0 of 1 solved episodes can be learned from: 1 no turn to learn"),
    ],
)
def test_nothing_to_learn_from_is_one_line(episodes: list[Episode], said: str) -> None:
    with pytest.raises(RecipeError) as refused:
        chosen(episodes)
    assert said in str(refused.value) and "\n" not in str(refused.value)


# --- as ids -------------------------------------------------------------------------------------------------------


def test_an_error_turn_is_read_and_its_recovery_learned(model: Path) -> None:
    (row,) = encode([episode(0, erred(0))], chat_of(model), system="", max_ids=10_000).rows
    call = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call><|im_end|>'
    assert learned_text(row, model) == f"Now 1.\n{call}It is done.<|im_end|>"
    assert f"Now 0.\n{call}" in AutoTokenizer.from_pretrained(model).decode(row["input_ids"])
    assert all(label in (-100, each) for each, label in zip(row["input_ids"], row["labels"], strict=True))


def test_the_systems_words_come_first(model: Path) -> None:
    (row,) = encode([episode(0)], chat_of(model), system="Be brief.", max_ids=10_000).rows
    assert AutoTokenizer.from_pretrained(model).decode(row["input_ids"]).startswith("<|im_start|>system\nBe brief.")


def test_what_is_too_long_is_left_out_and_counted(model: Path) -> None:
    short, long = episode(0), episode(1).model_copy(update={"prompt": "Find it. " * 100})
    size = len(encode([short], chat_of(model), system="", max_ids=10_000).rows[0]["input_ids"])
    found = encode([short, long], chat_of(model), system="", max_ids=size)
    assert len(found.rows) == 1
    assert found.left == {f"longer than generation.max_ids = {size} ids": 1}


THOUGHT = "<think>\nThe list tells.\n</think>\n\n"


@pytest.mark.parametrize(("family", "thought"), [("qwen3", THOUGHT), ("qwen3-no-thinking", "")])
def test_an_episode_has_the_ids_of_its_rollout(family: str, thought: str, drill_url: str) -> None:
    """Thinking that the template drops from old turns, words beside calls, two calls in a turn, an error."""
    task_id = next(iter(TASKS)).task_id
    drill = TASKS.drill(task_id)
    ((name, arguments),) = drill.solution()
    right = json.dumps({"name": name, "arguments": arguments})
    answer = json.dumps({"name": "submit", "arguments": {"answer": drill.answer}})
    turns = [
        thought + '<tool_call>\n{"name": "no_such_tool", "arguments": {"id": 1}}\n</tool_call>',
        thought + f"Both.\n<tool_call>\n{right}\n</tool_call>\n<tool_call>\n{answer}\n</tool_call>",
    ]
    made: Any = tokenizer(family)
    said = iter(turns)

    async def sample(ids: Sequence[int], room: int) -> Sample:
        return Sample(made.encode(next(said) + "<|im_end|>", add_special_tokens=False))

    chat = TemplateChat(made, sample, arguments={} if thought else {"enable_thinking": False})
    played, stored = asyncio.run(_played(drill_url, task_id, chat))
    assert played.reward.value == 1.0 and {error.turn for error in played.error_turns} == {0}
    (row,) = encode([stored], chat, system="", max_ids=10_000).rows
    assert row["input_ids"] == played.ids
    mask = [0] * played.prompt + played.mask
    mask[played.turns[0].start : played.turns[0].end] = [0] * len(made.encode(turns[0] + "<|im_end|>"))
    assert row["labels"] == [each if own else -100 for each, own in zip(played.ids, mask, strict=True)]


async def _played(url: str, task_id: str, chat: TemplateChat) -> tuple[Rollout, Episode]:
    """A rollout, and what the environment stores of it."""
    async with Client(url) as client:
        played = await rollout({"task_id": task_id}, chat, client)
        first = await client.reset(task_id=task_id)
    turns: list[Turn] = []
    for message in played.messages[1:]:
        if message["role"] == "assistant":
            turns.append(Turn(action={key: value for key, value in message.items() if key != "role"}))
        else:
            turns[-1].messages.append(ToolMessage(**message))
    told = {"prompt": first.prompt or "", "tools": first.tools or [], "turns": turns}
    return played, Episode(
        episode_id="e", task_id=task_id, error_turns=played.error_turns, reward=played.reward, **told
    )


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
    assert arguments({**rl, "model": {"name": str(tmp_path / "rl" / "model")}}) == {"enable_thinking": False}
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
        ("oracle", {"generation": {"max_ids": 100, "max_turn_ids": 10}}, "5 longer than generation.max_ids = 100 ids"),
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
