"""Asynchronous runs: a small policy behind a stand-in of vLLM, a separate process that plays, and all three channels.

TRL's trainer, worker, client and weight transfer are the real ones; ``helpers.policy_server`` takes the place of vLLM.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import async_runs, policy_server
from helpers.async_runs import NOWHERE, WEIGHTS, Recording, Seen
from helpers.replay_files import pairs_file
from safetensors.torch import load_file

from etude.errors import ServerError
from etude.trainers.asynchronous.trainer import PLAYED
from etude.trainers.asynchronous.worker import Played
from etude.trainers.grpo.scored_batch import ScoredBatch, ScoredRow, attach
from etude.trainers.recipe.recipe import Recipe
from etude.trainers.run.records import Result
from etude.trainers.run.train import run


@dataclass(frozen=True)
class Run:
    """A finished run, its trainer, and the server of its policy."""

    recipe: Recipe
    pairs: Path
    result: Result
    trainer: Recording
    server: policy_server.PolicyServer
    metrics: list[dict[str, float]]

    @property
    def first_step(self) -> list[Seen]:
        return [seen for seen in self.trainer.seen if seen.step == 0]


@pytest.fixture(scope="module")
def patched() -> Iterator[pytest.MonkeyPatch]:
    """Let TRL and the checks before a run believe that vLLM and a GPU are here."""
    with pytest.MonkeyPatch.context() as patch:
        policy_server.pretend_vllm(patch)
        real = importlib.util.find_spec
        patch.setattr(importlib.util, "find_spec", lambda name, *more: name if name == "vllm" else real(name, *more))
        patch.setattr("etude.trainers.run.preflight._has_gpu", lambda: True)
        yield patch


@pytest.fixture(scope="module")
def finished(verbs_url: str, patched: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("asynchronous")
    pairs, made = pairs_file(folder / "pairs.jsonl"), list[Recording]()

    def build(*arguments: Any, **options: Any) -> Recording:
        made.append(Recording(*arguments, **options))
        return made[0]

    with policy_server.serving(async_runs.policy(), async_runs.erring_first(async_runs.words())) as server:
        recipe = async_runs.recipe(verbs_url, server.url, folder / "out", pairs)
        result = run(recipe, trainer=build)
        rows = (folder / "out" / "metrics.jsonl").read_text().splitlines()
        yield Run(recipe, pairs, result, made[0], server, [json.loads(row) for row in rows])


def test_run_learns_from_all_channels_while_another_process_plays(finished: Run) -> None:
    assert finished.result.ok and finished.result.steps == 2
    assert len(finished.trainer.seen) == 4 and all(len(seen.rows) == 4 for seen in finished.trainer.seen)
    for row in finished.metrics:
        assert row["distillation/chosen"] == row["distillation/sites"] > 0 and row["distillation/loss"] > 0
        assert row["replay/loss"] > 0 and row["gradient/distillation"] > 0 and row["gradient/replay"] > 0
        assert row["episodes/valid"] == 1.0 and row["episodes/error_turn_rate"] > 0


def test_lag_of_the_episodes_is_logged_for_each_step(finished: Run) -> None:
    first, second = finished.metrics
    assert first["staleness/mean"] == first["staleness/max"] == 0.0
    assert 0.0 <= second["staleness/mean"] <= second["staleness/max"] <= finished.recipe.asynchronous.max_staleness


def test_server_gets_the_weights_of_every_step(finished: Run) -> None:
    """It gets the first weights for the evaluation and again when training begins, then those of the two steps."""
    names = list(dict(async_runs.policy().named_parameters()))
    assert finished.server.updates == [names] * 4
    saved = load_file(Path(finished.recipe.out, "model", "model.safetensors"))
    served = dict(finished.server.model.named_parameters())
    assert all(torch.equal(served[name], weight) for name, weight in saved.items())
    assert not torch.equal(served[names[1]], dict(async_runs.policy().named_parameters())[names[1]])


def test_episodes_come_through_trls_queue_with_their_ids_logprobs_and_hints(finished: Run) -> None:
    words, hints = async_runs.words(), 0
    for seen in finished.trainer.seen:
        row = seen.inputs["input_ids"][0].tolist()
        trained = int((seen.inputs["token_index"] >= 0).sum())
        assert trained == sum(sum(one.rollout.mask) for one in seen.rows)
        for one in seen.rows:
            rollout = one.rollout
            assert set(rollout.ids) <= set(row) and len(rollout.logprobs) == len(rollout.ids) - rollout.prompt
            assert [bool(score) for score in rollout.logprobs] == [bool(mask) for mask in rollout.mask]
            assert {site.turn for site in one.sites} == {error.turn for error in rollout.error_turns if error.hints}
            for site in one.sites:
                span = rollout.turns[site.turn]
                assert (site.start, site.end) == (span.start, span.end)
                assert site.text in words.decode(site.hint)
                hints += 1
    assert hints >= 4


def gradients(losses: Iterable[torch.Tensor], model: Any) -> list[torch.Tensor]:
    """Return the gradient of a sum of losses by every parameter."""
    return list(torch.autograd.grad(torch.stack(list(losses)).sum(), list(model.parameters())))


@pytest.mark.usefixtures("patched")
def test_loss_and_gradient_of_a_step_are_those_of_the_synchronous_trainer(finished: Run, tmp_path: Path) -> None:
    """The synchronous trainer chooses its own sites of the same episodes; advantages are TRL's of the worker."""
    trainer = async_runs.synchronous(finished.recipe, tmp_path, finished.pairs)
    again = async_runs.asynchronous(
        finished.recipe, tmp_path, async_runs.parts(WEIGHTS, async_runs.policy(), finished.pairs)
    )
    rollouts = [row.rollout for seen in finished.first_step for row in seen.rows]
    sites = trainer._choose_sites(rollouts)
    assert sites == [row.sites for seen in finished.first_step for row in seen.rows] and any(sites)
    weight = sum(site.total_weight for of_rollout in sites for site in of_rollout)
    rows = iter(ScoredRow(rollout, chosen, []) for rollout, chosen in zip(rollouts, sites, strict=True))
    expected, actual = [], []
    for number, seen in enumerate(finished.first_step):
        trainer._step = again._step_microbatches = number
        inputs = async_runs.scored_batch(seen, [next(rows) for _ in seen.rows], weight)
        expected.append(trainer._compute_loss(trainer.model, inputs))
        actual.append(again.compute_loss(again.model, seen.inputs))
        assert abs(float(expected[-1].detach()) - seen.loss) <= 1e-5 and abs(seen.loss) > 1e-4
    pairs = zip(gradients(actual, again.model), gradients(expected, trainer.model), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("patched")
def test_loss_is_trls_own_when_the_other_channels_have_no_weight(finished: Run, tmp_path: Path) -> None:
    plain = async_runs.asynchronous(finished.recipe, tmp_path)
    off = async_runs.asynchronous(finished.recipe, tmp_path, async_runs.parts({"rlvr": 1.0}, async_runs.policy()))
    for seen in finished.first_step:
        expected = float(plain.compute_loss(plain.model, seen.inputs).detach())
        assert float(off.compute_loss(off.model, seen.inputs).detach()) == expected
        assert abs(expected - seen.loss) > 1e-3  # the run itself had all three channels


@pytest.mark.usefixtures("patched")
def test_distillation_is_zero_without_error_turns_and_with_empty_hints(finished: Run, tmp_path: Path) -> None:
    """The teacher is the policy with a hint: at the first weights, nothing else makes it differ."""
    weights = {"rlvr": 0.0, "distillation": 1.0}
    trainer = async_runs.asynchronous(finished.recipe, tmp_path, async_runs.parts(weights, async_runs.policy()))
    seen = next(seen for seen in finished.first_step if any(row.sites for row in seen.rows))
    losses = {}
    for name, change in (("hinted", None), ("empty hints", {"hint": []}), ("no error turns", {})):
        rows = []
        for row in seen.rows:
            sites = row.sites if change is None else [replace(site, **change) for site in row.sites if change]
            rows.append(ScoredRow(row.rollout, sites, []))
        inputs = dict(seen.inputs)
        attach(inputs, rows, ScoredBatch.from_inputs(seen.inputs).site_weight)
        losses[name] = float(trainer.compute_loss(trainer.model, inputs))
    assert losses["no error turns"] == 0.0
    assert abs(losses["empty hints"]) < 1e-7 < 1e-3 < losses["hinted"]


@pytest.mark.usefixtures("patched")
def test_plain_passes_read_what_a_model_with_its_own_attention_reads(finished: Run, tmp_path: Path) -> None:
    """TRL loads the policy with an attention that reads trees; gradients are computed again in the backward pass."""
    from etude.trainers.distillation.hidden_states import can_pack, hidden_states

    trainer = async_runs.asynchronous(finished.recipe, tmp_path, async_runs.parts(WEIGHTS, async_runs.policy()))
    model, expected = trainer.model, async_runs.policy()
    assert can_pack(model) == can_pack(expected)
    ids = torch.arange(10, 60).view(2, 25)
    attention = torch.ones_like(ids)
    attention[1, 20:] = 0
    model.train().gradient_checkpointing_enable({"use_reentrant": False})
    gradients = []
    for one in (model, expected):
        hidden = hidden_states(one, ids, attention_mask=attention)[attention.bool()]
        hidden.pow(2).mean().backward()
        gradients.append((hidden.detach(), one.model.layers[0].self_attn.q_proj.weight.grad))
    for actual, wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("patched")
def test_lag_counts_every_sample_and_sites_are_those_of_the_first_row_of_an_episode(
    finished: Run, tmp_path: Path
) -> None:
    trainer = async_runs.asynchronous(finished.recipe, tmp_path, async_runs.parts(WEIGHTS, async_runs.policy()))
    trainer.model_version = 5
    rollout = next(row.rollout for seen in finished.trainer.seen for row in seen.rows if row.sites)
    batches = [{PLAYED: [Played(rollout, 5), Played(None, 5)]}, {PLAYED: [Played(rollout, 2)]}]
    trainer.attach_sites(batches)
    assert trainer._metrics["train"]["staleness/mean"] == [1.0] and trainer._metrics["train"]["staleness/max"] == [3.0]
    scored = [ScoredBatch.from_inputs(batch) for batch in batches]
    assert [len(one.rows) for one in scored] == [1, 1] and all(row.sites for one in scored for row in one.rows)
    assert [float(one.site_weight) for one in scored] == [float(scored[0].rows[0].sites[0].total_weight) * 2] * 2
    assert len(trainer.last_rollouts()) == 2


@pytest.mark.usefixtures("patched")
@pytest.mark.parametrize(("step", "transfers"), [(3, 1), (4, 0)])
def test_last_weights_are_sent_when_the_run_ends_between_two_transfers(
    step: int, transfers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = async_runs.recipe(NOWHERE, NOWHERE, tmp_path, tmp_path, asynchronous={"sync_every": 2})
    trainer = async_runs.asynchronous(made, tmp_path, async_runs.parts(WEIGHTS, async_runs.policy()))
    sent: list[int] = []
    monkeypatch.setattr(trainer, "_sync_weight", lambda: sent.append(trainer.state.global_step))
    trainer.state.global_step = step
    trainer.callback_handler.on_train_end(trainer.args, trainer.state, trainer.control)
    assert sent == [step] * transfers


class LosingItsServer(Recording):
    """Trainer whose worker fails after the first step, in its first run."""

    lost = False

    def get_batch_samples(self, *arguments: Any) -> Any:
        if self.state.global_step == 1 and not type(self).lost:
            type(self).lost = True
            raise ServerError("the process that plays the episodes has failed")
        return super().get_batch_samples(*arguments)


@pytest.mark.slow
@pytest.mark.usefixtures("patched")
def test_run_resumes_after_its_worker_has_failed(verbs_url: str, tmp_path: Path) -> None:
    pairs, made = pairs_file(tmp_path / "pairs.jsonl"), list[LosingItsServer]()

    def build(*arguments: Any, **options: Any) -> LosingItsServer:
        made.append(LosingItsServer(*arguments, **options))
        return made[-1]

    with policy_server.serving(async_runs.policy(), async_runs.erring_first(async_runs.words())) as server:
        recipe = async_runs.recipe(verbs_url, server.url, tmp_path / "out", pairs)
        with pytest.raises(ServerError, match="run the same command again to resume after step 1"):
            run(recipe, trainer=build)
        state = json.loads((tmp_path / "out/checkpoints/checkpoint-1/rollout_state.json").read_text())
        result = run(recipe, trainer=build)
    assert result.ok and (result.steps, result.resumed_from) == (2, 1)
    assert [seen.step for seen in made[1].seen] == [1, 1]
    assert made[1].model_version > state["model_version"] and state["prompt_index"] >= 2
    rows = (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(row)["step"] for row in rows] == [1, 2]
