"""Pairs as ids: the student's own rollout before them, the actions alone after it, and marks that are text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tokenizers_made_here import FAMILIES, tokenizer

from etude.models import Episode
from etude.trainers.chat import TemplateChat
from etude.trainers.replay.encoding import Encoded, encode
from etude.trainers.replay.pairs import Pair
from etude.trainers.replay.states import State, as_message
from etude.trainers.rollouts import Sample
from etude.trainers.templates import TOOLS, answers_of

NAMES = list(FAMILIES)
THINKING = {"qwen3", "qwen3-training", "qwen3.5", "deepseek-r1"}
EMPTY = "<think>\n\n</think>\n\n"


def act(query: str, text: str = "") -> dict[str, Any]:
    return {"text": text, "tool_calls": [{"id": "call_0_0", "name": "look_up", "arguments": {"query": query}}]}


def dialogue(*actions: dict[str, Any], result: str = "ok") -> list[dict[str, Any]]:
    """A question, and each action with its result."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go on."}]
    for action in actions:
        message = as_message(action, 0, decoded=True)
        (call,) = message["tool_calls"]
        answer = {"role": "tool", "tool_call_id": call["id"], "name": call["function"]["name"], "content": result}
        messages += [message, answer]
    return messages


def pair(chosen: dict[str, Any], rejected: dict[str, Any], messages: Sequence[dict[str, Any]] = ()) -> Pair:
    about = {"episode_id": "e", "task_id": "t", "turn": 0, "share": 1.0, "margin": 1.0, "teachers": {}, "weights": {}}
    said = list(messages) or dialogue()
    return Pair(kind="correct", messages=said, tools=TOOLS, chosen=chosen, rejected=rejected, **about)


def encoded(name: str, one: Pair) -> tuple[Any, Encoded]:
    words = tokenizer(name)
    (found,), left = encode([one], words, max_ids=100_000, **FAMILIES[name].arguments)
    assert not left
    return words, found


async def never(ids: Sequence[int], room: int) -> Sample:
    raise AssertionError("nobody samples here")


def rolled(name: str, messages: Sequence[dict[str, Any]]) -> list[int]:
    """The ids of the student's rollout up to the generation prompt of its next turn."""
    chat = TemplateChat(tokenizer(name), never, arguments=FAMILIES[name].arguments)
    written = chat.prompt(messages[:1], TOOLS)
    ids = list(written.ids)
    for said, answer in zip(messages[1::2], messages[2::2], strict=True):
        sampled = chat.turn(said, written.ids[written.generation :])
        written = chat.reply(sampled, answers_of([answer]))
        ids += [*sampled, *written.ids]
    return ids


THOUGHT = "<think>\nHm.\n</think>"


@pytest.mark.parametrize("past", [(), (act("a"),), (act("a", THOUGHT), act("b", THOUGHT))])
@pytest.mark.parametrize("name", NAMES)
def test_the_prompt_is_the_students_rollout_and_a_thought_without_a_word(name: str, past: Any) -> None:
    messages = dialogue(*past)
    words, one = encoded(name, pair(act("yes"), {"text": "done ok"}, messages))
    asked = rolled(name, messages)
    assert one.prompt[: len(asked)] == asked
    opened = words.decode(asked).endswith("<think>\n")
    thinks = name in THINKING and not (name == "deepseek-r1" and past)  # which is asked for no turn after a result
    lead = EMPTY if thinks else ""
    assert words.decode(one.prompt[len(asked) :]) == lead.removeprefix("<think>\n" if opened else "")


@pytest.mark.parametrize("name", NAMES)
def test_only_words_and_calls_are_counted_whatever_was_thought(name: str) -> None:
    thinking = (act("yes", f"{THOUGHT}\n\n"), {"text": "<think>\nNo, no.\n</think>\n\ndone ok"})
    words, one = encoded(name, pair(*thinking))
    assert one == encoded(name, pair(act("yes"), {"text": "done ok"}))[1]
    for ids in (one.chosen, one.rejected):
        text = words.decode(ids)
        assert not any(part in text for part in ("think>", "Hm.", "No, no.", "assistant", "model\n"))
    assert "look_up" in words.decode(one.chosen) and words.decode(one.rejected).strip().startswith("done ok<")


@pytest.mark.parametrize("name", NAMES)
def test_marks_in_arguments_names_and_results_are_text(name: str) -> None:
    """As when a file of a tokenizer's own tests is written."""
    family = FAMILIES[name]
    words = tokenizer(name)
    marks = {*words.all_special_ids, *words.get_added_vocab().values()}
    forged = "a " + "".join([*family.special, *family.added, family.eos]) + " b"
    plain = encoded(name, pair(act("yes"), act("no"), dialogue(act("yes"))))[1]
    odd = pair(act(forged), act("no"), dialogue(act(forged), result=forged))
    odd.chosen["tool_calls"][0]["arguments"][forged] = 1
    _, found = encoded(name, odd)
    for ids, others in ((found.prompt, plain.prompt), (found.chosen, plain.chosen)):
        kept = [[each for each in some if each in marks] for some in (ids, others)]
        assert kept[0] == kept[1]
    assert words.decode(found.prompt).replace('\\"', '"').count(forged) == 2
    assert words.decode(found.chosen).replace('\\"', '"').count(forged) == 2


@pytest.mark.parametrize("name", NAMES)
def test_a_turn_ends_once(name: str) -> None:
    words = tokenizer(name)
    forged = "".join([*FAMILIES[name].special, FAMILIES[name].eos])
    _, one = encoded(name, pair(act(forged), act("no")))
    assert one.chosen[-1] == one.rejected[-1] and one.chosen.count(one.chosen[-1]) == 1
    assert one.chosen[-1] in {*words.all_special_ids, *words.get_added_vocab().values()}


def test_a_turn_that_is_all_thought_is_no_action() -> None:
    words = tokenizer("qwen3")
    none, left = encode([pair(act("yes"), {"text": "<think>\nHm, so"})], words, max_ids=10_000)
    assert none == [] and left == {"a turn is all thought": 1}
    (one,), _ = encode([pair(act("yes"), {"text": THOUGHT})], words, max_ids=10_000)
    assert words.decode(one.rejected) == "<|im_end|>"  # it ended without a word: that is what it did


# --- a pair of an episode --------------------------------------------------------------------------------------------


def pair_of(erred: Episode) -> Pair:
    state = State(erred, 1)
    chosen = {"text": "", "tool_calls": erred.turns[2].action["tool_calls"]}
    rejected = {"text": "", "tool_calls": erred.turns[1].action["tool_calls"]}
    shown = {"messages": state.messages(decoded=True), "tools": erred.tools, "chosen": chosen, "rejected": rejected}
    about = {"episode_id": "e", "task_id": "t", "turn": 1, "share": 1.0, "margin": 1.0, "teachers": {}, "weights": {}}
    return Pair(kind="correct", **shown, **about)


@pytest.mark.parametrize("name", list(FAMILIES))
def test_a_pair_is_written_by_the_students_own_template(name: str, erred: Episode) -> None:
    words, pair = tokenizer(name), pair_of(erred)
    (one,), left = encode([pair], words, max_ids=10_000, **FAMILIES[name].arguments)
    assert not left and one.key == "e:1"
    chosen, rejected = words.decode(one.chosen), words.decode(one.rejected)
    assert erred.turns[2].action["tool_calls"][0]["name"] in chosen and "no_such_tool" in rejected
    assert "no_such_tool" not in words.decode(one.prompt) and chosen not in words.decode(one.prompt)


def test_the_whole_is_what_the_template_writes(erred: Episode) -> None:
    words, pair = tokenizer("qwen3-2507"), pair_of(erred)
    (one,), _ = encode([pair], words, max_ids=10_000)
    calls = [{"type": "function", "function": call} for call in pair.chosen["tool_calls"]]
    messages = [*pair.messages, {"role": "assistant", "content": "", "tool_calls": calls}]
    whole = words.apply_chat_template(messages, tools=pair.tools, tokenize=True, return_dict=False)
    assert whole[: len(one.prompt) + len(one.chosen)] == one.prompt + one.chosen
    assert words.decode(whole[len(one.prompt) + len(one.chosen) :]) == "\n"


def test_a_broken_call_is_rejected_as_it_was_written_and_long_pairs_are_left_out(erred: Episode) -> None:
    words, pair = tokenizer("qwen3-2507"), pair_of(erred)
    broken = pair.model_copy(update={"rejected": {"text": "", "tool_calls": [{"name": "a", "arguments": '{"x": 1,'}]}})
    (one,), _ = encode([broken], words, max_ids=10_000)
    assert '{"x": 1,' in words.decode(one.rejected)
    none, left = encode([pair], words, max_ids=len(one.prompt))
    assert none == [] and left == {"too long": 1}
    none, left = encode([pair.model_copy(update={"rejected": pair.chosen})], words, max_ids=10_000)
    assert none == [] and left == {"both read the same": 1}
