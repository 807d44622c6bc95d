"""Hidden states at sites: packed rows equal separate ones, and give the model's own logits."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers.model_factory import CONFIGS, VOCABULARY, model
from helpers.scripted_policy import base
from transformers import AutoConfig, AutoModelForCausalLM, Qwen3ForCausalLM, T5Config

from etude.errors import UnsuitableModel
from etude.trainers.distillation import hidden_states
from etude.trainers.distillation.distill_sites import Site
from etude.trainers.distillation.hidden_states import (
    can_pack,
    check_head,
    check_model,
    head_of,
    student_rows,
    teacher_rows,
    tokens_read,
)
from etude.trainers.recipe.load import parse
from etude.trainers.run.builder import build

IDS = [(5 * number + 1) % VOCABULARY for number in range(70)]
SITES = [
    Site(0, "a", 6, 8, 13, [3, 4, 5]),
    Site(2, "b", 28, 31, 33, [9] * 7),
    Site(3, "c", 48, 50, 60, [1]),
    Site(4, "d", 60, 60, 61, [2, 2]),  # no generation prompt, one token
    Site(5, "e", 62, 64, 70, [3, 4]),
]


@pytest.mark.parametrize("name", ["qwen3", "qwen3-tied", "llama", "qwen2-unused-window"])
def test_packed_rows_equal_those_of_separate_sites(name: str) -> None:
    """They agree to 1e-6 in float64; in float32 the order of sums alone makes rows differ by a few times that."""
    tiny = model(name)
    assert can_pack(tiny)
    for dtype, bound in ((torch.float32, 1e-5), (torch.float64, 1e-6)):
        tiny = tiny.to(dtype)
        with torch.no_grad():
            separate, packed = (teacher_rows(tiny, IDS, SITES, packed=pack) for pack in (False, True))
            separate_logps, packed_logps = (head_of(tiny).logits(rows).log_softmax(-1) for rows in (separate, packed))
        assert separate.shape == (sum(site.end - site.start for site in SITES), 32)
        assert (separate - packed).abs().max() <= bound
        assert (separate_logps - packed_logps).abs().max() <= bound


def test_can_pack_does_not_depend_on_autocast() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert can_pack(model("qwen3"))


def test_packing_halves_the_tokens_of_a_long_rollout_with_five_sites() -> None:
    ids = list(range(2000))
    sites = [Site(n, "", at, at + 3, at + 40, [0] * 30) for n, at in enumerate((300, 700, 1100, 1500, 1900))]
    packed, separate = tokens_read(ids, sites, packed=True), tokens_read(ids, sites, packed=False)
    assert separate == sum(at + 40 + 30 for at in (300, 700, 1100, 1500, 1900))
    assert packed == 1900 + 5 * 70
    assert separate >= 2 * packed


@pytest.mark.parametrize("name", ["mistral-window", "gemma2"])
def test_can_pack_is_false_for_a_sliding_window(name: str) -> None:
    assert not can_pack(model(name))


@pytest.mark.parametrize("name", ["mistral-wide-window", "gemma3"])
def test_can_pack_is_false_for_a_window_longer_than_its_test_although_branches_are_read_right(name: str) -> None:
    tiny = model(name)
    ids = [(5 * number + 1) % VOCABULARY for number in range(220)]
    sites = [Site(0, "a", 100, 102, 130, [3, 4, 5]), Site(1, "b", 180, 182, 220, [9] * 7)]
    with torch.no_grad():
        separate, packed = (teacher_rows(tiny, ids, sites, packed=pack) for pack in (False, True))
    assert (separate - packed).abs().max() < 1e-4 * separate.abs().max()
    assert not can_pack(tiny)


def test_branches_are_read_without_a_mask_and_by_a_model_that_computes_activations_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mask of all pairs of ids would take gigabytes at 32,768 ids."""
    tiny = model("qwen3").train()
    tiny.gradient_checkpointing_enable()
    assert can_pack(tiny)
    read, options = tiny.model.forward, list[set[str]]()
    monkeypatch.setattr(tiny.model, "forward", lambda **inputs: options.append({*inputs}) or read(**inputs))
    with torch.no_grad():
        teacher_rows(tiny, IDS, SITES, packed=True)
    assert options == [{"input_ids", "use_cache", "past_key_values"}] * (1 + len(SITES))
    assert tiny.training


def test_can_pack_is_true_for_a_window_that_is_turned_off() -> None:
    tiny = model("qwen2-unused-window")
    tiny.config.sliding_window = 64
    assert can_pack(tiny)


@pytest.mark.parametrize(
    "narrow",
    [
        {"sliding_window": 4096},
        {"attention_chunk_size": 8192},
        {"layer_types": ["full_attention", "linear_attention"]},
        {"layer_types": ["full_attention"] * 2, "sliding_window": 4096},  # Mistral does not read the list
        {"window_size": 256},
        {"index_topk": 2048},
    ],
)
def test_can_pack_is_false_for_every_config_key_that_narrows_attention(narrow: dict[str, Any]) -> None:
    tiny = model("llama")
    assert can_pack(tiny)
    tiny.config.update(narrow)
    assert not can_pack(tiny)


def test_model_in_training_is_left_so_when_a_branch_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = model("qwen3").train()

    def fail(**inputs: Any) -> Any:
        raise TypeError("no such argument")

    monkeypatch.setattr(tiny.model, "forward", fail)
    with pytest.raises(TypeError, match="no such argument"):
        teacher_rows(tiny, IDS, SITES, packed=True)
    assert tiny.training


@pytest.mark.parametrize("name", list(CONFIGS))
def test_rows_through_the_head_are_the_models_own_logits(name: str) -> None:
    tiny = model(name)
    with torch.no_grad():
        (site,) = SITES[1:2]
        expected = tiny(torch.tensor([IDS[: site.end]])).logits[0, site.start - 1 : site.end - 1]
        student = head_of(tiny).logits(student_rows(tiny, IDS, [site]))
        torch.testing.assert_close(student, expected, rtol=1e-4, atol=1e-4)
        hinted = tiny(torch.tensor([site.teacher_ids(IDS)])).logits[0, -3:-1]
        teacher = head_of(tiny).logits(teacher_rows(tiny, IDS, [site], packed=False))
        torch.testing.assert_close(teacher, hinted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("family", "scale"),
    [
        ("granite", {"logits_scaling": 4.0}),
        ("hyperclovax", {"logits_scaling": 0.25}),
        ("cohere", {"logit_scale": 0.25}),
        ("falcon_h1", {"lm_head_multiplier": 0.25, "mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8}),
    ],
)
def test_head_has_the_scale_of_each_model_family(family: str, scale: dict[str, Any]) -> None:
    tiny = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **{**_small(), **scale}), dtype=torch.float32)
    check_head(tiny)
    with torch.no_grad():
        tiny.lm_head.weight.normal_(0, 0.3)
        expected = tiny(torch.tensor([IDS[:9]])).logits[0, 5:8]
        logits = head_of(tiny).logits(student_rows(tiny, IDS, [Site(0, "a", 6, 6, 9, [])]))
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


def test_check_head_refuses_a_model_that_changes_its_logits_in_an_unknown_way() -> None:
    tiny = model().train()
    check_head(tiny)
    assert tiny.training
    tiny.register_forward_hook(lambda module, inputs, output: SimpleNamespace(logits=output.logits * 2))
    with pytest.raises(UnsuitableModel, match="Qwen3ForCausalLM changes its logits after its head"):
        check_head(tiny)


def test_check_head_reports_weights_with_nan() -> None:
    broken = model("qwen3")
    with torch.no_grad():
        broken.get_input_embeddings().weight[0] = math.nan
    with pytest.raises(UnsuitableModel, match="its weights hold NaN"):
        check_head(broken)


def test_check_head_reports_a_model_of_unknown_structure_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> Any:
        raise AttributeError("no last_hidden_state\nfurther")

    monkeypatch.setattr(hidden_states, "hidden_states", fail)
    with pytest.raises(UnsuitableModel, match=r"has an unknown structure \(no last_hidden_state\); leave out"):
        check_head(model("qwen3"))


@pytest.mark.parametrize(
    ("tables", "refused"),
    [
        ({}, False),
        ({"objective": {"kl": "k3", "kl_weight": 0.1}}, False),
        ({"objective": {"kl": "k1_in_reward", "kl_weight": 0.1}}, True),
        ({"channels": {"distillation": 1}}, True),
        ({"safety": {"kl_to_base": 1}}, True),
    ],
)
def test_build_checks_the_head_for_everything_but_trls_own_loss(
    tables: dict[str, Any], refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Qwen3ForCausalLM.forward

    def doubled(*args: Any, **options: Any) -> Any:
        return SimpleNamespace(logits=original(*args, **options).logits * 2)

    monkeypatch.setattr(Qwen3ForCausalLM, "forward", doubled)

    def trainer(*args: Any, **options: Any) -> Any:
        raise InterruptedError

    table = {"model": {"name": str(base(tmp_path))}, "environment": {"url": "http://127.0.0.1:9"}, **tables}
    with pytest.raises(UnsuitableModel if refused else InterruptedError):
        build(parse(table), "", ["t"], trainer=trainer, dialogues=None, progress=lambda phase, done, total: None)


def test_temperature_divides_the_logits() -> None:
    tiny, hidden = model(), torch.randn(2, 32)
    torch.testing.assert_close(head_of(tiny, 2.0).logits(hidden), head_of(tiny).logits(hidden) / 2)


def _small() -> dict[str, Any]:
    sizes = CONFIGS["llama"]().to_dict()
    return {name: sizes[name] for name in ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers")} | {
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }


class Vision(T5Config):  # type: ignore[misc]
    model_type = "qwen2_vl"

    def __init__(self) -> None:
        super().__init__(is_encoder_decoder=False)
        self.vision_config: Any = {}


def test_check_model_accepts_only_decoders_of_text() -> None:
    with pytest.raises(UnsuitableModel, match="t5 is an encoder-decoder model; train a decoder-only one"):
        check_model(T5Config())
    with pytest.raises(UnsuitableModel, match="qwen2_vl reads images or sound"):
        check_model(Vision())
    check_model(CONFIGS["qwen3"]())
