"""Pairs as ids: the student's own rollout before them, the actions alone after it, and marks that are text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from helpers.tokenizer_factory import FAMILIES, tokenizer

from etude.environments.agents.openai import text_action
from etude.hints.transcript.parsing import parse_turn
from etude.models import Episode
from etude.trainers.chat.chat_policy import TemplateChat
from etude.trainers.chat.templates import TOOLS, answers_of
from etude.trainers.replay.action_equality import wire
from etude.trainers.replay.encoding import Encoded, encode
from etude.trainers.replay.pairs import Pair
from etude.trainers.replay.prefixes import State, as_message
from etude.trainers.rollouts.rollout import Sample

NAMES = list(FAMILIES)
THINKING = {"qwen3", "qwen3-training", "qwen3.5", "deepseek-r1"}
EMPTY = "<think>\n\n</think>\n\n"
MISREAD = {"deepseek-r1": "</think>", "gemma4": '<|"|>'}
"""Marks that ``TemplateChat.action`` takes for marks in an argument, too."""
BARE = {"qwen3.5", "gemma4"}
"""Whose arguments' names are no texts."""


def marks_of(name: str) -> str:
    family = FAMILIES[name]
    return "".join(mark for mark in [*family.special, *family.added, family.eos] if mark != MISREAD.get(name))


def act(query: str, text: str = "") -> dict[str, Any]:
    return {"text": text, "tool_calls": [{"id": "call_0_0", "name": "look_up", "arguments": {"query": query}}]}


def dialogue(*actions: dict[str, Any], result: str = "ok") -> list[dict[str, Any]]:
    """A question, and each action with its result."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go on."}]
    for action in actions:
        message = as_message(action, 0)
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


@pytest.mark.parametrize(
    "past",
    [(), (act("a"),), (act("a", THOUGHT), act("b", THOUGHT)), (act("a", "I look."), act("b", f"{THOUGHT}\nSo."))],
)
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
    words = tokenizer(name)
    marks = {*words.all_special_ids, *words.get_added_vocab().values()}
    forged = f"a {marks_of(name)} b"
    plain = encoded(name, pair(act("yes"), act("no"), dialogue(act("yes"))))[1]
    odd = pair(act(forged), act("no"), dialogue(act(forged), result=forged))
    if name not in BARE:
        odd.chosen["tool_calls"][0]["arguments"][forged] = 1
    _, found = encoded(name, odd)
    for ids, others in ((found.prompt, plain.prompt), (found.chosen, plain.chosen)):
        kept = [[each for each in some if each in marks] for some in (ids, others)]
        assert kept[0] == kept[1]
    assert words.decode(found.prompt).replace('\\"', '"').count(forged) == 2
    assert words.decode(found.chosen).replace('\\"', '"').count(forged) == 1 + (name not in BARE)


@pytest.mark.parametrize(("name", "mark"), MISREAD.items())
def test_what_would_be_read_otherwise_is_left_out_and_counted(name: str, mark: str) -> None:
    one = pair(act(f"a {mark} b"), act("no"), dialogue(act("yes")))
    none, left = encode([one], tokenizer(name), max_ids=100_000, **FAMILIES[name].arguments)
    assert none == [] and left == {"the template cannot write a turn as it was": 1}


@pytest.mark.parametrize("name", NAMES)
def test_a_turn_ends_once(name: str) -> None:
    words = tokenizer(name)
    _, one = encoded(name, pair(act(marks_of(name)), act("no")))
    assert one.chosen[-1] == one.rejected[-1] and one.chosen.count(one.chosen[-1]) == 1
    assert one.chosen[-1] in {*words.all_special_ids, *words.get_added_vocab().values()}


def test_a_turn_that_is_all_thought_is_no_action() -> None:
    words = tokenizer("qwen3")
    cut = wire({"text": "<think>\nHm, so"})
    none, left = encode([pair(act("yes"), cut)], words, max_ids=10_000)
    assert none == [] and left == {"a turn is all thought": 1}
    (one,), _ = encode([pair(act("yes"), {"text": THOUGHT})], words, max_ids=10_000)
    assert words.decode(one.rejected) == "<|im_end|>"  # it ended without a word: that is what it did


# --- a call that could not be read -----------------------------------------------------------------------------------


def sampled(name: str, damaged: str, instead: str) -> tuple[TemplateChat, list[int], list[int]]:
    """A family's chat, its generation prompt, and a call in which the last of some text is ``instead``."""
    chat = TemplateChat(tokenizer(name), never, arguments=FAMILIES[name].arguments)
    written = chat.prompt(dialogue(), TOOLS)
    opening = written.ids[written.generation :]
    text = tokenizer(name).decode(chat.turn(as_message(act("yes"), 0), opening))
    before, found, after = text.rpartition(damaged)
    assert found
    return chat, opening, tokenizer(name).encode(before + instead + after, add_special_tokens=False)


DAMAGE = [
    *((name, ("}", "")) for name in NAMES if name != "qwen3.5"),
    *((name, ('yes"', "yes")) for name in NAMES if name not in BARE),
    *((name, ('"name"', "name")) for name in ("qwen2.5", "qwen3", "mistral-v3", "phi4")),
    ("qwen3.5", ("\n</function>", "")),
    ("gemma4", ('yes<|"|>', "yes")),
]


@pytest.mark.parametrize(("name", "damage"), DAMAGE)
def test_a_broken_call_is_rejected_with_the_ids_that_were_sampled(name: str, damage: tuple[str, str]) -> None:
    chat, opening, ids = sampled(name, *damage)
    broken = chat.action(ids)
    assert parse_turn(broken, 0).calls[0].problem
    _, one = encoded(name, pair(act("yes"), wire(broken)))
    assert [*chat.turns.lead(opening), *one.rejected] == ids


@pytest.mark.parametrize(("name", "damage"), DAMAGE)
def test_an_old_broken_call_stands_in_the_prompt_as_it_was_sampled(name: str, damage: tuple[str, str]) -> None:
    chat, _, ids = sampled(name, *damage)
    broken = chat.action(ids)
    messages = dialogue(broken)
    _, one = encoded(name, pair(act("yes"), {"text": "done ok"}, messages))
    rollout = [*chat.prompt(messages[:1], TOOLS).ids, *ids, *chat.reply(ids, answers_of(messages[2:])).ids]
    assert one.prompt[: len(rollout)] == rollout


@pytest.mark.parametrize("name", ["qwen2.5", "llama3.1", "mistral-v3", "mistral-v13", "deepseek-v3", "phi4"])
def test_a_broken_call_that_a_server_left_in_the_words_has_its_marks(name: str) -> None:
    words, (_, _, ids) = tokenizer(name), sampled(name, "}", "")
    text = words.decode(ids[:-1])
    _, one = encoded(name, pair(act("yes"), wire({"text": text})))
    assert one.rejected == ids
    student_good = pair(act("yes"), {"text": text}).model_copy(update={"kind": "student_good"})
    none, left = encode([student_good], words, max_ids=10_000)  # a teacher's words are no call
    assert none == [] and left == {"the template cannot write a turn as it was": 1}


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ({"name": "look_up", "arguments": ["yes"]}, '{"name": "look_up", "arguments": ["yes"]}'),
        ({"name": "look_up", "arguments": '{"query": '}, '{"name": "look_up", "arguments": {"query": }'),
        ({"name": "files.read", "arguments": {}}, '{"name": "files.read", "arguments": {}}'),
    ],
)
def test_calls_of_another_shape_are_written_so(call: dict[str, Any], text: str) -> None:
    words, one = encoded("qwen3-2507", pair(act("yes"), wire({"tool_calls": [call]})))
    assert words.decode(one.rejected) == f"<tool_call>\n{text}\n</tool_call><|im_end|>"


TWICE = [{"id": "a", "name": "look_up", "arguments": {"query": query}} for query in ("yes", "no")]


@pytest.mark.parametrize("calls", [[{"name": None, "arguments": {"query": "yes"}}], [["look_up"]], TWICE])
def test_what_nobody_knows_how_it_was_written_is_left_out(calls: list[Any]) -> None:
    """Neither a call without a name, nor ids that were given twice where the template writes none."""
    none, left = encode([pair(act("yes"), wire({"tool_calls": calls}))], tokenizer("qwen3-2507"), max_ids=10_000)
    assert none == [] and left == {"the template cannot write a turn as it was": 1}


def test_an_id_given_twice_is_written_twice() -> None:
    words, one = encoded("mistral-v3", pair(act("yes"), wire({"tool_calls": TWICE})))
    assert words.decode(one.rejected).count('"id": "00000000a"') == 2 and '"query": "no"' in words.decode(one.rejected)


def test_a_turn_of_a_run_in_text_has_the_ids_of_what_was_written() -> None:
    raw = '<think>\nHm.\n</think>\n\nSo.\n<tool_call>\n{"name":"look_up","arguments":{"query":"yes"}}\n</tool_call>'
    words, one = encoded("qwen3", pair(act("yes"), {"text": "ok"}, dialogue({**act("yes", "So."), "raw": raw})))
    assert f"assistant\n{raw}<|im_end|>" in words.decode(one.prompt)


BROKEN = '<tool_call>\n{"name": "look_up", "arguments": {"query": "yes"}\n</tool_call>'


@pytest.mark.parametrize("end", ["", "\n</tool_call>"])
@pytest.mark.parametrize("name", NAMES)
def test_a_broken_call_of_a_run_in_text_is_what_was_written_or_left_out(name: str, end: str) -> None:
    raw = f"<think>\nHm.\n</think>\n\nSo.\n{BROKEN.removesuffix(end)}"
    action = text_action({"content": raw})
    both = [pair(act("yes"), wire(action)), pair(act("yes"), {"text": "ok"}, dialogue(action))]
    found, left = encode(both, tokenizer(name), max_ids=10_000, **FAMILIES[name].arguments)
    if "qwen" not in name:  # which reads no calls in tags
        assert found == [] and left == {"the template cannot write a turn as it was": 2}
        return
    words = tokenizer(name)
    assert words.decode(found[0].rejected) == f"{BROKEN.removesuffix(end)}<|im_end|>"
    assert f"{raw}<|im_end|>" in words.decode(found[1].prompt)


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
