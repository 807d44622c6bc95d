"""Effort of episodes: counts of tokens, the nonlinear cost against its closed form, and the penalty in the reward."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.made_up_rollouts import batch, made_up, unplayed
from helpers.tokenizer_factory import FAMILIES, tokenizer

from etude.models import Reward
from etude.trainers.chat.chat_policy import TemplateChat, never_samples
from etude.trainers.grpo.effort import Counts, count_effort, effort_penalties, effort_penalty, nonlinear_cost
from etude.trainers.grpo.rollout_function import rollout_func
from etude.trainers.recipe.effort import Effort
from etude.trainers.rollouts.dataset_rows import RESET
from etude.trainers.rollouts.rollout import Rollout, Span

WORDS = tokenizer("qwen3")
CALL = '<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>'


def episode(turns: Sequence[str], name: str = "qwen3") -> Rollout:
    """Return a rollout of turns that this family's policy sampled, with results of tools between them."""
    words: Any = tokenizer(name)
    chat = TemplateChat(words, never_samples, arguments=FAMILIES[name].arguments)
    written = chat.prompt([{"role": "user", "content": "Go."}], [])
    ids, begin = list(written.ids), written.generation
    prompt, spans, messages = len(ids), list[Span](), list[dict[str, Any]]()
    for number, text in enumerate(turns):
        sampled = words.encode(text, add_special_tokens=False)
        spans.append(Span(begin, len(ids), len(ids) + len(sampled)))
        ids += sampled
        action = chat.action(sampled)
        answers = [{"role": "tool", "tool_call_id": "1", "name": "read", "content": "ok"}]
        messages += [{"role": "assistant", **action}, *answers]
        if number + 1 < len(turns):
            reply = chat.reply(sampled, answers)
            begin = len(ids) + reply.generation
            ids += reply.ids
    return Rollout("t", "e", ids, prompt, spans, [], Reward(value=1.0), "submit", messages=messages)


def tokens(text: str) -> int:
    return len(WORDS.encode(text, add_special_tokens=False))


def counts(*turns: str) -> Counts:
    return count_effort(episode(turns), WORDS.decode)


def test_count_effort_splits_a_turn_into_thought_words_and_call() -> None:
    thought, words = "<think>\nThe file is a.\n</think>", "\n\nI read it."
    count = counts(f"{thought}{words}\n{CALL}<|im_end|>")
    assert count.thinking_tokens == tokens(thought)
    assert count.message_tokens == tokens(words)
    assert count.call_tokens == tokens(f"\n{CALL}<|im_end|>")
    assert (count.calls, count.turns, count.output_tokens) == (1, 1, 0)


def test_count_effort_gives_every_token_after_the_prompt_to_one_kind() -> None:
    rollout = episode([f"{CALL}\n{CALL}<|im_end|>", f"Once more.\n{CALL}<|im_end|>", "It is b.<|im_end|>"])
    count = count_effort(rollout, WORDS.decode)
    sampled = sum(rollout.mask)
    assert count.thinking_tokens + count.call_tokens + count.message_tokens == sampled
    assert count.output_tokens == len(rollout.mask) - sampled > 0
    assert count.message_tokens == tokens("Once more.") + tokens("It is b.<|im_end|>")
    assert (count.calls, count.turns) == (3, 3)


@pytest.mark.parametrize(
    ("turn", "expected"),
    [
        ("<think>\nI never stop<|im_end|>", Counts(thinking_tokens=tokens("<think>\nI never stop<|im_end|>"), turns=1)),
        ("", Counts(turns=1)),
        ("<tool_call>\n{broken", Counts(call_tokens=tokens("<tool_call>\n{broken"), calls=1, turns=1)),
        (f"{CALL} words", Counts(call_tokens=tokens(f"{CALL} words"), calls=1, turns=1)),
    ],
)
def test_count_effort_counts_odd_turns(turn: str, expected: Counts) -> None:
    assert counts(turn) == expected


def test_count_effort_counts_a_thought_that_the_template_opened() -> None:
    words = tokenizer("qwen3.5")
    thought = "Hm, the file is a.\n</think>"
    count = count_effort(episode([f"{thought}\n\nIt is b.<|im_end|>"], "qwen3.5"), words.decode)
    assert count.thinking_tokens == len(words.encode(thought, add_special_tokens=False))
    assert count.message_tokens > 0


@pytest.mark.parametrize(("k", "q"), [(0.5, 0.5), (1e-3, 2.0), (2.0, 3.0), (0.01, 0.0)])
def test_nonlinear_cost_is_the_closed_form(k: float, q: float) -> None:
    for x in (0.0, 0.3, 7.0, 4000.0):
        closed = ((1 + k * x) ** (1 - q) - 1) / (k * (1 - q))
        assert nonlinear_cost(x, k, q) == pytest.approx(closed, rel=1e-9, abs=1e-12)


def test_nonlinear_cost_is_the_logarithm_at_q_1_and_near_it() -> None:
    for x in (0.5, 100.0, 1e5):
        limit = math.log(1 + 0.01 * x) / 0.01
        assert nonlinear_cost(x, 0.01, 1.0) == pytest.approx(limit, rel=1e-12)
        assert nonlinear_cost(x, 0.01, 1 + 1e-9) == pytest.approx(limit, rel=1e-7)
        assert nonlinear_cost(x, 0.01, 1 - 1e-9) == pytest.approx(limit, rel=1e-7)


@pytest.mark.parametrize("q", [0.3, 1.0, 2.5])
def test_nonlinear_cost_rises_and_is_concave(q: float) -> None:
    values = [nonlinear_cost(x, 0.01, q) for x in range(0, 5000, 50)]
    steps = [after - before for before, after in zip(values, values[1:], strict=False)]
    assert values[0] == 0
    assert min(steps) > 0
    assert all(after < before for before, after in zip(steps, steps[1:], strict=False))
    assert nonlinear_cost(1e-6, 0.01, q) == pytest.approx(1e-6, rel=1e-4)


def test_nonlinear_cost_is_linear_at_q_0() -> None:
    assert nonlinear_cost(123.0, 0.7, 0.0) == pytest.approx(123.0)


def test_effort_penalty_weighs_every_count() -> None:
    effort = Effort(
        weight=0.1, k=0.5, q=0.5, thinking_tokens=1, call_tokens=2, output_tokens=3, message_tokens=4, calls=5, turns=6
    )
    x = 1 * 10 + 2 * 20 + 3 * 30 + 4 * 40 + 5 * 2 + 6 * 1
    expected = -0.1 * ((1 + 0.5 * x) ** 0.5 - 1) / (0.5 * 0.5)
    assert effort_penalty(Counts(10, 20, 30, 40, 2, 1), effort) == pytest.approx(expected)


def test_zero_weight_counts_nothing() -> None:
    def fail(ids: Sequence[int]) -> str:
        raise AssertionError("decoded")

    off = effort_penalties([episode([CALL]), episode([CALL])], Effort(calls=3.0), fail)
    assert (off.penalties, off.metrics) == ([0.0, 0.0], {})


def test_metrics_are_means_over_valid_episodes() -> None:
    invalid = episode([CALL, CALL])
    invalid.reward = Reward(valid=False)
    effort = Effort(weight=0.01, q=0.0)
    measured = effort_penalties([episode([CALL]), invalid, episode([CALL, CALL])], effort, WORDS.decode)
    assert measured.penalties == pytest.approx([-0.01 * tokens(CALL), 0.0, -0.02 * tokens(CALL)])
    assert measured.metrics["effort/calls"] == measured.metrics["effort/turns"] == 1.5
    assert measured.metrics["effort/tokens"] == measured.metrics["effort/call_tokens"] == 1.5 * tokens(CALL)
    assert measured.metrics["effort/penalty"] == pytest.approx(-0.015 * tokens(CALL))


# --- in the trainer ----------------------------------------------------------------------------------------------


def solved(task: str, number: int) -> Rollout:
    """Return a solved episode; every second one takes a turn more, and the third of a task is invalid."""
    rollout = made_up(None if number == 2 else 1.0, task, turns=(3, 2, 4) if number % 2 else (3, 2))
    rollout.messages = [{"role": "assistant", "text": "words"} for _ in rollout.turns]
    return rollout


def test_penalty_teaches_where_every_episode_is_solved(tmp_path: Path) -> None:
    """Without it the groups are flat and have no advantage; with it, short episodes have the better one."""
    off = batch(unplayed(tmp_path, invent=solved), 0, 1)
    assert off["advantages"].tolist() == [0.0] * 8
    trainer = unplayed(tmp_path, invent=solved, parts={"effort": Effort(weight=0.01, q=0.0)})
    output = batch(trainer, 0, 1)
    short, long, _, also_long = output["advantages"].tolist()[:4]
    assert short > 0 > long
    assert long == also_long
    assert short - long == pytest.approx(0.04)
    assert trainer.effort.penalties[:4] == pytest.approx([-0.05, -0.09, 0.0, -0.09])
    assert [int(row.sum()) > 0 for row in output["tool_mask"][:4]] == [True, True, False, True]
    assert trainer._metrics["train"]["effort/penalty"] == pytest.approx([-0.23 / 3])
    assert trainer._metrics["train"]["groups/flat"] == [1.0]


def test_invalid_episode_has_no_reward_with_a_penalty(tmp_path: Path) -> None:
    trainer = unplayed(tmp_path, invent=solved, parts={"effort": Effort(weight=0.01)})
    trainer.model.train()
    trainer._tasks = [row for row in trainer.train_dataset[RESET][:1] for _ in range(4)]
    rewards = rollout_func([], trainer)["reward"]
    assert [reward is None for reward in rewards] == [False, False, True, False]
