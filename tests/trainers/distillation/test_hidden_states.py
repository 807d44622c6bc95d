"""Hidden states at error turns: packed as apart, and the same as the model's own logits."""

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
from etude.trainers.distillation import hidden_states as forwards
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
def test_packed_rows_are_those_of_single_sites(name: str) -> None:
    """To 1e-6 where arithmetic allows it: in float32 single rows are a few times that apart by their order of sums."""
    made = model(name)
    assert can_pack(made)
    for dtype, bound in ((torch.float32, 1e-5), (torch.float64, 1e-6)):
        made = made.to(dtype)
        with torch.no_grad():
            apart, together = (teacher_rows(made, IDS, SITES, packed=packed) for packed in (False, True))
            one, other = (head_of(made).logits(rows).log_softmax(-1) for rows in (apart, together))
        assert apart.shape == (sum(site.end - site.start for site in SITES), 32)
        assert (apart - together).abs().max() <= bound
        assert (one - other).abs().max() <= bound


def test_whether_rows_can_be_packed_is_no_question_of_precision() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert can_pack(model("qwen3"))


def test_packed_reads_less_than_half_at_five_sites_of_a_long_rollout() -> None:
    ids = list(range(2000))
    sites = [Site(n, "", at, at + 3, at + 40, [0] * 30) for n, at in enumerate((300, 700, 1100, 1500, 1900))]
    packed, apart = tokens_read(ids, sites, packed=True), tokens_read(ids, sites, packed=False)
    assert apart == sum(at + 40 + 30 for at in (300, 700, 1100, 1500, 1900))
    assert packed == 1900 + 5 * 70
    assert apart >= 2 * packed


@pytest.mark.parametrize("name", ["mistral-window", "gemma2"])
def test_a_model_with_a_sliding_window_reads_each_site_by_itself(name: str) -> None:
    assert not can_pack(model(name))


@pytest.mark.parametrize("name", ["mistral-wide-window", "gemma3"])
def test_so_does_one_whose_window_is_longer_than_what_is_tried_out(name: str) -> None:
    made = model(name)
    ids = [(5 * number + 1) % VOCABULARY for number in range(220)]
    sites = [Site(0, "a", 100, 102, 130, [3, 4, 5]), Site(1, "b", 180, 182, 220, [9] * 7)]
    with torch.no_grad():
        apart, together = (teacher_rows(made, ids, sites, packed=packed) for packed in (False, True))
    assert (apart - together).abs().max() > 0.01 * apart.abs().max()
    assert not can_pack(made)


def test_a_window_that_stands_in_the_config_unused_is_none() -> None:
    made = model("qwen2-unused-window")
    made.config.sliding_window = 64
    assert can_pack(made)


@pytest.mark.parametrize(
    "narrow",
    [
        {"sliding_window": 4096},
        {"attention_chunk_size": 8192},
        {"layer_types": ["full_attention", "linear_attention"]},
        {"layer_types": ["full_attention"] * 2, "sliding_window": 4096},  # a list that Mistral's model never reads
        {"window_size": 256},
        {"index_topk": 2048},
    ],
)
def test_what_narrows_attention_has_many_names(narrow: dict[str, Any]) -> None:
    made = model("llama")
    assert can_pack(made)
    made.config.update(narrow)
    assert not can_pack(made)


@pytest.mark.parametrize("name", list(CONFIGS))
def test_rows_and_head_give_the_models_own_logits(name: str) -> None:
    made = model(name)
    with torch.no_grad():
        (site,) = SITES[1:2]
        whole = made(torch.tensor([IDS[: site.end]])).logits[0, site.start - 1 : site.end - 1]
        torch.testing.assert_close(head_of(made).logits(student_rows(made, IDS, [site])), whole, rtol=1e-4, atol=1e-4)
        hinted = made(torch.tensor([site.teacher_ids(IDS)])).logits[0, -3:-1]
        found = head_of(made).logits(teacher_rows(made, IDS, [site], packed=False))
        torch.testing.assert_close(found, hinted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("family", "scale"),
    [
        ("granite", {"logits_scaling": 4.0}),
        ("hyperclovax", {"logits_scaling": 0.25}),
        ("cohere", {"logit_scale": 0.25}),
        ("falcon_h1", {"lm_head_multiplier": 0.25, "mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8}),
    ],
)
def test_families_that_scale_their_logits_each_in_its_way(family: str, scale: dict[str, Any]) -> None:
    made = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **{**_small(), **scale}), dtype=torch.float32)
    check_head(made)
    with torch.no_grad():
        made.lm_head.weight.normal_(0, 0.3)
        whole = made(torch.tensor([IDS[:9]])).logits[0, 5:8]
        found = head_of(made).logits(student_rows(made, IDS, [Site(0, "a", 6, 6, 9, [])]))
    torch.testing.assert_close(found, whole, rtol=1e-4, atol=1e-4)


def test_a_model_that_changes_its_logits_unknown_to_its_config_is_refused() -> None:
    made = model().train()
    check_head(made)
    assert made.training
    made.register_forward_hook(lambda module, given, output: SimpleNamespace(logits=output.logits * 2))
    with pytest.raises(UnsuitableModel, match="Qwen3ForCausalLM changes its logits behind its head"):
        check_head(made)


def test_weights_that_hold_no_numbers_are_said_to() -> None:
    broken = model("qwen3")
    with torch.no_grad():
        broken.get_input_embeddings().weight[0] = math.nan
    with pytest.raises(UnsuitableModel, match="its weights hold NaN"):
        check_head(broken)


def test_a_model_whose_hidden_states_are_elsewhere_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*given: Any) -> Any:
        raise AttributeError("no last_hidden_state\nfurther")

    monkeypatch.setattr(forwards, "_hidden", nowhere)
    with pytest.raises(UnsuitableModel, match=r"is not built as others are \(no last_hidden_state\): leave out"):
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
def test_a_run_needs_the_head_for_all_but_trl_s_own_loss(
    tables: dict[str, Any], refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Qwen3ForCausalLM.forward
    monkeypatch.setattr(
        Qwen3ForCausalLM, "forward", lambda *a, **given: SimpleNamespace(logits=real(*a, **given).logits * 2)
    )

    def reached(*given: Any, **more: Any) -> Any:
        raise InterruptedError

    table = {"model": {"name": str(base(tmp_path))}, "environment": {"url": "http://127.0.0.1:9"}, **tables}
    with pytest.raises(UnsuitableModel if refused else InterruptedError):
        build(parse(table), "", ["t"], trainer=reached, dialogues=None, progress=lambda phase, done, total: None)


def test_a_temperature_divides_the_logits() -> None:
    made, hidden = model(), torch.randn(2, 32)
    torch.testing.assert_close(head_of(made, 2.0).logits(hidden), head_of(made).logits(hidden) / 2)


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


def test_what_is_no_decoder_of_text_is_refused() -> None:
    with pytest.raises(UnsuitableModel, match="t5 is an encoder-decoder model: train a decoder-only one"):
        check_model(T5Config())
    with pytest.raises(UnsuitableModel, match="qwen2_vl reads images or sound"):
        check_model(Vision())
    check_model(CONFIGS["qwen3"]())
