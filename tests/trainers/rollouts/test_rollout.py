"""Rollouts: episodes of drills played through the client, with a real chat template and a scripted sampler."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Sequence
from typing import Any

import pytest
from helpers.tokenizer_factory import tokenizer

from etude.client import Client
from etude.environments.drill.tasks import DrillTasks
from etude.errors import ServerInfrastructureError
from etude.models import Observation, Reward, State
from etude.trainers.chat.chat_policy import TemplateChat
from etude.trainers.distillation.distill_sites import Insertion, choose_sites
from etude.trainers.rollouts.batcher import Batcher
from etude.trainers.rollouts.rollout import Rollout, Sample, rollout

TASKS = DrillTasks()
TASK = "drill-chain-11-l2"
END = "<|im_end|>"


@pytest.fixture(scope="module")
def url(drills_url: str) -> str:
    return drills_url


@pytest.fixture(scope="module")
def words() -> Any:
    return tokenizer("qwen3-2507")


def call_text(name: str, arguments: dict[str, Any]) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>{END}"


def solution(task_id: str = TASK) -> list[str]:
    """Return the turns that solve a drill."""
    drill = TASKS.drill(task_id)
    return [call_text(name, arguments) for name, arguments in [*drill.solution(), ("submit", {"answer": drill.answer})]]


def ids_of(words: Any, text: str) -> list[int]:
    return list(words.encode(text, add_special_tokens=False))


class Script:
    """Sampler that returns a list of texts, turn by turn, and records the ids that it read."""

    def __init__(self, words: Any, turns: Sequence[str], *, scored: bool = True) -> None:
        self.words, self.turns, self.scored = words, list(turns), scored
        self.prompts: list[list[int]] = []

    async def __call__(self, ids: Sequence[int], room: int) -> Sample:
        self.prompts.append(list(ids))
        written = ids_of(self.words, self.turns[len(self.prompts) - 1])[:room]
        return Sample(written, [-1.0 - place for place in range(len(written))] if self.scored else [])


def play(url: str, script: Script, task_id: str = TASK, **options: Any) -> Rollout:
    async def play_one() -> Rollout:
        async with Client(url) as client:
            return await rollout({"task_id": task_id}, TemplateChat(script.words, script), client, **options)

    return asyncio.run(play_one())


def turns_of(words: Any, done: Rollout) -> list[str]:
    return [words.decode(done.ids[turn.start : turn.end]) for turn in done.turns]


def test_ids_equal_the_templates_own_dialogue_of_a_solved_drill(url: str, words: Any) -> None:
    script = Script(words, solution())
    done = play(url, script, system="Be brief.")
    assert (done.reward.value, done.end, done.truncated, done.task_id) == (1.0, "submit", False, TASK)
    assert turns_of(words, done) == solution() and done.error_turns == []
    messages = [
        {
            "role": message["role"],
            "content": message.get("text", message.get("content", "")),
            **(
                {"tool_calls": [{"function": call} for call in message["tool_calls"]]}
                if "tool_calls" in message
                else {}
            ),
        }
        for message in done.messages[:-1]
    ]
    whole = words.apply_chat_template(messages, tools=tools(url), tokenize=True, return_dict=False)
    assert whole[: len(done.ids)] == done.ids and words.decode(whole[len(done.ids) :]) == "\n"


def tools(url: str) -> Any:
    async def first() -> Any:
        async with Client(url) as client:
            return (await client.reset(task_id=TASK)).tools

    return asyncio.run(first())


def test_mask_spans_and_logprobs_mark_the_sampled_ids(url: str, words: Any) -> None:
    script = Script(words, solution())
    done = play(url, script)
    assert len(done.mask) == len(done.logprobs) == len(done.ids) - done.prompt
    assert [bool(logp) for logp in done.logprobs] == [bool(sampled) for sampled in done.mask]
    assert sum(done.mask) == sum(len(ids_of(words, text)) for text in solution())
    for turn, prompt in zip(done.turns, script.prompts, strict=True):
        assert prompt == done.ids[: turn.start]
        assert words.decode(done.ids[turn.begin : turn.start]) == "<|im_start|>assistant\n"
    assert done.ids[: done.prompt] == script.prompts[0] and done.turns[-1].end == len(done.ids)


def test_rollout_has_no_logprobs_when_the_sampler_gives_none(url: str, words: Any) -> None:
    assert play(url, Script(words, solution(), scored=False)).logprobs == []


def test_error_turns_and_their_hints_are_at_the_erring_turns(url: str, words: Any) -> None:
    right = solution()
    unknown, broken = (
        call_text("no_such_tool", {}),
        '<tool_call>\n{"name": "submit", "arguments": {"answ\n</tool_call>' + END,
    )
    script = Script(words, [unknown, right[0], broken, *right[1:]])
    done = play(url, script)
    assert [(error.turn, error.kind) for error in done.error_turns][:2] == [
        (0, "tool_not_found"),
        (2, "malformed_call"),
    ]
    assert done.reward.value == 1.0 and turns_of(words, done) == script.turns
    assert "error malformed_call: arguments are not valid JSON" in words.decode(done.ids)
    chat = TemplateChat(words, script)
    sites, skipped = choose_sites(done, lambda rollout, turn, text: chat.hint(text, turn == 0), rng=random.Random(0))
    assert [site.turn for site in sites][:2] == [0, 2] and not skipped["no hint"]
    for site in sites:
        assert chat.insert_for(done, site.turn, site.text) == Insertion(site.hint)
        teacher = words.decode(site.teacher_ids(done.ids))
        assert teacher.count(site.text) == 1 + words.decode(done.ids[: site.end]).count(site.text)
        assert teacher.endswith(f"{site.text}{END}\n<|im_start|>assistant\n{script.turns[site.turn]}")


def test_episode_is_submitted_and_graded_when_the_context_is_full(url: str, words: Any) -> None:
    whole = play(url, Script(words, solution()))
    for cut in (whole.turns[1].start + 5, whole.turns[1].start - 3):
        script = Script(words, solution())
        done = play(url, script, max_ids=cut)
        assert (done.truncated, done.end, done.reward.value, done.reward.valid) == (True, "submit", 0.0, True)
        assert len(done.ids) <= cut and done.ids == whole.ids[: len(done.ids)]
        assert done.turns[-1].end == len(done.ids) == done.prompt + len(done.mask)
        assert all(error.turn < len(done.turns) for error in done.error_turns)


def test_rollout_is_truncated_when_its_last_turn_fills_the_context(url: str, words: Any) -> None:
    silent = ["one two three" + END, "one two three " * 20 + END]
    whole = play(url, Script(words, silent))
    cut = play(url, Script(words, silent), max_ids=whole.turns[1].start + 5)
    assert (whole.end, cut.end) == ("no_tool_call", "no_tool_call")
    assert (whole.truncated, cut.truncated) == (False, True)


def test_turn_that_reaches_its_limit_is_closed_by_the_template(url: str, words: Any) -> None:
    right = solution()
    script = Script(words, ["one two three " * 20 + END, *right])
    longest = max(len(ids_of(words, text)) for text in right)
    done = play(url, script, max_turn_ids=longest)
    first, second = done.turns[:2]
    assert first.end - first.start == longest and END not in words.decode(done.ids[first.start : first.end])
    between = words.decode(done.ids[first.end : second.start])
    assert re.fullmatch(
        r"<\|im_end\|>\n<\|im_start\|>user\nNo tool call.*<\|im_end\|>\n<\|im_start\|>assistant\n", between
    )
    assert done.reward.value == 1.0


def test_two_turns_without_a_call_end_the_episode(url: str, words: Any) -> None:
    done = play(url, Script(words, [f"I think.{END}", f"I thought.{END}"]))
    assert (done.end, len(done.turns), done.reward.value) == ("no_tool_call", 2, 0.0)
    assert words.decode(done.ids).endswith(f"I thought.{END}")


def test_empty_turn_counts_as_a_turn(url: str, words: Any) -> None:
    done = play(url, Script(words, ["", *solution()]))
    assert done.turns[0].start == done.turns[0].end and done.reward.value == 1.0


class FailingMachine:
    """Session whose machine fails in the first turn."""

    async def reset(self, **arguments: Any) -> Observation:
        return Observation(prompt="?")

    async def step(self, action: Any) -> Observation:
        raise ServerInfrastructureError("infrastructure: the disk is full")

    async def state(self) -> State:
        return State(task_id=TASK, episode_id="e", reward=Reward(value=1.0))


def test_episode_is_invalid_and_logged_when_the_machine_fails(words: Any, caplog: pytest.LogCaptureFixture) -> None:
    chat = TemplateChat(words, Script(words, ["Hello." + END]))
    done = asyncio.run(rollout({"task_id": TASK}, chat, FailingMachine()))
    assert not done.reward.valid and not done.turns
    assert [record.getMessage() for record in caplog.records] == [
        f"an episode of {TASK} is not valid: infrastructure: the disk is full"
    ]


def test_simultaneous_rollouts_are_sampled_in_batches(url: str, words: Any) -> None:
    names = [f"drill-{family}-{seed}-l2" for family in ("chain", "choose") for seed in (11, 12, 13)]
    scripts = {name: solution(name) for name in names}
    sizes: list[int] = []

    def generate(prompts: list[list[int]], rooms: list[int]) -> list[Sample]:
        sizes.append(len(prompts))
        samples = []
        for ids in prompts:
            text = words.decode(ids)
            name = next(name for name in names if TASKS.drill(name).statement in text)
            turn = text.partition(TASKS.drill(name).statement)[2].count("<|im_start|>assistant") - 1
            written = ids_of(words, scripts[name][turn])
            samples.append(Sample(written, [-1.0] * len(written)))
        return samples

    async def play_all() -> list[Rollout]:
        batcher = Batcher(generate)
        chat = TemplateChat(words, batcher.sample)

        async def play_one(name: str) -> Rollout:
            with batcher.playing():
                async with Client(url) as client:
                    return await rollout({"task_id": name}, chat, client)

        return await asyncio.gather(*map(play_one, names))

    done = asyncio.run(play_all())
    assert [one.task_id for one in done] == names and all(one.reward.value == 1.0 for one in done)
    assert [turns_of(words, one) for one in done] == [scripts[name] for name in names]
    assert max(sizes) == len(names) and len(sizes) == max(map(len, scripts.values()))
