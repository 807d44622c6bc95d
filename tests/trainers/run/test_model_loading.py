"""What a model's folder holds is looked at before a run begins: whatever is wrong with it is one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.scripted_policy import base
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError
from transformers import AutoConfig

from etude.errors import RecipeError
from etude.trainers.recipe.load import parse
from etude.trainers.run import model_loading as loading
from etude.trainers.run.metrics_summary import MOE

MINIMAL: dict[str, Any] = {"model": {"name": "x"}, "environment": {"serve": "drill"}}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return base(tmp_path_factory.mktemp("model"))


def started(folder: Path, **template: Any) -> loading.Start:
    room = {"max_ids": 4000}
    table = {**MINIMAL, "model": {"name": str(folder), "template": template}}
    return loading.open_model(parse({**table, "generation": room}), None, lambda phase, done, total: None)


def configured(**changes: Any) -> Callable[[str], str]:
    return lambda text: json.dumps({**json.loads(text), **changes})


DAMAGES: dict[str, tuple[str, Callable[[str], str], str]] = {
    "a tokenizer without its parts": ("tokenizer.json", lambda text: "{}", "no tokenizer can be read from"),
    "a tokenizer's list": ("tokenizer_config.json", lambda text: "[]", "no tokenizer can be read from"),
    "a model's list": ("config.json", lambda text: "[]", "can be read from"),
    "a width in words": ("config.json", configured(hidden_size="x"), "can be read from"),
    "fewer layers than types": ("config.json", configured(num_hidden_layers=1), "can be read from"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_one_line(damage: str, model: Path, tmp_path: Path) -> None:
    name, change, said = DAMAGES[damage]
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "model" / name).write_text(change((model / name).read_text()))
    with pytest.raises(RecipeError, match=f"model.name: .*{said} .*/model: ") as refused:
        started(tmp_path / "model")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "number"),
    [({"num_hidden_layers": 3, "layer_types": ["full_attention"] * 3}, 11), ({"intermediate_size": 64}, 6)],
)
def test_weights_of_another_shape_are_not_made_up(
    changes: dict[str, Any], number: int, model: Path, tmp_path: Path
) -> None:
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text(configured(**changes)((model / "config.json").read_text()))
    with pytest.raises(
        RecipeError, match=rf"are not those of its config.json: {number} are missing or of another"
    ) as no:
        started(tmp_path / "model").weights()
    assert "\n" not in str(no.value) and "such as model.layers." in str(no.value)


@pytest.mark.parametrize(
    ("name", "changes", "moe"),
    [
        ("qwen3", {}, False),
        ("qwen3_moe", {"num_experts": 4}, True),
        ("mixtral", {}, True),
        ("deepseek_v3", {"n_routed_experts": 8}, True),
        ("dbrx", {}, True),
        ("hunyuan_v1_moe", {"num_experts": 1}, False),
        ("granitemoehybrid", {"num_local_experts": 0, "num_experts_per_tok": 1}, False),
    ],
)
def test_a_mixture_of_experts_is_known_by_its_config(name: str, changes: dict[str, Any], moe: bool) -> None:
    start = loading.Start(parse(MINIMAL), "", None, {}, AutoConfig.for_model(name, **changes))
    assert start.moe is moe


def test_a_mixture_of_experts_is_warned_of_before_the_run(
    tmp_path: Path, model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(model, tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    config.write_text(configured(num_experts=4)(config.read_text()))
    started(tmp_path / "model")
    assert caplog.messages == [MOE]


def test_an_argument_that_the_template_does_not_read_is_refused(model: Path) -> None:
    assert started(model, enable_thinking=False).arguments == {"enable_thinking": False}
    with pytest.raises(RecipeError, match="model.template: the chat template reads no 'enable_thinkng': mend its name"):
        started(model, enable_thinkng=False)


ANSWER: Any = SimpleNamespace(headers={}, request=None)


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (ConnectionError("Name or service not known"), "was not reached: Name or service not known"),
        (RepositoryNotFoundError("404", response=ANSWER), "has none of that name for you: .* HF_TOKEN"),
        (GatedRepoError("403", response=ANSWER), "wants its terms accepted first"),
    ],
)
def test_a_name_that_the_hub_does_not_give_is_asked_for_once(
    failure: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def ask(name: str, **given: Any) -> None:
        asked.append(name)
        raise failure

    monkeypatch.setattr(loading, "model_info", ask)
    with pytest.raises(RecipeError, match=f"model.name: nobody/none is no folder here, and the Hub .*{said}"):
        started(Path("nobody/none"))
    assert asked == ["nobody/none"]


def test_a_name_that_cannot_be_one_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "model_info", None)
    with pytest.raises(RecipeError, match="runs/sft/modle is no folder here, and the Hub has no such names"):
        loading._check_there("runs/sft/modle")


def test_what_the_hub_keeps_to_itself_or_is_here_already_is_read_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def ask(name: str, **given: Any) -> None:
        raise HfHubHTTPError("429", response=ANSWER)

    monkeypatch.setattr(loading, "model_info", ask)
    loading._check_there("nobody/none")
    monkeypatch.setattr(loading, "model_info", None)
    monkeypatch.setattr(loading, "try_to_load_from_cache", lambda name, file: str(tmp_path / file))
    loading._check_there("nobody/none")


def test_weights_that_are_no_weights_are_one_line(model: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    (tmp_path / "model" / "pytorch_model.bin").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(RecipeError, match="no weights can be read from") as refused:
        started(tmp_path / "model").weights()
    assert "\n" not in str(refused.value)
