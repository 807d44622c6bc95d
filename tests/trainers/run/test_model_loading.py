"""Model loading: a model's files are checked before a run starts, and every mistake is one line."""

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
from etude.trainers.report.metrics_summary import MOE
from etude.trainers.run import model_loading

MINIMAL: dict[str, Any] = {"model": {"name": "x"}, "environment": {"serve": "drill"}}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return base(tmp_path_factory.mktemp("model"))


def open_folder(folder: Path, **template: Any) -> model_loading.LoadableModel:
    table = {**MINIMAL, "model": {"name": str(folder), "template": template}, "generation": {"max_ids": 4000}}
    return model_loading.open_model(parse(table), None, lambda phase, done, total: None)


def with_config(**changes: Any) -> Callable[[str], str]:
    return lambda text: json.dumps({**json.loads(text), **changes})


DAMAGES: dict[str, tuple[str, Callable[[str], str], str]] = {
    "an empty tokenizer": ("tokenizer.json", lambda text: "{}", "cannot read a tokenizer from"),
    "a list as tokenizer_config": ("tokenizer_config.json", lambda text: "[]", "cannot read a tokenizer from"),
    "a list as config": ("config.json", lambda text: "[]", "cannot read a .* from"),
    "a width that is not a number": ("config.json", with_config(hidden_size="x"), "cannot read a .* from"),
    "fewer layers than layer types": ("config.json", with_config(num_hidden_layers=1), "cannot read a .* from"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_file_is_reported_in_one_line(damage: str, model: Path, tmp_path: Path) -> None:
    name, change, message = DAMAGES[damage]
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "model" / name).write_text(change((model / name).read_text()))
    with pytest.raises(RecipeError, match=f"model.name: {message} .*/model: ") as caught:
        open_folder(tmp_path / "model")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "number"),
    [({"num_hidden_layers": 3, "layer_types": ["full_attention"] * 3}, 11), ({"intermediate_size": 64}, 6)],
)
def test_weights_of_another_shape_are_refused(
    changes: dict[str, Any], number: int, model: Path, tmp_path: Path
) -> None:
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "model" / "config.json").write_text(with_config(**changes)((model / "config.json").read_text()))
    with pytest.raises(
        RecipeError, match=rf"do not fit its config.json \({number} are missing or of another"
    ) as caught:
        open_folder(tmp_path / "model").load_weights()
    assert "\n" not in str(caught.value) and "such as model.layers." in str(caught.value)


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
def test_mixture_of_experts_is_recognised_by_its_config(name: str, changes: dict[str, Any], moe: bool) -> None:
    loadable = model_loading.LoadableModel(parse(MINIMAL), "", None, {}, AutoConfig.for_model(name, **changes))
    assert loadable.moe is moe


def test_open_model_warns_of_a_mixture_of_experts(
    tmp_path: Path, model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(model, tmp_path / "model")
    config = tmp_path / "model" / "config.json"
    config.write_text(with_config(num_experts=4)(config.read_text()))
    open_folder(tmp_path / "model")
    assert caplog.messages == [MOE]


def test_template_argument_is_refused_when_the_template_does_not_read_it(model: Path) -> None:
    assert open_folder(model, enable_thinking=False).arguments == {"enable_thinking": False}
    with pytest.raises(
        RecipeError, match="model.template: the chat template does not read 'enable_thinkng'; correct or"
    ):
        open_folder(model, enable_thinkng=False)


ANSWER: Any = SimpleNamespace(headers={}, request=None)


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (ConnectionError("Name or service not known"), "was not reached: Name or service not known"),
        (RepositoryNotFoundError("404", response=ANSWER), "has no such model for you; .* HF_TOKEN"),
        (GatedRepoError("403", response=ANSWER), "asks you to accept its terms first"),
    ],
)
def test_hub_is_asked_once_for_a_name_that_it_refuses(
    failure: Exception, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = []

    def model_info(name: str, **options: Any) -> None:
        names.append(name)
        raise failure

    monkeypatch.setattr(model_loading, "model_info", model_info)
    with pytest.raises(RecipeError, match=f"model.name: nobody/none is not a folder here, and the Hub .*{message}"):
        open_folder(Path("nobody/none"))
    assert names == ["nobody/none"]


def test_hub_is_not_asked_for_an_impossible_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_loading, "model_info", None)
    with pytest.raises(RecipeError, match="runs/sft/modle is not a folder here, and the Hub allows no such name"):
        model_loading._check_on_hub("runs/sft/modle")


def test_model_is_accepted_when_the_hub_gives_another_error_or_it_is_cached(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def model_info(name: str, **options: Any) -> None:
        raise HfHubHTTPError("429", response=ANSWER)

    monkeypatch.setattr(model_loading, "model_info", model_info)
    model_loading._check_on_hub("nobody/none")
    monkeypatch.setattr(model_loading, "model_info", None)
    monkeypatch.setattr(model_loading, "try_to_load_from_cache", lambda name, file: str(tmp_path / file))
    model_loading._check_on_hub("nobody/none")


def test_file_without_weights_is_reported_in_one_line(model: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    (tmp_path / "model" / "pytorch_model.bin").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(RecipeError, match="cannot read weights from") as caught:
        open_folder(tmp_path / "model").load_weights()
    assert "\n" not in str(caught.value)
