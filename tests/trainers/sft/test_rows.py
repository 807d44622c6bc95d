"""Tests of solved episodes as rows: which episodes, which turns, and that the ids are those of the rollout."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.scripted_policy import TASKS, base
from helpers.solved_episodes import chat_of, episode, erred, learned_text, recipe
from helpers.tokenizer_factory import tokenizer
from transformers import AutoTokenizer

from etude.client import Client
from etude.environments.agents.openai import native_action, text_action
from etude.errors import RecipeError
from etude.models import Episode, Finding, Reward, ToolMessage, Turn
from etude.trainers.chat.chat_policy import TemplateChat, never_samples
from etude.trainers.recipe.load import parse
from etude.trainers.rollouts.rollout import Rollout, Sample, rollout
from etude.trainers.sft.rows import Solved, encode, masked, select


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return base(tmp_path_factory.mktemp("model"))


def selected(episodes: Sequence[Episode], **options: Any) -> Solved:
    solved = select(parse(recipe(Path("m"), Path("o"), sft=options)), lambda folder: episodes)
    assert solved is not None
    return solved


# --- which episodes, which turns ----------------------------------------------------------------------------------


def test_select_takes_solved_episodes_without_a_confirmed_finding() -> None:
    hack = Finding(exploit_id="x", severity="confirmed")
    doubt = Finding(exploit_id="x", severity="suspect")
    solved = episode(0)
    doubted = episode(1, findings=[doubt])
    result = selected([solved, episode(2, reward=0.5), episode(3, findings=[hack]), doubted])
    assert result.episodes == [solved, doubted]
    assert (result.valid, result.skipped) == (4, {"not solved": 1, "a confirmed finding": 1})


def test_select_skips_an_episode_with_an_invalid_reward() -> None:
    bad = episode(1).model_copy(update={"reward": Reward(value=1.0, valid=False)})
    assert selected([episode(0), bad]).skipped == {"not solved": 1}


def test_select_takes_lower_rewards_when_the_recipe_says_so() -> None:
    assert len(selected([episode(0, reward=0.5), episode(1, reward=0.4)], reward=0.5).episodes) == 1


def test_select_draws_at_most_per_task_episodes_by_the_seed() -> None:
    episodes = [episode(number, task=task) for task in "ab" for number in range(5)]
    result = selected(episodes, per_task=2)
    assert [one.task_id for one in result.episodes] == ["a", "a", "b", "b"]
    assert result.skipped == {"more than sft.per_task": 6}
    assert result == selected(episodes, per_task=2)


def test_masked_turns_are_own_errors_and_not_injected_faults() -> None:
    assert masked(episode(0, erred(0), erred(1, injected=True))) == {0}
    assert masked(episode(0, erred(0, injected=True), erred(0))) == {0}
    assert masked(episode(0, erred(0, site="recovery"), erred(1))) == {1}
    assert selected([episode(0, erred(0)), episode(1)]).turns == 5


def test_select_skips_an_episode_of_errors_alone() -> None:
    result = selected([episode(0), episode(1, erred(0), erred(1), erred(2))])
    assert result.skipped == {"no turn to learn": 1}


@pytest.mark.parametrize(
    ("episodes", "message"),
    [
        ([episode(n, reward=0.0) for n in range(40)], "0 of 40 episodes are solved (a reward of 1 or more)"),
        ([episode(0, erred(0), erred(1), erred(2))], "0 of 1 solved episodes can be learned from: 1 no turn to learn"),
    ],
)
def test_select_reports_in_one_line_that_no_episode_can_be_learned_from(episodes: list[Episode], message: str) -> None:
    with pytest.raises(RecipeError) as refused:
        selected(episodes)
    assert message in str(refused.value) and "\n" not in str(refused.value)


# --- as ids -------------------------------------------------------------------------------------------------------


def test_encode_learns_the_recovery_but_not_the_error_turn(model: Path) -> None:
    (row,) = encode([episode(0, erred(0))], chat_of(model), system="", max_ids=10_000).rows
    call = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call><|im_end|>'
    assert learned_text(row, model) == f"Now 1.\n{call}It is done.<|im_end|>"
    assert f"Now 0.\n{call}" in AutoTokenizer.from_pretrained(model).decode(row["input_ids"])
    assert all(label in (-100, token) for token, label in zip(row["input_ids"], row["labels"], strict=True))


def test_encode_puts_the_system_message_first(model: Path) -> None:
    (row,) = encode([episode(0)], chat_of(model), system="Be brief.", max_ids=10_000).rows
    assert AutoTokenizer.from_pretrained(model).decode(row["input_ids"]).startswith("<|im_start|>system\nBe brief.")


def test_encode_skips_and_counts_episodes_that_are_too_long(model: Path) -> None:
    short, long = episode(0), episode(1).model_copy(update={"prompt": "Find it. " * 100})
    size = len(encode([short], chat_of(model), system="", max_ids=10_000).rows[0]["input_ids"])
    result = encode([short, long], chat_of(model), system="", max_ids=size)
    assert len(result.rows) == 1
    assert result.skipped == {f"longer than generation.max_ids = {size} ids": 1}


THOUGHT = "<think>\nThe list tells.\n</think>\n\n"


@pytest.mark.parametrize(("family", "thought"), [("qwen3", THOUGHT), ("qwen3-no-thinking", "")])
def test_encode_gives_the_ids_of_the_rollout(family: str, thought: str, drill_url: str) -> None:
    """The rollout has thinking that the template drops from old turns, words beside calls, two calls, an error."""
    task_id = next(iter(TASKS)).task_id
    drill = TASKS.drill(task_id)
    ((name, arguments),) = drill.solution()
    right = json.dumps({"name": name, "arguments": arguments})
    answer = json.dumps({"name": "submit", "arguments": {"answer": drill.answer}})
    turns = [
        thought + '<tool_call>\n{"name": "no_such_tool", "arguments": {"id": 1}}\n</tool_call>',
        thought + f"Both.\n<tool_call>\n{right}\n</tool_call>\n<tool_call>\n{answer}\n</tool_call>",
    ]
    words: Any = tokenizer(family)
    script = iter(turns)

    async def sample(ids: Sequence[int], room: int) -> Sample:
        return Sample(words.encode(next(script) + "<|im_end|>", add_special_tokens=False))

    chat = TemplateChat(words, sample, arguments={} if thought else {"enable_thinking": False})
    played, stored = asyncio.run(_played(drill_url, task_id, chat))
    assert played.reward.value == 1.0 and {error.turn for error in played.error_turns} == {0}
    (row,) = encode([stored], chat, system="", max_ids=10_000).rows
    assert row["input_ids"] == played.ids
    mask = [0] * played.prompt + played.mask
    mask[played.turns[0].start : played.turns[0].end] = [0] * len(words.encode(turns[0] + "<|im_end|>"))
    assert row["labels"] == [token if sampled else -100 for token, sampled in zip(played.ids, mask, strict=True)]


TAGGED = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'
NATIVE = {"name": "look", "arguments": "{}"}


@pytest.mark.parametrize(
    "action",
    [
        native_action({"content": "", "reasoning_content": "The list tells.", "tool_calls": [NATIVE]}),
        text_action({"content": THOUGHT + TAGGED}),
    ],
)
def test_encode_learns_a_thought_wherever_it_was_stored(action: dict[str, Any]) -> None:
    words, turns = tokenizer("qwen3"), episode(0).turns
    thinking = episode(0).model_copy(update={"turns": [turns[0].model_copy(update={"action": action}), turns[2]]})
    (row,) = encode([thinking], TemplateChat(words, never_samples), system="", max_ids=10_000).rows
    learned = words.decode([label for label in row["labels"] if label != -100])
    assert learned == f"{THOUGHT}{TAGGED}<|im_end|><think>\n\n</think>\n\nIt is done.<|im_end|>"


def test_encode_learns_a_text_run_in_the_templates_own_form() -> None:
    words, turns = tokenizer("qwen3.5"), episode(0).turns
    action = text_action({"content": THOUGHT + TAGGED})
    one = episode(0).model_copy(update={"turns": [turns[0].model_copy(update={"action": action})]})
    (row,) = encode([one], TemplateChat(words, never_samples), system="", max_ids=10_000).rows
    learned = words.decode([label for label in row["labels"] if label != -100])
    assert learned.startswith("The list tells.\n</think>\n\n<tool_call>\n<function=look>")


def test_encode_reads_a_malformed_call_as_it_was_written(model: Path) -> None:
    broken = '<tool_call>\n{"name": "look", "arguments": {}\n</tool_call>'
    turns = episode(0).turns
    turns[0] = turns[0].model_copy(update={"action": text_action({"content": broken})})
    one = episode(0, erred(0)).model_copy(update={"turns": turns})
    (row,) = encode([one], chat_of(model), system="", max_ids=10_000).rows
    assert f"{broken}<|im_end|>" in AutoTokenizer.from_pretrained(model).decode(row["input_ids"])
    assert "Now 1." in learned_text(row, model) and broken not in learned_text(row, model)


async def _played(url: str, task_id: str, chat: TemplateChat) -> tuple[Rollout, Episode]:
    """Play a rollout; return it and the episode that the environment stores."""
    async with Client(url) as client:
        played = await rollout({"task_id": task_id}, chat, client)
        first = await client.reset(task_id=task_id)
    turns: list[Turn] = []
    for message in played.messages[1:]:
        if message["role"] == "assistant":
            turns.append(Turn(action={key: value for key, value in message.items() if key != "role"}))
        else:
            turns[-1].messages.append(ToolMessage(**message))
    fields = {"prompt": first.prompt or "", "tools": first.tools or [], "turns": turns}
    return played, Episode(
        episode_id="e", task_id=task_id, error_turns=played.error_turns, reward=played.reward, **fields
    )
