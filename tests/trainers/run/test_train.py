"""Running a recipe: what is refused before weights are loaded, what a run writes, when it stops."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from helpers.model_factory import qwen
from helpers.scripted_policy import Scripted, base

from etude.cli import app as cli
from etude.client import Client
from etude.errors import RecipeError
from etude.models import PublicTask
from etude.trainers.recipe.load import load, parse
from etude.trainers.report.run_files import read_metrics
from etude.trainers.rollouts.dataset_rows import RESET, repeat_shuffled
from etude.trainers.run import model_loading
from etude.trainers.run.records import Result, plan
from etude.trainers.run.train import run

DRILL = {"serve": "drill", "knobs": {"families": ["choose"], "level": 1}}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return base(tmp_path_factory.mktemp("model"))


def recipe(folder: Path, out: Path, url: str = "", /, **tables: Any) -> dict[str, Any]:
    table: dict[str, Any] = {
        "out": str(out),
        "model": {"name": str(folder), "template": {"enable_thinking": False}},
        "environment": {"url": url} if url else DRILL,
        "train": {
            "steps": 4,
            "prompts": 2,
            "group": 2,
            "micro": 2,
            "learning_rate": 1e-3,
            "save_every": 2,
            "evaluate_tasks": 2,
        },
        "channels": {"rlvr": 1.0, "distillation": 1.0},
        "distillation": {"gate": False},
        "generation": {"max_ids": 6000, "max_turn_ids": 400},
    }
    for name, value in tables.items():
        table[name] = {**table.get(name, {}), **value} if isinstance(value, dict) else value
    return table


def play(table: dict[str, Any]) -> Result:
    return run(parse(table), trainer=Scripted)


def test_run_serves_trains_evaluates_and_saves(model: Path, tmp_path: Path) -> None:
    result = play(recipe(model, tmp_path / "run", environment={**DRILL, "tasks": 8, "split": "train"}))
    assert result.ok and result.steps == 4
    assert result.before is not None and result.before.episodes == 2
    assert result.after is not None and result.after.valid == 2
    rows = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    assert all(row["distillation/loss"] > 0 for row in rows if row["distillation/chosen"])
    assert max(row["distillation/chosen"] for row in rows) > 0
    assert {path.name for path in (tmp_path / "run" / "model").iterdir()} >= {"config.json", "model.safetensors"}
    assert json.loads((tmp_path / "run" / "recipe.json").read_text())["model"]["name"] == str(model)
    assert json.loads((tmp_path / "run" / "result.json").read_text())["steps"] == 4
    with pytest.raises(RecipeError, match="holds a finished run; choose another out"):
        play(recipe(model, tmp_path / "run", environment={**DRILL, "tasks": 8, "split": "train"}))
    with pytest.raises(RecipeError, match=r"holds a run of another recipe \(seed\)"):
        play(recipe(model, tmp_path / "run", environment={**DRILL, "tasks": 8, "split": "train"}, seed=1))


class StopsAtOnce(Scripted):
    """Trainer that ends before its first step, and counts the tasks that it could learn from."""

    tasks = 0

    def train(self, *_: Any, **__: Any) -> Any:
        type(self).tasks = len(self.train_dataset.unique(RESET))
        raise RecipeError("stopped by the test")


@pytest.mark.parametrize(("limit", "number"), [(0, 500), (300, 300)])
def test_run_learns_from_all_tasks_unless_it_is_limited(
    limit: int, number: int, model: Path, drill_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = {"environment": "drill", "problem_statement": "", "split": "train"}
    served = [PublicTask(task_id=f"drill-choose-{seed}-l1", **empty) for seed in range(500)]

    async def tasks(client: Client, split: str | None = None) -> list[PublicTask]:
        return served if split == "train" else []

    monkeypatch.setattr(Client, "tasks", tasks)
    with pytest.raises(RecipeError, match="stopped by the test"):
        run(parse(recipe(model, tmp_path, drill_url, environment={"tasks": limit})), trainer=StopsAtOnce)
    assert StopsAtOnce.tasks == number


def test_kill_switch_ends_a_run_with_its_reason(model: Path, drill_url: str, tmp_path: Path) -> None:
    table = recipe(model, tmp_path, drill_url, safety={"kl_to_base": 1e-9}, train={"learning_rate": 1e-2})
    result = play(table)
    assert not result.ok and result.steps < 4
    assert "kl_good_turns" in result.stopped and "safety.kl_to_base" in result.stopped
    assert json.loads((tmp_path / "stopped.json").read_text())["limit"] == "kl_to_base"
    assert (tmp_path / "checkpoints" / f"checkpoint-{result.steps}").is_dir()
    refusal = (
        r"was stopped at step .*; set safety.kl_to_base to more than .* or to 0, or remove .*stopped.json to resume"
    )
    for limit in (1e-9, 2e-9):
        with pytest.raises(RecipeError, match=refusal):
            play({**table, "safety": {"kl_to_base": limit}})


@pytest.mark.parametrize(("environment", "refused"), [({}, True), ({"LOCAL_RANK": "0", "WORLD_SIZE": "1"}, False)])
def test_run_is_refused_when_one_process_sees_several_gpus(
    environment: dict[str, str], refused: bool, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    start = "torchrun --nproc-per-node 4 --shutdown-timeout 3600 -m etude.cli train"
    message = f"one process sees 4 GPUs; set CUDA_VISIBLE_DEVICES=0, or .*{start}"
    message = message if refused else r"is the server running\?"
    with pytest.raises(Exception, match=message):
        play(recipe(model, tmp_path / "run", "http://127.0.0.1:9"))
    assert not (tmp_path / "run").exists()


def test_drift_of_a_moving_teacher_is_measured(model: Path, drill_url: str, tmp_path: Path) -> None:
    table = recipe(
        model,
        tmp_path,
        drill_url,
        distillation={"teacher": "ema", "rate": 0.5},
        safety={"teacher_drift": 10.0},
        train={"steps": 5, "learning_rate": 1e-2, "evaluate_tasks": 1},
    )
    assert play(table).ok
    (drift,) = [row["teacher_drift"] for row in read_metrics(tmp_path / "metrics.jsonl") if "teacher_drift" in row]
    assert 0 < drift < 0.7


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": {"name": "./no/such/model"}}, "./no/such/model holds no model"),
        ({"channels": {"replay": 1.0}, "replay": {"pairs": "no.jsonl"}}, "the file no.jsonl does not exist"),
        ({"distillation": {"teacher": "live"}, "safety": {"teacher_drift": 0.0}}, "set safety.teacher_drift"),
        ({"generation": {"vllm": "colocate"}}, "needs vllm; pip install"),
        (
            {"generation": {"max_ids": 8193}},
            "generation.max_ids (8193) is more than the model's context (max_position_embeddings: 8192); set it to",
        ),
        ({"environment": {"serve": "no/such/tasks", "knobs": {}}}, "the folder no/such/tasks does not exist"),
        ({"environment": {"serve": "dril", "knobs": {}}}, "cannot serve 'dril' as an environment: unknown environment"),
        ({"environment": {"serve": "dril", "knobs": {}}}, "Did you mean 'drill'?"),
        ({"environment": {"serve": "", "url": "http://127.0.0.1:9", "knobs": {}}}, "is the server running?"),
        ({"environment": {"knobs": {"families": ["chose"]}}}, "Did you mean 'choose'?"),
        ({"environment": {"split": "trian"}}, "trian"),
    ],
)
def test_run_is_refused_before_weights_are_loaded_when_it_cannot_work(
    change: dict[str, Any], message: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def from_pretrained(*arguments: Any, **more: Any) -> None:
        raise AssertionError("weights were loaded")

    monkeypatch.setattr(
        model_loading, "AutoModelForCausalLM", type("NoModel", (), {"from_pretrained": from_pretrained})
    )
    with pytest.raises(Exception) as caught:
        play(recipe(model, tmp_path / "run", **change))
    assert type(caught.value).__module__.startswith("etude.")
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("dialogues", "message"),
    [
        (None, "model.make needs dialogues to pretrain on"),
        ({"drill": print}, "model.make: unknown environment with dialogues 'dril'. Did you mean 'drill'?"),
    ],
)
def test_run_is_refused_when_nothing_writes_the_dialogues(dialogues: Any, message: str, tmp_path: Path) -> None:
    table = recipe(Path(), tmp_path / "run", model={"name": "", "make": "dril", "template": {}})
    with pytest.raises(RecipeError) as caught:
        run(parse(table), dialogues=dialogues)
    assert message in str(caught.value) and not (tmp_path / "run").exists()


def test_tokenizer_is_refused_when_it_has_more_ids_than_the_embedding(
    model: Path, drill_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoTokenizer

    made = AutoTokenizer.from_pretrained(model)
    qwen(len(made) - 3).save_pretrained(tmp_path / "model")
    made.save_pretrained(tmp_path / "model")
    monkeypatch.setattr(model_loading, "AutoModelForCausalLM", None)
    with pytest.raises(RecipeError) as caught:
        play(recipe(tmp_path / "model", tmp_path / "run", drill_url))
    assert f"has {len(made)} ids, but its model's embedding has {len(made) - 3} rows; give the" in str(caught.value)
    assert "\n" not in str(caught.value) and not (tmp_path / "run").exists()


def test_context_is_checked_before_a_tiny_model_is_made(tmp_path: Path) -> None:
    table = recipe(Path(), tmp_path / "run", generation={"max_ids": 40_000}, model={"name": "", "make": "drill"})

    def write_dialogues(path: Path, recipe: Any) -> None:
        raise AssertionError("dialogues were written")

    with pytest.raises(RecipeError, match=r"generation.max_ids \(40000\) is more than the model's context .*: 32768\)"):
        model_loading.open_model(parse(table), write_dialogues, lambda phase, done, total: None)


@pytest.mark.parametrize(
    ("rope", "context"),
    [
        ({"rope_type": "default"}, 4096),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}, 16_384),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}, 4096),
        ({"rope_type": "linear", "factor": 2.0}, 8192),
    ],
)
def test_context_length_counts_extended_rotations(rope: dict[str, Any], context: int) -> None:
    from transformers import Qwen3Config

    config = Qwen3Config(max_position_embeddings=4096, rope_parameters={**rope, "rope_theta": 10_000.0})
    assert model_loading._context_length(config) == context


def test_template_without_tools_is_refused(
    model: Path, drill_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoTokenizer

    made = AutoTokenizer.from_pretrained(model)
    made.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    made.save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text((model / "config.json").read_text())
    with pytest.raises(ValueError, match="tool") as caught:
        play(recipe(tmp_path / "model", tmp_path / "run", drill_url))
    assert "\n" not in str(caught.value)


def test_encoder_decoder_is_refused(model: Path, drill_url: str, tmp_path: Path) -> None:
    from transformers import AutoTokenizer, T5Config

    AutoTokenizer.from_pretrained(model).save_pretrained(tmp_path / "model")
    T5Config().save_pretrained(tmp_path / "model")
    with pytest.raises(Exception, match="t5 is an encoder-decoder model"):
        play(recipe(tmp_path / "model", tmp_path / "run", drill_url))


def test_plan_counts_episodes_and_micro_batches(model: Path, tmp_path: Path) -> None:
    planned = plan(parse(recipe(model, tmp_path)), 2)
    assert (planned["gradient_accumulation"], planned["episodes_a_batch"], planned["episodes"]) == (1, 4, 16)
    assert planned["channels"] == ["rlvr", "distillation"]
    with pytest.raises(RecipeError, match="micro-batches of 2 on 3 processes"):
        plan(parse(recipe(model, tmp_path)), 3)


def test_repeat_shuffled_uses_all_tasks_before_it_repeats_one() -> None:
    names = [row["task_id"] for row in repeat_shuffled(["a", "b", "c"], 7, seed=0)]
    assert sorted(names[:3]) == sorted(names[3:6]) == ["a", "b", "c"] and len(names) == 7
    assert names == [row["task_id"] for row in repeat_shuffled(["a", "b", "c"], 7, seed=0)]


RECIPE = '[model]\nname = "./m"\n[environment]\nserve = "drill"\n'


def test_offline_dry_run_prints_the_resolved_run_without_torch(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text("{}")
    (tmp_path / "r.toml").write_text(RECIPE.replace("./m", str(tmp_path / "m")))
    code = (
        "import sys\nfrom etude.cli import main\n"
        "options = ['--dry-run', '--offline', '-o', 'train.steps=7', '--json']\n"
        f"code = main(['train', {str(tmp_path / 'r.toml')!r}, *options])\n"
        "print(code, [name for name in ('torch', 'transformers', 'trl') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    shown, _, last = done.stdout.strip().rpartition("\n")
    assert last == "0 []"
    assert json.loads(shown)["recipe"]["train"]["steps"] == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[trian]\nsteps = 3\n", "Did you mean 'train'?"),
        (RECIPE + "[train]\nmicro = 5\n", "do not divide"),
        ("[model]\nname = 'x'\n", "environment.url"),
        (RECIPE, "./m holds no model"),
        (RECIPE + "[channels]\nreplay = 1.0\n", "replay.pairs"),
    ],
)
def test_command_reports_a_bad_recipe_in_one_line(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.toml").write_text(text)
    assert cli.main(["train", "r.toml"]) == 1
    shown = capsys.readouterr().err.splitlines()
    assert len(shown) == 1 and shown[0].startswith("error: ") and message in shown[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["model.name=./no"], "model.name: ./no holds no model"),
        (["model.name=runs/x/modle"], "model.name: runs/x/modle holds no model"),
        (["environment.serve=./no"], "environment.serve: the folder ./no does not exist"),
        (["distillation.teacher=ema", "safety.teacher_drift=0", "channels.distillation=1"], "set safety.teacher_drift"),
        (["channels.replay=1", "replay.pairs=no.jsonl"], "replay.pairs: the file no.jsonl does not exist"),
        (["channels.replay=1", "replay.pairs=empty"], "empty holds no pair for channels.replay to learn from; run"),
        (["channels.replay=1", "replay.pairs=bad"], "bad:1 is not a pair; remove the line, or replay again"),
        (
            ["channels.distillation=1", "distillation.chooser=bad"],
            "distillation.chooser: unknown hint 'bad'",
        ),
        (["out=bad"], "out: bad is a file; choose another out"),
        (["out=bad/x/y"], "out: bad is a file; choose another out"),
        (["out=run"], "run holds a run of another recipe (seed); choose another out"),
        (["out=run", "train.steps=9"], "run holds a run of another recipe (seed, train.steps); choose another out"),
        (["out=run", "seed=1"], "run holds a finished run; choose another out"),
        (["out=torn", "seed=1"], "metrics.jsonl:1 is not JSON; remove the line"),
        (["out=lost", "seed=1"], "lost has metrics.jsonl, but no recipe.json; restore what `etude train` wrote there"),
    ],
)
def test_dry_run_reports_the_same_mistake_as_the_run(
    changes: list[str],
    message: str,
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    text = RECIPE.replace("./m", str(model))
    for name, content in {"r.toml": text, "empty": "", "bad": "{"}.items():
        Path(name).write_text(content)
    done = {"steps": 1, "stopped": "", "interrupted": False, "warnings": [], "after": None}
    for name, metrics in {"run": '{"step": 1, "loss": 1.0}\n', "torn": "{\n", "lost": ""}.items():
        Path(name).mkdir()
        Path(name, "metrics.jsonl").write_text(metrics)
        Path(name, "result.json").write_text(json.dumps(done))
        stored = load(Path("r.toml"), [f"out={name}", "seed=1"]).model_dump(mode="json")
        Path(name, "recipe.json").write_text(json.dumps(stored))
    Path("lost", "recipe.json").unlink()
    options = [word for change in changes for word in ("-o", change)]
    lines = []
    for dry_run in (["--dry-run"], []):
        assert cli.main(["train", "r.toml", *options, *dry_run]) == 1
        lines += capsys.readouterr().err.splitlines()[-1:]
    assert lines[0] == lines[1] and lines[0].startswith("error: ") and message in lines[0]


def test_replay_reports_a_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["replay", str(tmp_path), "--teachers", str(tmp_path / "t.toml")]) == 1
    assert "cannot find" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("model.safetensors", "model.name: cannot read weights from"),
        ("tokenizer_config.json", "has no eos_token; name one in tokenizer_config.json"),
    ],
)
def test_incomplete_model_is_reported_in_one_line(
    file: str, message: str, model: Path, drill_url: str, tmp_path: Path
) -> None:
    shutil.copytree(model, tmp_path / "model")
    broken = tmp_path / "model" / file
    if file.endswith(".json"):
        config = json.loads(broken.read_text())
        broken.write_text(json.dumps({key: config[key] for key in config if key not in ("eos_token", "pad_token")}))
    else:
        broken.write_bytes(broken.read_bytes()[:-1])
    with pytest.raises(RecipeError) as caught:
        play(recipe(tmp_path / "model", tmp_path / "run", drill_url))
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_local_server_ends_when_its_parent_is_killed() -> None:
    code = (
        "import os, signal\nfrom etude.trainers.recipe.recipe import Environment\n"
        "from etude.trainers.rollouts.local_server import local_server\n"
        "with local_server(Environment(serve='drill')) as url:\n"
        "    print(url, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    url = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout.strip()
    assert url.startswith("http://")
    for _ in range(1000):  # the server needs some time to end
        try:
            httpx.get(f"{url}/health", timeout=1.0)
        except httpx.ConnectError:
            return
        except httpx.TransportError:  # it ended during the request, or the machine is busy
            continue
    raise AssertionError("the server still answers")
