"""Recipes: defaults, changes from the command line, and one line for every mistake."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from etude.errors import RecipeError
from etude.models import ErrorTurn, Hint
from etude.trainers.grpo.objectives import OBJECTIVES
from etude.trainers.recipe.effort import Effort
from etude.trainers.recipe.load import load, load_chooser, parse
from etude.trainers.recipe.recipe import Objective, Recipe, Replay
from etude.trainers.recipe.schedule import Schedule
from etude.trainers.replay.channel.loss import LOSSES

GOOD: dict[str, Any] = {"model": {"name": "m"}, "environment": {"serve": "drill"}}


def test_minimal_recipe_has_defaults() -> None:
    recipe = parse(GOOD)
    assert recipe.objective.name == "dr_grpo"
    assert recipe.channels.rlvr(0.5) == 1.0
    assert not recipe.channels.distillation.used
    assert recipe.distillation.teacher == "frozen"


def test_recipe_accepts_every_objective() -> None:
    assert set(OBJECTIVES) == set(Objective.model_fields["name"].annotation.__args__)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trian": {}}, "the recipe: unknown key 'trian'. Did you mean 'train'?"),
        ({"train": {"step": 3}}, "the recipe: [train]: unknown key 'step'. Did you mean 'steps'?"),
        ({"train": {"steps": 0}}, "train.steps: Input should be greater than or equal to 1"),
        ({"train": {"group": "many"}}, "train.group: Input should be a valid integer"),
        ({"objective": {"name": "ppo"}}, "objective.name: Input should be 'grpo', 'dr_grpo'"),
        ({"objective": {"name": "drgrpo"}}, "or 'vespo'. Did you mean 'dr_grpo'?"),
        ({"model": {}}, "a model is missing; give model.name (a folder, or a name on the Hub), or model.make"),
        (
            {"environment": {}},
            "an environment is missing; give environment.url of a running server, or environment.serve",
        ),
        ({"environment": {"url": "http://h", "serve": "drill"}}, "environment.url and environment.serve are both"),
        ({"model": {"name": "x", "make": "drill"}}, "model.name and model.make are both given; set one to"),
        ({"train": {"prompts": 3, "group": 5, "micro": 4}}, "= 15 episodes do not divide into micro-batches of 4"),
        ({"channels": {"rlvr": 0}}, "the weight of every channel is 0"),
        ({"channels": {"replay": 0.1}}, "channels.replay has a weight, but replay.pairs names no file"),
        (
            {"channels": {"rlvr": {"start": 1, "end": 0, "after": 0.5, "until": 0.25}}},
            "channels.rlvr: until (0.25) is less than after (0.5); swap them",
        ),
        ({"channels": {"rlvr": -1}}, "channels.rlvr.start: Input should be greater than or equal to 0"),
        ({"objective": {"kl": "k3"}}, "objective.kl and objective.kl_weight belong together; set both, or neither"),
        (
            {"channels": {"rlvr": 0, "distillation": 1}, "objective": {"kl": "k3", "kl_weight": 0.1}},
            "objective.kl is a part of RLVR, but channels.rlvr is 0; remove objective.kl and kl_weight",
        ),
        *(
            (
                {"objective": {"name": name, "kl": "k3", "kl_weight": 0.1}},
                f'objective.kl = "k3" is corrected by the ratio of each token, but "{name}" has the ratio of a whole',
            )
            for name in ("gspo", "luspo")
        ),
        (
            {"channels": {"rlvr": 0, "distillation": 1}, "objective": {"name": "dapo"}},
            'objective.name = "dapo" replays groups for RLVR only, but channels.rlvr is 0; remove objective.name',
        ),
        ({"generation": {"max_ids": 64, "max_turn_ids": 65}}, "generation.max_turn_ids (65) is more than max_ids (64)"),
        ({"generation": {"vllm": "server"}}, "needs generation.vllm_url"),
        ({"stage": "sft"}, 'stage = "sft" learns from episodes'),
        (
            {"stage": "sft", "episodes": "runs/x", "channels": {"rlvr": 1.0}},
            'the recipe: stage = "sft" does not read [channels]; remove them',
        ),
        (
            {"stage": "sft", "episodes": "runs/x", "replay": {}, "objective": {}, "distillation": {"cap": 3}},
            'the recipe: stage = "sft" does not read [objective], [distillation], [replay]; remove them',
        ),
        (
            {"stage": "sft", "episodes": "runs/x", "train": {"prompts": 2, "group": 8, "micro": 4}},
            'the recipe: stage = "sft" does not read train.prompts, train.group; remove them',
        ),
        ({"sft": {}, "episodes": "runs/x"}, 'the recipe: stage = "rl" does not read [sft], episodes; remove them'),
        (
            {"channels": {"distillation": 1}, "distillation": {"teacher": "ema"}, "safety": {"teacher_drift": 0}},
            'distillation.teacher = "ema" moves with its student, and such teachers can collapse; set safety.',
        ),
        (
            {"replay": {"losses": ["dpo"], "weights": [1.0]}},
            "replay.losses.0: Input should be 'sigmoid', 'sigmoid_norm'",
        ),
        ({"seed": -1}, "seed: Input should be greater than or equal to 0"),
        ({"seed": 2**32}, "seed: Input should be less than 4294967296"),
        ({"out": ""}, "out: String should have at least 1 character"),
        ({"train": {"learning_rate": float("inf")}}, "train.learning_rate: Input should be a finite number"),
        ({"channels": {"rlvr": float("inf")}}, "channels.rlvr.start: Input should be a finite number"),
        ({"safety": {"dollars": 5}}, "safety.dollars counts hours at safety.dollars_per_hour; set both"),
        (
            {"channels": {"replay": 1}, "replay": {"pairs": "p", "losses": [], "weights": []}},
            "every weight in replay.weights is 0",
        ),
        (
            {"channels": {"replay": 1}, "replay": {"pairs": "p", "weights": [0, 0]}},
            "every weight in replay.weights is 0",
        ),
        ({"replay": {"weights": [1.0, -0.2]}}, "replay.weights.1: Input should be greater than or equal to 0"),
        (
            {"replay": {"losses": ["sigmoid", "sft", "sigmoid"], "weights": [1.0, 0.2, 1.0]}},
            'replay.losses names "sigmoid" twice; name it once, with the sum of its weights',
        ),
        (
            {"replay": {"losses": ["robust"], "weights": [1.0]}},
            '"robust" equals "sigmoid" when no pair is wrong; set replay.flipped to the rate of wrong pairs',
        ),
        ({"replay": {"flipped": 0.1}}, 'replay.flipped is read by "robust" only; name it in replay.losses'),
        (
            {"replay": {"losses": ["robust"], "weights": [1.0], "flipped": 0.5}},
            "replay.flipped: Input should be less than 0.5",
        ),
        ({"train": {"steps": True}}, "train.steps: Input should be a number, not true"),
        ({"replay": {"weights": [1.0, False]}}, "replay.weights: Input should be a number, not false"),
        ({"train": 3}, "train: Input should be a table, such as { key = 1 }"),
        ({"replay": {"losses": "sft"}}, "replay.losses: Input should be a list, in [ and ]"),
        ({"out": 7}, "out: Input should be a string, in quotes"),
        *(
            ({"channels": {"rlvr": weight}}, "rlvr must be a number or a schedule such as { start = 1.0, end = 0.0 }")
            for weight in (True, "1.0", [1.0, 0.0])
        ),
        ({"channels": {"rlvr": {"start": 0, "end": 1, "after": 1}}}, "channels.rlvr is 0 at each of 100 steps"),
        (
            {"channels": {"distillation": {"start": 0, "end": 1}}, "train": {"steps": 1}},
            "channels.distillation is 0 at each of 1 steps; let it start earlier",
        ),
        ({"train": {"steps": 2**31}}, "train.steps: Input should be less than 2147483648"),
        ({"distillation": {"cap": 3}}, "[distillation] is read if channels.distillation has a weight; give it one"),
        ({"replay": {"pairs": "p"}}, "[replay] is read if channels.replay has a weight; give it one, or 0 to"),
        ({"effort": {"weight": -1}}, "effort.weight: Input should be greater than or equal to 0"),
        ({"effort": {"weight": 1, "k": 0}}, "effort.k: Input should be greater than 0"),
        ({"effort": {"weight": 1, "q": -0.5}}, "effort.q: Input should be greater than or equal to 0"),
        ({"effort": {"weight": 1, "turn": 1}}, "[effort]: unknown key 'turn'. Did you mean 'turns'?"),
        ({"effort": {"q": 2.0, "turns": 1}}, "effort.weight is 0, so effort.q, effort.turns would not be read; give"),
        (
            {"effort": {"weight": 1, "thinking_tokens": 0, "call_tokens": 0, "message_tokens": 0}},
            "effort.weight is set, but nothing counts as effort; give one of thinking_tokens, call_tokens,",
        ),
        (
            {"effort": {"weight": 1}, "channels": {"rlvr": 0, "distillation": 1}},
            "effort.weight is a part of RLVR's reward, but channels.rlvr is 0; remove effort.weight",
        ),
        (
            {"stage": "sft", "episodes": "runs/x", "effort": {"weight": 1}},
            'stage = "sft" does not read [effort]; remove them',
        ),
        *(
            (
                {"channels": {"distillation": 1}, "distillation": options},
                f"distillation.{next(iter(options))} is not read",
            )
            for options in (
                {"every": 5},
                {"rate": 0.5, "teacher": "live"},
                {"top_k": 5, "estimator": "sampled"},
                {"beta": 0.2, "estimator": "sampled"},
                {"normalised": True, "estimator": "sampled"},
            )
        ),
        (
            {"model": {"name": "m", "sizes": {"hidden": 64}}},
            "is read with model.make only; remove it (-o model.sizes={})",
        ),
        ({"generation": {"vllm_url": "http://h"}}, 'generation.vllm_url is read with generation.vllm = "server" only'),
        ({"environment": {"url": "ftp://h"}}, "environment.url: not a server's address: 'ftp://h'; give one like"),
        (
            {"environment": {"serve": "drill", "knobs": {"a": date(2020, 1, 1)}}},
            "environment.knobs: Object of type date is not",
        ),
        (
            {"model": {"name": "m", "template": {"a": date(2020, 1, 1)}}},
            "date is not JSON serializable; put it in quotes",
        ),
        (
            {"out": "x", "model": {"name": "./x/model"}},
            "the trained model would overwrite ./x/model, from which the run starts",
        ),
        ({"stage": "sft", "episodes": ["runs/x", "runs/x/"]}, "episodes names runs/x twice; name it once"),
        (
            {"stage": "sft", "episodes": "r", "environment": {"serve": "t", "tasks": 4}, "safety": {"hack_rate": 0.1}},
            'stage = "sft" does not read environment.tasks, safety.hack_rate; remove them',
        ),
        (
            {"stage": "sft", "episodes": "runs/x", "environment": {}, "train": {"evaluate_tasks": 4}},
            'stage = "sft" reads train.evaluate_tasks for an evaluation only; remove them, or give environment.url',
        ),
    ],
)
def test_recipe_is_refused_in_one_line_when_it_has_a_mistake(change: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        parse({**GOOD, **change})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_load_applies_changes_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text('[model]\nname = "m"\n[environment]\nserve = "drill"\n[train]\nsteps = 5\n')
    changes = ["train.steps=7", "out=runs/y", "channels.distillation=0.5", "train.learning_rate=1e-4"]
    recipe = load(path, changes)
    assert (recipe.train.steps, recipe.out, recipe.train.learning_rate) == (7, "runs/y", 1e-4)
    assert recipe.channels.distillation == Schedule(start=0.5, end=0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("train.steps", "is not KEY=VALUE"),
        ("=3", "is not KEY=VALUE"),
        ("train.stepz=3", "[train]: unknown key 'stepz'"),
        ("model.name.x=3", "name is a value, not a table"),
        ("sft.reward=0.5", 'stage = "rl" does not read [sft]; remove them'),
        ("train.steps=3\ntrain.group=4", "holds more than one KEY=VALUE; give each its own -o"),
    ],
)
def test_load_refuses_a_bad_change_in_one_line(tmp_path: Path, change: str, message: str) -> None:
    path = tmp_path / "r.toml"
    path.write_text('[model]\nname = "m"\n[environment]\nserve = "drill"\n')
    with pytest.raises(RecipeError) as caught:
        load(path, [change])
    assert message in str(caught.value)


def test_recipe_accepts_every_loss_of_replay() -> None:
    inner, _ = typing.get_args(Replay.model_fields["losses"].annotation)
    assert set(LOSSES) == set(typing.get_args(inner))


def test_shipped_recipes_load(root: Path) -> None:
    stages = {path.name: load(path).stage for path in (root / "recipes").glob("*.toml")}
    assert stages == {
        "demo.toml": "rl",
        "tiny.toml": "rl",
        "small.toml": "rl",
        "sft.toml": "sft",
        "composer-2.5.toml": "rl",
        "qwen3-0.6b.toml": "rl",
        "qwen3-8b.toml": "rl",
        "qwen3-30b-a3b.toml": "rl",
        "etude.toml": "rl",
    }


def test_load_names_a_file_that_is_missing_or_not_toml(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="the recipe .* does not exist"):
        load(tmp_path / "no.toml")
    (tmp_path / "bad.toml").write_text("[model\n")
    with pytest.raises(RecipeError, match="cannot be read as TOML"):
        load(tmp_path / "bad.toml")


def test_load_reads_a_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_bytes(b'\xef\xbb\xbf[model]\r\nname = "m"\r\n[environment]\r\nserve = "drill"\r\n')
    assert load(path) == parse(GOOD)


def test_load_names_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_bytes('[model]\nname = "m"\n'.encode("utf-16"))
    with pytest.raises(RecipeError, match="because it is not UTF-8 text; save it as UTF-8"):
        load(path)


def test_recipe_expands_the_home_folder_in_every_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/h")
    channels = {"distillation": 1, "replay": 1}
    table = {"channels": channels, "replay": {"pairs": "~/p"}, "out": "~/o"}
    recipe = parse({"model": {"name": "m"}, "environment": {"serve": "~/t"}, **table})
    assert (recipe.out, recipe.replay.pairs) == ("/h/o", "/h/p")
    assert recipe.environment.serve == "/h/t"
    assert parse({**GOOD, "stage": "sft", "episodes": ["~/e"]}).episodes == ("/h/e",)


def test_unread_option_is_accepted_when_its_value_describes_the_teacher() -> None:
    """A frozen teacher takes in 0 of the student, and the sampled token has the reverse KL."""
    options = {"rate": 0.0, "estimator": "sampled", "beta": 1.0}
    assert parse({**GOOD, "channels": {"distillation": 1}, "distillation": options}).distillation.beta == 1.0


def test_effort_of_weight_0_may_have_defaults() -> None:
    assert parse({**GOOD, "effort": {"weight": 0.0, "q": 1.0}}).effort == Effort()


def test_channel_of_weight_0_may_have_settings() -> None:
    off = {
        "channels": {"rlvr": 1, "distillation": 0, "replay": 0},
        "replay": {"pairs": "p"},
        "distillation": {"cap": 3},
    }
    assert not parse({**GOOD, **off}).channels.replay.used


def test_schedule_changes_linearly_or_jumps() -> None:
    falling = Schedule(start=1.0, end=0.0, after=0.5)
    assert [falling(share) for share in (0.0, 0.5, 0.75, 1.0)] == [1.0, 1.0, 0.5, 0.0]
    step = Schedule(start=0.0, end=2.0, after=0.5, until=0.5)
    assert [step(share) for share in (0.0, 0.49, 0.5, 1.0)] == [0.0, 0.0, 2.0, 2.0]
    assert not Schedule(start=0, end=0).used


@pytest.mark.parametrize("stage", [{}, {"stage": "sft", "episodes": "runs/x"}])
def test_recipe_survives_json(stage: dict[str, Any]) -> None:
    recipe = parse({**GOOD, **stage})
    assert Recipe.model_validate_json(recipe.model_dump_json()) == recipe


def test_load_chooser_takes_a_hint_or_a_function_and_refuses_anything_else() -> None:
    def chosen(name: str) -> list[str]:
        choose = load_chooser(parse({**GOOD, "channels": {"distillation": 1}, "distillation": {"chooser": name}}))
        assert choose is not None
        hints = [Hint(text="a", template="timeout"), Hint(text="b", template="again")]
        error = ErrorTurn(turn=0, kind="timeout", hints=hints)
        return [hint.template for hint in choose(error, [error])]

    assert load_chooser(parse(GOOD)) is None
    assert chosen("again") == ["again", "timeout"]
    assert chosen(f"{__name__}:backwards") == ["again", "timeout"]
    with pytest.raises(RecipeError, match="distillation.chooser: unknown hint 'agian'. Did you mean 'again'"):
        chosen("agian")
    with pytest.raises(RecipeError, match="distillation.chooser: cannot import 'no_such_module:choose'"):
        chosen("no_such_module:choose")


def backwards(error: ErrorTurn, errors: Sequence[ErrorTurn]) -> list[Hint]:
    return error.hints[::-1]
