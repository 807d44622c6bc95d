"""Other second terms beside RLVR: what each arm learns from, and the rows that were counted."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from etude.models import ErrorTurn, Hint, Reward
from etude.research.error_turns import driver, next_step
from etude.research.error_turns.real_stack import arm_trainer, base_models, next_arms, runs
from etude.research.error_turns.worlds import drill_world
from etude.research.error_turns.worlds.drill_world import DRILLS
from etude.trainers.distillation.distill_sites import CAP, Site
from etude.trainers.distillation.distiller import Distiller, Settings
from etude.trainers.distillation.divergence import divergence, log_probabilities
from etude.trainers.distillation.hidden_states import head_of
from etude.trainers.rollouts.rollout import Rollout, Span

SMALL = replace(DRILLS, held=2, prompts=2, group=2, max_ids=700, max_turn_ids=8)
NEW = ("gap_gated", "dagger", "hindsight")
ROWS = {"drills": "next.jsonl", "repairs": "next_repairs.jsonl"}
PAGES = {"drills": "RESULTS_NEXT.md", "repairs": "RESULTS_NEXT_REPAIRS.md"}


def trainer(arm: str, base: Path, url: str, out: Path) -> Any:
    return runs.build_run(SMALL, arm_trainer.ARMS[arm], 1e-3, 7, base, url, out, 2).trainer


def model(base: Path, seed: int) -> Any:
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    made = AutoModelForCausalLM.from_pretrained(base).eval()
    with torch.no_grad():
        for value in made.parameters():
            value.add_(0.3 * torch.randn_like(value))
    return made


@pytest.mark.parametrize("arm", [*NEW, "muon_tenth"])
def test_run_is_reproducible(arm: str, base: Path, url: str, tmp_path: Path) -> None:
    one, two = (runs.train(SMALL, driver.Run(arm, 1e-3, 7), base, url, tmp_path, updates=2) for _ in range(2))
    assert {**one, "cpu_seconds": 0} == {**two, "cpu_seconds": 0}
    assert (one["episodes"], one["broken"]) == ([0, 4, 8], False)
    assert (tmp_path / "runs" / f"{arm}-0.001-7" / "muon.txt").exists() == (arm == "muon_tenth")


def test_gap_gate_multiplies_the_divergence_of_each_token(base: Path) -> None:
    student, teacher = model(base, 0), model(base, 1)
    ids, site = list(range(5, 25)), Site(0, "", 8, 10, 20, [3, 4])
    played = Rollout("a", "e", ids, 5, [Span(8, 10, 20)], [], Reward(value=0.0), "submit")
    loss = next_arms.GapGated(Settings(gate=False)).loss(student, teacher, [(played, [site])]).total
    with torch.no_grad():
        student_logits = student(torch.tensor([ids])).logits[0, 9:19]
        teacher_logits = teacher(torch.tensor([site.teacher_ids(ids)])).logits[0, 11:21]
    tokens = torch.tensor(ids[10:20])[:, None]
    gap = (teacher_logits.log_softmax(-1) - student_logits.log_softmax(-1)).gather(-1, tokens)[:, 0]
    expected = torch.sigmoid(5 * gap) * divergence(student_logits, teacher_logits)
    torch.testing.assert_close(loss.detach(), expected.sum(), rtol=1e-4, atol=1e-6)
    assert loss < Distiller(Settings(gate=False)).loss(student, teacher, [(played, [site])]).total


def test_imitation_loss_is_the_mean_over_the_spans_of_examples_of_any_length(base: Path) -> None:
    student = model(base, 0)
    examples = [
        next_arms.Example(list(range(5, 30)), ((3, 9), (12, 20))),
        next_arms.Example(list(range(9, 19)), ((1, 10),)),
    ]
    logps = []
    for example in examples:
        hidden = student.base_model(torch.tensor([example.ids])).last_hidden_state[0]
        for start, end in example.spans:
            tokens = torch.tensor(example.ids[start:end])
            logps.append(log_probabilities(hidden[start - 1 : end - 1], head_of(student), tokens))
    torch.testing.assert_close(next_arms.imitation_loss(student, examples), -torch.cat(logps).mean())
    assert float(next_arms.imitation_loss(student, [])) == 0


def test_dagger_labels_every_state_with_the_call_of_a_teacher_that_is_right_in_nine_of_ten(
    base: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = trainer("dagger", base, url, tmp_path / "run")
    played = made.play([{"task_id": name} for name in SMALL.learned(7, 4)])
    calls = 0
    for accuracy, method in ((1.0, "right"), (0.0, "wrong")):
        monkeypatch.setitem(next_arms.ACCURACY, "dagger", accuracy)
        monkeypatch.setattr(drill_world.Drills, "wrong", lambda self, task, messages, rng: ("wrong", {"a": "b"}))
        for rollout in played:
            examples = list(made._relabelled(rollout))
            assert len(examples) == min(len(rollout.turns), CAP)
            for span, example in zip(rollout.turns, examples, strict=False):
                ((start, end),) = example.spans
                assert (start, end) == (span.start, len(example.ids))
                assert example.ids[:start] == rollout.ids[:start]
                (call,) = made._chat.action(example.ids[start:])["tool_calls"]
                right = drill_world.Drills().right(rollout.task_id, [])
                assert (call["name"], call["arguments"]) == (right if method == "right" else ("wrong", {"a": "b"}))
                calls += 1
    assert calls >= 8
    made.close()


def test_hindsight_learns_solved_episodes_behind_the_prompt_without_the_hint(
    base: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = trainer("hindsight", base, url, tmp_path / "run")
    tasks = SMALL.learned(7, 2)
    plain = made.play([{"task_id": name} for name in tasks])
    hints = next_arms.hindsight(plain, SMALL)
    chat, made._chat = made._chat, base_models.Hinted(made._chat, hints)
    hinted = made.play([{"task_id": name} for name in tasks])
    made._chat = chat
    for before, after in zip(plain, hinted, strict=True):
        text = hints[before.messages[0]["content"]]
        assert text in made._tokenizer.decode(after.ids[: after.prompt])
        example = next_arms.without_hint(before, after)
        assert text not in made._tokenizer.decode(example.ids)
        assert example.ids[: before.prompt] == before.ids[: before.prompt]
        sampled = [after.ids[turn.start : turn.end] for turn in after.turns]
        assert [example.ids[start:end] for start, end in example.spans] == sampled

    solved = [replace(rollout, reward=Reward(value=float(place))) for place, rollout in enumerate(hinted)]
    monkeypatch.setattr(made, "play", lambda tasks: solved)
    assert made._scaffold(plain) == [next_arms.without_hint(plain[1], solved[1])], "the other one was not solved"
    assert made._scaffold([replace(rollout, reward=Reward(value=1.0)) for rollout in plain]) == []
    made.close()


def test_hindsight_plays_as_many_episodes_as_the_other_arms_at_most(base: Path, url: str, tmp_path: Path) -> None:
    row = runs.train(SMALL, driver.Run("hindsight", 1e-3, 7), base, url, tmp_path, updates=2)
    assert row["metrics"]["hindsight/played"] == [2, 2], "two plain episodes and two with a hint make four"
    assert [next_arms.plain_tasks(arm_trainer.ARMS[arm], DRILLS) for arm in NEW] == [4, 4, 2]


def test_hint_in_hindsight_is_that_of_the_first_turn_that_erred() -> None:
    (task,) = SMALL.held_out("train", 1)
    ((prompt, otherwise),) = SMALL.right_hints([task]).items()

    def failed(*turns: int) -> Rollout:
        errors = [
            ErrorTurn(turn=turn, kind="tool_not_found", message="", hints=[Hint(text=f"hint {turn}")]) for turn in turns
        ]
        messages = [{"role": "user", "content": prompt}]
        value = Reward(value=0.0)
        return Rollout(task, "e", [], 0, [], [], value, "submit", error_turns=errors, messages=messages)

    assert next_arms.hindsight([failed(1), failed(0, 1)], SMALL) == {prompt: "hint 0"}
    assert next_arms.hindsight([failed(1)], SMALL) == {prompt: otherwise}


def test_readings() -> None:
    assert next_step.reading(0.1, 0.2, better=True) == "better"
    assert next_step.reading(0.1, 0.2, better=False) == "worse"
    assert next_step.reading(-0.2, -0.1, better=False) == "better"
    assert next_step.reading(-0.1, 0.1, better=True) == "not told apart"


@pytest.mark.parametrize("world", ROWS)
def test_counted_runs_are_those_that_were_registered(root: Path, world: str) -> None:
    rows = driver.load(root / "research/error_turns/results" / ROWS[world])
    study = next_step.STUDIES[world]
    assert {row["rate"] for row in rows} == {next_step.RATE}
    assert len({row["base"] for row in rows}) == 1
    assert {row["updates"] for row in rows} == {study.updates}
    assert {tuple(row["episodes"]) for row in rows} == {(0, 128, 256, 384)}
    seeds = {
        arm: sorted(row["seed"] for row in rows if row["arm"] == arm) for arm in (next_step.CONTROL, *next_step.ARMS)
    }
    assert all(found == [*range(1, len(found) + 1)] for found in seeds.values()), "in order, and no run left out"


@pytest.mark.parametrize("world", PAGES)
def test_tables_are_those_of_the_rows(root: Path, world: str) -> None:
    printed = printed_tables(root, world, ROWS[world])
    assert printed.returncode == 0, printed.stderr
    tables = [line for line in printed.stdout.splitlines() if line]
    page = (root / "research" / "error_turns" / PAGES[world]).read_text().splitlines()
    assert len(tables) >= 30
    assert [line for line in tables if line not in page] == []


def test_rows_of_another_world_are_refused(root: Path) -> None:
    printed = printed_tables(root, "repairs", ROWS["drills"])
    assert printed.returncode == 1 and "choose their --world" in printed.stderr


def printed_tables(root: Path, world: str, rows: str) -> subprocess.CompletedProcess[str]:
    folder = root / "research" / "error_turns"
    command = [sys.executable, str(folder / "next_step.py"), "--out", str(folder / "results" / rows)]
    return subprocess.run([*command, "--world", world, "--print"], capture_output=True, text=True)
