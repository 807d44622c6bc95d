"""Solved episodes as ids and labels: which are taken, which turns are learned, and that they are the rollout's ids."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from helpers.scripted_policy import TASKS, base
from helpers.solved_episodes import chat_of, episode, erred, learned_text, never, recipe
from helpers.tokenizer_factory import tokenizer
from transformers import AutoTokenizer

from etude.client import Client
from etude.environments.agents.openai import native_action, text_action
from etude.errors import RecipeError
from etude.models import Episode, Finding, Reward, ToolMessage, Turn
from etude.trainers.chat.chat_policy import TemplateChat
from etude.trainers.recipe.load import parse
from etude.trainers.rollouts.rollout import Rollout, Sample, rollout
from etude.trainers.sft.rows import Solved, encode, masked, select


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return base(tmp_path_factory.mktemp("model"))


def chosen(episodes: Sequence[Episode], **options: Any) -> Solved:
    found = select(parse(recipe(Path("m"), Path("o"), sft=options)), lambda folder: episodes)
    assert found is not None
    return found


# --- which episodes, which turns ----------------------------------------------------------------------------------


def test_solved_episodes_without_a_confirmed_finding_are_taken() -> None:
    hack = Finding(exploit_id="x", severity="confirmed")
    doubt = Finding(exploit_id="x", severity="suspect")
    solved = episode(0)
    doubted = episode(1, findings=[doubt])
    found = chosen([solved, episode(2, reward=0.5), episode(3, findings=[hack]), doubted])
    assert found.episodes == [solved, doubted]
    assert (found.valid, found.left) == (4, {"not solved": 1, "a confirmed finding": 1})


def test_an_invalid_reward_is_none() -> None:
    bad = episode(1).model_copy(update={"reward": Reward(value=1.0, valid=False)})
    assert chosen([episode(0), bad]).left == {"not solved": 1}


def test_a_lower_reward_may_do() -> None:
    assert len(chosen([episode(0, reward=0.5), episode(1, reward=0.4)], reward=0.5).episodes) == 1


def test_at_most_so_many_of_a_task_drawn_by_the_seed() -> None:
    episodes = [episode(number, task=task) for task in "ab" for number in range(5)]
    found = chosen(episodes, per_task=2)
    assert [one.task_id for one in found.episodes] == ["a", "a", "b", "b"]
    assert found.left == {"more than sft.per_task": 6}
    assert found == chosen(episodes, per_task=2)


def test_own_errors_are_masked_and_injected_faults_are_not() -> None:
    assert masked(episode(0, erred(0), erred(1, injected=True))) == {0}
    assert masked(episode(0, erred(0, injected=True), erred(0))) == {0}
    assert masked(episode(0, erred(0, site="recovery"), erred(1))) == {1}
    assert chosen([episode(0, erred(0)), episode(1)]).turns == 5


def test_an_episode_of_errors_alone_teaches_nothing() -> None:
    found = chosen([episode(0), episode(1, erred(0), erred(1), erred(2))])
    assert found.left == {"no turn to learn": 1}


@pytest.mark.parametrize(
    ("episodes", "said"),
    [
        ([episode(n, reward=0.0) for n in range(40)], "0 of 40 episodes are solved (a reward of 1 or more)"),
        ([episode(0, erred(0), erred(1), erred(2))], "0 of 1 solved episodes can be learned from: 1 no turn to learn"),
    ],
)
def test_nothing_to_learn_from_is_one_line(episodes: list[Episode], said: str) -> None:
    with pytest.raises(RecipeError) as refused:
        chosen(episodes)
    assert said in str(refused.value) and "\n" not in str(refused.value)


# --- as ids -------------------------------------------------------------------------------------------------------


def test_an_error_turn_is_read_and_its_recovery_learned(model: Path) -> None:
    (row,) = encode([episode(0, erred(0))], chat_of(model), system="", max_ids=10_000).rows
    call = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call><|im_end|>'
    assert learned_text(row, model) == f"Now 1.\n{call}It is done.<|im_end|>"
    assert f"Now 0.\n{call}" in AutoTokenizer.from_pretrained(model).decode(row["input_ids"])
    assert all(label in (-100, each) for each, label in zip(row["input_ids"], row["labels"], strict=True))


def test_the_systems_words_come_first(model: Path) -> None:
    (row,) = encode([episode(0)], chat_of(model), system="Be brief.", max_ids=10_000).rows
    assert AutoTokenizer.from_pretrained(model).decode(row["input_ids"]).startswith("<|im_start|>system\nBe brief.")


def test_what_is_too_long_is_left_out_and_counted(model: Path) -> None:
    short, long = episode(0), episode(1).model_copy(update={"prompt": "Find it. " * 100})
    size = len(encode([short], chat_of(model), system="", max_ids=10_000).rows[0]["input_ids"])
    found = encode([short, long], chat_of(model), system="", max_ids=size)
    assert len(found.rows) == 1
    assert found.left == {f"longer than generation.max_ids = {size} ids": 1}


THOUGHT = "<think>\nThe list tells.\n</think>\n\n"


@pytest.mark.parametrize(("family", "thought"), [("qwen3", THOUGHT), ("qwen3-no-thinking", "")])
def test_an_episode_has_the_ids_of_its_rollout(family: str, thought: str, drill_url: str) -> None:
    """Thinking that the template drops from old turns, words beside calls, two calls in a turn, an error."""
    task_id = next(iter(TASKS)).task_id
    drill = TASKS.drill(task_id)
    ((name, arguments),) = drill.solution()
    right = json.dumps({"name": name, "arguments": arguments})
    answer = json.dumps({"name": "submit", "arguments": {"answer": drill.answer}})
    turns = [
        thought + '<tool_call>\n{"name": "no_such_tool", "arguments": {"id": 1}}\n</tool_call>',
        thought + f"Both.\n<tool_call>\n{right}\n</tool_call>\n<tool_call>\n{answer}\n</tool_call>",
    ]
    made: Any = tokenizer(family)
    said = iter(turns)

    async def sample(ids: Sequence[int], room: int) -> Sample:
        return Sample(made.encode(next(said) + "<|im_end|>", add_special_tokens=False))

    chat = TemplateChat(made, sample, arguments={} if thought else {"enable_thinking": False})
    played, stored = asyncio.run(_played(drill_url, task_id, chat))
    assert played.reward.value == 1.0 and {error.turn for error in played.error_turns} == {0}
    (row,) = encode([stored], chat, system="", max_ids=10_000).rows
    assert row["input_ids"] == played.ids
    mask = [0] * played.prompt + played.mask
    mask[played.turns[0].start : played.turns[0].end] = [0] * len(made.encode(turns[0] + "<|im_end|>"))
    assert row["labels"] == [each if own else -100 for each, own in zip(played.ids, mask, strict=True)]


TAGGED = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'
NATIVE = {"name": "look", "arguments": "{}"}


@pytest.mark.parametrize(
    "action",
    [
        native_action({"content": "", "reasoning_content": "The list tells.", "tool_calls": [NATIVE]}),
        text_action({"content": THOUGHT + TAGGED}),
    ],
)
def test_a_thought_is_learned_wherever_it_was_kept(action: dict[str, Any]) -> None:
    made, turns = tokenizer("qwen3"), episode(0).turns
    thinking = episode(0).model_copy(update={"turns": [turns[0].model_copy(update={"action": action}), turns[2]]})
    (row,) = encode([thinking], TemplateChat(made, never), system="", max_ids=10_000).rows
    learned = made.decode([label for label in row["labels"] if label != -100])
    assert learned == f"{THOUGHT}{TAGGED}<|im_end|><think>\n\n</think>\n\nIt is done.<|im_end|>"


def test_what_a_run_in_text_wrote_is_learned_in_the_templates_own_form() -> None:
    made, turns = tokenizer("qwen3.5"), episode(0).turns
    said = text_action({"content": THOUGHT + TAGGED})
    one = episode(0).model_copy(update={"turns": [turns[0].model_copy(update={"action": said})]})
    (row,) = encode([one], TemplateChat(made, never), system="", max_ids=10_000).rows
    learned = made.decode([label for label in row["labels"] if label != -100])
    assert learned.startswith("The list tells.\n</think>\n\n<tool_call>\n<function=look>")


def test_a_broken_call_is_read_as_it_was_written(model: Path) -> None:
    broken = '<tool_call>\n{"name": "look", "arguments": {}\n</tool_call>'
    turns = episode(0).turns
    turns[0] = turns[0].model_copy(update={"action": text_action({"content": broken})})
    one = episode(0, erred(0)).model_copy(update={"turns": turns})
    (row,) = encode([one], chat_of(model), system="", max_ids=10_000).rows
    assert f"{broken}<|im_end|>" in AutoTokenizer.from_pretrained(model).decode(row["input_ids"])
    assert "Now 1." in learned_text(row, model) and broken not in learned_text(row, model)


async def _played(url: str, task_id: str, chat: TemplateChat) -> tuple[Rollout, Episode]:
    """A rollout, and what the environment stores of it."""
    async with Client(url) as client:
        played = await rollout({"task_id": task_id}, chat, client)
        first = await client.reset(task_id=task_id)
    turns: list[Turn] = []
    for message in played.messages[1:]:
        if message["role"] == "assistant":
            turns.append(Turn(action={key: value for key, value in message.items() if key != "role"}))
        else:
            turns[-1].messages.append(ToolMessage(**message))
    told = {"prompt": first.prompt or "", "tools": first.tools or [], "turns": turns}
    return played, Episode(
        episode_id="e", task_id=task_id, error_turns=played.error_turns, reward=played.reward, **told
    )
