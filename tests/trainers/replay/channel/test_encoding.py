"""Tests of pairs as ids: the student's own rollout, then the actions alone; special tokens in texts stay text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from helpers.tokenizer_factory import FAMILIES, tokenizer

from etude.environments.agents.openai import text_action
from etude.hints.transcript.parsing import parse_turn
from etude.models import Episode
from etude.trainers.chat.chat_policy import TemplateChat, never_samples
from etude.trainers.chat.templates import TOOLS, answers_of
from etude.trainers.replay.channel.encoding import Encoded, encode
from etude.trainers.replay.pairs import Pair
from etude.trainers.replay.turns.action_equality import wire_action
from etude.trainers.replay.turns.prefixes import State, as_message

NAMES = list(FAMILIES)
THINKING = {"qwen3", "qwen3-training", "qwen3.5", "deepseek-r1"}
EMPTY = "<think>\n\n</think>\n\n"
MISREAD = {"deepseek-r1": "</think>", "gemma4": '<|"|>'}
"""Special tokens that ``TemplateChat.action`` reads as such even inside an argument."""
BARE = {"qwen3.5", "gemma4"}
"""Families that write argument names without quotes."""


def special_text(name: str) -> str:
    family = FAMILIES[name]
    return "".join(token for token in [*family.special, *family.added, family.eos] if token != MISREAD.get(name))


def act(query: str, text: str = "") -> dict[str, Any]:
    return {"text": text, "tool_calls": [{"id": "call_0_0", "name": "look_up", "arguments": {"query": query}}]}


def dialogue(*actions: dict[str, Any], result: str = "ok") -> list[dict[str, Any]]:
    """Return a question, and each action with its result."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go on."}]
    for action in actions:
        message = as_message(action, 0)
        (call,) = message["tool_calls"]
        answer = {"role": "tool", "tool_call_id": call["id"], "name": call["function"]["name"], "content": result}
        messages += [message, answer]
    return messages


def pair(chosen: dict[str, Any], rejected: dict[str, Any], messages: Sequence[dict[str, Any]] = ()) -> Pair:
    about = {"episode_id": "e", "task_id": "t", "turn": 0, "share": 1.0, "margin": 1.0, "teachers": {}, "weights": {}}
    dialogue_messages = list(messages) or dialogue()
    return Pair(kind="correct", messages=dialogue_messages, tools=TOOLS, chosen=chosen, rejected=rejected, **about)


def encoded(name: str, one: Pair) -> tuple[Any, Encoded]:
    words = tokenizer(name)
    (result,), skipped = encode([one], words, max_ids=100_000, **FAMILIES[name].arguments)
    assert not skipped
    return words, result


def rolled(name: str, messages: Sequence[dict[str, Any]]) -> list[int]:
    """Return the ids of the student's rollout up to the generation prompt of its next turn."""
    chat = TemplateChat(tokenizer(name), never_samples, arguments=FAMILIES[name].arguments)
    written = chat.prompt(messages[:1], TOOLS)
    ids = list(written.ids)
    for turn, answer in zip(messages[1::2], messages[2::2], strict=True):
        sampled = chat.turn(turn, written.ids[written.generation :])
        written = chat.reply(sampled, answers_of([answer]))
        ids += [*sampled, *written.ids]
    return ids


THOUGHT = "<think>\nHm.\n</think>"


@pytest.mark.parametrize(
    "past",
    [(), (act("a"),), (act("a", THOUGHT), act("b", THOUGHT)), (act("a", "I look."), act("b", f"{THOUGHT}\nSo."))],
)
@pytest.mark.parametrize("name", NAMES)
def test_prompt_is_the_students_rollout_and_an_empty_thought(name: str, past: Any) -> None:
    messages = dialogue(*past)
    words, one = encoded(name, pair(act("yes"), {"text": "done ok"}, messages))
    rollout = rolled(name, messages)
    assert one.prompt[: len(rollout)] == rollout
    opened = words.decode(rollout).endswith("<think>\n")
    thinks = name in THINKING and not (
        name == "deepseek-r1" and past
    )  # its template has no generation prompt after a result
    lead = EMPTY if thinks else ""
    assert words.decode(one.prompt[len(rollout) :]) == lead.removeprefix("<think>\n" if opened else "")


@pytest.mark.parametrize("name", NAMES)
def test_actions_have_the_ids_of_words_and_calls_whatever_was_thought(name: str) -> None:
    thinking = (act("yes", f"{THOUGHT}\n\n"), {"text": "<think>\nNo, no.\n</think>\n\ndone ok"})
    words, one = encoded(name, pair(*thinking))
    assert one == encoded(name, pair(act("yes"), {"text": "done ok"}))[1]
    for ids in (one.chosen, one.rejected):
        text = words.decode(ids)
        assert not any(part in text for part in ("think>", "Hm.", "No, no.", "assistant", "model\n"))
    assert "look_up" in words.decode(one.chosen) and words.decode(one.rejected).strip().startswith("done ok<")


@pytest.mark.parametrize("name", NAMES)
def test_special_tokens_in_arguments_names_and_results_stay_text(name: str) -> None:
    """The texts are like a test file of a tokenizer."""
    words = tokenizer(name)
    special_ids = {*words.all_special_ids, *words.get_added_vocab().values()}
    forged = f"a {special_text(name)} b"
    plain = encoded(name, pair(act("yes"), act("no"), dialogue(act("yes"))))[1]
    odd = pair(act(forged), act("no"), dialogue(act(forged), result=forged))
    if name not in BARE:
        odd.chosen["tool_calls"][0]["arguments"][forged] = 1
    _, result = encoded(name, odd)
    for ids, others in ((result.prompt, plain.prompt), (result.chosen, plain.chosen)):
        special = [[token for token in sequence if token in special_ids] for sequence in (ids, others)]
        assert special[0] == special[1]
    assert words.decode(result.prompt).replace('\\"', '"').count(forged) == 2
    assert words.decode(result.chosen).replace('\\"', '"').count(forged) == 1 + (name not in BARE)


@pytest.mark.parametrize(("name", "mark"), MISREAD.items())
def test_pair_is_skipped_when_its_turn_would_read_back_differently(name: str, mark: str) -> None:
    one = pair(act(f"a {mark} b"), act("no"), dialogue(act("yes")))
    none, skipped = encode([one], tokenizer(name), max_ids=100_000, **FAMILIES[name].arguments)
    assert none == [] and skipped == {"the template cannot write a turn as it was": 1}


@pytest.mark.parametrize("name", NAMES)
def test_action_has_one_end_of_turn(name: str) -> None:
    words = tokenizer(name)
    _, one = encoded(name, pair(act(special_text(name)), act("no")))
    assert one.chosen[-1] == one.rejected[-1] and one.chosen.count(one.chosen[-1]) == 1
    assert one.chosen[-1] in {*words.all_special_ids, *words.get_added_vocab().values()}


def test_pair_is_skipped_when_a_turn_is_all_thought() -> None:
    words = tokenizer("qwen3")
    cut = wire_action({"text": "<think>\nHm, so"})
    none, skipped = encode([pair(act("yes"), cut)], words, max_ids=10_000)
    assert none == [] and skipped == {"a turn is all thought": 1}
    (one,), _ = encode([pair(act("yes"), {"text": THOUGHT})], words, max_ids=10_000)
    assert words.decode(one.rejected) == "<|im_end|>"  # the turn ended without a word: that is its action


# --- malformed calls -------------------------------------------------------------------------------------------------


def sampled(name: str, damaged: str, instead: str) -> tuple[TemplateChat, list[int], list[int]]:
    """Return a chat, its generation prompt, and a sampled call whose last ``damaged`` text is replaced."""
    chat = TemplateChat(tokenizer(name), never_samples, arguments=FAMILIES[name].arguments)
    written = chat.prompt(dialogue(), TOOLS)
    opening = written.ids[written.generation :]
    text = tokenizer(name).decode(chat.turn(as_message(act("yes"), 0), opening))
    before, separator, after = text.rpartition(damaged)
    assert separator
    return chat, opening, tokenizer(name).encode(before + instead + after, add_special_tokens=False)


DAMAGE = [
    *((name, ("}", "")) for name in NAMES if name != "qwen3.5"),
    *((name, ('yes"', "yes")) for name in NAMES if name not in BARE),
    *((name, ('"name"', "name")) for name in ("qwen2.5", "qwen3", "mistral-v3", "phi4")),
    ("qwen3.5", ("\n</function>", "")),
    ("gemma4", ('yes<|"|>', "yes")),
]


@pytest.mark.parametrize(("name", "damage"), DAMAGE)
def test_malformed_rejected_call_has_the_ids_that_were_sampled(name: str, damage: tuple[str, str]) -> None:
    chat, opening, ids = sampled(name, *damage)
    broken = chat.action(ids)
    assert parse_turn(broken, 0).calls[0].problem
    _, one = encoded(name, pair(act("yes"), wire_action(broken)))
    assert [*chat.turn_encoder.empty_thought(opening), *one.rejected] == ids


@pytest.mark.parametrize(("name", "damage"), DAMAGE)
def test_malformed_earlier_call_is_in_the_prompt_as_it_was_sampled(name: str, damage: tuple[str, str]) -> None:
    chat, _, ids = sampled(name, *damage)
    broken = chat.action(ids)
    messages = dialogue(broken)
    _, one = encoded(name, pair(act("yes"), {"text": "done ok"}, messages))
    rollout = [*chat.prompt(messages[:1], TOOLS).ids, *ids, *chat.reply(ids, answers_of(messages[2:])).ids]
    assert one.prompt[: len(rollout)] == rollout


@pytest.mark.parametrize("name", ["qwen2.5", "llama3.1", "mistral-v3", "mistral-v13", "deepseek-v3", "phi4"])
def test_malformed_call_left_in_the_words_keeps_its_special_tokens(name: str) -> None:
    words, (_, _, ids) = tokenizer(name), sampled(name, "}", "")
    text = words.decode(ids[:-1])
    _, one = encoded(name, pair(act("yes"), wire_action({"text": text})))
    assert one.rejected == ids
    student_good = pair(act("yes"), {"text": text}).model_copy(update={"kind": "student_good"})
    none, skipped = encode([student_good], words, max_ids=10_000)  # text in a teacher's words is not a call
    assert none == [] and skipped == {"the template cannot write a turn as it was": 1}


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ({"name": "look_up", "arguments": ["yes"]}, '{"name": "look_up", "arguments": ["yes"]}'),
        ({"name": "look_up", "arguments": '{"query": '}, '{"name": "look_up", "arguments": {"query": }'),
        ({"name": "files.read", "arguments": {}}, '{"name": "files.read", "arguments": {}}'),
    ],
)
def test_call_of_an_unusual_shape_is_written_in_that_shape(call: dict[str, Any], text: str) -> None:
    words, one = encoded("qwen3-2507", pair(act("yes"), wire_action({"tool_calls": [call]})))
    assert words.decode(one.rejected) == f"<tool_call>\n{text}\n</tool_call><|im_end|>"


TWICE = [{"id": "a", "name": "look_up", "arguments": {"query": query}} for query in ("yes", "no")]


@pytest.mark.parametrize("calls", [[{"name": None, "arguments": {"query": "yes"}}], [["look_up"]], TWICE])
def test_pair_is_skipped_when_the_original_text_of_a_call_is_unknown(calls: list[Any]) -> None:
    """Skip a call without a name, and repeated ids where the template writes no ids."""
    none, skipped = encode(
        [pair(act("yes"), wire_action({"tool_calls": calls}))], tokenizer("qwen3-2507"), max_ids=10_000
    )
    assert none == [] and skipped == {"the template cannot write a turn as it was": 1}


def test_repeated_id_is_written_twice() -> None:
    words, one = encoded("mistral-v3", pair(act("yes"), wire_action({"tool_calls": TWICE})))
    assert words.decode(one.rejected).count('"id": "00000000a"') == 2 and '"query": "no"' in words.decode(one.rejected)


def test_turn_of_a_text_run_has_the_ids_of_its_raw_text() -> None:
    raw = '<think>\nHm.\n</think>\n\nSo.\n<tool_call>\n{"name":"look_up","arguments":{"query":"yes"}}\n</tool_call>'
    words, one = encoded("qwen3", pair(act("yes"), {"text": "ok"}, dialogue({**act("yes", "So."), "raw": raw})))
    assert f"assistant\n{raw}<|im_end|>" in words.decode(one.prompt)


BROKEN = '<tool_call>\n{"name": "look_up", "arguments": {"query": "yes"}\n</tool_call>'


@pytest.mark.parametrize("end", ["", "\n</tool_call>"])
@pytest.mark.parametrize("name", NAMES)
def test_malformed_call_of_a_text_run_is_its_raw_text_or_skipped(name: str, end: str) -> None:
    raw = f"<think>\nHm.\n</think>\n\nSo.\n{BROKEN.removesuffix(end)}"
    action = text_action({"content": raw})
    both = [pair(act("yes"), wire_action(action)), pair(act("yes"), {"text": "ok"}, dialogue(action))]
    results, skipped = encode(both, tokenizer(name), max_ids=10_000, **FAMILIES[name].arguments)
    if "qwen" not in name:  # these families do not read calls in tags
        assert results == [] and skipped == {"the template cannot write a turn as it was": 2}
        return
    words = tokenizer(name)
    assert words.decode(results[0].rejected) == f"{BROKEN.removesuffix(end)}<|im_end|>"
    assert f"{raw}<|im_end|>" in words.decode(results[1].prompt)


# --- a pair of an episode --------------------------------------------------------------------------------------------


def pair_of(erred: Episode) -> Pair:
    state = State(erred, 1)
    chosen = {"text": "", "tool_calls": erred.turns[2].action["tool_calls"]}
    rejected = {"text": "", "tool_calls": erred.turns[1].action["tool_calls"]}
    shown = {"messages": state.messages(decoded=True), "tools": erred.tools, "chosen": chosen, "rejected": rejected}
    about = {"episode_id": "e", "task_id": "t", "turn": 1, "share": 1.0, "margin": 1.0, "teachers": {}, "weights": {}}
    return Pair(kind="correct", **shown, **about)


@pytest.mark.parametrize("name", list(FAMILIES))
def test_pair_of_an_episode_is_written_by_the_students_template(name: str, erred: Episode) -> None:
    words, pair = tokenizer(name), pair_of(erred)
    (one,), skipped = encode([pair], words, max_ids=10_000, **FAMILIES[name].arguments)
    assert not skipped and one.key == "e:1"
    chosen, rejected = words.decode(one.chosen), words.decode(one.rejected)
    assert erred.turns[2].action["tool_calls"][0]["name"] in chosen and "no_such_tool" in rejected
    assert "no_such_tool" not in words.decode(one.prompt) and chosen not in words.decode(one.prompt)


def test_prompt_and_action_are_what_the_template_renders(erred: Episode) -> None:
    words, pair = tokenizer("qwen3-2507"), pair_of(erred)
    (one,), _ = encode([pair], words, max_ids=10_000)
    calls = [{"type": "function", "function": call} for call in pair.chosen["tool_calls"]]
    messages = [*pair.messages, {"role": "assistant", "content": "", "tool_calls": calls}]
    whole = words.apply_chat_template(messages, tools=pair.tools, tokenize=True, return_dict=False)
    assert whole[: len(one.prompt) + len(one.chosen)] == one.prompt + one.chosen
    assert words.decode(whole[len(one.prompt) + len(one.chosen) :]) == "\n"


def test_malformed_call_is_written_as_it_was_and_long_or_equal_pairs_are_skipped(erred: Episode) -> None:
    words, pair = tokenizer("qwen3-2507"), pair_of(erred)
    broken = pair.model_copy(update={"rejected": {"text": "", "tool_calls": [{"name": "a", "arguments": '{"x": 1,'}]}})
    (one,), _ = encode([broken], words, max_ids=10_000)
    assert '{"x": 1,' in words.decode(one.rejected)
    none, skipped = encode([pair], words, max_ids=len(one.prompt))
    assert none == [] and skipped == {"too long": 1}
    none, skipped = encode([pair.model_copy(update={"rejected": pair.chosen})], words, max_ids=10_000)
    assert none == [] and skipped == {"both read the same": 1}
